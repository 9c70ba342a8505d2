//! Rounds of measurements and their table: every way runs once per round, so that what the machine does beside concerns all
//! of them, and ratios are medians over rounds. Work of one thread is timed by the processor time of the thread, which other
//! programs of a shared machine lengthen far less than the wall's.

use std::time::Duration;

/// What one run of a way did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Bytes of input.
    pub bytes: u64,
    /// Rows, or row changes.
    pub rows: u64,
    /// Allocations, where they were counted.
    pub allocations: Option<u64>,
}

struct Way {
    name: String,
    done: Done,
    times: Vec<Duration>,
}

/// Measurements that are taken in turn.
#[derive(Default)]
pub struct Rounds {
    ways: Vec<Way>,
}

impl Rounds {
    /// Runs `work` and keeps the processor time that it took of this thread as one round of the way `name`.
    pub fn time<E>(&mut self, name: &str, work: impl FnOnce() -> Result<Done, E>) -> Result<(), E> {
        let begin = thread_time();
        let done = work()?;
        self.took(name, done, thread_time().saturating_sub(begin));
        Ok(())
    }

    /// Keeps a time that was taken elsewhere as one round of the way `name`.
    pub fn took(&mut self, name: &str, done: Done, time: Duration) {
        match self.ways.iter_mut().find(|way| way.name == name) {
            Some(way) => {
                way.done = done;
                way.times.push(time);
            }
            None => self.ways.push(Way { name: name.to_owned(), done, times: vec![time] }),
        }
    }

    /// The median over rounds of (time of `base`) / (time of `name`): how fast `name` is, as a share of `base`.
    pub fn speed(&self, name: &str, base: &str) -> Option<f64> {
        let find = |name: &str| self.ways.iter().find(|way| way.name == name);
        let (way, base) = (find(name)?, find(base)?);
        let mut ratios: Vec<f64> =
            base.times.iter().zip(&way.times).map(|(b, w)| b.as_secs_f64() / w.as_secs_f64().max(1e-9)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// Prints a line per way: MB/s, rows/s, allocations per row, and its speed as a share of `base`.
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    pub fn print(&self, title: &str, base: &str) {
        println!("\n{title}");
        println!("{:44} {:>9} {:>9} {:>10} {:>9}", "", "MB/s", "M rows/s", "alloc/row", "of limit");
        for way in &self.ways {
            let mut times = way.times.clone();
            times.sort();
            let seconds = times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64);
            let rows =
                if way.done.rows == 0 { String::new() } else { format!("{:.2}", way.done.rows as f64 / seconds / 1e6) };
            let allocations = match way.done.allocations {
                Some(n) => format!("{:.5}", n as f64 / way.done.rows.max(1) as f64),
                None => String::new(),
            };
            let share = self.speed(&way.name, base).unwrap_or(f64::NAN);
            println!(
                "{:44} {:9.0} {rows:>9} {allocations:>10} {share:9.3}",
                way.name,
                way.done.bytes as f64 / seconds / 1e6
            );
        }
    }
}

/// Processor time of this thread so far (`/proc/thread-self/schedstat`).
///
/// # Panics
/// Where the system does not tell it.
pub fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok()).expect("nanoseconds");
    Duration::from_nanos(nanos)
}
