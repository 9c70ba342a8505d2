//! The watermarks of a chunk, in each server's way ([`Dialect`]).

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_binlog::Position;
use millstream_wire::{Connection, Flavor};

use super::ReadError;
use super::dialect::{Dialect, DialectFacts};
use super::reader::{high_watermark, low_watermark};
use crate::delivery::{Passed, SourceKind};
use crate::merge::Xid;

/// How the chunks of a run are fenced.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// How chunks are read.
    pub dialect: Dialect,
    /// In what LW is told.
    pub kind: SourceKind,
    /// Nothing is waited for, and D is taken for covered: shows that a test notices the fence's absence.
    #[cfg(feature = "mutants")]
    pub broken: bool,
}

/// The first pause before LW is read again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

impl Fence {
    /// The fence of a dialect.
    #[must_use]
    pub const fn new(dialect: Dialect, kind: SourceKind) -> Self {
        Self {
            dialect,
            kind,
            #[cfg(feature = "mutants")]
            broken: false,
        }
    }

    /// LW: read again and again until it covers `covers` (D), since a transaction is sent before it is visible; where LW says
    /// nothing about XA decisions, also until none of the XA transactions `decided` in D is
    /// listed as prepared. The chunk's SELECT comes next on this connection; then [`high`](Self::high).
    ///
    /// # Errors
    /// The connection breaks, a grant is missing, or the server answers something else.
    pub async fn low(
        &self,
        connection: &mut Connection,
        covers: &Passed,
        decided: &BTreeSet<Xid>,
    ) -> Result<Passed, ReadError> {
        #[cfg(feature = "mutants")]
        if self.broken {
            let mut lw = self.low_now(connection).await?;
            lw.union(covers);
            return Ok(lw);
        }
        let (mut pause, longest) = PAUSES;
        loop {
            let clear =
                self.dialect.covers_xa() || decided.is_empty() || prepared_xa(connection).await?.is_disjoint(decided);
            if clear {
                let lw = self.low_now(connection).await?;
                if lw.is_superset(covers) {
                    return Ok(lw);
                }
                if self.dialect == Dialect::ConsistentSnapshot {
                    run(connection, "ROLLBACK").await?;
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(longest);
        }
    }

    async fn low_now(&self, connection: &mut Connection) -> Result<Passed, ReadError> {
        match (self.dialect, self.kind) {
            (Dialect::ConsistentSnapshot, _) => {
                run(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
                snapshot_position(connection).await.map(Passed::from)
            }
            (Dialect::LogStatus, _) => log_status(connection).await.map(Passed::from),
            (Dialect::ExecutedSet | Dialect::LockingRead, SourceKind::Gtid) => {
                low_watermark(connection).await.map(Passed::from)
            }
            (Dialect::ExecutedSet | Dialect::LockingRead, SourceKind::Position) => {
                high_watermark(connection).await.map(Passed::from)
            }
        }
    }

    /// Ends the chunk's transaction, if it had one, where no HW is wanted.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn leave(&self, connection: &mut Connection) -> Result<(), ReadError> {
        if self.dialect == Dialect::ConsistentSnapshot { run(connection, "COMMIT").await } else { Ok(()) }
    }

    /// HW, after the SELECT: above everything that it could have seen. Ends the chunk's transaction, if it had one.
    ///
    /// # Errors
    /// As [`low`](Self::low).
    pub async fn high(&self, connection: &mut Connection, lw: &Passed) -> Result<Position, ReadError> {
        match (self.dialect, lw) {
            (Dialect::ConsistentSnapshot, Passed::Position(place)) => {
                run(connection, "COMMIT").await?;
                Ok(place.position.clone())
            }
            _ => high_watermark(connection).await,
        }
    }
}

async fn run(connection: &mut Connection, statement: &'static str) -> Result<(), ReadError> {
    connection.execute(statement).await.map_err(|e| ReadError::wire("opening a snapshot", e))?;
    Ok(())
}

/// Where MariaDB's log ended when the open snapshot was taken (`binlog_snapshot_file`, `binlog_snapshot_position`).
async fn snapshot_position(connection: &mut Connection) -> Result<Position, ReadError> {
    const STATEMENT: &str = "SHOW STATUS LIKE 'binlog_snapshot_%'";
    let rows =
        connection.query_all(STATEMENT).await.map_err(|e| ReadError::wire("reading a snapshot's position", e))?;
    let value = |name: &str| {
        let named = |row: &usize| rows.text(*row, "Variable_name").is_some_and(|n| n.eq_ignore_ascii_case(name));
        rows.text((0..rows.len()).find(named)?, "Value")
    };
    position(value("binlog_snapshot_file"), value("binlog_snapshot_position"))
        .ok_or_else(|| ReadError::answer(STATEMENT, "names no position"))
}

/// The end of MySQL's log at a moment without a half commit (`performance_schema.log_status`, needs BACKUP_ADMIN).
///
/// # Errors
/// The connection breaks, the grant is missing, or the performance schema is off.
pub async fn log_status(connection: &mut Connection) -> Result<Position, ReadError> {
    const STATEMENT: &str = "SELECT `LOCAL`->>'$.binary_log_file' AS f, `LOCAL`->>'$.binary_log_position' AS p FROM \
                             performance_schema.log_status";
    let row = connection.query_all(STATEMENT).await.map_err(|e| ReadError::wire("reading log_status", e))?;
    position(row.text(0, "f"), row.text(0, "p"))
        .ok_or_else(|| ReadError::answer("performance_schema.log_status", "names no position"))
}

fn position(file: Option<&str>, offset: Option<&str>) -> Option<Position> {
    Some(Position::new(file.filter(|file| !file.is_empty())?, offset?.parse().ok()?))
}

/// What the dialect of a server is chosen by: tries what a chunk would do.
///
/// # Errors
/// The connection breaks.
pub async fn dialect_facts(connection: &mut Connection, kind: SourceKind) -> Result<DialectFacts, ReadError> {
    let version = connection.version();
    let mut facts = DialectFacts { version, kind, log_status: false, binlog_snapshot: false, xa_recover: false };
    if kind == SourceKind::Position {
        facts.xa_recover = answers(prepared_xa(connection).await)?;
        if version.is_mariadb() {
            facts.binlog_snapshot = answers(snapshot_position(connection).await)?;
        } else if version.is_at_least(Flavor::MySql, (8, 0, 11)) {
            facts.log_status = answers(log_status(connection).await)?;
        }
    }
    Ok(facts)
}

/// Whether there was an answer; a server that refuses is no error, a connection that breaks is.
fn answers<T>(answer: Result<T, ReadError>) -> Result<bool, ReadError> {
    match answer {
        Ok(_) => Ok(true),
        Err(e) if e.connection().is_none_or(|e| e.server_error().is_some()) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The XA transactions that are prepared now, by XA RECOVER.
///
/// # Errors
/// The connection breaks, or XA_RECOVER_ADMIN is missing (MySQL since 8.0).
pub async fn prepared_xa(connection: &mut Connection) -> Result<BTreeSet<Xid>, ReadError> {
    let rows = connection.query_all("XA RECOVER").await.map_err(|e| ReadError::wire("asking for prepared XA", e))?;
    let xid = |row| {
        let number = |name| rows.text(row, name).and_then(|n| n.parse::<i64>().ok());
        let format_id = number("formatID")?;
        let (gtrid, bqual) =
            rows.value(row, "data")?.split_at_checked(usize::try_from(number("gtrid_length")?).ok()?)?;
        Some(Xid::new(format_id, gtrid, bqual))
    };
    (0..rows.len()).map(xid).collect::<Option<_>>().ok_or_else(|| ReadError::answer("XA RECOVER", "is not understood"))
}
