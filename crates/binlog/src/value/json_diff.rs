use core::fmt;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::JsonBinary;
use super::json_dom::{Budget, Node};
use super::json_path;

/// How a JSON document changed (`Json_diff_vector` of `sql/json_diff.h`): what a column of a PARTIAL_UPDATE_ROWS event
/// holds instead of the document. Nothing at all means that it did not change.
///
/// ```text
/// (u8 operation, lenenc path length, path, REPLACE and INSERT: lenenc value length, value)…
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonDiffs<'a> {
    /// The differences as they lie in the event.
    pub bytes: &'a [u8],
}

/// One difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonDiff<'a> {
    /// What happens at the path.
    pub operation: JsonOperation,
    /// A single place in the document, as in `$.a."b c"[2]`.
    pub path: &'a str,
    /// What is put there; JSON null for a removal.
    pub value: JsonBinary<'a>,
}

/// What a difference does at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has these three")]
pub enum JsonOperation {
    /// Puts a value in the place of another.
    Replace,
    /// Adds a member to an object, or a cell before one of an array or at its end.
    Insert,
    /// Takes a member or a cell out.
    Remove,
}

/// Why differences do not give a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonDiffError {
    /// The document or the differences are malformed, or their work is over a limit.
    Malformed(ParseError),
    /// A difference does not fit the document: it is not the one that the server changed. Counted from 0.
    Rejected {
        /// Which difference.
        diff: usize,
    },
}

impl From<ParseError> for JsonDiffError {
    fn from(e: ParseError) -> Self {
        Self::Malformed(e)
    }
}

impl fmt::Display for JsonDiffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(_) => f.write_str("a changed JSON document cannot be read"),
            Self::Rejected { diff } => {
                write!(f, "difference {} does not fit the JSON document", diff.saturating_add(1))
            }
        }
    }
}

impl core::error::Error for JsonDiffError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Malformed(e) => Some(e),
            Self::Rejected { .. } => None,
        }
    }
}

impl<'a> JsonDiffs<'a> {
    /// The differences in order. The first error ends them.
    pub fn iter(&self) -> impl Iterator<Item = Result<JsonDiff<'a>, ParseError>> + use<'a> {
        let mut r = Reader::new(self.bytes);
        core::iter::from_fn(move || {
            if r.is_empty() {
                return None;
            }
            let diff = read(&mut r);
            if diff.is_err() {
                r.rest();
            }
            Some(diff)
        })
    }

    /// Appends the changed document in the server's binary form, as a server without in-place updates would store it: its
    /// text is the source's, its bytes may differ from the source's by holes. On an error nothing is appended.
    ///
    /// Work and memory are bounded by a multiple of the sizes of both.
    ///
    /// # Errors
    /// When a difference does not fit `document`, or when one of them is malformed.
    pub fn apply(&self, document: JsonBinary<'_>, out: &mut Vec<u8>) -> Result<(), JsonDiffError> {
        if self.bytes.is_empty() {
            out.extend_from_slice(document.bytes);
            return Ok(());
        }
        let mut budget = Budget::new(document.bytes.len().saturating_add(self.bytes.len()));
        let mut root = Node::parse(document.bytes, &mut budget)?;
        for (i, diff) in self.iter().enumerate() {
            let diff = diff?;
            let path = json_path::parse(diff.path)?;
            let fits = match diff.operation {
                JsonOperation::Replace => root.replace(&path, Node::parse(diff.value.bytes, &mut budget)?),
                JsonOperation::Insert => {
                    let value = Node::parse(diff.value.bytes, &mut budget)?;
                    root.insert(&path, value, &mut budget)?
                }
                JsonOperation::Remove => root.remove(&path, &mut budget)?,
            };
            if !fits {
                return Err(JsonDiffError::Rejected { diff: i });
            }
        }
        Ok(root.write(&budget, out)?)
    }

    /// Appends the differences as a JSON array like `[{"op": "replace", "path": "$.a", "value": 1}]`.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let start = out.len();
        let done = self.write_all(out);
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    fn write_all(&self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        out.push(b'[');
        for (i, diff) in self.iter().enumerate() {
            let diff = diff?;
            out.extend_from_slice(if i == 0 { b"{" } else { b", {" });
            out.extend_from_slice(b"\"op\": \"");
            out.extend_from_slice(diff.operation.name().as_bytes());
            out.extend_from_slice(b"\", \"path\": ");
            super::json::write_string(diff.path.as_bytes(), "json path", out)?;
            if diff.operation != JsonOperation::Remove {
                out.extend_from_slice(b", \"value\": ");
                diff.value.write_to(out)?;
            }
            out.push(b'}');
        }
        out.push(b']');
        Ok(())
    }
}

impl JsonOperation {
    /// `replace`, `insert` or `remove`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Insert => "insert",
            Self::Remove => "remove",
        }
    }
}

fn read<'a>(r: &mut Reader<'a>) -> Result<JsonDiff<'a>, ParseError> {
    let operation = match r.u8("json diff operation")? {
        0 => JsonOperation::Replace,
        1 => JsonOperation::Insert,
        2 => JsonOperation::Remove,
        b => return Err(r.error("json diff operation", ParseErrorKind::BadTag(b))),
    };
    let n = r.lenenc_len("json path length")?;
    let path = r.str(n, "json path")?;
    let value = match operation {
        JsonOperation::Remove => &[],
        _ => r.lenenc_bytes("json diff value")?,
    };
    Ok(JsonDiff { operation, path, value: JsonBinary { bytes: value } })
}
