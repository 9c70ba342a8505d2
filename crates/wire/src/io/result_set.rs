use crate::error::Error;
use crate::response::Row;

/// A small result, owned: every value is the server's text, or `None` for NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultSet {
    columns: Vec<String>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl ResultSet {
    pub(super) const fn new(columns: Vec<String>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: &Row) -> Result<(), Error> {
        self.rows.push(row.texts().map(|text| text.map(|text| text.map(<[u8]>::to_vec))).collect::<Result<_, _>>()?);
        Ok(())
    }

    /// Names of the columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows, values in the order of the columns.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Option<Vec<u8>>>] {
        &self.rows
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The place of a column, by name without regard to ASCII case: servers differ in it.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.eq_ignore_ascii_case(name))
    }

    /// A value by row number and column name; `None` for NULL and for a row or column that is not there.
    #[must_use]
    pub fn value(&self, row: usize, column: &str) -> Option<&[u8]> {
        self.rows.get(row)?.get(self.column(column)?)?.as_deref()
    }

    /// The same as text; `None` also for what is not UTF-8.
    #[must_use]
    pub fn text(&self, row: usize, column: &str) -> Option<&str> {
        core::str::from_utf8(self.value(row, column)?).ok()
    }

    /// The first column of the first row as text, for `SELECT something`.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        core::str::from_utf8(self.rows.first()?.first()?.as_deref()?).ok()
    }
}
