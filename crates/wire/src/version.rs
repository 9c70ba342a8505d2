use core::fmt;

use crate::flags::CapabilityFlags;

/// Whose server it is: the two went apart after 5.5 and differ in statements, GTIDs and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flavor {
    /// MySQL, and what is built from it (Percona Server, Aurora).
    MySql,
    /// MariaDB.
    MariaDb,
}

/// A server's version as numbers. Compare it by [`is_at_least`](Self::is_at_least), which knows the flavor.
///
/// ```
/// use millstream_wire::{Flavor, ServerVersion};
///
/// let version = ServerVersion::parse("5.5.5-10.11.18-MariaDB-log");
/// assert_eq!((version.flavor, version.major, version.minor, version.patch), (Flavor::MariaDb, 10, 11, 18));
/// assert!(ServerVersion::parse("8.0.36-28").is_at_least(Flavor::MySql, (8, 0, 22)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerVersion {
    /// Whose server it is.
    pub flavor: Flavor,
    /// The first number; 0 where the text has none.
    pub major: u16,
    /// The second number.
    pub minor: u16,
    /// The third number.
    pub patch: u16,
}

/// What MariaDB puts before its version from 10.0 to 10.11, since replicas of MySQL took "10" for older than "5"
/// (`RPL_VERSION_HACK` in MariaDB's `include/mysql_com.h`).
const MARIADB_PREFIX: &str = "5.5.5-";

impl ServerVersion {
    /// Reads a version text (of the greeting or of `SELECT VERSION()`). Never fails: what is no number counts as 0.
    ///
    /// A MariaDB that was built under a name of its own shows only in the greeting's capabilities: see
    /// [`from_greeting`](Self::from_greeting).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let named = text.to_ascii_lowercase().contains("mariadb");
        match text.strip_prefix(MARIADB_PREFIX) {
            // A real 5.5.5 with a suffix has no second version behind it.
            Some(rest) if named || rest.starts_with("10.") => Self::numbers(Flavor::MariaDb, rest),
            _ if named => Self::numbers(Flavor::MariaDb, text),
            _ => Self::numbers(Flavor::MySql, text),
        }
    }

    /// The version of a greeting. MariaDB leaves the capability LONG_PASSWORD out, which MySQL and its kin always set.
    #[must_use]
    pub fn from_greeting(text: &str, capabilities: CapabilityFlags) -> Self {
        let version = Self::parse(text);
        if capabilities.contains(CapabilityFlags::LONG_PASSWORD) || version.major < 10 {
            version
        } else {
            Self { flavor: Flavor::MariaDb, ..version }
        }
    }

    fn numbers(flavor: Flavor, text: &str) -> Self {
        let mut numbers = text.split(['.', '-', '_', '+', ' ']).map(|n| n.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { flavor, major: next(), minor: next(), patch: next() }
    }

    /// Whether this is a MariaDB.
    #[must_use]
    pub const fn is_mariadb(self) -> bool {
        matches!(self.flavor, Flavor::MariaDb)
    }

    /// Whether this is a server of that flavor, and of that version or a later one.
    #[must_use]
    pub fn is_at_least(self, flavor: Flavor, version: (u16, u16, u16)) -> bool {
        self.flavor == flavor && (self.major, self.minor, self.patch) >= version
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.flavor {
            Flavor::MySql => "MySQL",
            Flavor::MariaDb => "MariaDB",
        };
        write!(f, "{name} {}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_servers_write_them() {
        for (text, want) in [
            ("9.7.4", "MySQL 9.7.4"),
            ("5.6.24-log", "MySQL 5.6.24"),
            ("8.0.36-28", "MySQL 8.0.36"),
            ("8.0.44-0ubuntu0.24.04.1", "MySQL 8.0.44"),
            ("8.0.mysql_aurora.3.05.2", "MySQL 8.0.0"),
            ("5.7.12", "MySQL 5.7.12"),
            ("5.5.5", "MySQL 5.5.5"),
            ("5.5.5-m3", "MySQL 5.5.5"),
            ("5.5.5-10.11.18-MariaDB-log", "MariaDB 10.11.18"),
            ("5.5.5-10.5.23-MariaDB-0+deb11u1-log", "MariaDB 10.5.23"),
            ("5.5.5-10.6.17-custom", "MariaDB 10.6.17"),
            ("11.8.9-MariaDB-ubu2404", "MariaDB 11.8.9"),
            ("10.4.34-mariadb", "MariaDB 10.4.34"),
            ("", "MySQL 0.0.0"),
            ("99999999.1", "MySQL 0.1.0"),
        ] {
            assert_eq!(ServerVersion::parse(text).to_string(), want, "{text}");
        }
    }

    #[test]
    fn a_renamed_mariadb_shows_in_its_capabilities() {
        let mariadb = CapabilityFlags::PROTOCOL_41;
        let mysql = mariadb | CapabilityFlags::LONG_PASSWORD;
        assert!(ServerVersion::from_greeting("11.8.9-acme", mariadb).is_mariadb());
        assert!(!ServerVersion::from_greeting("11.8.9-acme", mysql).is_mariadb());
        assert!(!ServerVersion::from_greeting("8.0.36", mariadb).is_mariadb());
        assert!(ServerVersion::from_greeting("11.8.9-MariaDB", mysql).is_mariadb());
    }

    #[test]
    fn flavors_do_not_compare() {
        let maria = ServerVersion::parse("11.8.9-MariaDB");
        assert!(!maria.is_at_least(Flavor::MySql, (8, 0, 0)) && maria.is_at_least(Flavor::MariaDb, (10, 5, 2)));
        assert!(!ServerVersion::parse("8.0.21").is_at_least(Flavor::MySql, (8, 0, 22)));
        assert!(ServerVersion::parse("8.1.0").is_at_least(Flavor::MySql, (8, 0, 22)));
    }
}
