use core::fmt;
use core::iter::Peekable;

use millstream_wire::codec::Bitmap;

use super::{Row, Values};
use crate::value::{ColumnValue, JsonDiffError, JsonDiffs};

/// Why a row with differences cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompleteError {
    /// The before image does not have the column: it must come from elsewhere, or `binlog_row_image=FULL` be set.
    Absent {
        /// Ordinal of the column.
        column: usize,
    },
    /// The before image has SQL NULL where the document should be.
    Null {
        /// Ordinal of the column.
        column: usize,
    },
    /// The differences do not give a document.
    Json {
        /// Ordinal of the column.
        column: usize,
        /// Why.
        source: JsonDiffError,
    },
}

impl fmt::Display for CompleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Absent { column } | Self::Null { column } | Self::Json { column, .. }) = self;
        write!(f, "the JSON document of column {} is logged as a difference", column.saturating_add(1))?;
        f.write_str(match self {
            Self::Absent { .. } => " and the before image does not have it (binlog_row_image is not FULL)",
            Self::Null { .. } => " and is NULL in the before image",
            Self::Json { .. } => " that does not lead to a document",
        })
    }
}

impl core::error::Error for CompleteError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Json { source, .. } => Some(source),
            Self::Absent { .. } | Self::Null { .. } => None,
        }
    }
}

impl<'a, 't> Row<'a, 't> {
    /// This after image with whole documents: every difference is applied to the document of the `before` image. What
    /// `buffer` held is replaced by the new image. A row without differences comes out as it is.
    ///
    /// # Errors
    /// When the before image lacks a document, as it does with `binlog_row_image` other than FULL, or when a difference
    /// does not fit the document.
    pub fn complete<'b>(&self, before: &Row<'_, '_>, buffer: &'b mut Vec<u8>) -> Result<Row<'b, 't>, CompleteError>
    where
        'a: 'b,
    {
        if !self.is_partial() {
            return Ok(*self);
        }
        buffer.clear();
        let (nulls, _) = self.bytes.split_at_checked(self.shape.null_bytes).unwrap_or_default();
        buffer.extend_from_slice(nulls);
        let mut documents = before.values().peekable();
        let mut values = self.values();
        loop {
            let start = values.rest.peek();
            let Some((ordinal, value)) = values.next() else { break };
            match value {
                ColumnValue::JsonDiffs(diffs) => apply(diffs, &mut documents, ordinal, buffer)?,
                _ => {
                    let used = start.len().wrapping_sub(values.rest.left());
                    buffer.extend_from_slice(start.get(..used).unwrap_or_default());
                }
            }
        }
        Ok(Row { bytes: buffer, shape: self.shape, partial: Bitmap::new(&[]), schema: self.schema })
    }
}

/// Appends the length and the bytes of the document. `documents` is passed over once for all columns.
fn apply(
    diffs: JsonDiffs<'_>,
    documents: &mut Peekable<Values<'_, '_>>,
    column: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), CompleteError> {
    while documents.next_if(|(ordinal, _)| *ordinal < column).is_some() {}
    let document = match documents.next_if(|(ordinal, _)| *ordinal == column) {
        Some((_, ColumnValue::Json(document))) => document,
        Some((_, ColumnValue::Null)) => return Err(CompleteError::Null { column }),
        _ => return Err(CompleteError::Absent { column }),
    };
    let length_at = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    let start = buffer.len();
    diffs.apply(document, buffer).map_err(|source| CompleteError::Json { column, source })?;
    let length = u32::try_from(buffer.len().saturating_sub(start)).unwrap_or(u32::MAX);
    if let Some(slot) = buffer.get_mut(length_at..start) {
        slot.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}
