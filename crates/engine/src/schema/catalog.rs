//! The captured tables as the server's catalog describes them.

use core::fmt;
use std::collections::BTreeMap;

use millstream_binlog::TableSchema;
use millstream_wire::{Connection, Flavor, ResultSet, ServerVersion};

use super::column_type::{ColumnRow, column};
use super::default::{ColumnDefault, DefaultRow};
use crate::config::{NameCase, TablePatterns, TableRules, column_names, is_key};
use crate::key::{Collations, KeyCodec, UnsupportedKey, can_be_key};
use crate::snapshot::sql::quoted;

/// What is captured now.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// How the server compares names.
    pub case: NameCase,
    /// The tables, by database and name.
    pub tables: Vec<CatalogTable>,
    /// The collations of their keys, as far as only the server knows their order.
    pub collations: Collations,
    /// What is odd but no reason to stop: patterns that match nothing, views that were left out.
    pub warnings: Vec<String>,
    /// Tables that cannot be captured, and why, where [`read_known`] passed over them.
    pub left_out: Vec<(String, String, Vec<String>)>,
}

/// One captured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogTable {
    /// Its columns, invisible and generated ones included, and its primary key.
    pub schema: TableSchema,
    /// What each column is where the image of an inserted row lacks it.
    pub defaults: Vec<ColumnDefault>,
    /// Its storage engine.
    pub engine: String,
    /// A column of which the primary key holds only the beginning.
    pub prefix_column: Option<String>,
    /// The name of the unique index over NOT NULL columns that serves as the key, where that is not the primary key.
    pub index: Option<String>,
    /// Unique indexes over whole NOT NULL columns, by name.
    pub unique: Vec<UniqueIndex>,
}

/// A unique index over whole columns that are NOT NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// Its name.
    pub name: String,
    /// Ordinals of its columns in index order.
    pub columns: Vec<usize>,
}

impl CatalogTable {
    /// The codec of its key.
    ///
    /// # Errors
    /// No key, or one whose order is not known to be reproduced by bytes.
    pub fn key_codec(&self, collations: &Collations) -> Result<KeyCodec, UnsupportedKey> {
        match &self.prefix_column {
            Some(column) => Err(UnsupportedKey::prefix(&self.schema, column)),
            None => KeyCodec::new(&self.schema, collations),
        }
    }
}

/// The catalog could not be read, or does not hold what the configuration asks for.
#[derive(Debug)]
pub struct CatalogError(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Wire(millstream_wire::Error),
    Answer(&'static str),
    Tables(Vec<String>),
}

impl CatalogError {
    /// Problems with the configured tables, each with the way out; empty when the connection was the reason.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        match &*self.0 {
            Kind::Tables(problems) => problems,
            Kind::Wire(_) | Kind::Answer(_) => &[],
        }
    }

    /// The connection's error, when that was the reason.
    #[must_use]
    pub fn connection(&self) -> Option<&millstream_wire::Error> {
        match &*self.0 {
            Kind::Wire(e) => Some(e),
            Kind::Answer(_) | Kind::Tables(_) => None,
        }
    }

    /// Whether the connection failed in a way that may pass.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.connection().is_some_and(millstream_wire::Error::is_retryable)
    }

    fn answer(what: &'static str) -> Self {
        Self(Box::new(Kind::Answer(what)))
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Wire(_) => f.write_str("the source's catalog could not be read"),
            Kind::Answer(what) => write!(f, "the source's catalog does not make sense: {what}"),
            Kind::Tables(problems) => f.write_str(&problems.join("\n")),
        }
    }
}

impl core::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &*self.0 {
            Kind::Wire(e) => Some(e),
            Kind::Answer(_) | Kind::Tables(_) => None,
        }
    }
}

impl From<millstream_wire::Error> for CatalogError {
    fn from(e: millstream_wire::Error) -> Self {
        Self(Box::new(Kind::Wire(e)))
    }
}

/// Generated invisible keys are in the log whether or not the catalog shows them. (A MariaDB takes what is in a comment for
/// MySQL 8 as meant for it.)
fn setup(version: ServerVersion) -> &'static str {
    if version.is_at_least(Flavor::MySql, (8, 0, 30)) {
        "SET SESSION show_gipk_in_create_table_and_information_schema = ON, SESSION sql_mode = ''"
    } else {
        "SET SESSION sql_mode = ''"
    }
}

/// A condition on `information_schema.STATISTICS`: an index that the optimizer must not use cannot be forced.
fn usable(version: ServerVersion) -> &'static str {
    if version.is_at_least(Flavor::MySql, (8, 0, 0)) {
        "AND (INDEX_NAME = 'PRIMARY' OR IS_VISIBLE = 'YES')"
    } else if version.is_at_least(Flavor::MariaDb, (10, 6, 0)) {
        "AND (INDEX_NAME = 'PRIMARY' OR IGNORED = 'NO')"
    } else {
        ""
    }
}

/// Reads the captured tables. The connection's results must be in utf8mb4, as they are after connecting.
///
/// # Errors
/// The connection breaks, or tables cannot be captured: all of them at once.
pub async fn read(connection: &mut Connection, patterns: &TablePatterns) -> Result<Catalog, CatalogError> {
    read_with(connection, patterns, &TableRules::default()).await
}

/// The same with the keys that `rules` choose.
///
/// # Errors
/// As [`read`]; a key that is no unique index over NOT NULL columns is one more reason.
pub async fn read_with(
    connection: &mut Connection,
    patterns: &TablePatterns,
    rules: &TableRules,
) -> Result<Catalog, CatalogError> {
    read_known(connection, patterns, rules, |_, _| true).await
}

/// Whether a base table of this name is there, for this user.
///
/// # Errors
/// The connection breaks.
pub async fn exists(
    connection: &mut Connection,
    database: &str,
    table: &str,
    case: NameCase,
) -> Result<bool, millstream_wire::Error> {
    let statement = format!(
        "SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND \
         TABLE_SCHEMA = {} AND TABLE_NAME = {}",
        text_literal(database),
        text_literal(table)
    );
    let rows = connection.query_all(&statement).await?;
    let same = |row: &usize| {
        rows.text(*row, "d").is_some_and(|d| case.same(d, database))
            && rows.text(*row, "t").is_some_and(|t| case.same(t, table))
    };
    Ok((0..rows.len()).any(|row| same(&row)))
}

/// The same, but a table that is not `known` and cannot be captured is left out and is no reason to stop.
///
/// # Errors
/// As [`read_with`].
pub async fn read_known(
    connection: &mut Connection,
    patterns: &TablePatterns,
    rules: &TableRules,
    known: impl Fn(&str, &str) -> bool,
) -> Result<Catalog, CatalogError> {
    connection.execute(setup(connection.version())).await?;
    let case = connection.query_all("SELECT @@GLOBAL.lower_case_table_names").await?;
    let case = case.scalar().and_then(|n| n.parse().ok()).map(NameCase::from_lower_case_table_names);
    let case = case.ok_or_else(|| CatalogError::answer("lower_case_table_names is no number"))?;
    let listed = connection
        .query_all(
            "SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, TABLE_TYPE AS k, ENGINE AS e FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') ORDER BY 1, 2",
        )
        .await?;
    let listed: Vec<Listed> = (0..listed.len())
        .filter_map(|row| {
            Some(Listed {
                database: listed.text(row, "d")?.to_owned(),
                table: listed.text(row, "t")?.to_owned(),
                base: listed.text(row, "k")? == "BASE TABLE",
                engine: listed.text(row, "e").unwrap_or_default().to_owned(),
            })
        })
        .collect();
    let Selection { chosen, mut problems, warnings } = select(patterns, case, &listed);
    let ids = collations(connection).await?;
    let mut tables: Vec<CatalogTable> = Vec::new();
    let mut left_out = Vec::new();
    for listed in chosen {
        let key = rules.key(&listed.database, &listed.table, case);
        let found = table(connection, listed, &ids).await?.and_then(|mut table| {
            match key.map_or(Ok(()), |columns| choose_key(&mut table, columns)) {
                Ok(()) => Ok(table),
                Err(problem) => Err(vec![problem]),
            }
        });
        match found {
            Ok(table) => tables.push(table),
            Err(mut found) if known(&listed.database, &listed.table) => problems.append(&mut found),
            Err(found) => left_out.push((listed.database.clone(), listed.table.clone(), found)),
        }
    }
    if problems.is_empty() {
        let collations = Collations::read(connection, tables.iter().map(|t| &t.schema)).await?;
        Ok(Catalog { case, tables, collations, warnings, left_out })
    } else {
        Err(CatalogError(Box::new(Kind::Tables(problems))))
    }
}

/// A row of `information_schema.TABLES`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    database: String,
    table: String,
    base: bool,
    engine: String,
}

struct Selection<'a> {
    chosen: Vec<&'a Listed>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

/// Chooses base tables; says which patterns found nothing.
fn select<'a>(patterns: &TablePatterns, case: NameCase, listed: &'a [Listed]) -> Selection<'a> {
    let chosen: Vec<&Listed> =
        listed.iter().filter(|l| l.base && patterns.captures(&l.database, &l.table, case)).collect();
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for pattern in patterns.include() {
        let mut matching = listed.iter().filter(|l| pattern.matches(&l.database, &l.table, case)).peekable();
        match (matching.peek(), pattern.is_exact()) {
            (None, true) => problems.push(format!(
                "source.tables: the table {pattern} does not exist, or this user may not see it; create it, correct the \
                 name, or GRANT SELECT ON {}.{} TO the user",
                quoted(pattern.database()),
                quoted(pattern.table())
            )),
            (None, false) => warnings.push(format!("source.tables: no table matches \"{pattern}\"")),
            (Some(_), exact) => {
                let views: Vec<&Listed> = matching.filter(|l| !l.base).collect();
                match views.first() {
                    Some(_) if exact => {
                        problems.push(format!("source.tables: {pattern} is no base table but a view or a sequence"));
                    }
                    Some(_) => {
                        warnings.push(format!("\"{pattern}\": {} view(s) or sequence(s) are left out", views.len()));
                    }
                    None => {}
                }
            }
        }
    }
    if chosen.is_empty() && problems.is_empty() {
        problems.push(
            "source.tables: no table to capture: no pattern matches a table that this user may see, or exclusions take \
             them all"
                .to_owned(),
        );
    }
    Selection { chosen, problems, warnings }
}

async fn collations(connection: &mut Connection) -> Result<BTreeMap<String, u16>, CatalogError> {
    // A MariaDB's UCA collations are there for many character sets, under one short name.
    let statement = if connection.version().is_at_least(Flavor::MariaDb, (10, 10, 0)) {
        "SELECT FULL_COLLATION_NAME AS n, ID AS i FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    } else {
        "SELECT COLLATION_NAME AS n, ID AS i FROM information_schema.COLLATIONS"
    };
    let rows = connection.query_all(statement).await?;
    Ok((0..rows.len())
        .filter_map(|row| Some((rows.text(row, "n")?.to_owned(), rows.text(row, "i")?.parse().ok()?)))
        .collect())
}

async fn table(
    connection: &mut Connection,
    listed: &Listed,
    collations: &BTreeMap<String, u16>,
) -> Result<Result<CatalogTable, Vec<String>>, CatalogError> {
    let Listed { database, table, engine, .. } = listed;
    let place = format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", text_literal(database), text_literal(table));
    let columns = connection
        .query_all(&format!(
            "SELECT COLUMN_NAME AS name, IS_NULLABLE AS nullable, DATA_TYPE AS data_type, COLUMN_TYPE AS column_type, \
             CHARACTER_MAXIMUM_LENGTH AS characters, CHARACTER_OCTET_LENGTH AS octets, NUMERIC_PRECISION AS p, \
             NUMERIC_SCALE AS s, DATETIME_PRECISION AS fsp, CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation, \
             COLUMN_DEFAULT AS dflt, EXTRA AS extra \
             FROM information_schema.COLUMNS WHERE {place} ORDER BY ORDINAL_POSITION"
        ))
        .await?;
    // An expression has no column name.
    let indexes = connection
        .query_all(&format!(
            "SELECT INDEX_NAME AS i, COLUMN_NAME AS name, SUB_PART AS part FROM information_schema.STATISTICS WHERE {place} \
             AND NON_UNIQUE = 0 {} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
            usable(connection.version())
        ))
        .await?;
    let mut problems = Vec::new();
    let mut schema =
        TableSchema { database: database.clone(), table: table.clone(), columns: Vec::new(), key: Vec::new() };
    let mut defaults = Vec::new();
    let mariadb = connection.version().is_mariadb();
    for row in 0..columns.len() {
        match column(&column_row(&columns, row, collations)) {
            Ok(column) => {
                let (text, extra) = (columns.text(row, "dflt"), columns.text(row, "extra").unwrap_or_default());
                defaults.push(ColumnDefault::new(&column, DefaultRow { text, extra, mariadb }));
                schema.columns.push(column);
            }
            Err(problem) => problems.push(format!(
                "{database}.{table}: {problem}; exclude the table with \"!{database}.{table}\" in source.tables"
            )),
        }
    }
    if schema.columns.is_empty() && problems.is_empty() {
        problems.push(format!(
            "{database}.{table}: its columns are not visible; GRANT SELECT ON {}.{} TO the user",
            quoted(database),
            quoted(table)
        ));
    }
    let parts: Vec<IndexPart<'_>> = (0..indexes.len())
        .map(|row| IndexPart {
            index: indexes.text(row, "i").unwrap_or_default(),
            column: indexes.text(row, "name"),
            whole: indexes.value(row, "part").is_none(),
        })
        .collect();
    let Keys { key, index, prefix_column, unique } = keys(&schema, &parts);
    schema.key = key;
    if problems.is_empty() {
        Ok(Ok(CatalogTable { schema, defaults, engine: engine.clone(), prefix_column, index, unique }))
    } else {
        Ok(Err(problems))
    }
}

/// A row of `information_schema.STATISTICS`.
#[derive(Clone, Copy, Debug)]
struct IndexPart<'a> {
    index: &'a str,
    column: Option<&'a str>,
    whole: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Keys {
    key: Vec<usize>,
    index: Option<String>,
    prefix_column: Option<String>,
    unique: Vec<UniqueIndex>,
}

/// The key by which rows are matched: the primary key; without one the unique index over NOT NULL columns that has the
/// fewest, and of several the one whose name comes first. One of types that can be a key is preferred.
fn keys(schema: &TableSchema, parts: &[IndexPart<'_>]) -> Keys {
    let mut keys = Keys::default();
    let ordinal = |part: &IndexPart<'_>| schema.columns.iter().position(|c| Some(c.name.as_str()) == part.column);
    for index in parts.chunk_by(|a, b| a.index == b.index) {
        let Some(name) = index.first().map(|part| part.index) else { continue };
        let columns: Vec<usize> = index.iter().filter_map(ordinal).collect();
        if name == "PRIMARY" {
            keys.prefix_column = index.iter().rev().find(|p| !p.whole).and_then(|p| p.column).map(str::to_owned);
            keys.key = columns;
            continue;
        }
        let not_null = columns.iter().all(|i| schema.columns.get(*i).is_some_and(|c| !c.nullable));
        if columns.len() == index.len() && not_null && index.iter().all(|part| part.whole) {
            keys.unique.push(UniqueIndex { name: name.to_owned(), columns });
        }
    }
    if keys.key.is_empty() {
        let fit = |index: &&UniqueIndex| {
            let columns = || index.columns.iter().filter_map(|i| schema.columns.get(*i));
            (!columns().all(can_be_key), index.columns.len(), index.name.clone())
        };
        if let Some(chosen) = keys.unique.iter().min_by_key(fit) {
            keys.key.clone_from(&chosen.columns);
            keys.index = Some(chosen.name.clone());
        }
    }
    keys
}

/// Makes `columns` the table's key.
fn choose_key(table: &mut CatalogTable, columns: &[String]) -> Result<(), String> {
    let CatalogTable { schema, index, prefix_column, unique, .. } = table;
    if is_key(schema, &schema.key, columns) && prefix_column.is_none() {
        return Ok(());
    }
    if let Some(chosen) = unique.iter().find(|u| is_key(schema, &u.columns, columns)) {
        schema.key.clone_from(&chosen.columns);
        *index = Some(chosen.name.clone());
        *prefix_column = None;
        return Ok(());
    }
    let there: Vec<String> =
        unique.iter().map(|u| format!("{} ({})", u.name, column_names(schema, u.columns.iter().copied()))).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(format!(
        "table: {}.{}: key ({}) is neither the primary key nor a unique index over these columns, whole, NOT NULL and \
         visible; such indexes there: {there}. Create one, or take \"key\" out of [[table]]",
        schema.database,
        schema.table,
        columns.join(", ")
    ))
}

fn column_row<'a>(rows: &'a ResultSet, row: usize, collations: &BTreeMap<String, u16>) -> ColumnRow<'a> {
    let number = |name| rows.text(row, name).and_then(|n| n.parse().ok());
    ColumnRow {
        name: rows.text(row, "name").unwrap_or_default(),
        nullable: rows.text(row, "nullable") == Some("YES"),
        data_type: rows.text(row, "data_type").unwrap_or_default(),
        column_type: rows.text(row, "column_type").unwrap_or_default(),
        characters: number("characters"),
        octets: number("octets"),
        precision: number("p"),
        scale: number("s"),
        fsp: number("fsp"),
        charset: rows.text(row, "charset"),
        collation: rows.text(row, "collation").and_then(|name| collations.get(name).copied()),
    }
}

/// A string literal that needs no escaping. Names are utf8mb3 in the catalog.
fn text_literal(text: &str) -> String {
    let mut literal = String::from("_utf8mb4 X'");
    for b in text.bytes() {
        literal.extend(char::from_digit(u32::from(b >> 4), 16));
        literal.extend(char::from_digit(u32::from(b & 15), 16));
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use millstream_binlog::{Charset, Column, ColumnType};

    use super::*;

    fn listed(names: &[&str]) -> Vec<Listed> {
        names
            .iter()
            .map(|name| {
                let (base, name) = name.strip_prefix("view ").map_or((true, *name), |n| (false, n));
                let (database, table) = name.split_once('.').unwrap();
                let engine = "InnoDB".to_owned();
                Listed { database: database.to_owned(), table: table.to_owned(), base, engine }
            })
            .collect()
    }

    #[test]
    fn patterns_choose_tables_and_say_what_they_miss() {
        let all = listed(&["crm.users", "shop.items", "shop.orders", "view shop.report", "shop.tmp_1"]);
        for (patterns, chosen, problems, warnings) in [
            (vec!["shop.*", "!shop.tmp_*"], vec!["items", "orders"], 0, 1),
            (vec!["crm.users", "crm.leads"], vec!["users"], 1, 0),
            (vec!["crm.*", "other.*"], vec!["users"], 0, 1),
            (vec!["other.*"], vec![], 1, 1),
            (vec!["shop.report"], vec![], 1, 0),
            (vec!["crm.users", "!crm.*"], vec![], 1, 0),
        ] {
            let parsed = TablePatterns::parse(&patterns).unwrap();
            let selection = select(&parsed, NameCase::Sensitive, &all);
            let names: Vec<&str> = selection.chosen.iter().map(|l| l.table.as_str()).collect();
            assert_eq!(names, chosen, "{patterns:?}");
            assert_eq!(selection.problems.len(), problems, "{patterns:?} {:?}", selection.problems);
            assert_eq!(selection.warnings.len(), warnings, "{patterns:?} {:?}", selection.warnings);
        }
    }

    #[test]
    fn a_unique_index_serves_where_there_is_no_primary_key() {
        let column = |name: &str, ty: ColumnType, nullable| Column {
            name: name.to_owned(),
            ty,
            nullable,
            charset: Charset::Binary,
            collation: 63,
        };
        let int = || ColumnType::Int { unsigned: false };
        let schema = TableSchema {
            database: "d".to_owned(),
            table: "t".to_owned(),
            columns: vec![
                column("a", int(), false),
                column("b", int(), false),
                column("n", int(), true),
                column("f", ColumnType::Double, false),
            ],
            key: Vec::new(),
        };
        let part = |index, column, whole| IndexPart { index, column, whole };
        for (parts, key, index, unique) in [
            (vec![part("PRIMARY", Some("b"), true), part("u", Some("a"), true)], vec![1], None, 1),
            (
                vec![part("u", Some("a"), true), part("u", Some("b"), true), part("v", Some("b"), true)],
                vec![1],
                Some("v"),
                2,
            ),
            (vec![part("v", Some("b"), true), part("w", Some("a"), true)], vec![1], Some("v"), 2),
            // A floating-point number is the last choice.
            (
                vec![part("a", Some("f"), true), part("b", Some("a"), true), part("b", Some("b"), true)],
                vec![0, 1],
                Some("b"),
                2,
            ),
            (vec![part("a", Some("f"), true)], vec![3], Some("a"), 1),
            // NULLs, beginnings and expressions make no key.
            (vec![part("n", Some("n"), true)], vec![], None, 0),
            (vec![part("p", Some("a"), false)], vec![], None, 0),
            (vec![part("e", None, true), part("e", Some("a"), true)], vec![], None, 0),
            (vec![], vec![], None, 0),
        ] {
            let found = keys(&schema, &parts);
            assert_eq!((found.key, found.index.as_deref(), found.unique.len()), (key, index, unique), "{parts:?}");
        }
    }

    #[test]
    fn names_are_hexadecimal_in_statements() {
        assert_eq!(text_literal("a'é"), "_utf8mb4 X'6127c3a9'");
    }
}
