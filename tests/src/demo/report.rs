//! The verdict, and the numbers behind it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Options;
use super::drive::Driven;
use super::faults::Faults;
use super::kills::{Landed, Moment};
use super::show::grouped;
use super::verify::TableResult;
use crate::workload::Counts;

/// What came of a demo.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was asked for.
    pub options: Options,
    /// Kills, in order.
    pub kills: Vec<Landed>,
    /// What speaks against the moment of a kill.
    pub doubts: Faults,
    /// Transactions that the engine left open in Doris.
    pub left: Faults,
    /// How often the engine was started again, the last run included.
    pub restarts: u32,
    /// What the writers committed.
    pub counts: Counts,
    /// How long they wrote.
    pub writing: Duration,
    /// Engines' running time from the first start until every table was live.
    pub until_live: Duration,
    /// Engines' running time from then until everything was visible.
    pub streaming: Duration,
    /// The engine's largest resident set, bytes.
    pub peak_rss: u64,
    /// Per table.
    pub tables: Vec<TableResult>,
}

/// The line of `--json`, in the order of the fields.
#[derive(Serialize)]
struct Line {
    rows: u64,
    changes: u64,
    kills: usize,
    upsert_equal: bool,
    append_exact: bool,
    snapshot_rows_per_s: u64,
    stream_changes_per_s: u64,
    peak_rss_mb: u64,
}

impl Report {
    pub(super) fn new(options: &Options, driven: Driven, tables: Vec<TableResult>) -> Self {
        let Driven { mut kills, mut doubts, counts, writing, until_live, streaming, live: _, peak_rss, restarts, left } =
            driven;
        let mut divided = false;
        for kill in kills.iter_mut().filter(|kill| kill.moment == Moment::Snapshot) {
            // Rows that an earlier and rows that a later run read: the kill came between.
            let reads = |of: &dyn Fn(u32) -> bool| -> u64 {
                tables.iter().flat_map(|t| &t.reads).filter(|(era, _)| of(**era)).map(|(_, rows)| rows).sum()
            };
            let (done, open) = (reads(&|era| era <= kill.era), reads(&|era| era > kill.era));
            kill.evidence = format!("{} rows were done, {} were read later", grouped(done), grouped(open));
            divided |= done > 0 && open > 0;
        }
        if options.kills >= 3 && !divided {
            doubts.add(|| "none came while some ranges were done and some were not".to_owned());
        }
        let options = *options;
        Self { options, kills, doubts, left, restarts, counts, writing, until_live, streaming, peak_rss, tables }
    }

    /// Whether every upsert target equals its source.
    pub fn upsert_equal(&self) -> bool {
        self.tables.iter().all(|table| table.upsert.is_empty())
    }

    /// Whether every append target holds each change exactly once.
    pub fn append_exact(&self) -> bool {
        self.tables.iter().all(|table| table.append.is_empty())
    }

    /// Whether everything is as it must be.
    pub fn is_good(&self) -> bool {
        self.is_exactly_once() && self.is_proven()
    }

    /// Whether the targets are right and nothing is left open.
    fn is_exactly_once(&self) -> bool {
        self.upsert_equal() && self.append_exact() && self.left.is_empty()
    }

    /// Whether every kill landed, and where it had to.
    fn is_proven(&self) -> bool {
        self.kills.len() == self.options.kills as usize && self.doubts.is_empty()
    }

    /// Rows of the source at the end.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Snapshot rows delivered (once, to however many targets) per second of the engine's running time until every
    /// table was live: with writers at work, and with the restarts after kills.
    pub fn snapshot_rows_per_s(&self) -> f64 {
        let rows: u64 = self.tables.iter().flat_map(|table| table.reads.values()).sum();
        per_second(rows, self.until_live)
    }

    /// Changes after a table was live, as `mysqlbinlog` lists them, per second of the engine's running time from then
    /// until all were visible. The engine cannot be quicker than the writers.
    pub fn stream_changes_per_s(&self) -> f64 {
        per_second(self.tables.iter().map(|table| table.listed_live).sum(), self.streaming)
    }

    /// The line of `--json`.
    pub fn json(&self) -> String {
        let line = Line {
            rows: self.rows(),
            changes: self.counts.changes(),
            kills: self.kills.len(),
            upsert_equal: self.upsert_equal(),
            append_exact: self.append_exact(),
            snapshot_rows_per_s: whole(self.snapshot_rows_per_s()),
            stream_changes_per_s: whole(self.stream_changes_per_s()),
            peak_rss_mb: self.peak_rss.div_ceil(1 << 20),
        };
        serde_json::to_string(&line).unwrap_or_default()
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, the cast stops at the largest integer, and no conversion without a cast exists"
)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let sum = |of: fn(&TableResult) -> u64| grouped(self.tables.iter().map(of).sum());
        writeln!(f)?;
        writeln!(
            f,
            "  rows       {} in three tables, {} at the start",
            grouped(self.rows()),
            grouped(self.options.rows)
        )?;
        writeln!(
            f,
            "  changes    {} in {} transactions within {:.1} s: {} inserts, {} updates, {} deletes, {} changes of key",
            grouped(counts.changes()),
            grouped(counts.transactions),
            self.writing.as_secs_f64(),
            grouped(counts.inserts),
            grouped(counts.updates),
            grouped(counts.deletes),
            grouped(counts.key_changes),
        )?;
        writeln!(
            f,
            "  kill -9    {} of {}; the engine was started again {} times",
            self.kills.len(),
            self.options.kills,
            self.restarts
        )?;
        for kill in &self.kills {
            writeln!(f, "             at {:.1} s: {} ({})", kill.second, kill.moment, kill.evidence)?;
        }
        let equal = if self.upsert_equal() { "equal" } else { "DIFFERENT" };
        writeln!(f, "  upsert     {equal}: {} rows compared with the source, value by value", sum(|t| t.rows))?;
        let exact = if self.append_exact() { "exact" } else { "WRONG" };
        writeln!(
            f,
            "  append     {exact}: {} rows; {} changes that mysqlbinlog lists after the tables were live",
            sum(|t| t.log_rows),
            sum(|t| t.listed_live),
        )?;
        writeln!(
            f,
            "  snapshot   {} rows/s (engine's running time until every table was live, restarts and live writers included)",
            grouped(whole(self.snapshot_rows_per_s())),
        )?;
        writeln!(
            f,
            "  stream     {} changes/s (from then until all were visible; the writers made {}/s)",
            grouped(whole(self.stream_changes_per_s())),
            grouped(whole(per_second(counts.changes(), self.writing))),
        )?;
        writeln!(f, "  peak RSS   {} MiB of the engine", self.peak_rss.div_ceil(1 << 20))?;
        writeln!(f, "  seed       {}", self.options.seed)?;
        writeln!(f)?;
        for table in &self.tables {
            for (name, faults) in [("upsert", &table.upsert), ("append", &table.append)] {
                if !faults.is_empty() {
                    writeln!(f, "  WRONG in the {name} target of {}: {faults}", table.table)?;
                }
            }
        }
        for (what, faults) in [("DOUBTS about the kills", &self.doubts), ("WRONG: left open in Doris", &self.left)] {
            if !faults.is_empty() {
                writeln!(f, "  {what}: {faults}")?;
            }
        }
        let verdict = match (self.is_exactly_once(), self.is_proven()) {
            (true, true) => "exactly once",
            (true, false) => "NOT PROVEN: every row is right, but not every kill landed where it had to",
            (false, _) => "NOT exactly once",
        };
        write!(f, "Verdict: {verdict}")
    }
}
