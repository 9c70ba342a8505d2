//! Statements that servers of different age and flavor word differently, as a function of the version.
//!
//! MySQL 8.4 refuses the old words and servers before 8.0.22 (or 8.2) do not know the new ones; MariaDB went its own way.

use crate::version::{Flavor, ServerVersion};

/// What to ask a server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ask {
    /// The end of the binary log: `File`, `Position`, `Binlog_Do_DB`, `Binlog_Ignore_DB`, on MySQL since 5.6 also
    /// `Executed_Gtid_Set`. No row where the log is off. Needs REPLICATION CLIENT (MariaDB since 10.5: BINLOG MONITOR).
    BinlogStatus,
    /// The log's files: `Log_name`, `File_size`, on MySQL since 8.0.14 also `Encrypted`. An error where the log is off.
    BinlogFiles,
    /// Replicas that registered: take the columns by name, they differ. Needs what a dump needs: REPLICATION SLAVE
    /// (MariaDB since 10.5: REPLICATION MASTER ADMIN).
    Replicas,
    /// What the server is a replica of: a row for each of its own sources, none where it has none. Needs REPLICATION CLIENT
    /// (MariaDB since 10.5: REPLICA MONITOR).
    ReplicaStatus,
    /// Deletes all binary logs and, on MySQL, the GTID history.
    ResetBinlog,
    /// One value: the GTIDs that are in the log's past. MySQL since 5.6: the executed set; MariaDB since 10.0: the last
    /// GTID of each domain and server in the binary log.
    GtidPosition,
}

/// The statement that asks a server of this version.
#[must_use]
pub fn statement(ask: Ask, version: ServerVersion) -> &'static str {
    let mysql = |since| version.is_at_least(Flavor::MySql, since);
    let mariadb = |since| version.is_at_least(Flavor::MariaDb, since);
    match ask {
        Ask::BinlogStatus if mysql((8, 2, 0)) => "SHOW BINARY LOG STATUS",
        Ask::BinlogStatus if mariadb((10, 5, 2)) => "SHOW BINLOG STATUS",
        Ask::BinlogStatus => "SHOW MASTER STATUS",
        Ask::BinlogFiles => "SHOW BINARY LOGS",
        Ask::Replicas if mysql((8, 0, 22)) => "SHOW REPLICAS",
        Ask::Replicas if mariadb((10, 5, 1)) => "SHOW REPLICA HOSTS",
        Ask::Replicas => "SHOW SLAVE HOSTS",
        Ask::ReplicaStatus if mysql((8, 0, 22)) => "SHOW REPLICA STATUS",
        Ask::ReplicaStatus if mariadb((10, 5, 1)) => "SHOW ALL REPLICAS STATUS",
        Ask::ReplicaStatus if version.is_mariadb() => "SHOW ALL SLAVES STATUS",
        Ask::ReplicaStatus => "SHOW SLAVE STATUS",
        Ask::ResetBinlog if mysql((8, 2, 0)) => "RESET BINARY LOGS AND GTIDS",
        Ask::ResetBinlog => "RESET MASTER",
        Ask::GtidPosition if version.is_mariadb() => "SELECT @@GLOBAL.gtid_binlog_pos",
        Ask::GtidPosition => "SELECT @@GLOBAL.gtid_executed",
    }
}

/// A user variable by which a replica tells the source something before a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReplicaVariable {
    /// `'CRC32'` or `'NONE'`: which checksums the replica reads.
    Checksum,
    /// Nanoseconds between heartbeats.
    HeartbeatPeriod,
    /// The replica's UUID.
    Uuid,
    /// 1 asks for semi-synchronous replication.
    SemiSync,
}

/// The name (without `@`) under which a server of this version looks for a variable. MySQL since 8.0.26 looks for the
/// new name and then for the old one (`get_user_var_from_alternatives` in `sql/rpl_binlog_sender.cc`); nothing happens
/// to a name that nobody looks for.
#[must_use]
pub fn variable(variable: ReplicaVariable, version: ServerVersion) -> &'static str {
    match (variable, version.is_at_least(Flavor::MySql, (8, 0, 26))) {
        (ReplicaVariable::Checksum, true) => "source_binlog_checksum",
        (ReplicaVariable::Checksum, false) => "master_binlog_checksum",
        (ReplicaVariable::HeartbeatPeriod, true) => "source_heartbeat_period",
        (ReplicaVariable::HeartbeatPeriod, false) => "master_heartbeat_period",
        (ReplicaVariable::Uuid, true) => "replica_uuid",
        (ReplicaVariable::Uuid, false) => "slave_uuid",
        (ReplicaVariable::SemiSync, true) => "rpl_semi_sync_replica",
        (ReplicaVariable::SemiSync, false) => "rpl_semi_sync_slave",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: W14
    /// Bug: 113, 114
    #[test]
    fn words_change_at_the_version_that_changed_them() {
        use Ask::{BinlogFiles, BinlogStatus, GtidPosition, ReplicaStatus, Replicas, ResetBinlog};
        let old = ["SHOW MASTER STATUS", "SHOW BINARY LOGS", "SHOW SLAVE HOSTS", "SHOW SLAVE STATUS", "RESET MASTER"];
        let middle = ["SHOW MASTER STATUS", "SHOW BINARY LOGS", "SHOW REPLICAS", "SHOW REPLICA STATUS", "RESET MASTER"];
        let new = [
            "SHOW BINARY LOG STATUS",
            "SHOW BINARY LOGS",
            "SHOW REPLICAS",
            "SHOW REPLICA STATUS",
            "RESET BINARY LOGS AND GTIDS",
        ];
        let maria = [
            "SHOW BINLOG STATUS",
            "SHOW BINARY LOGS",
            "SHOW REPLICA HOSTS",
            "SHOW ALL REPLICAS STATUS",
            "RESET MASTER",
        ];
        let maria_old =
            ["SHOW MASTER STATUS", "SHOW BINARY LOGS", "SHOW SLAVE HOSTS", "SHOW ALL SLAVES STATUS", "RESET MASTER"];
        for (text, want) in [
            ("5.6.24", old),
            ("5.7.44-log", old),
            ("8.0.21", old),
            ("8.0.22", middle),
            ("8.0.44", middle),
            ("8.1.0", middle),
            ("8.2.0", new),
            ("8.4.7", new),
            ("9.7.4", new),
            ("5.5.5-10.4.34-MariaDB", maria_old),
            ("5.5.5-10.5.23-MariaDB-log", maria),
            ("11.8.9-MariaDB", maria),
        ] {
            let version = ServerVersion::parse(text);
            let got =
                [BinlogStatus, BinlogFiles, Replicas, ReplicaStatus, ResetBinlog].map(|ask| statement(ask, version));
            assert_eq!(got, want, "{text}");
            assert_eq!(statement(GtidPosition, version).contains("gtid_binlog_pos"), version.is_mariadb(), "{text}");
        }
        for (text, want) in [("8.0.25", "slave_uuid"), ("8.0.26", "replica_uuid"), ("11.8.9-MariaDB", "slave_uuid")] {
            assert_eq!(variable(ReplicaVariable::Uuid, ServerVersion::parse(text)), want, "{text}");
        }
    }
}
