//! Rows as the bytes of a load: JSON by line, written straight from borrowed values into the batch's buffer.
//!
//! The same writer serves rows of the binlog and rows of a `SELECT`: a value gives the same bytes on both ways.

mod csv;
mod error;
mod escape;
mod json;
mod temporal;
mod value;

pub use error::EncodeError;
pub use json::{Extent, KeySpan, RowEncoder};

pub(crate) use json::key_text;

pub(crate) use error::Fault;
pub(crate) use escape::push_json_string;
pub(crate) use value::{Quoting, ValuePlan};

/// The default of [`EncodeOptions::string_limit`]: Doris' `string_type_length_soft_limit_bytes`.
pub const STRING_LIMIT: u32 = 1024 * 1024;

/// What becomes of a date Doris does not have: `0000-00-00`, a month or day of zero, the 30th of February.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(clippy::exhaustive_enums, reason = "the three values of on_invalid_date")]
pub enum InvalidDate {
    /// An error that names table, column and key.
    #[default]
    Fail,
    /// NULL; in a key column still an error.
    Null,
    /// 1970-01-01 00:00:00.
    Epoch,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(clippy::exhaustive_enums, reason = "the two values of sink.format")]
pub enum Format {
    /// One JSON object per line: every text can be carried.
    #[default]
    Json,
    /// Fields between bytes 1, rows between bytes 2: smaller, and read faster by Doris. A text with one of these bytes, or
    /// one of `\N` alone, cannot be carried and is an error.
    Csv,
}

/// How bytes that are no text are written. Keys are hex in any case, so that they sort as the bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(clippy::exhaustive_enums, reason = "the two values of sink.binary")]
pub enum Binary {
    /// Two lower-case digits a byte.
    #[default]
    Hex,
    /// The standard alphabet, padded.
    Base64,
}

/// What an encoder does with values that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Dates Doris does not have.
    pub invalid_date: InvalidDate,
    /// Longest value of a STRING column in bytes of UTF-8, as the cluster is configured; Doris refuses longer ones.
    pub string_limit: u32,
    /// How rows are written.
    pub format: Format,
    /// How BINARY, VARBINARY, BLOB and spatial values outside of keys are written.
    pub binary: Binary,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { invalid_date: InvalidDate::Fail, string_limit: STRING_LIMIT, format: Format::Json, binary: Binary::Hex }
    }
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the four operations of the append format")]
pub enum Op {
    /// Read by the snapshot.
    Read,
    /// Inserted (or the second half of a key change).
    Create,
    /// Updated.
    Update,
    /// Deleted (or the first half of a key change).
    Delete,
}

impl Op {
    /// `r`, `c`, `u` or `d`.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Read => 'r',
            Self::Create => 'c',
            Self::Update => 'u',
            Self::Delete => 'd',
        }
    }
}

/// Where a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMeta<'a> {
    /// The change's place in the output: `era << 44 | n`, strictly increasing.
    pub seq: i64,
    /// What happened. [`Op::Delete`] carries the before image, the others the after image.
    pub op: Op,
    /// The transaction's GTID as text.
    pub gtid: Option<&'a str>,
    /// Binlog file; for a snapshot row the file of its watermark.
    pub file: &'a str,
    /// Offset in the file.
    pub pos: u64,
    /// The row's number within its transaction or chunk, from 0.
    pub row: u32,
    /// When the source committed, microseconds since 1970 UTC.
    pub ts_micros: Option<u64>,
}
