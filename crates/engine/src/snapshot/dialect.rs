//! How chunks are read so that their low watermark is a set of surely visible transactions (docs/exactly-once.md).

use millstream_wire::{Flavor, ServerVersion};

use crate::delivery::SourceKind;

/// A way to read a chunk and its low watermark (LW).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// LW is `@@gtid_executed`: MySQL since 5.7 lists a transaction there once it is visible.
    ExecutedSet,
    /// LW is what was written before, and the SELECT takes shared row locks: it waits for what is written and not visible.
    LockingRead,
    /// LW is the position of `performance_schema.log_status`, which waits for commits; XA decisions are not covered.
    LogStatus,
    /// LW and HW are MariaDB's `binlog_snapshot_file` and `binlog_snapshot_position` of a consistent snapshot; XA decisions
    /// are not covered.
    ConsistentSnapshot,
}

/// What a dialect is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialectFacts {
    /// The server's version.
    pub version: ServerVersion,
    /// By what the pipeline knows transactions.
    pub kind: SourceKind,
    /// `performance_schema.log_status` answered (BACKUP_ADMIN, and the performance schema is on).
    pub log_status: bool,
    /// The status variables of MariaDB's consistent snapshots are there.
    pub binlog_snapshot: bool,
    /// XA RECOVER answered.
    pub xa_recover: bool,
}

impl Dialect {
    /// The dialect for a server: the one that takes no locks where there is one that is exact.
    #[must_use]
    pub fn choose(facts: &DialectFacts) -> Self {
        let mysql = |since| facts.version.is_at_least(Flavor::MySql, since);
        match facts.kind {
            // MySQL 5.6 lists a transaction when it is written.
            SourceKind::Gtid if mysql((5, 7, 0)) => Self::ExecutedSet,
            SourceKind::Position if facts.xa_recover && facts.log_status && mysql((8, 0, 11)) => Self::LogStatus,
            SourceKind::Position if facts.xa_recover && facts.binlog_snapshot && facts.version.is_mariadb() => {
                Self::ConsistentSnapshot
            }
            SourceKind::Gtid | SourceKind::Position => Self::LockingRead,
        }
    }

    /// What `check` and the log say of it.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::ExecutedSet => "plain reads, fenced by gtid_executed",
            Self::LockingRead => "locking reads (shared row locks while a chunk is read)",
            Self::LogStatus => "plain reads, fenced by performance_schema.log_status",
            Self::ConsistentSnapshot => "consistent snapshots with their binlog position",
        }
    }

    /// Whether LW covers XA COMMIT and XA ROLLBACK too. Otherwise such a decision counts as in LW only if it is in D.
    #[must_use]
    pub const fn covers_xa(self) -> bool {
        matches!(self, Self::ExecutedSet | Self::LockingRead)
    }

    /// What a chunk's SELECT ends with.
    #[must_use]
    pub fn suffix(self, version: ServerVersion) -> &'static str {
        match self {
            Self::LockingRead if version.is_at_least(Flavor::MySql, (8, 0, 1)) => " FOR SHARE",
            Self::LockingRead => " LOCK IN SHARE MODE",
            Self::ExecutedSet | Self::LogStatus | Self::ConsistentSnapshot => "",
        }
    }

    /// Makes a connection a chunk session, whatever the server's defaults: text in the columns' own character sets, UTC,
    /// dates as they are stored (in comparisons too), and a new read view for every statement outside of a transaction.
    #[must_use]
    pub fn setup(self, version: ServerVersion) -> Vec<String> {
        let mysql = |since| version.is_at_least(Flavor::MySql, since);
        let isolation = match self {
            // The latest committed rows, and no locks on gaps.
            Self::LockingRead => "READ COMMITTED",
            Self::ExecutedSet | Self::LogStatus | Self::ConsistentSnapshot => "REPEATABLE READ, READ ONLY",
        };
        let mut limits = vec!["sql_select_limit = 18446744073709551615"];
        if mysql((5, 7, 9)) {
            // Without a limit of its memory the optimizer never takes a long list of ENUM numbers for a scan of the whole
            // table.
            limits.extend(["range_optimizer_max_mem_size = 0", "max_execution_time = 0"]);
        }
        if version.is_mariadb() {
            limits.push("max_statement_time = 0");
        }
        if self == Self::LockingRead {
            limits.push("innodb_lock_wait_timeout = 5");
        }
        vec![
            "SET SESSION character_set_results = NULL, time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', \
             autocommit = 1"
                .to_owned(),
            format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"),
            format!("SET SESSION {}", limits.join(", ")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_dialect() {
        use Dialect::{ConsistentSnapshot, ExecutedSet, LockingRead, LogStatus};
        use SourceKind::{Gtid, Position};
        // (version, kind, log_status, binlog_snapshot, XA RECOVER)
        for (version, kind, log_status, snapshot, xa, want) in [
            ("9.7.4", Gtid, true, false, true, ExecutedSet),
            ("8.0.36-28", Gtid, false, false, false, ExecutedSet),
            ("5.7.44-log", Gtid, false, false, true, ExecutedSet),
            ("5.6.24", Gtid, false, false, true, LockingRead),
            ("5.6.24", Position, false, false, true, LockingRead),
            ("5.7.44", Position, false, false, true, LockingRead),
            ("9.7.4", Position, true, false, true, LogStatus),
            ("9.7.4", Position, true, false, false, LockingRead),
            ("9.7.4", Position, false, false, true, LockingRead),
            ("5.5.5-10.5.23-MariaDB", Position, false, true, true, ConsistentSnapshot),
            ("11.8.9-MariaDB", Position, false, true, true, ConsistentSnapshot),
            ("11.8.9-MariaDB", Position, false, true, false, LockingRead),
            ("11.8.9-MariaDB", Position, false, false, true, LockingRead),
            // Percona Server has status variables of the same name.
            ("8.0.36-28", Position, false, true, true, LockingRead),
        ] {
            let version = ServerVersion::parse(version);
            let facts = DialectFacts { version, kind, log_status, binlog_snapshot: snapshot, xa_recover: xa };
            assert_eq!(Dialect::choose(&facts), want, "{facts:?}");
        }
    }

    #[test]
    fn sessions_speak_each_servers_words() {
        let setup = |dialect: Dialect, version| dialect.setup(ServerVersion::parse(version)).join("; ");
        let old = setup(Dialect::LockingRead, "5.6.24");
        assert!(old.contains("LEVEL READ COMMITTED") && old.contains("innodb_lock_wait_timeout"), "{old}");
        assert!(!old.contains("max_execution_time") && !old.contains("READ ONLY"), "{old}");
        let new = setup(Dialect::ExecutedSet, "9.7.4");
        assert!(new.contains("LEVEL REPEATABLE READ, READ ONLY") && new.contains("max_execution_time = 0"), "{new}");
        let maria = setup(Dialect::ConsistentSnapshot, "11.8.9-MariaDB");
        assert!(maria.contains("REPEATABLE READ") && maria.contains("max_statement_time = 0"), "{maria}");
        let suffix = |version| Dialect::LockingRead.suffix(ServerVersion::parse(version));
        assert_eq!(suffix("9.7.4"), " FOR SHARE");
        assert_eq!(suffix("5.6.24"), " LOCK IN SHARE MODE");
        assert_eq!(suffix("11.8.9-MariaDB"), " LOCK IN SHARE MODE");
        assert_eq!(Dialect::ExecutedSet.suffix(ServerVersion::parse("9.7.4")), "");
    }
}
