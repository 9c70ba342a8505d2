use core::fmt;

use super::{Query, RowsEvent, RowsKind};
use crate::error::{Error, Place};
use crate::inflate::Inflater;

/// MariaDB's QUERY_COMPRESSED (165): a [`Query`] whose SQL is packed (`log_bin_compress`).
#[derive(Clone, Copy)]
pub struct CompressedQuery<'a> {
    /// Its `sql` is still packed.
    packed: Query<'a>,
    place: Place,
}

impl<'a> CompressedQuery<'a> {
    pub(crate) const fn new(packed: Query<'a>, place: Place) -> Self {
        Self { packed, place }
    }

    /// The statement.
    ///
    /// # Errors
    /// Data that does not inflate to the size it states, or that is over the inflater's limit.
    pub fn open<'b>(&self, inflater: &'b mut Inflater) -> Result<Query<'b>, Error>
    where
        'a: 'b,
    {
        let sql = inflater.open(self.packed.sql, self.place)?;
        Ok(Query { sql, ..self.packed })
    }
}

impl fmt::Debug for CompressedQuery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompressedQuery({} bytes)", self.packed.sql.len())
    }
}

/// MariaDB's compressed row events (166-168 of version 1, 169-171 of version 2): a [`RowsEvent`] whose images are packed
/// (`log_bin_compress`).
#[derive(Clone, Copy)]
pub struct CompressedRows<'a> {
    packed: RowsEvent<'a>,
    place: Place,
}

impl<'a> CompressedRows<'a> {
    pub(crate) const fn new(packed: RowsEvent<'a>, place: Place) -> Self {
        Self { packed, place }
    }

    /// What happened.
    #[must_use]
    pub const fn kind(&self) -> RowsKind {
        self.packed.kind
    }

    /// Names the table: rows of a table that nobody wants need not be opened.
    #[must_use]
    pub const fn table_id(&self) -> u64 {
        self.packed.table_id
    }

    /// Whether this is the statement's last row event.
    #[must_use]
    pub const fn is_statement_end(&self) -> bool {
        self.packed.is_statement_end()
    }

    /// Bytes of the images as packed.
    #[must_use]
    pub const fn compressed_len(&self) -> usize {
        self.packed.data().len()
    }

    /// The row event.
    ///
    /// # Errors
    /// Data that does not inflate to the size it states, or that is over the inflater's limit.
    pub fn open<'b>(&self, inflater: &'b mut Inflater) -> Result<RowsEvent<'b>, Error>
    where
        'a: 'b,
    {
        let data = inflater.open(self.packed.data(), self.place)?;
        Ok(self.packed.with_data(data))
    }
}

impl fmt::Debug for CompressedRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = (self.packed.kind, self.packed.table_id);
        write!(f, "CompressedRows({kind:?} in table {id}, {} bytes)", self.compressed_len())
    }
}
