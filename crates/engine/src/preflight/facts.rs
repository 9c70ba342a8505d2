//! What the source says about itself, and whether that will do.

use std::collections::BTreeMap;

use millstream_wire::{Connection, Error, Flavor, ServerVersion};

use crate::delivery::SourceKind;

/// Settings of the server by name; those it does not know are absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) version: String,
    settings: BTreeMap<String, String>,
    /// Databases that alone are logged, and databases that are not (`binlog_do_db`, `binlog_ignore_db`).
    pub(super) logged_only: Vec<String>,
    pub(super) not_logged: Vec<String>,
}

const SETTINGS: [&str; 19] = [
    "binlog_expire_logs_auto_purge",
    "binlog_expire_logs_seconds",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_space_limit",
    "enforce_gtid_consistency",
    "expire_logs_days",
    "gtid_mode",
    "innodb_native_foreign_keys",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "max_binlog_total_size",
    "server_id",
    "server_uuid",
    "version",
    "version_comment",
];

impl Facts {
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, Error> {
        let names: Vec<String> = SETTINGS.iter().map(|name| format!("'{name}'")).collect();
        let statement = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
        let rows = connection.query_all(&statement).await?;
        let settings = (0..rows.len())
            .filter_map(|row| Some((rows.text(row, "Variable_name")?.to_owned(), rows.text(row, "Value")?.to_owned())))
            .collect();
        Ok(Self { version: connection.server_version().to_owned(), settings, ..Self::default() })
    }

    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.setting(name).to_ascii_uppercase().as_str(), "ON" | "1")
    }

    /// A server that is not supported at all: nothing else about it is worth a message.
    pub(super) fn wrong_server(&self) -> Option<String> {
        let number = self.number();
        let oldest = if number.is_mariadb() { (10, 2, 0) } else { (5, 6, 5) };
        (!number.is_at_least(number.flavor, oldest)).then(|| {
            format!(
                "the source is {number} ({}), which is not supported: MySQL 5.6 or later and MariaDB 10.2 or later are",
                self.version
            )
        })
    }

    /// The server's version as numbers.
    pub(super) fn number(&self) -> ServerVersion {
        let number = ServerVersion::parse(&self.version);
        let renamed = self.setting("version_comment").contains("MariaDB");
        if renamed { ServerVersion { flavor: Flavor::MariaDb, ..number } } else { number }
    }

    /// By what a new pipeline will know the server's transactions.
    pub(super) fn kind(&self) -> SourceKind {
        if self.is_on("gtid_mode") { SourceKind::Gtid } else { SourceKind::Position }
    }

    /// The server's name and version.
    pub(super) fn server(&self) -> String {
        format!("{} {}", if self.number().is_mariadb() { "MariaDB" } else { "MySQL" }, self.version)
    }

    /// Which server it is.
    pub(super) fn identity(&self) -> String {
        match self.setting("server_uuid") {
            "" => format!("server_id {}", self.setting("server_id")),
            uuid => format!("server_uuid {uuid}"),
        }
    }

    /// The statement that changes a setting for good.
    fn set(&self, name: &str, value: &str) -> String {
        if self.number().is_at_least(Flavor::MySql, (8, 0, 0)) {
            format!("SET PERSIST {name} = {value}")
        } else {
            format!("SET GLOBAL {name} = {value}, and the same in the server's option file")
        }
    }

    /// Settings that must be other than they are, each with the statement that changes it.
    pub(super) fn problems(&self, our_server_id: u32) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.is_on("log_bin") {
            problems.push(
                "the source writes no binary log (log_bin = OFF): start it with log_bin and without skip-log-bin"
                    .to_owned(),
            );
            // Nothing below has a meaning without a log.
            return problems;
        }
        let want = |name: &str, wanted: &str, why: &str| {
            let is = self.setting(name);
            (!is.eq_ignore_ascii_case(wanted)).then(|| {
                format!(
                    "{name} = '{is}' on the source, but {why}: {}, and reconnect the clients that write, as their sessions \
                     keep the old value",
                    self.set(name, &format!("'{wanted}'"))
                )
            })
        };
        problems.extend(want("binlog_format", "ROW", "changes must be logged as rows"));
        match self.setting("server_id") {
            "0" => problems.push(format!("server_id = 0 on the source: {}", self.set("server_id", "1"))),
            id if id == our_server_id.to_string() => problems.push(format!(
                "source.server_id: {id} is the source's own server id; choose another, or remove the key"
            )),
            _ => {}
        }
        problems
    }

    /// Whether changes that this server gets as a replica are missing from its log.
    pub(super) fn hides_upstream(&self) -> bool {
        ["log_replica_updates", "log_slave_updates"].iter().any(|name| self.setting(name).eq_ignore_ascii_case("OFF"))
    }

    /// Whether the log leaves a database out (`binlog_do_db`, `binlog_ignore_db`).
    pub(super) fn leaves_out(&self, database: &str) -> bool {
        (!self.logged_only.is_empty() && !self.logged_only.iter().any(|d| d == database))
            || self.not_logged.iter().any(|d| d == database)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::preflight) fn facts(version: &str, changes: &[(&str, &str)]) -> Facts {
        let mut settings: BTreeMap<String, String> = [
            ("log_bin", "ON"),
            ("binlog_format", "ROW"),
            ("binlog_row_image", "FULL"),
            ("binlog_row_value_options", "PARTIAL_JSON"),
            ("gtid_mode", "ON"),
            ("server_id", "1"),
            ("binlog_expire_logs_seconds", "2592000"),
            ("log_replica_updates", "ON"),
        ]
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
        settings.extend(changes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        Facts { version: version.to_owned(), settings, ..Facts::default() }
    }

    #[test]
    fn each_setting_has_its_own_message_and_way_out() {
        assert_eq!(facts("9.7.4", &[]).problems(7), Vec::<String>::new());
        for (change, want) in [
            (("log_bin", "OFF"), "log_bin = OFF"),
            (("binlog_format", "MIXED"), "SET PERSIST binlog_format = 'ROW'"),
            (("server_id", "0"), "server_id = 0"),
            (("server_id", "7"), "source.server_id: 7"),
        ] {
            let problems = facts("9.7.4", &[change]).problems(7);
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].contains(want), "{problems:?}");
        }
        let all = [("binlog_format", "STATEMENT"), ("gtid_mode", "OFF")];
        assert_eq!(facts("8.0.36", &all).problems(7).len(), 1);
        let old = facts("5.6.24", &[("binlog_format", "MIXED"), ("server_id", "0")]).problems(7);
        assert!(old[0].contains("SET GLOBAL binlog_format = 'ROW', and the same in"), "{old:?}");
        assert!(old[1].contains("SET GLOBAL server_id = 1"), "{old:?}");
        assert!(facts("8.0.36", &[("log_replica_updates", "OFF")]).hides_upstream());
        assert!(!facts("8.0.36", &[]).hides_upstream());
    }

    #[test]
    fn servers_that_are_not_supported_are_named() {
        for (version, comment, wrong) in [
            ("9.7.4", "MySQL Community Server - GPL", None),
            ("8.0.36-28", "Percona Server (GPL)", None),
            ("5.6.24", "MySQL", None),
            ("5.5.62-log", "MySQL", Some("MySQL 5.5.62 (5.5.62-log)")),
            ("5.5.5-10.5.23-MariaDB-log", "Debian", None),
            ("11.8.9", "mariadb.org; MariaDB Server", None),
            ("5.5.5-10.1.48-MariaDB", "MariaDB", Some("MariaDB 10.1.48")),
        ] {
            let found = facts(version, &[("version_comment", comment)]).wrong_server();
            assert_eq!(found.is_some(), wrong.is_some(), "{version}: {found:?}");
            assert!(found.unwrap_or_default().contains(wrong.unwrap_or_default()));
        }
    }

    #[test]
    fn a_server_is_known_by_its_gtids_only_when_all_transactions_have_one() {
        for (mode, kind) in [
            ("ON", SourceKind::Gtid),
            ("ON_PERMISSIVE", SourceKind::Position),
            ("OFF_PERMISSIVE", SourceKind::Position),
            ("OFF", SourceKind::Position),
            ("", SourceKind::Position),
        ] {
            assert_eq!(facts("9.7.4", &[("gtid_mode", mode)]).kind(), kind, "{mode}");
        }
    }

    #[test]
    fn filters_of_the_log_are_noticed() {
        let mut facts = facts("9.7.4", &[]);
        assert!(!facts.leaves_out("shop"));
        facts.not_logged = vec!["tmp".to_owned()];
        assert!(facts.leaves_out("tmp") && !facts.leaves_out("shop"));
        facts.logged_only = vec!["shop".to_owned()];
        assert!(facts.leaves_out("crm") && !facts.leaves_out("shop"));
    }
}
