//! Rows as the simulator keeps them: per value a varint (length + 1, or 0 for NULL) and its canonical text, the rows
//! of a load behind each other in one allocation.

/// Appends one value.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.push(0),
        Some(v) => {
            put_len(out, v.len() as u64 + 1);
            out.extend_from_slice(v);
        }
    }
}

fn put_len(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

/// The values of an encoded row, in schema order.
#[derive(Clone)]
pub(crate) struct Values<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut n = 0u64;
        let mut shift = 0;
        loop {
            let (b, rest) = self.0.split_first()?;
            self.0 = rest;
            n |= u64::from(b & 0x7f) << shift;
            shift += 7;
            if b & 0x80 == 0 {
                break;
            }
        }
        if n == 0 {
            return Some(None);
        }
        let (value, rest) = self.0.split_at_checked(usize::try_from(n - 1).ok()?)?;
        self.0 = rest;
        Some(Some(value))
    }
}

/// The accepted rows of one load.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    data: Vec<u8>,
    ends: Vec<usize>,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    marks: Vec<Mark>,
    /// A load of some columns: which columns are the stored row's.
    pub(crate) stored: Option<std::sync::Arc<[bool]>>,
    /// Rows counted without being kept (counting mode).
    pub(crate) counted: u64,
}

/// What decides about a row of a UNIQUE table beside its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sequence: i64,
    pub(crate) deleted: bool,
}

impl Batch {
    /// The buffer the next row is written into; [`Self::end_row`] or [`Self::drop_row`] follows.
    pub(crate) fn row_buffer(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Takes what was written as a row of a DUPLICATE table.
    pub(crate) fn end_row(&mut self) {
        self.ends.push(self.data.len());
    }

    /// Takes what was written as a row of a UNIQUE table.
    pub(crate) fn end_keyed_row(&mut self, mark: Mark, key: impl FnOnce(&[u8], &mut Vec<u8>)) {
        let start = self.ends.last().copied().unwrap_or(0);
        key(&self.data[start..], &mut self.keys);
        self.key_ends.push(self.keys.len());
        self.marks.push(mark);
        self.end_row();
    }

    /// What was written since the last row.
    pub(crate) fn unfinished(&self) -> &[u8] {
        &self.data[self.ends.last().copied().unwrap_or(0)..]
    }

    /// Forgets what was written since the last row.
    pub(crate) fn drop_row(&mut self) {
        self.data.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Rows held.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        self.data.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The encoded row `i`.
    pub(crate) fn row(&self, i: usize) -> &[u8] {
        &self.data[span(&self.ends, i)]
    }

    /// Key bytes and marks of row `i` of a UNIQUE table.
    pub(crate) fn keyed(&self, i: usize) -> (&[u8], Mark) {
        (&self.keys[span(&self.key_ends, i)], self.marks[i])
    }
}

fn span(ends: &[usize], i: usize) -> std::ops::Range<usize> {
    let start = if i == 0 { 0 } else { ends[i - 1] };
    start..ends[i]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip() {
        let long = vec![b'x'; 70_000];
        let rows: [Vec<Option<&[u8]>>; 3] = [vec![None, Some(b""), Some(b"a")], vec![Some(&long)], vec![]];
        let mut batch = Batch::default();
        for row in &rows {
            for v in row {
                put_value(batch.row_buffer(), *v);
            }
            batch.end_row();
        }
        put_value(batch.row_buffer(), Some(b"dropped"));
        batch.drop_row();
        assert_eq!(batch.len(), 3);
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(&Values(batch.row(i)).collect::<Vec<_>>(), row);
        }
    }
}
