use core::fmt;

use millstream_binlog::TableSchema;

/// A table whose key cannot route changes: named with the column and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedKey(Box<(String, Option<String>, &'static str)>);

impl UnsupportedKey {
    pub(super) fn new(table: &TableSchema, column: &str, reason: &'static str) -> Self {
        Self(Box::new((format!("{}.{}", table.database, table.table), Some(column.to_owned()), reason)))
    }

    pub(super) fn none(table: &TableSchema) -> Self {
        Self(Box::new((
            format!("{}.{}", table.database, table.table),
            None,
            "has no primary key and no unique key over NOT NULL columns",
        )))
    }

    pub(crate) fn prefix(table: &TableSchema, column: &str) -> Self {
        Self::new(table, column, "is only in the key with its first characters")
    }

    /// The table, `db.table`.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.0.0
    }

    /// The column that is the reason; None when there is no key.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.0.1.as_deref()
    }
}

impl fmt::Display for UnsupportedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, column, reason) = &*self.0;
        match column {
            Some(column) => write!(f, "{table}: key column {column} {reason}: give the table another primary key")?,
            None => write!(
                f,
                "{table} {reason}: add one (MySQL 8.0.30 and later adds an invisible one to every new table with \
                 sql_generate_invisible_primary_key = ON)"
            )?,
        }
        f.write_str(", or exclude it with \"!")?;
        write!(f, "{table}\" in source.tables")
    }
}

impl core::error::Error for UnsupportedKey {}

/// A key value that cannot be encoded, or bytes that are no key of this table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError(Box<(String, &'static str)>);

impl KeyError {
    #[cold]
    pub(super) fn new(column: &str, reason: &'static str) -> Self {
        Self(Box::new((column.to_owned(), reason)))
    }

    /// The key column; empty when the key as a whole is meant.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, reason) = &*self.0;
        if column.is_empty() { write!(f, "the key {reason}") } else { write!(f, "key column {column} {reason}") }
    }
}

impl core::error::Error for KeyError {}
