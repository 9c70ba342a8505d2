//! Foreign keys that change rows of a captured table without a word in the log.

use millstream_wire::{Connection, Error};

use super::facts::Facts;
use crate::schema::catalog::Catalog;

/// A foreign key with an action that changes the rows of its own table when its parent's change.
#[derive(Debug)]
struct Key {
    database: String,
    table: String,
    name: String,
    on_update: String,
    on_delete: String,
}

const STATEMENT: &str = "SELECT CONSTRAINT_SCHEMA AS db, TABLE_NAME AS tbl, CONSTRAINT_NAME AS name, UPDATE_RULE AS on_update, \
                         DELETE_RULE AS on_delete FROM information_schema.REFERENTIAL_CONSTRAINTS \
                         WHERE UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
                         OR DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') ORDER BY 1, 2, 3";

/// One warning for each captured table whose rows InnoDB changes by itself.
pub(super) async fn warnings(
    connection: &mut Connection,
    facts: &Facts,
    catalog: &Catalog,
) -> Result<Vec<String>, Error> {
    let rows = connection.query_all(STATEMENT).await?;
    let text = |row, column| rows.text(row, column).unwrap_or_default().to_owned();
    let keys: Vec<Key> = (0..rows.len())
        .map(|row| Key {
            database: text(row, "db"),
            table: text(row, "tbl"),
            name: text(row, "name"),
            on_update: text(row, "on_update"),
            on_delete: text(row, "on_delete"),
        })
        .collect();
    let same = |a: &str, b: &str| catalog.case.same(a, b);
    let captured = |database: &str, table: &str| {
        catalog.tables.iter().any(|t| same(&t.schema.database, database) && same(&t.schema.table, table))
    };
    Ok(told(&keys, are_logged(facts.setting("innodb_native_foreign_keys")), captured))
}

/// From 9.6 on the SQL layer carries out what a foreign key asks for, and logs it; InnoDB, which did before, does not. The
/// setting that brings the old way back is not there on older servers.
fn are_logged(native: &str) -> bool {
    native.eq_ignore_ascii_case("OFF") || native == "0"
}

fn told(keys: &[Key], logged: bool, captured: impl Fn(&str, &str) -> bool) -> Vec<String> {
    if logged {
        return Vec::new();
    }
    let acts = |rule: &str| !matches!(rule, "NO ACTION" | "RESTRICT");
    let told = keys.iter().filter(|k| captured(&k.database, &k.table)).map(|k| {
        let mut actions = Vec::new();
        if acts(&k.on_delete) {
            actions.push(format!("ON DELETE {}", k.on_delete));
        }
        if acts(&k.on_update) {
            actions.push(format!("ON UPDATE {}", k.on_update));
        }
        format!(
            "the foreign key {} of {}.{} is {}: this server does not log the rows that it changes, so the target drifts \
             away from them. Make it RESTRICT and change the rows by statements, or use MySQL 9.6 or later",
            k.name,
            k.database,
            k.table,
            actions.join(" ")
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: E16
    #[test]
    fn only_captured_tables_on_servers_that_log_no_cascades_are_told_of() {
        let key = |table: &str, on_update: &str, on_delete: &str| Key {
            database: "shop".into(),
            table: table.into(),
            name: format!("fk_{table}"),
            on_update: on_update.into(),
            on_delete: on_delete.into(),
        };
        let keys = [
            key("items", "NO ACTION", "CASCADE"),
            key("notes", "CASCADE", "SET NULL"),
            key("other", "SET DEFAULT", "RESTRICT"),
        ];
        let captured = |_: &str, table: &str| table != "other";
        let warnings = told(&keys, are_logged(""), captured);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].starts_with("the foreign key fk_items of shop.items is ON DELETE CASCADE: "),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("shop.notes is ON DELETE SET NULL ON UPDATE CASCADE: "), "{warnings:?}");
        assert_eq!(told(&keys, are_logged("ON"), |_, _| true).len(), 3);
        assert_eq!(told(&keys, are_logged("OFF"), |_, _| true), Vec::<String>::new());
    }
}
