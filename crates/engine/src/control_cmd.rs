//! `millstream status`, `set` and `resync`: asks the engine that runs, or works on the state when none does.

use core::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use crate::checkpoint::{FileBackend, Store, StoreError, StoredState};
use crate::config::Config;
use crate::pipeline::control::protocol::{Reply, Request, Resync, Speed, Status};
use crate::pipeline::control::{ask, request_when_stopped, stored_status};

/// One `NAME=N` of `millstream set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "every setting must be sent")]
pub enum Setting {
    /// Rows in a second over all readers; 0: no limit.
    RowsPerSecond(u64),
    /// Chunk readers.
    Workers(usize),
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "must be rows_per_second=N (0: no limit) or workers=N (1 to 64)";
        let (name, value) = text.split_once('=').ok_or(form)?;
        let number = value.trim().parse::<u32>().map_err(|_| form)?;
        match name.trim() {
            "rows_per_second" => Ok(Self::RowsPerSecond(u64::from(number))),
            "workers" if (1..=64).contains(&number) => {
                usize::try_from(number).map(Self::Workers).map_err(|_| form.to_owned())
            }
            _ => Err(form.to_owned()),
        }
    }
}

/// How often, and after which pause, an engine that holds the state and does not listen is asked again: it starts or ends.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Who has the state directory.
enum Holder {
    /// An engine, which answered.
    Engine(Reply),
    /// We do: no engine runs.
    Nobody(Box<Store<FileBackend>>),
}

fn hold(config: &Config, request: &Request) -> Result<Holder, String> {
    let dir = &config.state_dir;
    for _ in 0..TRIES {
        if let Some(reply) = ask(dir, request)? {
            return Ok(Holder::Engine(reply));
        }
        if !FileBackend::exists(dir) {
            return Err(format!("there is no state in {}: this pipeline has not run yet", dir.display()));
        }
        match FileBackend::open(dir) {
            Ok(backend) => return Ok(Holder::Nobody(Box::new(Store::new(backend)))),
            Err(StoreError::Locked { .. }) => std::thread::sleep(PAUSE),
            Err(e) => return Err(e.to_string()),
        }
    }
    Err(format!("an engine has the state in {} and does not answer; try again later", dir.display()))
}

fn stored(config: &Config, store: &Store<FileBackend>) -> Result<StoredState, String> {
    let state = store.read().map_err(|e| e.to_string())?;
    let state = state.ok_or_else(|| format!("the state in {} is empty", config.state_dir.display()))?;
    if state.name == config.name {
        return Ok(state);
    }
    Err(format!(
        "the state in {} belongs to pipeline \"{}\", the configuration names \"{}\"",
        config.state_dir.display(),
        state.name,
        config.name
    ))
}

fn unexpected(reply: Reply) -> String {
    match reply {
        Reply::Error(problem) => problem,
        Reply::Done(text) => text,
        Reply::Status(_) => "the engine answered another question".to_owned(),
    }
}

/// Where every table stands: of the engine that runs, or of the stored state.
///
/// # Errors
/// Why that cannot be said.
pub fn status(config: &Config) -> Result<Status, String> {
    match hold(config, &Request::Status)? {
        Holder::Engine(Reply::Status(status)) => Ok(*status),
        Holder::Engine(other) => Err(unexpected(other)),
        Holder::Nobody(store) => Ok(stored_status(&stored(config, &store)?)),
    }
}

/// Changes the speed of a running engine; what it answers.
///
/// # Errors
/// None runs, or it refuses.
pub fn set(config: &Config, settings: &[Setting]) -> Result<String, String> {
    let mut speed = Speed::default();
    for setting in settings {
        match setting {
            Setting::RowsPerSecond(rows) => speed.rows_per_second = Some(*rows),
            Setting::Workers(workers) => speed.workers = Some(*workers),
        }
    }
    match hold(config, &Request::Set(speed))? {
        Holder::Engine(Reply::Done(text)) => Ok(text),
        Holder::Engine(other) => Err(unexpected(other)),
        Holder::Nobody(_) => {
            Err("no engine runs: change snapshot.rows_per_second and snapshot.workers in the configuration".to_owned())
        }
    }
}

/// Asks for tables to be read again, now or when an engine starts; what will happen.
///
/// # Errors
/// Which table cannot be, and why; nothing was asked for then.
pub fn resync(config: &Config, resync: Resync) -> Result<String, String> {
    let request = Request::Resync(resync);
    match hold(config, &request)? {
        Holder::Engine(Reply::Done(text)) => Ok(text),
        Holder::Engine(other) => Err(unexpected(other)),
        Holder::Nobody(mut store) => {
            let Request::Resync(resync) = request else { return Err(String::new()) };
            let state = stored(config, &store)?;
            request_when_stopped(config, &mut store, &state, &resync)
        }
    }
}

/// A status for people.
#[must_use]
pub fn text(status: &Status) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let mut line = |text: String| writeln!(out, "{text}").unwrap_or_default();
    line(format!(
        "pipeline {}: {}",
        status.pipeline,
        if status.running { "running" } else { "no engine runs; this is the stored state" }
    ));
    if let Some(position) = &status.position {
        line(format!("position {position}"));
    }
    line(format!("durable  {}", status.durable));
    if let (Some(workers), Some(rows)) = (status.workers, status.rows_per_second) {
        let rows = if rows == 0 { "no limit".to_owned() } else { rows.to_string() };
        line(format!("readers  {workers}, rows in a second: {rows}"));
    }
    for target in &status.left_out {
        line(format!("quarantined {target}"));
    }
    for xid in &status.undecided {
        line(format!("undecided XA transaction {xid}"));
    }
    let width = status.tables.iter().map(|t| t.table.chars().count()).max().unwrap_or(0);
    for table in &status.tables {
        let [done, reading, unread] = table.ranges;
        let progress = match (reading, unread) {
            (0, 0) => String::new(),
            _ => format!("; ranges: {done} done, {reading} being read, {unread} to read"),
        };
        let rows = table.snapshot_rows.filter(|n| *n > 0).map_or_else(String::new, |n| format!("; {n} row(s) read"));
        let reason = table.reason.as_ref().map_or_else(String::new, |r| format!("; {r}"));
        let targets =
            if table.targets.is_empty() { String::new() } else { format!(" -> {}", table.targets.join(", ")) };
        line(format!("{:width$}  {:9}{targets}{progress}{rows}{reason}", table.table, table.state.name()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::control::protocol::{TableState, TableStatus};

    #[test]
    fn settings_are_a_name_and_a_number() {
        assert_eq!("rows_per_second=0".parse(), Ok(Setting::RowsPerSecond(0)));
        assert_eq!("workers=64".parse(), Ok(Setting::Workers(64)));
        for bad in ["workers=0", "workers=65", "workers", "rows_per_second=-1", "rows=1", "workers=x", ""] {
            assert!(bad.parse::<Setting>().unwrap_err().contains("rows_per_second=N"), "{bad}");
        }
    }

    #[test]
    fn a_status_names_every_table_with_its_state() {
        let table = |name: &str, state, ranges, reason: Option<&str>| TableStatus {
            table: name.to_owned(),
            state,
            targets: vec!["ods.t (upsert)".to_owned()],
            ranges,
            snapshot_rows: Some(7),
            reason: reason.map(str::to_owned),
        };
        let status = Status {
            pipeline: "shop".to_owned(),
            running: true,
            workers: Some(4),
            rows_per_second: Some(0),
            undecided: vec!["1:a:".to_owned()],
            tables: vec![
                table("shop.orders", TableState::Resync, [1, 2, 3], None),
                table("shop.t", TableState::Refused, [0, 0, 0], Some("it has no key")),
            ],
            ..Status::default()
        };
        let text = text(&status);
        for want in [
            "pipeline shop: running",
            "readers  4, rows in a second: no limit",
            "undecided XA transaction 1:a:",
            "shop.orders  resync    -> ods.t (upsert); ranges: 1 done, 2 being read, 3 to read; 7 row(s) read",
            "shop.t       refused   -> ods.t (upsert); 7 row(s) read; it has no key",
        ] {
            assert!(text.contains(want), "{want}\n{text}");
        }
    }
}
