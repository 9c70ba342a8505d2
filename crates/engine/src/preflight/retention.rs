//! Whether the source keeps its log for as long as a snapshot may take.

use core::fmt;

use millstream_wire::{Connection, Error};

use super::facts::Facts;
use crate::config::SnapshotMode;
use crate::schema::catalog::Catalog;

/// What a snapshot reads per second at least, in bytes of table data: far below what it does on an ordinary machine.
const BYTES_PER_SECOND: u64 = 10 << 20;
/// What a snapshot takes at least.
const LEAST_SECONDS: u64 = 600;
/// A pause of the pipeline that should not need a new snapshot.
const DAY: u64 = 86_400;

/// Sizes are the server's estimates, and never older than this statement.
const FRESH_SIZES: &str = "SET /*!80003 SESSION information_schema_stats_expiry = 0, */ SESSION sql_mode = ''";
const SIZES: &str = "SELECT TABLE_SCHEMA AS db, TABLE_NAME AS tbl, DATA_LENGTH AS bytes FROM information_schema.TABLES \
                     WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";

/// What may be gone from the log when it is needed.
pub(super) async fn warnings(
    connection: &mut Connection,
    facts: &Facts,
    catalog: &Catalog,
    mode: SnapshotMode,
) -> Result<Vec<String>, Error> {
    let mut bytes = 0u64;
    if mode != SnapshotMode::Never {
        connection.execute(FRESH_SIZES).await?;
        let sizes = connection.query_all(SIZES).await?;
        for row in 0..sizes.len() {
            let (database, table) =
                (sizes.text(row, "db").unwrap_or_default(), sizes.text(row, "tbl").unwrap_or_default());
            if catalog.tables.iter().any(|t| t.schema.database == database && t.schema.table == table) {
                let size = sizes.text(row, "bytes").and_then(|b| b.parse().ok()).unwrap_or(0u64);
                bytes = bytes.saturating_add(size);
            }
        }
    }
    let snapshot = (mode != SnapshotMode::Never).then(|| Estimate::of(bytes));
    Ok(told(facts, snapshot))
}

/// How long a snapshot may take.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    bytes: u64,
    seconds: u64,
}

impl Estimate {
    const fn of(bytes: u64) -> Self {
        let reading = bytes / BYTES_PER_SECOND;
        Self { bytes, seconds: if reading > LEAST_SECONDS { reading } else { LEAST_SECONDS } }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "about {} min for {} MiB of rows", self.seconds.div_ceil(60), self.bytes >> 20)
    }
}

/// Seconds after which the log's files go, and the setting that says so; `None` where they stay.
fn kept(facts: &Facts) -> Option<(u64, &'static str)> {
    if facts.setting("binlog_expire_logs_auto_purge").eq_ignore_ascii_case("OFF") {
        return None;
    }
    let seconds = facts.setting("binlog_expire_logs_seconds").parse::<u64>().unwrap_or(0);
    if seconds > 0 {
        return Some((seconds, "binlog_expire_logs_seconds"));
    }
    // MariaDB takes fractions of a day.
    let days = facts.setting("expire_logs_days");
    let (whole, part) = days.split_once('.').unwrap_or((days, ""));
    let whole = whole.parse::<u64>().unwrap_or(0).saturating_mul(DAY);
    let millionths: String = part.chars().chain("000000".chars()).take(6).collect();
    let part = millionths.parse::<u64>().unwrap_or(0).saturating_mul(DAY) / 1_000_000;
    let seconds = whole.saturating_add(part);
    (seconds > 0).then_some((seconds, "expire_logs_days"))
}

fn told(facts: &Facts, snapshot: Option<Estimate>) -> Vec<String> {
    let mut told = Vec::new();
    match (kept(facts), snapshot) {
        (Some((seconds, name)), Some(snapshot)) if seconds < snapshot.seconds => told.push(format!(
            "the source keeps its binary logs for {seconds} s only ({name}), and the snapshot may take longer ({snapshot}): \
             what changes meanwhile may be gone before it is read, and the run then stops by name. Let it keep them longer, at \
             least until the snapshot is done"
        )),
        (Some((seconds, name)), _) if seconds < DAY => told.push(format!(
            "the source keeps its binary logs for {seconds} s only ({name}): a longer pause of this pipeline needs a new \
             snapshot"
        )),
        _ => {}
    }
    for name in ["binlog_space_limit", "max_binlog_total_size"] {
        let limit = facts.setting(name).parse::<u64>().unwrap_or(0);
        if limit > 0 {
            let longer = snapshot.map_or_else(
                || "a pause of this pipeline".to_owned(),
                |snapshot| format!("the snapshot ({snapshot}), and a pause of this pipeline,"),
            );
            told.push(format!(
                "the source removes binary logs when they take more than {} MiB ({name}): {longer} must be shorter than \
                 writers need to write that much",
                limit >> 20
            ));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::facts;
    use super::*;

    #[test]
    fn what_goes_before_the_snapshot_ends_is_told() {
        let (short, long) = (Some(Estimate::of(0)), Some(Estimate::of(100 << 30)));
        assert_eq!(long.unwrap().to_string(), "about 171 min for 102400 MiB of rows");
        for (changes, snapshot, wants) in [
            (&[][..], long, &[][..]),
            (
                &[("binlog_expire_logs_seconds", "500")],
                short,
                &["500 s only (binlog_expire_logs_seconds), and the snapshot"],
            ),
            (
                &[("binlog_expire_logs_seconds", "500")],
                None,
                &["500 s only (binlog_expire_logs_seconds): a longer pause"],
            ),
            (&[("binlog_expire_logs_seconds", "3600")], short, &["3600 s only (binlog_expire_logs_seconds): a longer"]),
            (&[("binlog_expire_logs_seconds", "3600")], long, &["about 171 min for 102400 MiB"]),
            (&[("binlog_expire_logs_seconds", "500"), ("binlog_expire_logs_auto_purge", "OFF")], long, &[]),
            (
                &[("binlog_expire_logs_seconds", "0"), ("expire_logs_days", "0.010000")],
                short,
                &["864 s only (expire_logs"],
            ),
            (&[("binlog_expire_logs_seconds", "0"), ("expire_logs_days", "0")], long, &[]),
            (
                &[("max_binlog_total_size", "1073741824")],
                short,
                &["more than 1024 MiB (max_binlog_total_size): the snap"],
            ),
            (&[("binlog_space_limit", "1073741824")], None, &["more than 1024 MiB (binlog_space_limit): a pause"]),
        ] {
            let told = told(&facts("8.4.0", changes), snapshot);
            assert_eq!(told.len(), wants.len(), "{changes:?}: {told:?}");
            for (told, want) in told.iter().zip(wants) {
                assert!(told.contains(want), "{want:?}: {told}");
            }
        }
    }
}
