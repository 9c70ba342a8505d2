use core::fmt;

/// A TABLE_MAP says something else than the catalog: the schema used for the rows would be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMismatch {
    /// Database of the table.
    pub database: String,
    /// The table.
    pub table: String,
    /// The column by the catalog's name, with its ordinal from 0; `None` when it is about the whole table.
    pub column: Option<(usize, String)>,
    /// What differs.
    pub what: &'static str,
    /// The log's side.
    pub log: String,
    /// The catalog's side.
    pub catalog: String,
}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}.{}", self.database, self.table)?;
        if let Some((i, name)) = &self.column {
            write!(f, ", column {} ({name})", i.saturating_add(1))?;
        }
        write!(f, ": {} is {} in the binlog and {} in the catalog", self.what, self.log, self.catalog)
    }
}

impl core::error::Error for SchemaMismatch {}
