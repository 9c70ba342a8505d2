//! Replies of FE and BE, read without trust: unknown members, members twice, other servers' pages.

use serde_json::{Map, Value};

/// What became of an earlier load of the same label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Existing {
    /// Still in PREPARE.
    Running,
    /// PRECOMMITTED.
    PreCommitted,
    /// COMMITTED or VISIBLE.
    Finished,
    /// A state this version does not know.
    Unknown,
}

/// `Status` of a load's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadStatus {
    /// Visible, or PRECOMMITTED with two phases.
    Success,
    /// Committed, visible a little later.
    PublishTimeout,
    /// The label is taken.
    LabelExists(Existing),
    /// Usually, but not surely, rolled back.
    Fail,
    /// A status this version does not know.
    Other(String),
}

/// A text of Doris without its wrapping: `[CODE]`, `TStatus: `, `errCode = 2, detailMessage = `, in any combination.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    /// `CODE` of `[CODE]…`, if there was one.
    pub code: Option<Box<str>>,
    /// The text.
    pub text: String,
}

impl Message {
    /// Takes the wrapping off.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        let mut text = raw.trim();
        let mut code = None;
        loop {
            if let Some(rest) = text.strip_prefix('[')
                && let Some((inside, after)) = rest.split_once(']')
                && !inside.is_empty()
                && inside.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            {
                code.get_or_insert_with(|| inside.into());
                text = after.trim_start();
            } else if let Some(rest) = text.strip_prefix("TStatus:") {
                text = rest.trim_start();
            } else if let Some(rest) = text.strip_prefix("errCode = ")
                && let Some((number, after)) = rest.split_once(", detailMessage = ")
                && number.bytes().all(|b| b.is_ascii_digit())
            {
                text = after.trim_start();
            } else {
                return Self { code, text: text.to_owned() };
            }
        }
    }

    /// Code and text in lower case, for matching.
    pub(crate) fn lower(&self) -> String {
        format!("{} {}", self.code.as_deref().unwrap_or_default(), self.text).to_lowercase()
    }
}

impl core::fmt::Display for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.code {
            Some(code) => write!(f, "[{code}] {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// A BE's reply to a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReply {
    /// Transaction id; `None` for the −1 of a refused begin, which must never be used.
    pub txn_id: Option<u64>,
    /// Label as the server knows it.
    pub label: Option<String>,
    /// What the server says about two phases; `None` when it does not say.
    pub two_phase: Option<bool>,
    /// Whether the load became a group commit.
    pub group_commit: bool,
    /// Status.
    pub status: LoadStatus,
    /// Message.
    pub message: Message,
    /// Rows read.
    pub total: Option<u64>,
    /// Rows loaded.
    pub loaded: Option<u64>,
    /// Rows refused for their data.
    pub filtered: Option<u64>,
    /// Rows left out by a WHERE.
    pub unselected: Option<u64>,
    /// Where the refused rows are explained.
    pub error_url: Option<String>,
    /// The first refused row's explanation (newest versions).
    pub first_error: Option<String>,
}

/// Why a reply says nothing about the load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoReply {
    /// An HTTP status other than 200.
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body.
        text: String,
    },
    /// An error of an FE: `{"status": …, "msg": …}` or `{"code": …, "msg": …}`.
    Frontend {
        /// `code`, when there is one.
        code: Option<i64>,
        /// Text.
        message: Message,
    },
    /// Not what a Doris server sends, or not all of it.
    Unreadable {
        /// The beginning of the body.
        text: String,
    },
}

/// The first characters of a body, on one line, for messages.
#[must_use]
pub fn excerpt(body: &[u8]) -> String {
    let head = body.get(..body.len().min(2000)).unwrap_or_default();
    let text = String::from_utf8_lossy(head);
    let mut out: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(500).collect();
    if body.len() > 2000 {
        out.push('…');
    }
    out
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// A count, whether it comes as a number or as text; negative is none.
fn number(object: &Map<String, Value>, name: &str) -> Option<u64> {
    match object.get(name)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The body as a JSON object. Of a member that comes twice the last one counts; none that we read comes twice (`Comment`
/// does, when a BE answers with its stream load record).
fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

fn frontend_error(object: &Map<String, Value>) -> NoReply {
    let code = object.get("code").and_then(Value::as_i64);
    let msg = text(object, "msg").unwrap_or_default();
    let data = object.get("data").and_then(Value::as_str).filter(|data| !data.is_empty() && *data != msg);
    let whole = data.map_or_else(|| msg.clone(), |data| format!("{msg}: {data}"));
    NoReply::Frontend { code, message: Message::parse(&whole) }
}

/// Reads a BE's reply to a load. Without a `Status` nothing is a success, whatever HTTP says.
///
/// # Errors
/// With what came instead.
pub fn parse_load(status: u16, body: &[u8]) -> Result<LoadReply, NoReply> {
    if status != 200 {
        return Err(NoReply::Http { status, text: excerpt(body) });
    }
    let Some(object) = object(body) else { return Err(NoReply::Unreadable { text: excerpt(body) }) };
    let Some(status) = text(&object, "Status") else {
        if object.contains_key("msg") {
            return Err(frontend_error(&object));
        }
        return Err(NoReply::Unreadable { text: excerpt(body) });
    };
    let existing = match text(&object, "ExistingJobStatus").unwrap_or_default().as_str() {
        "RUNNING" => Existing::Running,
        "PRECOMMITTED" => Existing::PreCommitted,
        "FINISHED" => Existing::Finished,
        _ => Existing::Unknown,
    };
    let status = match status.as_str() {
        "Success" => LoadStatus::Success,
        "Publish Timeout" => LoadStatus::PublishTimeout,
        "Label Already Exists" => LoadStatus::LabelExists(existing),
        "Fail" => LoadStatus::Fail,
        _ => LoadStatus::Other(status),
    };
    let group_commit = match object.get("GroupCommit") {
        Some(Value::Bool(on)) => *on,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    };
    Ok(LoadReply {
        txn_id: number(&object, "TxnId"),
        label: text(&object, "Label"),
        two_phase: text(&object, "TwoPhaseCommit").map(|text| text.eq_ignore_ascii_case("true")),
        group_commit,
        status,
        message: Message::parse(&text(&object, "Message").unwrap_or_default()),
        total: number(&object, "NumberTotalRows"),
        loaded: number(&object, "NumberLoadedRows"),
        filtered: number(&object, "NumberFilteredRows"),
        unselected: number(&object, "NumberUnselectedRows"),
        error_url: text(&object, "ErrorURL").filter(|url| !url.is_empty()),
        first_error: text(&object, "FirstErrorMsg").filter(|text| !text.is_empty()),
    })
}

/// The transaction a "label already used" text names: `… relate to txn [N]`.
#[must_use]
pub fn related_txn(message: &Message) -> Option<u64> {
    let (_, rest) = message.text.rsplit_once("relate to txn [")?;
    rest.split(']').next()?.trim().parse().ok()
}

/// A reply to a commit or abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnReply {
    /// Whether `status` is `Success`.
    pub success: bool,
    /// Text.
    pub message: Message,
}

/// Reads a reply to a commit or abort.
///
/// # Errors
/// With what came instead.
pub fn parse_txn(status: u16, body: &[u8]) -> Result<TxnReply, NoReply> {
    if status != 200 {
        return Err(NoReply::Http { status, text: excerpt(body) });
    }
    let Some(object) = object(body) else { return Err(NoReply::Unreadable { text: excerpt(body) }) };
    let message = || Message::parse(&text(&object, "msg").unwrap_or_default());
    match text(&object, "status") {
        Some(status) => Ok(TxnReply { success: status.eq_ignore_ascii_case("success"), message: message() }),
        None if object.contains_key("msg") => Err(frontend_error(&object)),
        None => Err(NoReply::Unreadable { text: excerpt(body) }),
    }
}

/// The `data` of an FE's `{"msg": "success", "code": 0, "data": …}`.
///
/// # Errors
/// With what came instead.
pub fn parse_frontend(status: u16, body: &[u8]) -> Result<Value, NoReply> {
    if status != 200 {
        return Err(NoReply::Http { status, text: excerpt(body) });
    }
    let Some(mut object) = object(body) else { return Err(NoReply::Unreadable { text: excerpt(body) }) };
    match object.get("code").and_then(Value::as_i64) {
        Some(0) => Ok(object.remove("data").unwrap_or(Value::Null)),
        _ if object.contains_key("msg") => Err(frontend_error(&object)),
        _ => Err(NoReply::Unreadable { text: excerpt(body) }),
    }
}

/// A BE as the FE lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Host.
    pub host: String,
    /// HTTP port.
    pub http_port: u16,
    /// Whether the FE takes it for alive.
    pub alive: bool,
}

/// The BEs of `/api/backends`.
#[must_use]
pub fn backends(data: &Value) -> Vec<Backend> {
    let list = data.get("backends").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |backend: &Value| {
        let backend = backend.as_object()?;
        let host = text(backend, "ip").or_else(|| text(backend, "host"))?;
        let http_port = u16::try_from(number(backend, "http_port")?).ok()?;
        Some(Backend { host, http_port, alive: backend.get("is_alive").and_then(Value::as_bool).unwrap_or(true) })
    };
    list.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPLY: &str = r#"{
    "TxnId": 18036,
    "Label": "ms1_x",
    "Comment": "",
    "TwoPhaseCommit": "true",
    "Status": "Success",
    "Message": "OK",
    "NumberTotalRows": 2,
    "NumberLoadedRows": 2,
    "NumberFilteredRows": 0,
    "NumberUnselectedRows": 0,
    "LoadBytes": 40,
    "LoadTimeMs": 46,
    "BeginTxnTimeMs": 0
}
"#;

    #[test]
    fn a_reply_is_read() {
        let reply = parse_load(200, REPLY.as_bytes()).unwrap();
        assert_eq!(reply.txn_id, Some(18036));
        assert_eq!(reply.status, LoadStatus::Success);
        assert_eq!((reply.total, reply.loaded, reply.filtered, reply.unselected), (Some(2), Some(2), Some(0), Some(0)));
        assert_eq!((reply.two_phase, reply.group_commit), (Some(true), false));
    }

    #[test]
    fn a_record_with_a_member_twice_is_read() {
        let record =
            REPLY.replace("\"LoadBytes\"", "\"cluster\":null,\"Db\":\"d\",\"Comment\":\"again\",\"LoadBytes\"");
        assert_eq!(parse_load(200, record.as_bytes()), parse_load(200, REPLY.as_bytes()));
    }

    #[test]
    fn existing_jobs() {
        for (text, expected) in [
            ("RUNNING", Existing::Running),
            ("PRECOMMITTED", Existing::PreCommitted),
            ("FINISHED", Existing::Finished),
            ("NEW", Existing::Unknown),
        ] {
            let body = format!(
                r#"{{"TxnId":-1,"Status":"Label Already Exists","ExistingJobStatus":"{text}",
                "Message":"[LABEL_ALREADY_EXISTS]errCode = 2, detailMessage = Label [l] has already been used, relate to txn [38597]"}}"#
            );
            let reply = parse_load(200, body.as_bytes()).unwrap();
            assert_eq!(reply.status, LoadStatus::LabelExists(expected));
            assert_eq!(reply.txn_id, None, "the -1 is no transaction");
            assert_eq!(related_txn(&reply.message), Some(38597));
        }
    }

    #[test]
    fn without_a_status_nothing_is_a_success() {
        type Check = fn(&NoReply) -> bool;
        let cases: [(u16, &str, Check); 9] = [
            (200, "", |r| matches!(r, NoReply::Unreadable { .. })),
            (200, "<html>Success</html>", |r| matches!(r, NoReply::Unreadable { .. })),
            (200, "{}", |r| matches!(r, NoReply::Unreadable { .. })),
            (200, "\"Success\"", |r| matches!(r, NoReply::Unreadable { .. })),
            (200, REPLY.split_at(100).0, |r| matches!(r, NoReply::Unreadable { .. })),
            (200, r#"{"Status":null}"#, |r| matches!(r, NoReply::Unreadable { .. })),
            (
                200,
                r#"{"status":"FAILED","msg":"There is no 100-continue header"}"#,
                |r| matches!(r, NoReply::Frontend { code: None, message } if message.text.contains("100-continue")),
            ),
            (
                200,
                r#"{"msg":"Unauthorized","code":401,"data":"no","count":0}"#,
                |r| matches!(r, NoReply::Frontend { code: Some(401), message } if message.text == "Unauthorized: no"),
            ),
            (503, REPLY, |r| matches!(r, NoReply::Http { status: 503, .. })),
        ];
        for (status, body, check) in cases {
            let found = parse_load(status, body.as_bytes()).unwrap_err();
            assert!(check(&found), "{body}: {found:?}");
            assert!(parse_txn(status, body.as_bytes()).is_err() || body.contains("status"), "{body}");
        }
    }

    #[test]
    fn the_three_dialects_are_one_message() {
        let text = "transaction [563067] is already visible, not pre-committed.";
        for (raw, code) in [
            (text.to_owned(), None),
            (format!("errCode = 2, detailMessage = {text}"), None),
            (format!("[ANALYSIS_ERROR]errCode = 2, detailMessage = {text}"), Some("ANALYSIS_ERROR")),
            (format!("TStatus: errCode = 2, detailMessage = {text}"), None),
            (format!("[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {text}"), Some("ANALYSIS_ERROR")),
            (format!("[PUBLISH_TIMEOUT]TStatus: {text}"), Some("PUBLISH_TIMEOUT")),
        ] {
            let message = Message::parse(&raw);
            assert_eq!((message.text.as_str(), message.code.as_deref()), (text, code), "{raw}");
        }
        assert_eq!(Message::parse("[1.2] x").text, "[1.2] x");
    }

    #[test]
    fn commits_and_lists() {
        let reply = parse_txn(200, br#"{"status":"Success","msg":"transaction [7] commit successfully."}"#).unwrap();
        assert!(reply.success);
        let reply =
            parse_txn(200, br#"{"status":"ANALYSIS_ERROR","msg":"TStatus: errCode = 2, detailMessage = x"}"#).unwrap();
        assert!(!reply.success && reply.message.text == "x");
        let data = parse_frontend(200, br#"{"msg":"success","code":0,"data":"VISIBLE","count":0}"#).unwrap();
        assert_eq!(data, "VISIBLE");
        assert!(parse_frontend(200, br#"{"msg":"Error","code":1,"data":"unknown db","count":0}"#).is_err());
        let data = serde_json::json!({"backends": [{"ip": "h", "http_port": 8040, "is_alive": true}, {"ip": 3}, 7]});
        assert_eq!(backends(&data), [Backend { host: "h".into(), http_port: 8040, alive: true }]);
        assert_eq!(backends(&Value::Null), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(body in prop::collection::vec(any::<u8>(), 0..400), cut in 0..REPLY.len()) {
            prop_assert!(parse_load(200, &body).is_err());
            prop_assert!(parse_txn(200, &body).is_err() && parse_frontend(200, &body).is_err());
            prop_assert!(excerpt(&body).chars().count() <= 501);
            // No prefix of a success is a success, but for the white space at its end.
            let head = &REPLY.as_bytes()[..cut];
            let whole = head.ends_with(b"}");
            prop_assert!(parse_load(200, head).is_err() || whole);
        }
    }
}
