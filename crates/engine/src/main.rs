//! The `millstream` binary.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

use clap::Parser;
use millstream_engine::cli::{self, Cli};

fn main() -> ExitCode {
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
