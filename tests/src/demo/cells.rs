//! Rows as bytes that are equal when the rows are: per value its length and its text.

use std::borrow::Cow;

use crate::source::{SourceColumn, SourceTable, TextRow};

/// In the place of a length: NULL.
const NULL: u32 = u32::MAX;

/// Appends one value.
pub(super) fn put(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&NULL.to_le_bytes()),
        Some(text) => {
            out.extend_from_slice(&u32::try_from(text.len()).expect("a value is under 4 GiB").to_le_bytes());
            out.extend_from_slice(text);
        }
    }
}

/// The values of such bytes.
pub(super) fn values(mut row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        let (length, rest) = row.split_first_chunk()?;
        let length = u32::from_le_bytes(*length);
        let (value, rest) = if length == NULL { (None, rest) } else { split(rest, length as usize) };
        row = rest;
        Some(value)
    })
}

fn split(bytes: &[u8], at: usize) -> (Option<&[u8]>, &[u8]) {
    let (value, rest) = bytes.split_at(at);
    (Some(value), rest)
}

/// For people: `1, 'x', NULL`.
pub(super) fn show(row: &[u8]) -> String {
    let texts: Vec<Cow<'_, str>> =
        values(row).map(|value| value.map_or_else(|| "NULL".into(), String::from_utf8_lossy)).collect();
    texts.join(", ")
}

/// The columns of a source table, and where its key is.
#[derive(Debug)]
pub(super) struct Columns<'t> {
    columns: &'t [SourceColumn],
    floats: Vec<bool>,
    key: &'t [usize],
}

impl<'t> Columns<'t> {
    pub(super) fn of(table: &'t SourceTable) -> Self {
        let is_float = |column: &SourceColumn| ["float", "double"].iter().any(|t| column.mysql_type.starts_with(t));
        Self { columns: &table.columns, floats: table.columns.iter().map(is_float).collect(), key: &table.key }
    }

    /// The name of a column.
    pub(super) fn name(&self, index: usize) -> &str {
        self.columns.get(index).map_or("?", |column| &column.name)
    }

    /// Where each column is among these names; the name of one that is not there.
    pub(super) fn order<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<usize>, String> {
        let names: Vec<&str> = names.collect();
        let place = |column: &SourceColumn| {
            names.iter().position(|name| name.eq_ignore_ascii_case(&column.name)).ok_or_else(|| column.name.clone())
        };
        self.columns.iter().map(place).collect()
    }

    /// Writes a row of the source.
    pub(super) fn source(&self, row: &TextRow, out: &mut Vec<u8>) {
        out.clear();
        for value in row {
            put(out, value.as_deref().map(str::as_bytes));
        }
    }

    /// Writes a row of a target, whose columns are where `order` says.
    pub(super) fn target<'v>(
        &self,
        order: &[usize],
        row: impl Iterator<Item = Option<&'v [u8]>>,
        scratch: &mut Vec<Option<&'v [u8]>>,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        scratch.clear();
        scratch.extend(row);
        for ((&place, column), &float) in order.iter().zip(self.columns).zip(&self.floats) {
            let value = scratch.get(place).copied().flatten();
            match value {
                Some(text) if float => {
                    let text = column.normal(String::from_utf8_lossy(text).into_owned());
                    put(out, Some(text.as_bytes()));
                }
                value => put(out, value),
            }
        }
    }

    /// The key of such a row.
    pub(super) fn key(&self, row: &[u8], out: &mut Vec<u8>) {
        out.clear();
        for &index in self.key {
            put(out, values(row).nth(index).flatten());
        }
    }

    /// Where two rows differ first.
    pub(super) fn difference(&self, a: &[u8], b: &[u8]) -> String {
        let text = |value: Option<&[u8]>| {
            value.map_or_else(|| "NULL".to_owned(), |v| format!("{:?}", String::from_utf8_lossy(v)))
        };
        let mut pairs = values(a).zip(values(b)).enumerate();
        match pairs.find(|(_, (a, b))| a != b) {
            Some((index, (a, b))) => format!("column {}: {} in the source, {}", self.name(index), text(a), text(b)),
            None => "another number of columns".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_equal_rows() {
        let row = |values: &[Option<&str>]| {
            let mut out = Vec::new();
            values.iter().for_each(|value| put(&mut out, value.map(str::as_bytes)));
            out
        };
        let rows = [
            row(&[None, Some("a")]),
            row(&[Some(""), Some("a")]),
            row(&[Some("a"), None]),
            row(&[Some("a"), Some("")]),
            row(&[Some("NULL"), Some("a")]),
            row(&[Some("a")]),
        ];
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(a == b, i == j, "{i} {j}");
            }
        }
        let back: Vec<Option<&[u8]>> = values(&rows[0]).collect();
        assert_eq!(back, [None, Some(&b"a"[..])]);
        assert_eq!(show(&rows[0]), "NULL, a");
    }
}
