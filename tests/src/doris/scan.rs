//! Reads a table's visible rows without copying them, for comparisons of whole tables.

use super::table::{Data, Schema};
use super::{DorisSim, row};
use std::sync::Arc;

/// The visible rows of a table as they were at one moment.
#[derive(Debug)]
pub struct Visible {
    schema: Arc<Schema>,
    data: Data,
}

/// One row: its values as canonical texts, in table order, hidden columns last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a>(pub(crate) &'a [u8]);

impl DorisSim {
    /// A table's visible rows now. Do not keep it while loads go on: they would copy the table.
    pub fn visible(&self, db: &str, table: &str) -> Option<Visible> {
        let (schema, data, _) = self.shared.world().snapshot(db, table)?;
        Some(Visible { schema, data })
    }
}

impl Visible {
    /// The table's definition.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The rows by key, or in the order they became visible.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.data.iter(false).map(|(row, _)| Row(row))
    }
}

impl<'a> Row<'a> {
    /// The values; nothing for NULL.
    pub fn values(self) -> impl Iterator<Item = Option<&'a [u8]>> + Clone {
        row::Values(self.0)
    }

    /// The row without its first `count` values.
    #[must_use]
    pub fn skip(self, count: usize) -> Self {
        let mut values = row::Values(self.0);
        for _ in 0..count {
            values.next();
        }
        Row(values.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_loses_its_head() {
        let mut bytes = Vec::new();
        for value in [Some(&b"1"[..]), None, Some(b"c")] {
            row::put_value(&mut bytes, value);
        }
        let values = |row: Row<'_>| row.values().map(|v| v.map(<[u8]>::to_vec)).collect::<Vec<_>>();
        assert_eq!(values(Row(&bytes).skip(2)), [Some(b"c".to_vec())]);
        assert_eq!(values(Row(&bytes).skip(4)), []);
    }
}
