//! What the user sees while the demo runs: a spinner on a terminal, plain lines elsewhere. All on standard error.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two plain lines of progress.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Between two texts of the spinner.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// The display.
#[derive(Debug)]
pub struct Show {
    bar: Option<ProgressBar>,
    began: Instant,
    due: Cell<Instant>,
}

impl Show {
    /// A spinner if standard error is a terminal.
    pub fn new() -> Self {
        let mut show = Self::plain();
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            show.bar = Some(bar);
        }
        show
    }

    /// Lines only.
    pub fn plain() -> Self {
        let now = Instant::now();
        Self { bar: None, began: now, due: Cell::new(now) }
    }

    /// Something that stays on the screen.
    pub fn step(&self, text: &str) {
        let line = format!("[{:6.1}s] {text}", self.began.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) => {
                bar.set_message("");
                bar.println(line);
            }
            None => eprintln!("{line}"),
        }
        self.due.set(Instant::now() + if self.bar.is_some() { Duration::ZERO } else { PLAIN_EVERY });
    }

    /// How far things are now; made and shown only now and then.
    pub fn now(&self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.due.get() {
            return;
        }
        match &self.bar {
            Some(bar) => {
                bar.set_message(text());
                self.due.set(now + BAR_EVERY);
            }
            None => {
                eprintln!("[{:6.1}s]   {}", self.began.elapsed().as_secs_f64(), text());
                self.due.set(now + PLAIN_EVERY);
            }
        }
    }
}

impl Default for Show {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
