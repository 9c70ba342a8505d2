//! A target table: what it must look like, how it is created, and how an existing one differs.

use core::fmt;

use millstream_binlog::{ColumnType, TableSchema};

use crate::types::{DorisType, RefusedColumn, doris_type};

/// The hidden column of UNIQUE tables that marks a row as deleted.
pub const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";
/// The hidden column of UNIQUE tables that decides which of two rows of a key wins.
pub const SEQUENCE_COL: &str = "__DORIS_SEQUENCE_COL__";
/// The append key column.
pub const APPEND_SEQ: &str = "_ms_seq";

/// How changes become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the two modes differ everywhere; a third has to be a compile error")]
pub enum Mode {
    /// UNIQUE KEY, merge-on-write: the last change of a key wins.
    Upsert,
    /// DUPLICATE KEY: every change is one row.
    Append,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Upsert => "upsert",
            Self::Append => "append",
        })
    }
}

/// A column an append target has before the source's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the encoder writes every one of them")]
pub enum Meta {
    /// `_ms_seq BIGINT NOT NULL`: the change's sequence number, key and distribution.
    Seq,
    /// `_ms_op CHAR(1)`: r, c, u or d.
    Op,
    /// `_ms_gtid VARCHAR(128)`.
    Gtid,
    /// `_ms_file VARCHAR(255)`: binlog file.
    File,
    /// `_ms_pos BIGINT`: offset in the file.
    Pos,
    /// `_ms_row INT`: the row's number in its transaction.
    Row,
    /// `_ms_ts DATETIME(6)`: when the source committed, UTC.
    Ts,
}

impl Meta {
    /// All of them, in table order.
    pub const ALL: [Self; 7] = [Self::Seq, Self::Op, Self::Gtid, Self::File, Self::Pos, Self::Row, Self::Ts];

    const fn name_and_type(self) -> (&'static str, DorisType) {
        match self {
            Self::Seq => (APPEND_SEQ, DorisType::BigInt),
            Self::Op => ("_ms_op", DorisType::Char(1)),
            Self::Gtid => ("_ms_gtid", DorisType::VarChar(128)),
            Self::File => ("_ms_file", DorisType::VarChar(255)),
            Self::Pos => ("_ms_pos", DorisType::BigInt),
            Self::Row => ("_ms_row", DorisType::Int),
            Self::Ts => ("_ms_ts", DorisType::DateTime { fsp: 6 }),
        }
    }
}

/// Where a target column's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the encoder writes every one of them")]
pub enum Source {
    /// The source column of this ordinal.
    Column(usize),
    /// The change itself.
    Meta(Meta),
}

/// One column of a target table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetColumn {
    /// Name; the source column's own.
    pub name: String,
    /// Type.
    pub doris_type: DorisType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Where the value comes from.
    pub source: Source,
}

/// A table of Doris as a source table needs it. Key columns come first, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetTable {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Model.
    pub mode: Mode,
    /// Columns in table order.
    pub columns: Vec<TargetColumn>,
    /// How many of the first columns are the key.
    pub key_columns: usize,
}

/// A source table that cannot be replicated into a target as asked, with every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The source table and the target: `db.table to db.table`.
    pub tables: String,
    /// What is refused, column by column. Never empty.
    pub columns: Vec<RefusedColumn>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot replicate {}: ", self.tables)?;
        for (i, column) in self.columns.iter().enumerate() {
            write!(f, "{}{column}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// The model of an existing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Model {
    /// UNIQUE KEY.
    Unique,
    /// DUPLICATE KEY.
    Duplicate,
    /// AGGREGATE KEY.
    Aggregate,
    /// Nothing that could be recognised.
    Other,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unique => "UNIQUE KEY",
            Self::Duplicate => "DUPLICATE KEY",
            Self::Aggregate => "AGGREGATE KEY",
            Self::Other => "an unknown model",
        })
    }
}

/// A column of an existing table, as DESC lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingColumn {
    /// Name.
    pub name: String,
    /// Type as Doris prints it.
    pub type_text: String,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Whether it is a key column.
    pub key: bool,
}

/// A table that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingTable {
    /// Model.
    pub model: Model,
    /// Visible columns in table order.
    pub columns: Vec<ExistingColumn>,
    /// The key columns in key order, as SHOW CREATE TABLE lists them.
    pub keys: Vec<String>,
    /// The type of the hidden sequence column (`function_column.sequence_type`), lower case.
    pub sequence_type: Option<String>,
    /// The visible column that serves as the sequence (`function_column.sequence_col`).
    pub sequence_col: Option<String>,
    /// Whether `enable_unique_key_merge_on_write` is true.
    pub merge_on_write: bool,
}

/// `name` in backticks.
#[must_use]
pub fn quote_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Whether Doris takes `name` for a database or table: `^[a-zA-Z][a-zA-Z0-9-_]*$`, at most 64 bytes.
fn is_doris_name(name: &str) -> bool {
    name.len() <= 64
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Why a source column's name cannot be a column name of the target.
fn refused_name(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("_ms_") || lower.starts_with("__doris_") {
        Some("the names _ms_… and __DORIS_… are reserved for the replication itself")
    } else if lower.starts_with("mv_") || lower.starts_with("mva_") {
        Some("Doris keeps column names that begin with mv_ or mva_ for materialized views")
    } else if name.is_empty() || name.len() > 256 {
        Some("Doris' column names have 1 to 256 bytes")
    } else if name.chars().any(|c| c == '`' || c == ',' || c.is_control()) {
        Some("a backtick, a comma or a control character in a name cannot be sent in a load's column list")
    } else {
        None
    }
}

const fn is_dated(ty: &ColumnType) -> bool {
    matches!(ty, ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. })
}

impl TargetTable {
    /// The table `database`.`table` that `schema`'s rows go to.
    ///
    /// DATE, DATETIME and TIMESTAMP columns outside the key may be NULL whatever the source says, because MySQL's zero
    /// dates, which Doris does not have, may have to become NULL.
    ///
    /// # Errors
    /// With every column that has no faithful place in the target, and the way out.
    pub fn plan(schema: &TableSchema, database: &str, table: &str, mode: Mode) -> Result<Self, Refused> {
        let mut refused = Vec::new();
        for (what, name) in [("database", database), ("table", table)] {
            if !is_doris_name(name) {
                refused.push(RefusedColumn {
                    column: format!("{database}.{table}"),
                    reason: format!("Doris does not take '{name}' for the name of a {what}").into(),
                    hint: "name another target with a [[route]]: letters, digits, - and _, a letter first, at most 64",
                });
            }
        }
        if mode == Mode::Upsert && schema.key.is_empty() {
            refused.push(RefusedColumn {
                column: schema.table.clone(),
                reason: "the table has no primary key, so rows cannot be matched".into(),
                hint: "add a primary key, or route it to an append target (mode = \"append\")",
            });
        }
        let mut columns = Vec::new();
        let mut key_columns = 0_usize;
        if mode == Mode::Append {
            columns.extend(Meta::ALL.map(|meta| {
                let (name, doris_type) = meta.name_and_type();
                TargetColumn { name: name.into(), doris_type, nullable: meta != Meta::Seq, source: Source::Meta(meta) }
            }));
            key_columns = 1;
        }
        let key = if mode == Mode::Upsert { schema.key.as_slice() } else { &[] };
        let rest = (0..schema.columns.len()).filter(|ordinal| !key.contains(ordinal));
        for ordinal in key.iter().copied().chain(rest) {
            let Some(column) = schema.columns.get(ordinal) else { continue };
            if let Some(reason) = refused_name(&column.name) {
                refused.push(RefusedColumn {
                    column: column.name.clone(),
                    reason: reason.into(),
                    hint: "rename the column at the source, or exclude the table",
                });
            }
            let is_key = key.contains(&ordinal);
            let nullable = !is_key && (mode == Mode::Append || column.nullable || is_dated(&column.ty));
            match doris_type(column, is_key) {
                Ok(doris_type) => {
                    key_columns = if is_key { key_columns.saturating_add(1) } else { key_columns };
                    columns.push(TargetColumn {
                        name: column.name.clone(),
                        doris_type,
                        nullable,
                        source: Source::Column(ordinal),
                    });
                }
                Err(column) => refused.push(column),
            }
        }
        if refused.is_empty() {
            Ok(Self { database: database.into(), table: table.into(), mode, columns, key_columns })
        } else {
            let tables = format!("{}.{} to {database}.{table}", schema.database, schema.table);
            Err(Refused { tables, columns: refused })
        }
    }

    /// The columns that make up the key.
    pub fn keys(&self) -> impl Iterator<Item = &TargetColumn> {
        self.columns.iter().take(self.key_columns)
    }

    /// The value of the load's `columns` header: every column in backticks, the hidden ones of an upsert target last.
    /// (With `columns` present, Doris ignores `hidden_columns`.)
    #[must_use]
    pub fn columns_header(&self) -> String {
        let mut names: Vec<String> = self.columns.iter().map(|column| quote_name(&column.name)).collect();
        if self.mode == Mode::Upsert {
            names.extend([DELETE_SIGN, SEQUENCE_COL].map(quote_name));
        }
        names.join(",")
    }

    /// [`columns_header`](Self::columns_header) of a load that has the key and the source columns of these ordinals alone.
    #[must_use]
    pub fn some_columns_header(&self, ordinals: &[usize]) -> String {
        let here = |column: &&TargetColumn| matches!(column.source, Source::Column(i) if ordinals.contains(&i));
        let rest = self.columns.iter().skip(self.key_columns).filter(here);
        let mut names: Vec<String> = self.keys().chain(rest).map(|column| quote_name(&column.name)).collect();
        names.extend([DELETE_SIGN, SEQUENCE_COL].map(quote_name));
        names.join(",")
    }

    /// `CREATE TABLE IF NOT EXISTS` for this table. `None` leaves the number of replicas to Doris (3) and the number of
    /// buckets to `BUCKETS AUTO`.
    #[must_use]
    pub fn create_table_sql(&self, replication_num: Option<u16>, buckets: Option<u32>) -> String {
        let mut sql =
            format!("CREATE TABLE IF NOT EXISTS {}.{} (\n", quote_name(&self.database), quote_name(&self.table));
        for (i, column) in self.columns.iter().enumerate() {
            let comma = if i == 0 { "" } else { ",\n" };
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            sql.push_str(&format!("{comma}  {} {} {null}", quote_name(&column.name), column.doris_type));
        }
        let keys: Vec<String> = self.keys().map(|column| quote_name(&column.name)).collect();
        let keys = keys.join(", ");
        let model = match self.mode {
            Mode::Upsert => "UNIQUE KEY",
            Mode::Append => "DUPLICATE KEY",
        };
        let buckets = buckets.map_or_else(|| "AUTO".to_owned(), |n| n.to_string());
        sql.push_str(&format!("\n) {model}({keys})\nDISTRIBUTED BY HASH({keys}) BUCKETS {buckets}"));
        let mut properties = Vec::new();
        if let Some(n) = replication_num {
            properties.push(format!("\"replication_num\" = \"{n}\""));
        }
        properties.push("\"light_schema_change\" = \"true\"".to_owned());
        if self.mode == Mode::Upsert {
            properties.push("\"enable_unique_key_merge_on_write\" = \"true\"".to_owned());
            properties.push("\"function_column.sequence_type\" = \"bigint\"".to_owned());
        }
        sql.push_str(&format!("\nPROPERTIES (\n  {}\n)", properties.join(",\n  ")));
        sql
    }

    /// How `existing` differs from what this target needs, one sentence each; empty when it can be used.
    ///
    /// A column that may be NULL where the source's may not is no difference.
    #[must_use]
    pub fn compare(&self, existing: &ExistingTable) -> Vec<String> {
        let mut out = Vec::new();
        let wanted = match self.mode {
            Mode::Upsert => Model::Unique,
            Mode::Append => Model::Duplicate,
        };
        if existing.model != wanted {
            out.push(format!("the table is {}, {} mode needs {wanted}", existing.model, self.mode));
        }
        if self.mode == Mode::Upsert {
            match (&existing.sequence_type, &existing.sequence_col) {
                (Some(ty), _) if ty.eq_ignore_ascii_case("bigint") => {}
                (Some(ty), _) => out.push(format!("function_column.sequence_type is {ty}, it must be bigint")),
                (None, Some(col)) => out.push(format!(
                    "the sequence is taken from column `{col}`, it must be the hidden column (function_column.sequence_type = bigint)"
                )),
                (None, None) => {
                    out.push("there is no sequence column (function_column.sequence_type = bigint)".to_owned());
                }
            }
            if !existing.merge_on_write {
                out.push("enable_unique_key_merge_on_write is not true".to_owned());
            }
        }
        let keys: Vec<&str> = self.keys().map(|column| column.name.as_str()).collect();
        let same_keys = keys.len() == existing.keys.len()
            && keys.iter().zip(&existing.keys).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if !same_keys {
            out.push(format!("the key is ({}), it must be ({})", existing.keys.join(", "), keys.join(", ")));
        }
        for column in &self.columns {
            let Some(found) = existing.columns.iter().find(|found| found.name.eq_ignore_ascii_case(&column.name))
            else {
                out.push(format!("column `{}` {} is missing", column.name, column.doris_type));
                continue;
            };
            if !column.doris_type.matches_described(&found.type_text) {
                let (name, ty, wanted) = (&column.name, &found.type_text, column.doris_type);
                out.push(format!("column `{name}` is {ty}, it must be {wanted}"));
            }
            if column.nullable && !found.nullable {
                out.push(format!("column `{}` is NOT NULL, it must allow NULL", column.name));
            }
        }
        for found in &existing.columns {
            let hidden = found.name.to_ascii_uppercase().starts_with("__DORIS_");
            if !hidden && !self.columns.iter().any(|column| column.name.eq_ignore_ascii_case(&found.name)) {
                out.push(format!("column `{}` does not exist at the source", found.name));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_binlog::{Charset, Column};

    fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
        let charset = if matches!(ty, ColumnType::VarChar { .. }) { Charset::Utf8mb4 } else { Charset::Binary };
        Column { name: name.into(), ty, nullable, charset, collation: 0 }
    }

    fn schema() -> TableSchema {
        TableSchema {
            database: "shop".into(),
            table: "orders".into(),
            columns: vec![
                column("note", ColumnType::VarChar { max_bytes: 40 }, true),
                column("region", ColumnType::Int { unsigned: false }, false),
                column("id", ColumnType::BigInt { unsigned: true }, false),
                column("at", ColumnType::DateTime { fsp: 3 }, false),
            ],
            key: vec![2, 1],
        }
    }

    /// The description Doris would give of `target`.
    fn described(target: &TargetTable) -> ExistingTable {
        let upsert = target.mode == Mode::Upsert;
        ExistingTable {
            model: if upsert { Model::Unique } else { Model::Duplicate },
            columns: target
                .columns
                .iter()
                .enumerate()
                .map(|(i, c)| ExistingColumn {
                    name: c.name.clone(),
                    type_text: c.doris_type.to_string().to_lowercase(),
                    nullable: c.nullable,
                    key: i < target.key_columns,
                })
                .collect(),
            keys: target.keys().map(|c| c.name.clone()).collect(),
            sequence_type: upsert.then(|| "bigint".to_owned()),
            sequence_col: None,
            merge_on_write: upsert,
        }
    }

    #[test]
    fn upsert_tables_have_their_key_first() {
        let target = TargetTable::plan(&schema(), "ods", "orders", Mode::Upsert).unwrap();
        assert_eq!(
            target.create_table_sql(Some(1), Some(8)),
            "CREATE TABLE IF NOT EXISTS `ods`.`orders` (\n  `id` LARGEINT NOT NULL,\n  `region` INT NOT NULL,\n  \
             `note` VARCHAR(40) NULL,\n  `at` DATETIME(3) NULL\n) UNIQUE KEY(`id`, `region`)\n\
             DISTRIBUTED BY HASH(`id`, `region`) BUCKETS 8\nPROPERTIES (\n  \"replication_num\" = \"1\",\n  \
             \"light_schema_change\" = \"true\",\n  \"enable_unique_key_merge_on_write\" = \"true\",\n  \
             \"function_column.sequence_type\" = \"bigint\"\n)"
        );
        assert_eq!(
            target.columns_header(),
            "`id`,`region`,`note`,`at`,`__DORIS_DELETE_SIGN__`,`__DORIS_SEQUENCE_COL__`"
        );
        assert!(target.create_table_sql(None, None).contains("BUCKETS AUTO\nPROPERTIES (\n  \"light"));
    }

    #[test]
    fn append_tables_have_the_change_first_and_everything_nullable() {
        let target = TargetTable::plan(&schema(), "ods", "log", Mode::Append).unwrap();
        let sql = target.create_table_sql(None, None);
        assert!(sql.starts_with(
            "CREATE TABLE IF NOT EXISTS `ods`.`log` (\n  `_ms_seq` BIGINT NOT NULL,\n  `_ms_op` CHAR(1) NULL,\n  \
             `_ms_gtid` VARCHAR(128) NULL,\n  `_ms_file` VARCHAR(255) NULL,\n  `_ms_pos` BIGINT NULL,\n  \
             `_ms_row` INT NULL,\n  `_ms_ts` DATETIME(6) NULL,\n  `note` VARCHAR(40) NULL,\n  `region` INT NULL,\n"
        ));
        assert!(sql.contains("DUPLICATE KEY(`_ms_seq`)\nDISTRIBUTED BY HASH(`_ms_seq`)"), "{sql}");
        assert!(!sql.contains("merge_on_write") && !sql.contains("sequence_type"));
        assert!(target.columns_header().starts_with("`_ms_seq`,`_ms_op`") && target.columns_header().ends_with("`at`"));
    }

    #[test]
    fn refusals_name_every_column_and_a_way_out() {
        let mut bad = schema();
        bad.columns[0].name = "_MS_seq".into();
        bad.columns[1].ty = ColumnType::Double;
        bad.columns[3].name = "a`b".into();
        let refused = TargetTable::plan(&bad, "ods", "1st", Mode::Upsert).unwrap_err();
        let names: Vec<&str> = refused.columns.iter().map(|c| c.column.as_str()).collect();
        assert_eq!(names, ["ods.1st", "region", "_MS_seq", "a`b"]);
        let text = refused.to_string();
        assert!(text.starts_with("cannot replicate shop.orders to ods.1st: ") && text.contains("[[route]]"), "{text}");

        let mut keyless = schema();
        keyless.key.clear();
        assert!(TargetTable::plan(&keyless, "ods", "t", Mode::Upsert).unwrap_err().to_string().contains("append"));
        assert!(TargetTable::plan(&keyless, "ods", "t", Mode::Append).is_ok());
    }

    #[test]
    fn an_existing_table_is_compared_column_by_column() {
        for mode in [Mode::Upsert, Mode::Append] {
            let target = TargetTable::plan(&schema(), "ods", "t", mode).unwrap();
            assert_eq!(target.compare(&described(&target)), Vec::<String>::new());
        }
        let target = TargetTable::plan(&schema(), "ods", "t", Mode::Upsert).unwrap();
        type Change = fn(&mut ExistingTable);
        let cases: [(Change, &str); 11] = [
            (|t| t.model = Model::Duplicate, "the table is DUPLICATE KEY, upsert mode needs UNIQUE KEY"),
            (|t| t.sequence_type = None, "there is no sequence column"),
            (|t| t.sequence_type = Some("int".into()), "function_column.sequence_type is int"),
            (
                |t| (t.sequence_type, t.sequence_col) = (None, Some("at".into())),
                "the sequence is taken from column `at`",
            ),
            (|t| t.merge_on_write = false, "enable_unique_key_merge_on_write is not true"),
            (|t| t.keys.reverse(), "the key is (region, id), it must be (id, region)"),
            (|t| drop(t.columns.remove(2)), "column `note` VARCHAR(40) is missing"),
            (|t| t.columns[2].type_text = "varchar(39)".into(), "column `note` is varchar(39), it must be VARCHAR(40)"),
            (|t| t.columns[2].nullable = false, "column `note` is NOT NULL, it must allow NULL"),
            (|t| t.columns[0].type_text = "bigint".into(), "column `id` is bigint, it must be LARGEINT"),
            (
                |t| {
                    let mut more = t.columns[2].clone();
                    more.name = "more".into();
                    t.columns.push(more);
                },
                "column `more` does not exist at the source",
            ),
        ];
        for (change, expected) in cases {
            let mut existing = described(&target);
            change(&mut existing);
            let found = target.compare(&existing);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        }
    }
}
