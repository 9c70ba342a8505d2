//! Which target tables a source table has.

use core::fmt;

use super::{NameCase, Pattern};
pub use crate::delivery::TableMode;

/// One `[[route]]`: every route that matches a table gives it a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source tables it is about.
    pub pattern: Pattern,
    /// Target database with `{db}` and `{table}`.
    pub database: Template,
    /// Target table with `{db}` and `{table}`.
    pub table: Template,
    /// The targets' mode; None is `sink.mode`.
    pub mode: Option<TableMode>,
}

/// A name with `{db}` and `{table}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Database,
    Table,
}

impl Template {
    fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                pieces.push(Piece::Literal(before.to_owned()));
            }
            match after.split_once('}') {
                Some(("db", tail)) => {
                    pieces.push(Piece::Database);
                    rest = tail;
                }
                Some(("table", tail)) => {
                    pieces.push(Piece::Table);
                    rest = tail;
                }
                _ => return Err("only {db} and {table} may stand in braces".to_owned()),
            }
        }
        if rest.contains('}') {
            return Err("has \"}\" without \"{\"".to_owned());
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    fn fill(&self, database: &str, table: &str) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text.as_str(),
                Piece::Database => database,
                Piece::Table => table,
            })
            .collect()
    }
}

impl Route {
    /// Splits `to` at the first point outside braces and parses both sides.
    pub(super) fn parse_to(to: &str) -> Result<(Template, Template), String> {
        let form = "must be database.table, in which {db} and {table} may be used (\"ods.{table}_log\")";
        let Some((database, table)) = to.split_once('.') else { return Err(form.to_owned()) };
        if database.is_empty() || table.is_empty() || table.contains('.') {
            return Err(form.to_owned());
        }
        Ok((Template::parse(database)?, Template::parse(table)?))
    }
}

/// Where one source table goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Target database.
    pub database: String,
    /// Target table.
    pub table: String,
    /// How it keeps what it gets.
    pub mode: TableMode,
}

/// All routes and the mode of tables without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    pub(super) list: Vec<Route>,
    pub(super) default_mode: TableMode,
    /// `[[table]] mode`: the first that matches says the mode of all of a table's targets.
    pub(super) modes: Vec<(Pattern, TableMode)>,
}

/// Two source tables (or two routes of one) that would write into one target table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetClash {
    /// The target, `db.table`.
    pub target: String,
    /// The source tables, `db.table` each; equal when two routes of one table clash.
    pub sources: [String; 2],
}

impl fmt::Display for TargetClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, sources: [a, b] } = self;
        if a == b {
            write!(f, "route: two routes send {a} to {target}; remove one or give it another \"to\"")
        } else {
            write!(
                f,
                "route: {a} and {b} would both write to {target}; give each its own target, for example with {{db}} or \
                 {{table}} in \"to\""
            )
        }
    }
}

impl core::error::Error for TargetClash {}

impl Routes {
    /// The targets of one table: one per matching route in the order written, or `db.table` in the default mode.
    #[must_use]
    pub fn targets(&self, database: &str, table: &str, case: NameCase) -> Vec<Target> {
        let mode = self.modes.iter().find(|(pattern, _)| pattern.matches(database, table, case)).map(|(_, mode)| *mode);
        let routed: Vec<Target> = self
            .list
            .iter()
            .filter(|r| r.pattern.matches(database, table, case))
            .map(|r| Target {
                database: r.database.fill(database, table),
                table: r.table.fill(database, table),
                mode: mode.or(r.mode).unwrap_or(self.default_mode),
            })
            .collect();
        if routed.is_empty() {
            let mode = mode.unwrap_or(self.default_mode);
            return vec![Target { database: database.to_owned(), table: table.to_owned(), mode }];
        }
        routed
    }

    /// Finds targets that would be written twice. Doris' databases compare by case, its tables may not: names that
    /// differ by case alone count as one.
    #[must_use]
    pub fn clashes<'t>(
        &self,
        tables: impl IntoIterator<Item = (&'t str, &'t str)>,
        case: NameCase,
    ) -> Vec<TargetClash> {
        let mut seen = std::collections::BTreeMap::<(String, String), String>::new();
        let mut clashes = Vec::new();
        for (database, table) in tables {
            for target in self.targets(database, table, case) {
                let source = format!("{database}.{table}");
                let key = (target.database.to_lowercase(), target.table.to_lowercase());
                if let Some(other) = seen.insert(key, source.clone()) {
                    let target = format!("{}.{}", target.database, target.table);
                    clashes.push(TargetClash { target, sources: [other, source] });
                }
            }
        }
        clashes
    }

    /// Routes that match none of `tables`: written for nothing, worth a warning.
    pub fn unused<'a>(&'a self, tables: &'a [(String, String)], case: NameCase) -> impl Iterator<Item = &'a Route> {
        self.list.iter().filter(move |r| !tables.iter().any(|(d, t)| r.pattern.matches(d, t, case)))
    }
}

#[cfg(test)]
mod tests {
    use super::NameCase::Sensitive;
    use super::*;

    fn route(pattern: &str, to: &str, mode: TableMode) -> Route {
        let (database, table) = Route::parse_to(to).unwrap();
        Route { pattern: Pattern::parse(pattern).unwrap(), database, table, mode: Some(mode) }
    }

    #[test]
    fn every_matching_route_is_a_target() {
        let routes = Routes {
            list: vec![
                route("shop.orders", "ods.orders_log", TableMode::Append),
                route("shop.*", "dw_{db}.{table}", TableMode::Upsert),
            ],
            default_mode: TableMode::Upsert,
            modes: Vec::new(),
        };
        let names = |t: &str| -> Vec<String> {
            routes
                .targets("shop", t, Sensitive)
                .iter()
                .map(|t| format!("{}.{} {}", t.database, t.table, t.mode))
                .collect()
        };
        assert_eq!(names("orders"), ["ods.orders_log append", "dw_shop.orders upsert"]);
        assert_eq!(names("items"), ["dw_shop.items upsert"]);
        assert_eq!(routes.targets("crm", "users", Sensitive).len(), 1);
        assert_eq!(routes.targets("crm", "users", Sensitive)[0].database, "crm");
        let everywhere = [(Pattern::parse("*.*").unwrap(), TableMode::Append)];
        let routes = Routes { modes: everywhere.to_vec(), ..routes };
        for table in ["orders", "items", "others"] {
            assert!(routes.targets("shop", table, Sensitive).iter().all(|t| t.mode == TableMode::Append), "{table}");
        }
    }

    #[test]
    fn two_tables_into_one_target_clash() {
        let routes = Routes {
            list: vec![route("*.orders", "ods.orders", TableMode::Append)],
            default_mode: TableMode::Upsert,
            modes: Vec::new(),
        };
        let clashes = routes.clashes([("a", "orders"), ("b", "orders"), ("a", "x")], Sensitive);
        assert_eq!(clashes.len(), 1);
        assert_eq!(clashes[0].sources, ["a.orders", "b.orders"]);
        assert!(routes.clashes([("ods", "orders"), ("b", "x")], Sensitive).is_empty());
        let unrouted = routes.clashes([("a", "orders"), ("ods", "Orders")], Sensitive);
        assert_eq!(unrouted.len(), 1, "{unrouted:?}");
        assert_eq!(routes.unused(&[("x".into(), "y".into())], Sensitive).count(), 1);
    }

    #[test]
    fn templates_refuse_what_they_do_not_know() {
        for bad in ["orders", "ods.", ".x", "ods.{tabel}", "ods.{table", "ods.t}", "a.b.c"] {
            assert!(Route::parse_to(bad).is_err(), "{bad}");
        }
    }
}
