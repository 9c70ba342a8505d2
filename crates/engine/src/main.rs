//! The `millstream` binary.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;

use clap::Parser;
use millstream_engine::cli::{self, Cli};

fn main() -> ExitCode {
    panic::set_hook(Box::new(last_words));
    // Wrong usage prints its own message and exits with 2.
    let cli = Cli::parse();
    match cli::execute(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Without stderr the exit code has to say it alone.
            let _unwritten = failure.write_to(&mut io::stderr().lock());
            ExitCode::from(failure.code)
        }
    }
}

/// A fault of the program is told like any other error and ends the process at once: nothing durable depends on a clean
/// end. redb takes a state file that was closed cleanly for a sound one, and trips over pages that were overwritten since.
fn last_words(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let text = info.payload_as_str().unwrap_or_default();
    let mut out = io::stderr().lock();
    let _unwritten = if place.contains("/redb-") {
        writeln!(
            out,
            "error: the state is damaged (millstream.redb in the state directory; {text} in {place}); restore a copy of the \
             state directory, or remove it to begin again with a new snapshot"
        )
    } else {
        writeln!(
            out,
            "error: a fault of millstream itself ({text} in {place}); please report it. Starting again is safe"
        )
    };
    std::process::exit(1);
}
