use core::fmt;

/// Why one value could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The row image lacks the column.
    Absent,
    /// Changed in part after it was deleted.
    Deleted,
    /// NULL where the column must not be.
    Null,
    /// Bytes that are no text of the column's character set.
    BadText,
    /// The character set cannot be decoded.
    UnknownCharset,
    /// Longer than the target column, in bytes.
    TooLong { len: usize, limit: u32 },
    /// A date Doris does not have.
    InvalidDate,
    /// A number of an ENUM or bits of a SET without a label.
    UnknownLabel(u64),
    /// Not a number (NaN or infinity).
    NotANumber,
    /// A text that CSV cannot carry.
    NotCsv,
    /// Malformed packed bytes.
    Malformed,
    /// A value of another type than the column's.
    Mismatch,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the row image lacks the column; set binlog_row_image = FULL"),
            Self::Deleted => {
                f.write_str("the row is changed in part (binlog_row_image is not FULL) after it was deleted")
            }
            Self::Null => f.write_str("the value is NULL, which the target column does not allow"),
            Self::BadText => f.write_str("the bytes are no text in the column's character set"),
            Self::UnknownCharset => f.write_str("the column's character set cannot be decoded"),
            Self::TooLong { len, limit } => write!(
                f,
                "the value is {len} bytes long, Doris takes {limit}; for STRING columns raise \
                 string_type_length_soft_limit_bytes on the BEs and the sink's limit with it"
            ),
            Self::InvalidDate => f.write_str(
                "the date is zero or does not exist, and Doris has no such date; set on_invalid_date = \"null\" \
                 (not for keys) or \"epoch\", or correct the row",
            ),
            Self::UnknownLabel(n) => write!(f, "no label is known for the ENUM or SET value {n}"),
            Self::NotANumber => f.write_str("the value is not a finite number"),
            Self::NotCsv => f.write_str(
                "the text holds a byte 1 or 2, or is \\N alone, which CSV cannot carry; set sink.format = \"json\"",
            ),
            Self::Malformed => f.write_str("the packed value is malformed"),
            Self::Mismatch => {
                f.write_str("the value is of another type than the column; the table's schema is out of date")
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    table: String,
    column: String,
    key: String,
    fault: Fault,
}

/// A row that could not be encoded. Names the table, the column, the row's key and the way out.
#[derive(Debug, PartialEq, Eq)]
pub struct EncodeError(Box<Inner>);

impl EncodeError {
    #[cold]
    pub(crate) fn new(table: &str, column: &str, key: String, fault: Fault) -> Self {
        Self(Box::new(Inner { table: table.to_owned(), column: column.to_owned(), key, fault }))
    }

    /// The source column.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.0.column
    }

    /// The row's key as `name=value, …` with JSON values; empty for a table without a key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Whether a zero or impossible date is the cause (`on_invalid_date`).
    #[must_use]
    pub fn is_invalid_date(&self) -> bool {
        self.0.fault == Fault::InvalidDate
    }

    /// Whether the value is longer than the target column.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(self.0.fault, Fault::TooLong { .. })
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { table, column, key, fault } = &*self.0;
        let key = if key.is_empty() { "a row without a key" } else { key };
        write!(f, "{table}, column `{column}`, row with {key}: {fault}")
    }
}

impl std::error::Error for EncodeError {}
