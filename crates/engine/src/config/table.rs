//! `[[table]]`: what holds for single tables.

use millstream_binlog::TableSchema;

use super::{NameCase, Pattern, TableMode};

/// One `[[table]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// Source tables it is about.
    pub pattern: Pattern,
    /// SQL condition: only rows that fulfil it are read by the snapshot.
    pub filter: Option<String>,
    /// Columns that never reach a target.
    pub exclude: Option<Vec<String>>,
    /// Columns by which rows are matched.
    pub key: Option<Vec<String>>,
    /// Mode of every target, whatever a route says.
    pub mode: Option<TableMode>,
}

/// All `[[table]]` sections, in the order written. Each setting of a table comes from the first section that matches it and
/// has the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRules(pub(super) Vec<TableRule>);

impl TableRules {
    fn first<'c, T>(
        &'c self,
        (database, table, case): (&str, &str, NameCase),
        setting: impl Fn(&'c TableRule) -> Option<T>,
    ) -> Option<T> {
        self.0.iter().filter(|rule| rule.pattern.matches(database, table, case)).find_map(setting)
    }

    /// The condition for rows of the snapshot.
    #[must_use]
    pub fn filter(&self, database: &str, table: &str, case: NameCase) -> Option<&str> {
        self.first((database, table, case), |rule| rule.filter.as_deref())
    }

    /// The columns that are to be the key.
    #[must_use]
    pub fn key(&self, database: &str, table: &str, case: NameCase) -> Option<&[String]> {
        self.first((database, table, case), |rule| rule.key.as_deref())
    }

    /// The mode of all targets.
    #[must_use]
    pub fn mode(&self, database: &str, table: &str, case: NameCase) -> Option<TableMode> {
        self.first((database, table, case), |rule| rule.mode)
    }

    /// Ordinals of the columns that are left out, ascending.
    ///
    /// # Errors
    /// Every column that cannot be left out: part of the key, the last one, or (where the section names this very table) none
    /// of its columns.
    pub fn excluded(&self, schema: &TableSchema, case: NameCase) -> Result<Vec<usize>, Vec<String>> {
        let place = (schema.database.as_str(), schema.table.as_str(), case);
        let Some((names, exact)) = self.first(place, |rule| Some((rule.exclude.as_deref()?, rule.pattern.is_exact())))
        else {
            return Ok(Vec::new());
        };
        let mut problems = Vec::new();
        let mut ordinals = Vec::new();
        for name in names {
            match schema.columns.iter().position(|c| same_column(&c.name, name)) {
                None if exact => problems.push(format!(
                    "table: {}.{} has no column \"{name}\" to exclude; its columns: {}",
                    schema.database,
                    schema.table,
                    column_names(schema, 0..schema.columns.len())
                )),
                None => {}
                Some(ordinal) if schema.key.contains(&ordinal) => problems.push(format!(
                    "table: {}.{}: the key column \"{name}\" cannot be excluded, as rows are matched by it; remove it from \
                     \"exclude\", or give another unique key in \"key\"",
                    schema.database, schema.table
                )),
                Some(ordinal) => ordinals.push(ordinal),
            }
        }
        ordinals.sort_unstable();
        ordinals.dedup();
        if problems.is_empty() && !schema.columns.is_empty() && ordinals.len() == schema.columns.len() {
            problems.push(format!("table: {}.{}: all of its columns are excluded", schema.database, schema.table));
        }
        if problems.is_empty() { Ok(ordinals) } else { Err(problems) }
    }

    /// Whether the table's key is what the configuration asks for; without a word about it, every key is.
    ///
    /// # Errors
    /// What is asked for and what there is.
    pub fn has_key(&self, schema: &TableSchema, case: NameCase) -> Result<(), String> {
        let Some(wanted) = self.key(&schema.database, &schema.table, case) else { return Ok(()) };
        if is_key(schema, &schema.key, wanted) {
            return Ok(());
        }
        Err(format!(
            "{}.{} was captured with the key ({}), and [[table]] asks for ({}): take \"key\" back, or begin with a new state \
             directory and on_existing = \"truncate\"",
            schema.database,
            schema.table,
            column_names(schema, schema.key.iter().copied()),
            wanted.join(", ")
        ))
    }

    /// Sections that match none of `tables`: written for nothing, worth a warning.
    pub fn unused<'a>(
        &'a self,
        tables: &'a [(String, String)],
        case: NameCase,
    ) -> impl Iterator<Item = &'a Pattern> + 'a {
        let matches = move |rule: &&TableRule| tables.iter().any(|(d, t)| rule.pattern.matches(d, t, case));
        self.0.iter().filter(move |rule| !matches(rule)).map(|rule| &rule.pattern)
    }
}

/// MySQL's column names compare without case, everywhere.
fn same_column(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// Whether the columns with these ordinals are the named ones, in any order.
pub(crate) fn is_key(schema: &TableSchema, ordinals: &[usize], names: &[String]) -> bool {
    let named = |i: &usize| schema.columns.get(*i).is_some_and(|c| names.iter().any(|n| same_column(&c.name, n)));
    !ordinals.is_empty() && ordinals.len() == names.len() && ordinals.iter().all(named)
}

/// Names of columns for a message.
pub(crate) fn column_names(schema: &TableSchema, ordinals: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<&str> =
        ordinals.into_iter().filter_map(|i| schema.columns.get(i)).map(|c| c.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use millstream_binlog::{Charset, Column, ColumnType};

    use super::NameCase::Sensitive;
    use super::*;

    fn schema(columns: &[&str], key: Vec<usize>) -> TableSchema {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            ty: ColumnType::Int { unsigned: false },
            nullable: false,
            charset: Charset::Binary,
            collation: 63,
        };
        TableSchema {
            database: "shop".to_owned(),
            table: "orders".to_owned(),
            columns: columns.iter().map(column).collect(),
            key,
        }
    }

    fn rule(pattern: &str) -> TableRule {
        let pattern = Pattern::parse(pattern).unwrap();
        TableRule { pattern, filter: None, exclude: None, key: None, mode: None }
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_setting_comes_from_the_first_section_that_has_it() {
        let rules = TableRules(vec![
            TableRule { filter: Some("a > 1".to_owned()), ..rule("shop.orders") },
            TableRule { filter: Some("b > 1".to_owned()), mode: Some(TableMode::Append), ..rule("shop.*") },
        ]);
        assert_eq!(rules.filter("shop", "orders", Sensitive), Some("a > 1"));
        assert_eq!(rules.mode("shop", "orders", Sensitive), Some(TableMode::Append));
        assert_eq!(rules.filter("shop", "items", Sensitive), Some("b > 1"));
        assert_eq!(rules.filter("crm", "items", Sensitive), None);
        let tables = [("shop".to_owned(), "items".to_owned())];
        let unused: Vec<String> = rules.unused(&tables, Sensitive).map(ToString::to_string).collect();
        assert_eq!(unused, ["shop.orders"]);
    }

    #[test]
    fn columns_that_cannot_be_left_out_are_named() {
        let schema = schema(&["id", "Secret", "note"], vec![0]);
        let excluded = |pattern: &str, names: &[&str]| {
            TableRules(vec![TableRule { exclude: Some(strings(names)), ..rule(pattern) }]).excluded(&schema, Sensitive)
        };
        assert_eq!(excluded("shop.orders", &["note", "secret", "note"]), Ok(vec![1, 2]));
        assert!(excluded("shop.orders", &["secrets"]).unwrap_err()[0].contains("its columns: id, Secret, note"));
        assert_eq!(excluded("shop.*", &["secrets"]), Ok(Vec::new()));
        assert!(excluded("shop.*", &["ID"]).unwrap_err()[0].contains("the key column \"ID\""));
        let keyless = TableSchema { key: Vec::new(), ..schema.clone() };
        let rules = TableRules(vec![TableRule { exclude: Some(strings(&["id", "secret", "note"])), ..rule("shop.*") }]);
        assert!(rules.excluded(&keyless, Sensitive).unwrap_err()[0].contains("all of its columns"));
    }

    #[test]
    fn a_key_is_the_same_in_any_order_and_case() {
        let schema = schema(&["a", "b", "c"], vec![1, 0]);
        let rules = |names: &[&str]| TableRules(vec![TableRule { key: Some(strings(names)), ..rule("shop.orders") }]);
        assert_eq!(rules(&["A", "b"]).has_key(&schema, Sensitive), Ok(()));
        for other in [&["a"][..], &["a", "c"], &["a", "b", "c"]] {
            let message = rules(other).has_key(&schema, Sensitive).unwrap_err();
            assert!(message.contains("the key (b, a)"), "{message}");
        }
    }
}
