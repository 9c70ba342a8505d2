//! Which tables are meant.

use core::fmt;

/// How the server compares names (`lower_case_table_names`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the server knows exactly these two ways")]
pub enum NameCase {
    /// 0: `Shop` and `shop` are two databases.
    Sensitive,
    /// 1 and 2: they are one.
    Insensitive,
}

impl NameCase {
    /// From the value of `@@lower_case_table_names`.
    #[must_use]
    pub const fn from_lower_case_table_names(value: u64) -> Self {
        if value == 0 { Self::Sensitive } else { Self::Insensitive }
    }

    /// Whether two names are one.
    #[must_use]
    pub fn same(self, a: &str, b: &str) -> bool {
        match self {
            Self::Sensitive => a == b,
            Self::Insensitive => a == b || a.to_lowercase() == b.to_lowercase(),
        }
    }
}

/// `db.table` with `*` (any run of characters) and `?` (any one).
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    database: String,
    table: String,
}

impl Pattern {
    /// Parses `db.table`. The database ends at the first point, so a table's name may hold points.
    ///
    /// # Errors
    /// What is wrong, without the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('.') {
            Some((database, table)) if !database.is_empty() && !table.is_empty() => {
                Ok(Self { database: database.to_owned(), table: table.to_owned() })
            }
            _ => Err(format!("\"{text}\" is not db.table (\"shop.orders\", \"shop.*\", \"shop_?.tmp_*\")")),
        }
    }

    /// Whether it names one table: no `*` and no `?`.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !has_wildcard(&self.database) && !has_wildcard(&self.table)
    }

    /// The database part as written.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The table part as written.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Whether it means `database`.`table`.
    #[must_use]
    pub fn matches(&self, database: &str, table: &str, case: NameCase) -> bool {
        self.matches_database(database, case) && glob(&self.table, table, case)
    }

    /// Whether it may mean some table of `database`.
    #[must_use]
    pub fn matches_database(&self, database: &str, case: NameCase) -> bool {
        glob(&self.database, database, case)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

/// `source.tables`: what is captured. An exclusion (`!db.table`) always wins, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TablePatterns {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

/// Schemas of the server itself: never captured.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

impl TablePatterns {
    /// Parses the list; each error comes with the index of its entry.
    ///
    /// # Errors
    /// What is wrong with each bad entry.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, Vec<(usize, String)>> {
        let mut patterns = Self::default();
        let mut errors = Vec::new();
        for (i, text) in list.iter().enumerate() {
            let text = text.as_ref().trim();
            let (target, text) = match text.strip_prefix('!') {
                Some(rest) => (&mut patterns.exclude, rest),
                None => (&mut patterns.include, text),
            };
            match Pattern::parse(text) {
                Ok(p) if is_system(&p.database) => {
                    errors.push((i, format!("{} is a schema of the server itself and cannot be captured", p.database)));
                }
                Ok(p) => target.push(p),
                Err(e) => errors.push((i, e)),
            }
        }
        if errors.is_empty() { Ok(patterns) } else { Err(errors) }
    }

    /// Patterns that add tables, in the order written.
    #[must_use]
    pub fn include(&self) -> &[Pattern] {
        &self.include
    }

    /// Whether changes of `database`.`table` are captured.
    #[must_use]
    pub fn captures(&self, database: &str, table: &str, case: NameCase) -> bool {
        !is_system(database)
            && self.include.iter().any(|p| p.matches(database, table, case))
            && !self.exclude.iter().any(|p| p.matches(database, table, case))
    }

    /// Whether some table of `database` may be captured: for statements that name a whole database.
    #[must_use]
    pub fn may_capture_in(&self, database: &str, case: NameCase) -> bool {
        !is_system(database) && self.include.iter().any(|p| p.matches_database(database, case))
    }
}

fn is_system(database: &str) -> bool {
    SYSTEM.iter().any(|s| s.eq_ignore_ascii_case(database))
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Matches `*` and `?`, in time proportional to the product of the lengths at worst: one point to go back to is enough.
fn glob(pattern: &str, text: &str, case: NameCase) -> bool {
    if case == NameCase::Insensitive {
        return glob(&pattern.to_lowercase(), &text.to_lowercase(), NameCase::Sensitive);
    }
    let (mut p, mut t) = (pattern.chars(), text.chars());
    let mut back: Option<(core::str::Chars<'_>, core::str::Chars<'_>)> = None;
    loop {
        let t_before = t.clone();
        match (p.next(), t.next()) {
            (Some('*'), _) => {
                t = t_before;
                back = Some((p.clone(), t.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return true,
            _ => {
                let Some((after_star, from)) = &mut back else { return false };
                if from.next().is_none() {
                    return false;
                }
                p = after_star.clone();
                t = from.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NameCase::{Insensitive, Sensitive};
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything", true),
            ("tmp_*", "tmp_", true),
            ("tmp_*", "tmp", false),
            ("*_log", "orders_log", true),
            ("*_log", "log_log_", false),
            ("a*b*c", "a--b-b--c", true),
            ("a*b*c", "a--b-b--", false),
            ("t_?", "t_1", true),
            ("t_?", "t_", false),
            ("t_?", "t_é", true),
            ("**", "x", true),
            ("?*?", "x", false),
            ("?*?", "xy", true),
        ] {
            assert_eq!(glob(pattern, text, Sensitive), want, "{pattern} {text}");
        }
        assert!(!glob("Shop", "shop", Sensitive));
        assert!(glob("ShOP*", "shOp1", Insensitive));
    }

    #[test]
    fn an_exclusion_wins_wherever_it_stands() {
        let patterns = TablePatterns::parse(&["!shop.tmp_*", "shop.*", "crm.users"]).unwrap();
        assert!(patterns.captures("shop", "orders", Sensitive));
        assert!(!patterns.captures("shop", "tmp_1", Sensitive));
        assert!(patterns.captures("crm", "users", Sensitive));
        assert!(!patterns.captures("crm", "Users", Sensitive));
        assert!(patterns.captures("crm", "Users", Insensitive));
        assert!(!patterns.captures("crm", "other", Sensitive));
        assert!(patterns.may_capture_in("shop", Sensitive) && !patterns.may_capture_in("x", Sensitive));
    }

    #[test]
    fn the_servers_own_schemas_are_never_captured() {
        let all = TablePatterns::parse(&["*.*"]).unwrap();
        assert!(all.captures("shop", "a.b", Sensitive));
        assert!(!all.captures("mysql", "user", Sensitive));
        assert!(TablePatterns::parse(&["mysql.user"]).is_err());
        assert_eq!(TablePatterns::parse(&["ok.t", "orders", ".x"]).unwrap_err().len(), 2);
    }
}
