//! The command line: what may be typed, and the commands behind it.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::binlog_cmd::{self, BinlogArgs};
use crate::config::{Config, Sink, Until};
use crate::control_cmd::{self, Setting};
use crate::pipeline::control::protocol::Resync;
use crate::pipeline::{self, Report, RunErrorKind, RunOptions};
use crate::preflight;

/// Replicates MySQL into Apache Doris, exactly once.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[allow(clippy::exhaustive_enums, reason = "the binary handles every command")]
pub enum Command {
    /// Replicate: existing rows first, then changes as they happen
    Run(RunArgs),
    /// Look at source, tables and sink without changing anything, and print what a run will do
    Check(CheckArgs),
    /// Say where every table of a pipeline stands, whether or not an engine runs
    Status(StatusArgs),
    /// Change how fast a running engine reads snapshots, until it ends
    Set(SetArgs),
    /// Read tables again: beside the stream of the engine that runs, or when the next one starts
    Resync(ResyncArgs),
    /// Show, filter or count the events of binlog files or of a server's log
    Binlog(Box<BinlogArgs>),
}

/// `millstream run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// End once every table is live and everything up to there is visible in the sink: current (the source's position at
    /// start), a GTID set, or FILE:POS
    #[arg(long, value_name = "WHERE")]
    pub until: Option<Until>,
    /// Print the final counts as one JSON object, the last line of stdout (of stderr when stdout is the sink)
    #[arg(long)]
    pub json: bool,
    /// Form of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// `millstream check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Form of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// `millstream status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `millstream set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// rows_per_second=N over all readers (0: no limit), workers=N
    #[arg(required = true, value_name = "NAME=N")]
    pub settings: Vec<Setting>,
}

/// `millstream resync`.
#[derive(Debug, Args)]
pub struct ResyncArgs {
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Empty every target of the tables first. Needed for append targets; for upsert targets it also removes rows that the
    /// source does not have, and the targets lack rows until the tables are read
    #[arg(long)]
    pub truncate: bool,
    /// Source tables
    #[arg(required = true, value_name = "DB.TABLE")]
    pub tables: Vec<String>,
}

/// Form of the log on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "the binary handles every form")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A command that failed: what the process exits with, and why.
#[derive(Debug)]
pub struct Failure {
    /// 1: after anything was changed or while running. 2: refused before any change.
    pub code: u8,
    /// What happened; each line is one problem.
    pub message: String,
    /// What it came from, outermost first.
    pub causes: Vec<String>,
}

/// Refused before any change.
pub const REFUSED: u8 = 2;
/// Failed while running.
pub const FAILED: u8 = 1;

impl Failure {
    fn new(code: u8, error: &dyn core::error::Error) -> Self {
        let message = error.to_string();
        let mut causes: Vec<String> = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors repeat their cause in their own text.
            if !message.contains(&text) && !causes.iter().any(|c| c.contains(&text)) {
                causes.push(text);
            }
            source = cause.source();
        }
        Self { code, message, causes }
    }

    const fn refused(message: String) -> Self {
        Self { code: REFUSED, message, causes: Vec::new() }
    }

    /// Writes it for a person.
    ///
    /// # Errors
    /// The output is closed.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        for line in self.message.lines() {
            writeln!(out, "error: {line}")?;
        }
        for cause in &self.causes {
            writeln!(out, "  because: {cause}")?;
        }
        Ok(())
    }
}

/// Runs a command to its end.
///
/// # Errors
/// What to print and what to exit with.
pub fn execute(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Run(args) => run(args),
        Command::Check(args) => check(args),
        Command::Status(args) => status(args),
        Command::Set(args) => said(control_cmd::set(&load(&args.config)?, &args.settings)),
        Command::Resync(args) => {
            let resync = Resync { tables: args.tables.clone(), truncate: args.truncate };
            said(control_cmd::resync(&load(&args.config)?, resync))
        }
        Command::Binlog(args) => binlog(args),
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let status = control_cmd::status(&load(&args.config)?).map_err(Failure::refused)?;
    let text = if args.json {
        let json = serde_json::to_string(&status).map_err(|e| Failure::new(FAILED, &e))?;
        format!("{json}\n")
    } else {
        control_cmd::text(&status)
    };
    ignore_closed(write!(io::stdout().lock(), "{text}")).map_err(|e| Failure::new(FAILED, &e))
}

/// Prints what a request came to.
fn said(result: Result<String, String>) -> Result<(), Failure> {
    let text = result.map_err(Failure::refused)?;
    ignore_closed(writeln!(io::stdout().lock(), "{text}")).map_err(|e| Failure::new(FAILED, &e))
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    log_to_stderr(args.log_format);
    let config = load(&args.config)?;
    let options = RunOptions { until: args.until.clone(), ..RunOptions::default() };
    let report = runtime()?.block_on(async {
        let checked = Box::pin(preflight::check(&config)).await.map_err(|e| Failure::new(REFUSED, &e))?;
        for warning in checked.warnings() {
            tracing::warn!("{warning}");
        }
        Box::pin(pipeline::run(&config, &options)).await.map_err(|e| {
            let refused = e.kind() == RunErrorKind::Refused;
            Failure::new(if refused { REFUSED } else { FAILED }, &e)
        })
    })?;
    let text = if args.json {
        serde_json::to_string(&report).map_err(|e| Failure::new(FAILED, &e))?
    } else {
        summary(&report)
    };
    let stdout_is_sink = matches!(&config.sink, Sink::Jsonl(jsonl) if jsonl.path.is_none());
    let written = if args.json && !stdout_is_sink {
        writeln!(io::stdout().lock(), "{text}")
    } else {
        writeln!(io::stderr().lock(), "{text}")
    };
    ignore_closed(written).map_err(|e| Failure::new(FAILED, &e))?;
    if report.quarantined.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = report.quarantined.iter().map(|q| q.target.as_str()).collect();
    let message = format!(
        "done, but for {} quarantined target(s): {}. The log and --json say why; `millstream resync` heals them",
        names.len(),
        names.join(", ")
    );
    Err(Failure { code: FAILED, message, causes: Vec::new() })
}

/// The counts of a run for a person: what came in, what went out, and by which rule the rest was dropped.
fn summary(report: &Report) -> String {
    let list = |rules: &std::collections::BTreeMap<&'static str, u64>| -> String {
        let rules: Vec<String> = rules.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
        if rules.is_empty() { "none".to_owned() } else { rules.join(", ") }
    };
    format!(
        "done, {}: {} snapshot row(s) in {} chunk(s); {} change(s) in = {} emitted + dropped ({}); {} row(s) sent, {} replaced \
         within a load; {} load(s) in {} epoch(s); events skipped: {}; of other tables: {}",
        report.guarantee,
        report.snapshot_rows,
        report.chunks,
        report.changes_in,
        report.changes_emitted,
        list(&report.changes_dropped),
        report.rows_sent,
        report.rows_collapsed,
        report.loads,
        report.epochs,
        list(&report.skipped),
        report.filtered_events,
    )
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    log_to_stderr(args.log_format);
    let config = load(&args.config)?;
    let checked = runtime()?.block_on(preflight::check(&config)).map_err(|e| Failure::new(REFUSED, &e))?;
    ignore_closed(write!(io::stdout().lock(), "{checked}")).map_err(|e| Failure::new(FAILED, &e))
}

fn binlog(args: &BinlogArgs) -> Result<(), Failure> {
    let told = |e: &binlog_cmd::Error| Failure::new(if e.is_usage() { REFUSED } else { FAILED }, e);
    let options = args.options().map_err(|e| told(&e))?;
    let mut out = io::BufWriter::with_capacity(256 << 10, io::stdout().lock());
    let (summary, result) = binlog_cmd::run(&options, &mut out);
    for note in &summary.notes {
        // Without stderr there is nobody to tell.
        let _unwritten = writeln!(io::stderr().lock(), "note: {note}");
    }
    match result {
        Err(e) if !e.is_broken_pipe() => {
            // What was printed before the fault stays readable.
            ignore_closed(out.flush()).map_err(|e| Failure::new(FAILED, &e))?;
            Err(told(&e))
        }
        _ => Ok(()),
    }
}

fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file).map_err(|e| Failure::new(REFUSED, &e))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| Failure::new(REFUSED, &e))
}

/// A reader that has gone away is no failure.
fn ignore_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Sends the log to stderr: warnings and what the engine says; `RUST_LOG` chooses more or less.
fn log_to_stderr(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // A second subscriber in one process (a test) is no reason to fail.
    let installed = match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if installed.is_err() {
        tracing::debug!("a subscriber is installed already");
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["millstream", "check", "-c", "a.toml"]).unwrap();
        assert!(matches!(cli.command, Command::Check(args) if args.config == Path::new("a.toml")));
        let cli =
            Cli::try_parse_from(["millstream", "run", "-c", "a.toml", "--until", "binlog.000007:4", "--json"]).unwrap();
        assert!(
            matches!(cli.command, Command::Run(args) if args.json && matches!(args.until, Some(Until::Position(_))))
        );
        let wrong = Cli::try_parse_from(["millstream", "run", "-c", "a.toml", "--until", "tomorrow"]).unwrap_err();
        assert!(wrong.to_string().contains("current | a GTID set | FILE:POS"), "{wrong}");
        let cli = Cli::try_parse_from(["millstream", "binlog", "a", "b", "--format", "json", "--stats"]).unwrap();
        let Command::Binlog(args) = cli.command else { panic!() };
        assert_eq!((args.sources.len(), args.format, args.stats), (2, binlog_cmd::Format::Json, true));
        let cli = Cli::try_parse_from(["millstream", "set", "-c", "a.toml", "workers=2", "rows_per_second=5"]).unwrap();
        assert!(matches!(cli.command, Command::Set(args) if args.settings.len() == 2));
        let cli = Cli::try_parse_from(["millstream", "resync", "-c", "a.toml", "--truncate", "a.b", "c.d"]).unwrap();
        assert!(matches!(cli.command, Command::Resync(args) if args.truncate && args.tables == ["a.b", "c.d"]));
        for bad in [
            &["millstream", "set", "-c", "a.toml"][..],
            &["millstream", "set", "-c", "a.toml", "workers=0"],
            &["millstream", "resync", "-c", "a.toml"],
            &["millstream", "status"],
        ] {
            assert_eq!(Cli::try_parse_from(bad).unwrap_err().exit_code(), 2, "{bad:?}");
        }
        for bad in [&["millstream"][..], &["millstream", "binlog"], &["millstream", "check"], &["millstream", "x"]] {
            assert_eq!(Cli::try_parse_from(bad).unwrap_err().exit_code(), 2, "{bad:?}");
        }
    }

    #[test]
    fn the_summary_accounts_for_every_change() {
        let mut report = Report { changes_in: 5, changes_emitted: 3, ..Report::default() };
        report.drop_change("unread");
        report.drop_change("held");
        report.skip("account_statement");
        let text = summary(&report);
        assert!(text.contains("5 change(s) in = 3 emitted + dropped (held 1, unread 1)"), "{text}");
        assert!(text.contains("events skipped: account_statement 1"), "{text}");
    }

    #[test]
    fn a_failure_names_each_problem_and_each_cause_once() {
        let inner = io::Error::new(io::ErrorKind::NotFound, "no such thing");
        let error = Config::load(Path::new("/nonexistent")).unwrap_err();
        let failure = Failure::new(REFUSED, &error);
        assert_eq!(failure.causes.len(), 1);
        let mut out = Vec::new();
        Failure { code: 1, message: "a\nb".to_owned(), causes: vec![inner.to_string()] }.write_to(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "error: a\nerror: b\n  because: no such thing\n");
    }
}
