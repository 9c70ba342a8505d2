//! What is said over the control socket: one JSON object in a line each way.

use serde::{Deserialize, Serialize};

/// The longest request in bytes, its line's end included.
pub const REQUEST_LIMIT: usize = 64 * 1024;
/// The longest reply that a client reads.
pub const REPLY_LIMIT: usize = 64 << 20;
/// Tables that one request may name.
pub const TABLES_LIMIT: usize = 1000;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
#[allow(clippy::exhaustive_enums, reason = "the engine must handle every request")]
pub enum Request {
    /// Where every table stands.
    Status,
    /// Other speeds of snapshots from now on.
    Set(Speed),
    /// Tables to be read again.
    Resync(Resync),
}

/// How fast snapshots read; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Rows in a second over all readers; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_second: Option<u64>,
    /// Chunk readers beside each other, 1 to 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

/// Tables to be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resync {
    /// Source tables, `db.table`.
    pub tables: Vec<String>,
    /// Their targets are emptied first.
    #[serde(default)]
    pub truncate: bool,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::exhaustive_enums, reason = "the client must show every reply")]
pub enum Reply {
    /// It is done, or will be; what that means.
    Done(String),
    /// Where every table stands.
    Status(Box<Status>),
    /// It was not done, and why.
    Error(String),
}

/// Where a pipeline stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The pipeline's name.
    pub pipeline: String,
    /// Whether an engine runs; without one this is the stored state.
    pub running: bool,
    /// The era of the last start.
    pub era: u32,
    /// Where the stream is, as the server that runs names it.
    pub position: Option<String>,
    /// Transactions that are durable in the sink.
    pub durable: String,
    /// XA transactions that are prepared and not decided.
    pub undecided: Vec<String>,
    /// Rows of snapshots in a second at most; 0: no limit. Of a running engine.
    pub rows_per_second: Option<u64>,
    /// Chunk readers. Of a running engine.
    pub workers: Option<usize>,
    /// Targets that are quarantined, each with its source and the reason.
    pub left_out: Vec<String>,
    /// Every table.
    pub tables: Vec<TableStatus>,
}

/// Where a table stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Source table, `db.table`.
    pub table: String,
    /// What is going on.
    pub state: TableState,
    /// Target tables, `db.table (mode)`.
    pub targets: Vec<String>,
    /// Key ranges that are done, that are being read, and that are not read yet.
    pub ranges: [usize; 3],
    /// Rows that its snapshot has brought since the engine started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_rows: Option<u64>,
    /// Why, where the state needs a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is going on with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::exhaustive_enums, reason = "the client must show every state")]
pub enum TableState {
    /// Every change is delivered as it comes.
    Live,
    /// Its rows are being read.
    Snapshot,
    /// Its rows are being read again; its targets keep what they hold.
    Resync,
    /// A resync was asked for and has not begun.
    Requested,
    /// It appeared, and will be added.
    Adding,
    /// It appeared and cannot be captured.
    Refused,
}

impl TableState {
    /// The word for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Snapshot => "snapshot",
            Self::Resync => "resync",
            Self::Requested => "requested",
            Self::Adding => "adding",
            Self::Refused => "refused",
        }
    }
}

impl Request {
    /// Reads a request's line and checks its bounds.
    ///
    /// # Errors
    /// What is wrong with it, for the one who asked.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > REQUEST_LIMIT {
            return Err(format!("the request is longer than {REQUEST_LIMIT} bytes"));
        }
        let request: Self = serde_json::from_slice(line).map_err(|e| format!("the request cannot be read: {e}"))?;
        match &request {
            Self::Status => {}
            Self::Set(Speed { rows_per_second: None, workers: None }) => {
                return Err("nothing to set: rows_per_second=N or workers=N".to_owned());
            }
            Self::Set(Speed { workers: Some(n), .. }) if !(1..=64).contains(n) => {
                return Err(format!("workers: {n} is not allowed: a whole number from 1 to 64"));
            }
            Self::Set(Speed { rows_per_second: Some(n), .. }) if u32::try_from(*n).is_err() => {
                return Err(format!("rows_per_second: {n} is not allowed: a whole number from 0 to {}", u32::MAX));
            }
            Self::Set(_) => {}
            Self::Resync(resync) if !(1..=TABLES_LIMIT).contains(&resync.tables.len()) => {
                return Err(format!("1 to {TABLES_LIMIT} tables can be read again at once"));
            }
            Self::Resync(_) => {}
        }
        Ok(request)
    }
}

impl Reply {
    /// Its line.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line =
            serde_json::to_vec(self).unwrap_or_else(|_| br#"{"error":"the reply cannot be written"}"#.to_vec());
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        for (request, text) in [
            (Request::Status, r#"{"command":"status"}"#),
            (
                Request::Set(Speed { rows_per_second: Some(0), workers: None }),
                r#"{"command":"set","rows_per_second":0}"#,
            ),
            (
                Request::Resync(Resync { tables: vec!["a.b".to_owned()], truncate: true }),
                r#"{"command":"resync","tables":["a.b"],"truncate":true}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(Request::parse(text.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn what_is_no_request_is_told_why() {
        let many = format!(r#"{{"command":"resync","tables":{:?}}}"#, vec!["a.b"; TABLES_LIMIT + 1]);
        let long = format!(r#"{{"command":"resync","tables":["{}"]}}"#, "x".repeat(REQUEST_LIMIT));
        for (text, want) in [
            ("", "cannot be read"),
            ("{}", "missing field `command`"),
            (r#"{"command":"stop"}"#, "unknown variant `stop`"),
            (r#"{"command":"set"}"#, "nothing to set"),
            (r#"{"command":"set","workers":0}"#, "workers: 0 is not allowed: a whole number from 1 to 64"),
            (r#"{"command":"set","rows_per_second":4294967296}"#, "rows_per_second: 4294967296 is not allowed"),
            (r#"{"command":"set","rows":1}"#, "unknown field `rows`"),
            (r#"{"command":"resync","tables":[]}"#, "1 to 1000 tables"),
            (&many, "1 to 1000 tables"),
            (&long, "longer than"),
        ] {
            let message = Request::parse(text.as_bytes()).unwrap_err();
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    #[test]
    fn a_reply_is_one_line() {
        let reply = Reply::Error("two\nlines".to_owned());
        let line = reply.line();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Reply>(&line).unwrap(), reply);
        let status = Reply::Status(Box::default());
        assert_eq!(serde_json::from_slice::<Reply>(&status.line()).unwrap(), status);
    }
}
