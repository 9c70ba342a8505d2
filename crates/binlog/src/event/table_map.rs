use core::fmt;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::error::{Error, Place};
use crate::table::metadata::{Definition, UNKNOWN_COLLATION};
use crate::table::{ColumnHint, TableSchema, hints};

/// TABLE_MAP: the table that the following row events name by its id (`Table_map_event`). Only the names are parsed;
/// the columns wait until [`schema`](Self::schema) or [`resolve`](Self::resolve).
#[derive(Clone, Copy)]
pub struct TableMap<'a> {
    /// What row events call it. The same table gets a new id when its definition is opened anew.
    pub table_id: u64,
    /// Bit 1: a table that a foreign key refers to; bit 2: a generated invisible primary key.
    pub flags: u16,
    /// Database.
    pub database: &'a str,
    /// Table.
    pub table: &'a str,
    definition: &'a [u8],
    columns: &'a [u8],
    mariadb: bool,
    place: Place,
}

impl fmt::Debug for TableMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableMap({} = {}.{})", self.table_id, self.database, self.table)
    }
}

impl<'a> TableMap<'a> {
    pub(crate) fn parse(post_header: u8, mariadb: bool, mut r: Reader<'a>, place: Place) -> Result<Self, ParseError> {
        let table_id = if post_header == 6 { u64::from(r.u32_le("table_id")?) } else { r.u48_le("table_id")? };
        let definition = r.peek();
        let flags = r.u16_le("table map flags")?;
        let database = name(&mut r, "database name")?;
        let table = name(&mut r, "table name")?;
        Ok(Self { table_id, flags, database, table, definition, columns: r.rest(), mariadb, place })
    }

    /// All bytes but the id: maps with equal definitions have equal schemas, so a schema can be kept for the next map.
    #[must_use]
    pub const fn definition(&self) -> &'a [u8] {
        self.definition
    }

    /// The schema from the map alone. With `binlog_row_metadata=FULL` it is complete. With MINIMAL the columns are
    /// named `@1`, `@2`, …, labels and key are empty. Logs without any metadata (5.7 and older) leave signedness and
    /// character sets unknown too: integers read as signed, text as bytes with collation 0.
    ///
    /// What MariaDB's UUID, INET4, INET6 and VECTOR are, and how long the fractions of its old TIME, DATETIME and
    /// TIMESTAMP are, no log says: the first are BINARY and VARBINARY here, and the last an error by name.
    pub fn schema(&self) -> Result<TableSchema, Error> {
        let definition =
            Definition::parse(Reader::new(self.columns), self.mariadb).map_err(|e| self.place.malformed(e))?;
        definition.schema(self.database, self.table).map_err(|e| self.error(e, &definition))
    }

    /// Checks everything the map states (number of columns, types and sizes, nullability, signedness, collations,
    /// names, labels and key as far as they are there) against the catalog's schema and returns the complete one.
    /// A difference is an error with [`Error::schema_mismatch`].
    ///
    /// Row images of MariaDB have a column more for each long unique key (`DB_ROW_HASH_1`), which no catalog shows: the
    /// schema has them behind the catalog's columns.
    pub fn resolve(&self, catalog: &TableSchema) -> Result<TableSchema, Error> {
        let definition =
            Definition::parse(Reader::new(self.columns), self.mariadb).map_err(|e| self.place.malformed(e))?;
        let resolved =
            definition.resolve(self.database, self.table, catalog).map_err(|e| self.error(e, &definition))?;
        resolved.map_err(Error::from)
    }

    /// What the map says of its columns beyond what their values need, in their order.
    ///
    /// # Errors
    /// Metadata that does not fit the columns.
    pub fn hints(&self) -> Result<Vec<ColumnHint>, Error> {
        let definition =
            Definition::parse(Reader::new(self.columns), self.mariadb).map_err(|e| self.place.malformed(e))?;
        hints(&definition).map_err(|e| self.place.malformed(e))
    }

    #[cold]
    fn error(&self, e: ParseError, definition: &Definition<'_>) -> Error {
        match definition.unknown_collation() {
            Some(id) if e.field == UNKNOWN_COLLATION => self.place.collation(id),
            _ => self.place.malformed(e),
        }
    }
}

/// `u8 length, text, NUL`.
fn name<'a>(r: &mut Reader<'a>, field: &'static str) -> Result<&'a str, ParseError> {
    let n = r.u8(field)?;
    let text = r.str(usize::from(n), field)?;
    match r.u8(field)? {
        0 => Ok(text),
        b => Err(r.error(field, ParseErrorKind::BadTag(b))),
    }
}
