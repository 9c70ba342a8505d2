//! Requests to the FE and the BE: paths and headers, no sockets.
//!
//! A load is two requests. The FE gets all headers, `Expect: 100-continue` and `Content-Length: 0`, and answers 307; the BE
//! it names gets the same headers, no `Expect`, and the body with its exact length. No byte of a body ever goes to the FE,
//! and every header is sent twice, because a BE that does not see `two_phase_commit` loads in one phase.

use core::fmt;
use core::time::Duration;

use base64::Engine as _;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::encode::Format;
use crate::label::Label;

/// Everything but unreserved characters.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Basic credentials. The password is never printed.
#[derive(Clone)]
pub struct Credentials {
    header: HeaderValue,
    user: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Credentials of `user`.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        // Base64 is always a valid header value.
        let mut header =
            HeaderValue::from_str(&format!("Basic {pair}")).unwrap_or(HeaderValue::from_static("Basic Og=="));
        header.set_sensitive(true);
        Self { header, user: user.to_owned() }
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Headers with nothing but the credentials.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, self.header.clone())])
    }
}

/// Whether a load is committed by a second call or by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum TwoPhase {
    /// The load stays PRECOMMITTED until [`TxnOperation::Commit`].
    Yes,
    /// The load is committed and published by itself.
    No,
}

/// Whether the server gathers small loads into one transaction of its own. Then there is no label, so a load that is sent
/// twice is loaded twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(clippy::exhaustive_enums, reason = "Doris knows these three")]
pub enum GroupCommit {
    /// Never.
    #[default]
    Off,
    /// The reply comes when the rows are visible.
    Sync,
    /// The reply comes when the rows are in the write-ahead log of one BE.
    Async,
}

/// A Stream Load, without its body.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// Database.
    pub database: &'a str,
    /// Table.
    pub table: &'a str,
    /// Label.
    pub label: Label,
    /// [`TargetTable::columns_header`](crate::table::TargetTable::columns_header).
    pub columns: &'a str,
    /// The load has some columns alone; the others stay as they are, and every key must have a row.
    pub partial: bool,
    /// How the rows are written.
    pub format: Format,
    /// One phase or two.
    pub two_phase: TwoPhase,
    /// Off with two phases.
    pub group_commit: GroupCommit,
    /// How long the server lets the load live before it is PRECOMMITTED. Whole seconds, at least 1, at most 259200.
    pub timeout: Duration,
}

/// A name or value that cannot be a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHeader(pub &'static str);

fn name_in_path(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, PATH)
}

impl LoadRequest<'_> {
    /// Path at FE and BE.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/api/{}/{}/_stream_load", name_in_path(self.database), name_in_path(self.table))
    }

    fn headers(&self, credentials: &Credentials) -> Result<HeaderMap, BadHeader> {
        let mut headers = credentials.headers();
        let value =
            |name: &'static str, text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|_| BadHeader(name));
        let seconds = self.timeout.as_secs().clamp(1, 259_200);
        for (name, text) in [
            ("columns", self.columns),
            ("timeout", itoa::Buffer::new().format(seconds)),
            ("strict_mode", "true"),
            ("max_filter_ratio", "0"),
        ] {
            headers.insert(HeaderName::from_static(name), value(name, text)?);
        }
        if self.partial {
            headers.insert(HeaderName::from_static("partial_columns"), HeaderValue::from_static("true"));
            // A row that is not there must not come to be with NULL in the columns that nobody gave. Before this header,
            // strict mode said the same.
            headers
                .insert(HeaderName::from_static("partial_update_new_key_behavior"), HeaderValue::from_static("ERROR"));
        }
        let group = match self.group_commit {
            // A table property must not turn a labelled load into a group commit, which is not exactly-once.
            GroupCommit::Off => "off_mode",
            GroupCommit::Sync => "sync_mode",
            GroupCommit::Async => "async_mode",
        };
        headers.insert(HeaderName::from_static("group_commit"), HeaderValue::from_static(group));
        if self.group_commit == GroupCommit::Off {
            headers.insert(HeaderName::from_static("label"), value("label", &self.label.to_string())?);
        }
        let format: &[(&'static str, &'static str)] = match self.format {
            Format::Json => &[("format", "json"), ("read_json_by_line", "true"), ("strip_outer_array", "false")],
            Format::Csv => &[("format", "csv"), ("column_separator", "\\x01"), ("line_delimiter", "\\x02")],
        };
        for (name, text) in format {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(text));
        }
        if self.two_phase == TwoPhase::Yes {
            headers.insert(HeaderName::from_static("two_phase_commit"), HeaderValue::from_static("true"));
        }
        Ok(headers)
    }

    /// Headers of the request to the FE, which has no body.
    ///
    /// # Errors
    /// When a column name cannot be sent in a header.
    pub fn frontend_headers(&self, credentials: &Credentials) -> Result<HeaderMap, BadHeader> {
        let mut headers = self.headers(credentials)?;
        headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        Ok(headers)
    }

    /// Headers of the request to the BE, which carries `body_len` bytes.
    ///
    /// # Errors
    /// When a column name cannot be sent in a header.
    pub fn backend_headers(&self, credentials: &Credentials, body_len: usize) -> Result<HeaderMap, BadHeader> {
        let mut headers = self.headers(credentials)?;
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body_len));
        Ok(headers)
    }
}

/// The second phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "Doris knows these two")]
pub enum TxnOperation {
    /// Make it durable and visible.
    Commit,
    /// Undo it.
    Abort,
}

/// Which transaction. Commits go by id only: after a lost reply a label cannot tell "committed already" from "gone".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "Doris knows these two")]
pub enum TxnRef {
    /// By transaction id.
    Id(u64),
    /// By label (Doris 2.1 and later).
    Label(Label),
}

/// Path of the second phase.
#[must_use]
pub fn txn_path(database: &str) -> String {
    format!("/api/{}/_stream_load_2pc", name_in_path(database))
}

/// Headers of the second phase. The body is empty, and `Expect` must not be sent with it.
#[must_use]
pub fn txn_headers(credentials: &Credentials, operation: TxnOperation, txn: TxnRef) -> HeaderMap {
    let mut headers = credentials.headers();
    let operation = match operation {
        TxnOperation::Commit => "commit",
        TxnOperation::Abort => "abort",
    };
    headers.insert(HeaderName::from_static("txn_operation"), HeaderValue::from_static(operation));
    match txn {
        TxnRef::Id(id) => headers.insert(HeaderName::from_static("txn_id"), HeaderValue::from(id)),
        TxnRef::Label(label) => headers.insert(
            HeaderName::from_static("label"),
            // A label is letters, digits and underscores.
            HeaderValue::from_str(&label.to_string()).unwrap_or(HeaderValue::from_static("")),
        ),
    };
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers
}

/// Path that tells a label's state at the FE.
#[must_use]
pub fn load_state_path(database: &str, label: Label) -> String {
    format!("/api/{}/get_load_state?label={label}", name_in_path(database))
}

/// Path of the FE's list of BEs.
pub const BACKENDS_PATH: &str = "/api/backends?is_alive=true";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(two_phase: TwoPhase) -> LoadRequest<'static> {
        LoadRequest {
            database: "ods",
            table: "orders-1",
            label: Label::new(1, 2, 3, 4, 5).unwrap(),
            columns: "`id`,`größe`",
            partial: false,
            format: Format::Json,
            two_phase,
            group_commit: GroupCommit::Off,
            timeout: Duration::from_secs(600),
        }
    }

    fn listed(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn both_legs_carry_every_load_header() {
        let credentials = Credentials::new("root", "p@ss:%/é");
        let common = [
            "authorization: Basic cm9vdDpwQHNzOiUvw6k=",
            "columns: `id`,`größe`",
            "format: json",
            "group_commit: off_mode",
            "label: ms1_0000000000000001_00000002_00003_000000000004_0005",
            "max_filter_ratio: 0",
            "read_json_by_line: true",
            "strict_mode: true",
            "strip_outer_array: false",
            "timeout: 600",
            "two_phase_commit: true",
        ];
        let with = |more: &[&str]| {
            let mut all: Vec<String> = common.iter().chain(more).map(|line| (*line).to_owned()).collect();
            all.sort();
            all
        };
        let load = request(TwoPhase::Yes);
        assert_eq!(load.path(), "/api/ods/orders-1/_stream_load");
        let front = load.frontend_headers(&credentials).unwrap();
        assert_eq!(listed(&front), with(&["content-length: 0", "expect: 100-continue"]));
        let back = load.backend_headers(&credentials, 4711).unwrap();
        assert_eq!(listed(&back), with(&["content-length: 4711"]));
        assert!(!request(TwoPhase::No).backend_headers(&credentials, 1).unwrap().contains_key("two_phase_commit"));
        let some = LoadRequest { partial: true, ..load }.backend_headers(&credentials, 1).unwrap();
        assert_eq!(
            (&some["partial_columns"], &some["partial_update_new_key_behavior"]),
            (&"true".parse().unwrap(), &"ERROR".parse().unwrap())
        );
        let csv = LoadRequest { format: Format::Csv, ..load }.backend_headers(&credentials, 1).unwrap();
        assert_eq!(
            (&csv["format"], &csv["column_separator"], &csv["line_delimiter"]),
            (&"csv".parse().unwrap(), &"\\x01".parse().unwrap(), &"\\x02".parse().unwrap())
        );
        assert!(!csv.contains_key("read_json_by_line"));
        let group = LoadRequest { group_commit: GroupCommit::Async, two_phase: TwoPhase::No, ..load };
        let group = group.backend_headers(&credentials, 1).unwrap();
        assert!(group["group_commit"] == "async_mode" && !group.contains_key("label"));
        let bad = LoadRequest { columns: "`a\nb`", ..load };
        assert_eq!(bad.backend_headers(&credentials, 1).unwrap_err(), BadHeader("columns"));
    }

    #[test]
    fn the_second_phase_goes_by_id_or_label() {
        let credentials = Credentials::new("root", "");
        let commit = txn_headers(&credentials, TxnOperation::Commit, TxnRef::Id(7));
        assert_eq!(
            listed(&commit),
            ["authorization: Basic cm9vdDo=", "content-length: 0", "txn_id: 7", "txn_operation: commit"]
        );
        let label = Label::new(1, 2, 3, 4, 5).unwrap();
        let abort = txn_headers(&credentials, TxnOperation::Abort, TxnRef::Label(label));
        assert_eq!(abort["label"], label.to_string().as_str());
        assert_eq!(abort["txn_operation"], "abort");
        assert_eq!(txn_path("a b"), "/api/a%20b/_stream_load_2pc");
        assert_eq!(load_state_path("d", label), format!("/api/d/get_load_state?label={label}"));
    }

    #[test]
    fn passwords_are_not_printed() {
        let credentials = Credentials::new("root", "hunter2");
        let pair = base64::engine::general_purpose::STANDARD.encode("root:hunter2");
        let printed = format!(
            "{credentials:?} {:?} {:?}",
            credentials.headers(),
            request(TwoPhase::Yes).frontend_headers(&credentials)
        );
        assert!(!printed.contains("hunter2") && !printed.contains(&pair), "{printed}");
    }
}
