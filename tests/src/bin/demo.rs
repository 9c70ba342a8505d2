//! `cargo demo`: a real MySQL under load is replicated while the engine is killed again and again; then every row is
//! compared.

use std::process::ExitCode;

use clap::Parser;
use millstream_tests::demo::{self, Options, Show, Stopped};

/// Replicates a real MySQL under load into a simulated Doris, kills the engine meanwhile, and compares every row.
#[derive(Debug, Parser)]
#[command(name = "cargo demo --")]
struct Args {
    /// Rows in three tables at the start.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// How often the engine is killed (SIGKILL).
    #[arg(long, default_value_t = 5)]
    kills: u32,
    /// Seconds that the writers write.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Decides what is written and when is killed; without it, another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the result as one line of JSON at the end.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let options = Options { rows: args.rows, kills: args.kills, seconds: args.seconds, seed };
    let show = Show::new();
    let result = demo::run(&options, &show);
    drop(show);
    match result {
        Ok(report) => {
            println!("{report}");
            if args.json {
                println!("{}", report.json());
            }
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(Stopped::Missing(what)) => {
            eprintln!("demo: {what}");
            ExitCode::from(2)
        }
        Err(Stopped::Failed(what)) => {
            eprintln!("demo: {what}\n(seed {seed})");
            ExitCode::FAILURE
        }
    }
}
