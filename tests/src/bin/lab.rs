//! Makes the logs of the bench lab and prints where they are:
//! `cargo run --release -p millstream-tests --bin lab -- --size 0.1 A B C D`.

use std::process::ExitCode;

use clap::Parser;
use millstream_tests::lab::{self, Size, Workload};

/// Makes the logs of the bench lab under target/lab, where they are missing.
#[derive(Debug, Parser)]
struct Args {
    /// Share of the full size (540,000 small transactions in A, 120 of 10,000 wide rows in B): 0.001 to 4.
    #[arg(long, default_value = "0.1", value_parser = size)]
    size: Size,
    /// Which workloads: A (narrow), B (wide), C (A compressed), D (B compressed).
    #[arg(value_parser = workload, default_values = ["A", "B", "C", "D"])]
    workloads: Vec<Workload>,
}

fn size(text: &str) -> Result<Size, String> {
    Size::parse(text).ok_or_else(|| "a number from 0.001 to 4, with at most three decimals".to_owned())
}

fn workload(text: &str) -> Result<Workload, String> {
    Workload::of(text).ok_or_else(|| "A, B, C or D".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    for workload in args.workloads {
        match lab::log(workload, args.size) {
            Ok(path) => {
                let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
                println!("{}: {} ({bytes} bytes)", workload.name(), path.display());
            }
            Err(e) => {
                eprintln!("lab: {}: {e}", workload.name());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
