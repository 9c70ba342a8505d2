//! What a reply means for the load, the commit or the abort it answers. Pure functions from reply to outcome.
//!
//! Texts are matched by part and without case: versions word and wrap them differently.

use core::fmt;

use crate::request::TwoPhase;
use crate::response::{Existing, LoadReply, LoadStatus, Message, NoReply, TxnReply, related_txn};

/// Why a load is to be tried again later, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryCause {
    /// `-235`: too many loads into the table; loads should also become fewer and larger.
    TooManyVersions,
    /// A quota of the database or its number of running transactions.
    Quota,
    /// The FE is not the master, or none is known.
    NotMaster,
    /// Locks, missing replicas or BEs, cancelled by the server, out of memory.
    Busy,
    /// The transaction was aborted by the server (time-out, BE restarted); the label is free again.
    RolledBack,
    /// A proxy or server says it is overloaded.
    Overload,
}

/// Why a load, commit or abort can not succeed by trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FatalCause {
    /// Rows were refused for their data.
    DataQuality,
    /// `-238`: too many segments in one load; the batch must be split.
    TooManySegments,
    /// The body is larger than the server takes; the batch must be split.
    TooLarge,
    /// User, password or privileges.
    Auth,
    /// Database or table is not there.
    UnknownTable,
    /// The table's columns are not those that the load names.
    UnknownColumn,
    /// The cluster does not do two-phase commit for this table (storage and compute separated, merge-on-write).
    TwoPhaseUnsupported,
    /// The server did not do as the headers say: group commit, or one phase instead of two. The rows may be visible.
    Disobeyed,
    /// The request is refused as malformed.
    BadRequest,
    /// The label belongs to a load that is already committed.
    LabelFinished,
    /// The transaction is in a state that forbids the operation.
    WrongState,
    /// The same refusal, which this version does not know, again and again.
    Unknown,
}

/// What became of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadOutcome {
    /// PRECOMMITTED (two phases) or committed (one phase) with every row.
    Done {
        /// Transaction id.
        txn_id: u64,
    },
    /// The label is taken by an earlier try, or by somebody else.
    Exists {
        /// What became of that.
        existing: Existing,
        /// Its transaction, when the text names it.
        txn_id: Option<u64>,
    },
    /// Later, the same bytes under the same label.
    Retry {
        /// Why.
        cause: RetryCause,
        /// Text.
        message: Message,
    },
    /// May have happened or not: the label's state decides.
    Ambiguous {
        /// Text.
        message: String,
    },
    /// Loaded, but not every row: abort it.
    WrongCount {
        /// Transaction id.
        txn_id: Option<u64>,
        /// Counts.
        message: String,
        /// Where refused rows are explained.
        error_url: Option<String>,
    },
    /// Trying again does not help.
    Fatal {
        /// Why.
        cause: FatalCause,
        /// Text.
        message: Message,
        /// Where refused rows are explained.
        error_url: Option<String>,
    },
    /// `Fail` with a text this version does not know: the label's state decides, and after some tries it is fatal.
    UnknownFailure {
        /// Text.
        message: Message,
    },
}

/// What became of a commit by transaction id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitOutcome {
    /// Committed now.
    Done,
    /// It was committed (or visible) before.
    AlreadyDone,
    /// Later again.
    Retry {
        /// Text.
        message: String,
    },
    /// It was aborted: its rows are lost, and will never appear.
    Aborted {
        /// Text.
        message: String,
    },
    /// No such transaction: aborted or committed long ago. The data itself must tell.
    NotFound,
    /// Trying again does not help.
    Fatal {
        /// Why.
        cause: FatalCause,
        /// Text.
        message: Message,
    },
}

/// What became of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortOutcome {
    /// Aborted now or before.
    Done,
    /// No such transaction, or by label no running one.
    NotFound,
    /// It is committed; it can no longer be aborted.
    AlreadyCommitted,
    /// This FE aborts by id only (before 2.1).
    NeedsId,
    /// Later again.
    Retry {
        /// Text.
        message: String,
    },
    /// Trying again does not help.
    Fatal {
        /// Why.
        cause: FatalCause,
        /// Text.
        message: Message,
    },
}

impl fmt::Display for FatalCause {
    /// What to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataQuality => "Doris refused rows for their data; compare the table's columns with the source",
            Self::TooManySegments => "the load has too many segments (-238); lower flush.bytes",
            Self::TooLarge => "the load is larger than the BE takes; lower flush.bytes or raise streaming_load_max_mb",
            Self::Auth => {
                "check sink.user and sink.password, and grant it LOAD, SELECT, CREATE and ALTER on the databases"
            }
            Self::UnknownTable => "the database or table is not there; was it dropped?",
            Self::UnknownColumn => "the table's columns are not what they were; was it altered?",
            Self::TwoPhaseUnsupported => {
                "this cluster has no two-phase commit for merge-on-write tables; set delivery = \"label\""
            }
            Self::Disobeyed => {
                "the server did not load as asked (group commit, or one phase for two); is a proxy dropping headers?"
            }
            Self::BadRequest => "Doris does not understand the request; is it 2.1 or later?",
            Self::LabelFinished => {
                "the label is already committed; two engines may be running on copies of one state directory"
            }
            Self::WrongState => "the transaction is in another state than expected",
            Self::Unknown => "Doris keeps refusing the load",
        })
    }
}

enum Verdict {
    Retry(RetryCause),
    Fatal(FatalCause),
    Ambiguous,
    Unknown,
}

/// Texts of a failed load, in order: the first that is contained decides.
#[rustfmt::skip]
const LOAD_TEXTS: &[(&str, Verdict)] = &[
    ("err=-238", Verdict::Fatal(FatalCause::TooManySegments)),
    ("[e-238]", Verdict::Fatal(FatalCause::TooManySegments)),
    ("too many segments", Verdict::Fatal(FatalCause::TooManySegments)),
    ("err=-235", Verdict::Retry(RetryCause::TooManyVersions)),
    ("[e-235]", Verdict::Retry(RetryCause::TooManyVersions)),
    ("too many versions", Verdict::Retry(RetryCause::TooManyVersions)),
    // The BE lost the FE while it committed: what the FE did is not known (issue #4960).
    ("failed to call frontend service", Verdict::Ambiguous),
    ("already committed", Verdict::Ambiguous),
    ("already visible", Verdict::Ambiguous),
    ("already pre-committed", Verdict::Ambiguous),
    ("label_already_exists", Verdict::Ambiguous),
    ("has already been used", Verdict::Ambiguous),
    ("not_authorized", Verdict::Fatal(FatalCause::Auth)),
    ("unauthorized", Verdict::Fatal(FatalCause::Auth)),
    ("no valid basic authorization", Verdict::Fatal(FatalCause::Auth)),
    ("access denied", Verdict::Fatal(FatalCause::Auth)),
    ("privilege", Verdict::Fatal(FatalCause::Auth)),
    ("2pc is unsupported", Verdict::Fatal(FatalCause::TwoPhaseUnsupported)),
    ("unsupported for mow", Verdict::Fatal(FatalCause::TwoPhaseUnsupported)),
    ("too many filtered rows", Verdict::Fatal(FatalCause::DataQuality)),
    ("data_quality_error", Verdict::Fatal(FatalCause::DataQuality)),
    ("parse json data failed", Verdict::Fatal(FatalCause::DataQuality)),
    ("multiple json objects", Verdict::Fatal(FatalCause::DataQuality)),
    ("label format error", Verdict::Fatal(FatalCause::BadRequest)),
    ("unknown database", Verdict::Fatal(FatalCause::UnknownTable)),
    ("unknown table", Verdict::Fatal(FatalCause::UnknownTable)),
    ("no such table", Verdict::Fatal(FatalCause::UnknownTable)),
    ("unknown column", Verdict::Fatal(FatalCause::UnknownColumn)),
    ("has sequence column", Verdict::Fatal(FatalCause::UnknownColumn)),
    ("100-continue", Verdict::Fatal(FatalCause::BadRequest)),
    ("no database selected", Verdict::Fatal(FatalCause::BadRequest)),
    ("no table selected", Verdict::Fatal(FatalCause::BadRequest)),
    ("group_commit", Verdict::Fatal(FatalCause::BadRequest)),
    ("unknown data format", Verdict::Fatal(FatalCause::BadRequest)),
    ("data_file_type_error", Verdict::Fatal(FatalCause::BadRequest)),
    ("body size", Verdict::Fatal(FatalCause::TooLarge)),
    ("larger than limit", Verdict::Retry(RetryCause::Quota)),
    ("quota", Verdict::Retry(RetryCause::Quota)),
    ("not_master", Verdict::Retry(RetryCause::NotMaster)),
    ("not master", Verdict::Retry(RetryCause::NotMaster)),
    ("fe master heartbeat", Verdict::Retry(RetryCause::NotMaster)),
    ("timeout by txn manager", Verdict::Retry(RetryCause::RolledBack)),
    ("coordinate be", Verdict::Retry(RetryCause::RolledBack)),
    ("receive body don't equal", Verdict::Retry(RetryCause::RolledBack)),
    ("all partitions have no load data", Verdict::Retry(RetryCause::RolledBack)),
    ("alive replica num", Verdict::Retry(RetryCause::Busy)),
    ("quorum", Verdict::Retry(RetryCause::Busy)),
    ("lock timeout", Verdict::Retry(RetryCause::Busy)),
    ("delete_bitmap_lock", Verdict::Retry(RetryCause::Busy)),
    ("no backend load available", Verdict::Retry(RetryCause::Busy)),
    ("no available backend", Verdict::Retry(RetryCause::Busy)),
    ("blocked on schema change", Verdict::Retry(RetryCause::Busy)),
    ("mem_limit_exceeded", Verdict::Retry(RetryCause::Busy)),
    ("cancelled", Verdict::Retry(RetryCause::Busy)),
    ("not found", Verdict::Ambiguous),
    ("timeout", Verdict::Ambiguous),
    ("timed out", Verdict::Ambiguous),
    ("rpc", Verdict::Ambiguous),
    ("network_error", Verdict::Ambiguous),
    ("invalid_argument", Verdict::Fatal(FatalCause::BadRequest)),
];

fn load_verdict(message: &Message) -> &'static Verdict {
    let text = message.lower();
    LOAD_TEXTS.iter().find(|(part, _)| text.contains(part)).map_or(&Verdict::Unknown, |(_, verdict)| verdict)
}

fn load_failure(message: Message, error_url: Option<String>) -> LoadOutcome {
    match *load_verdict(&message) {
        Verdict::Retry(cause) => LoadOutcome::Retry { cause, message },
        Verdict::Fatal(cause) => LoadOutcome::Fatal { cause, message, error_url },
        Verdict::Ambiguous => LoadOutcome::Ambiguous { message: message.to_string() },
        Verdict::Unknown => LoadOutcome::UnknownFailure { message },
    }
}

const fn is_auth_status(status: u16) -> bool {
    matches!(status, 401 | 403)
}

fn http_message(status: u16, text: &str) -> Message {
    Message { code: None, text: format!("HTTP {status} {text}").trim_end().to_owned() }
}

/// A BE's reply to a load of `rows` rows. Every row sent must be loaded, and none filtered or left out.
#[must_use]
pub fn classify_load(reply: Result<LoadReply, NoReply>, rows: u64, two_phase: TwoPhase) -> LoadOutcome {
    let reply = match reply {
        Ok(reply) => reply,
        Err(NoReply::Frontend { code, message }) => return frontend_refusal(code, message),
        Err(NoReply::Http { status, text }) if is_auth_status(status) => {
            let message = http_message(status, &text);
            return LoadOutcome::Fatal { cause: FatalCause::Auth, message, error_url: None };
        }
        Err(NoReply::Http { status, text }) if matches!(status, 400 | 404 | 405 | 411 | 413) => {
            let cause = if status == 413 { FatalCause::TooLarge } else { FatalCause::BadRequest };
            return LoadOutcome::Fatal { cause, message: http_message(status, &text), error_url: None };
        }
        // A proxy's 5xx or 429 does not say whether the request went through.
        Err(NoReply::Http { status, text }) => {
            return LoadOutcome::Ambiguous { message: http_message(status, &text).to_string() };
        }
        Err(NoReply::Unreadable { text }) => {
            return LoadOutcome::Ambiguous { message: format!("a reply that is none of Doris': {text}") };
        }
    };
    let disobeyed = |text: &str| LoadOutcome::Fatal {
        cause: FatalCause::Disobeyed,
        message: Message { code: None, text: text.to_owned() },
        error_url: None,
    };
    match reply.status {
        LoadStatus::LabelExists(existing) => LoadOutcome::Exists { existing, txn_id: related_txn(&reply.message) },
        LoadStatus::Success | LoadStatus::PublishTimeout => {
            if reply.group_commit {
                return disobeyed("the reply says GroupCommit");
            }
            if reply.two_phase.is_some_and(|done| done != (two_phase == TwoPhase::Yes)) {
                return disobeyed("the reply's TwoPhaseCommit is not what was asked for");
            }
            if two_phase == TwoPhase::Yes && reply.status == LoadStatus::PublishTimeout {
                return disobeyed("a load in two phases was published");
            }
            let LoadReply { total, loaded, filtered, unselected, .. } = reply;
            if (total, loaded, filtered, unselected) != (Some(rows), Some(rows), Some(0), Some(0)) {
                let show = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
                let message = format!(
                    "{rows} rows sent, {} read, {} loaded, {} filtered, {} unselected",
                    show(total),
                    show(loaded),
                    show(filtered),
                    show(unselected)
                );
                return LoadOutcome::WrongCount { txn_id: reply.txn_id, message, error_url: reply.error_url };
            }
            match reply.txn_id {
                Some(txn_id) => LoadOutcome::Done { txn_id },
                None => LoadOutcome::Ambiguous { message: "the reply has no transaction id".to_owned() },
            }
        }
        LoadStatus::Fail => {
            let mut message = reply.message;
            if let Some(first) = reply.first_error {
                message.text = format!("{} ({first})", message.text);
            }
            load_failure(message, reply.error_url)
        }
        LoadStatus::Other(status) => {
            LoadOutcome::Ambiguous { message: format!("unknown status '{status}': {}", reply.message) }
        }
    }
}

fn frontend_refusal(code: Option<i64>, message: Message) -> LoadOutcome {
    if matches!(code, Some(401 | 403)) {
        return LoadOutcome::Fatal { cause: FatalCause::Auth, message, error_url: None };
    }
    load_failure(message, None)
}

/// What the FE said instead of naming a BE. Nothing was begun, so whatever is not fatal is tried again.
#[must_use]
pub fn classify_no_redirect(reply: Result<LoadReply, NoReply>) -> LoadOutcome {
    let retry = |message| LoadOutcome::Retry { cause: RetryCause::Busy, message };
    match reply {
        Err(NoReply::Frontend { code, message }) => match frontend_refusal(code, message) {
            LoadOutcome::Ambiguous { message } => retry(Message { code: None, text: message }),
            other => other,
        },
        Err(NoReply::Http { status: 429, text }) => {
            LoadOutcome::Retry { cause: RetryCause::Overload, message: http_message(429, &text) }
        }
        Err(NoReply::Http { status, text }) if status < 500 => {
            let cause = if is_auth_status(status) { FatalCause::Auth } else { FatalCause::BadRequest };
            LoadOutcome::Fatal { cause, message: http_message(status, &text), error_url: None }
        }
        Err(NoReply::Http { status, text }) => retry(http_message(status, &text)),
        Err(NoReply::Unreadable { text }) => {
            retry(Message { code: None, text: format!("a reply that is none of an FE's: {text}") })
        }
        // Going on would begin loads without a body.
        Ok(reply) => LoadOutcome::Fatal {
            cause: FatalCause::BadRequest,
            message: Message {
                code: None,
                text: format!("the address in sink.fe answers as a BE does ({}); it must be an FE's", reply.message),
            },
            error_url: None,
        },
    }
}

fn any(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

enum TxnFailure {
    Retry(String),
    Fatal(FatalCause, Message),
    Text(String, Message),
}

fn txn_failure(reply: Result<TxnReply, NoReply>) -> TxnFailure {
    let auth = ["access denied", "not_authorized", "unauthorized", "privilege"];
    match reply {
        Ok(reply) => {
            let text = reply.message.lower();
            if any(&text, &auth) {
                TxnFailure::Fatal(FatalCause::Auth, reply.message)
            } else {
                TxnFailure::Text(text, reply.message)
            }
        }
        Err(NoReply::Frontend { code, message }) => {
            let text = message.lower();
            if matches!(code, Some(401 | 403)) || any(&text, &auth) {
                TxnFailure::Fatal(FatalCause::Auth, message)
            } else {
                TxnFailure::Text(text, message)
            }
        }
        Err(NoReply::Http { status, text }) if is_auth_status(status) => {
            TxnFailure::Fatal(FatalCause::Auth, http_message(status, &text))
        }
        Err(NoReply::Http { status, text }) if matches!(status, 400 | 404 | 405) => {
            TxnFailure::Fatal(FatalCause::BadRequest, http_message(status, &text))
        }
        Err(NoReply::Http { status, text }) => TxnFailure::Retry(http_message(status, &text).to_string()),
        Err(NoReply::Unreadable { text }) => TxnFailure::Retry(format!("a reply that is none of Doris': {text}")),
    }
}

/// A reply to a commit by transaction id. Committing twice is harmless, so what is not understood is tried again.
#[must_use]
pub fn classify_commit(reply: Result<TxnReply, NoReply>) -> CommitOutcome {
    if reply.as_ref().is_ok_and(|reply| reply.success) {
        return CommitOutcome::Done;
    }
    let (text, message) = match txn_failure(reply) {
        TxnFailure::Retry(message) => return CommitOutcome::Retry { message },
        TxnFailure::Fatal(cause, message) => return CommitOutcome::Fatal { cause, message },
        TxnFailure::Text(text, message) => (text, message),
    };
    if any(&text, &["already aborted", "is aborted"]) {
        CommitOutcome::Aborted { message: message.to_string() }
    } else if any(&text, &["already committed", "already visible", "is committed", "is visible"]) {
        CommitOutcome::AlreadyDone
    } else if text.contains("is prepare") {
        CommitOutcome::Fatal { cause: FatalCause::WrongState, message }
    } else if any(&text, &["unknown table", "tableid", "unknown database", "table not found", "table is dropped"]) {
        CommitOutcome::Fatal { cause: FatalCause::UnknownTable, message }
    } else if text.contains("transaction") && any(&text, &["not found", "does not exist", "not exist"]) {
        CommitOutcome::NotFound
    } else if text.contains("convert txn_id") || text.contains("no transaction") || text.contains("operation should be")
    {
        CommitOutcome::Fatal { cause: FatalCause::BadRequest, message }
    } else if text.contains("schema compatibility") {
        CommitOutcome::Fatal { cause: FatalCause::WrongState, message }
    } else {
        CommitOutcome::Retry { message: message.to_string() }
    }
}

/// A reply to an abort, by id or by label.
#[must_use]
pub fn classify_abort(reply: Result<TxnReply, NoReply>) -> AbortOutcome {
    if reply.as_ref().is_ok_and(|reply| reply.success) {
        return AbortOutcome::Done;
    }
    let (text, message) = match txn_failure(reply) {
        TxnFailure::Retry(message) => return AbortOutcome::Retry { message },
        TxnFailure::Fatal(cause, message) => return AbortOutcome::Fatal { cause, message },
        TxnFailure::Text(text, message) => (text, message),
    };
    if text.contains("already aborted") {
        AbortOutcome::Done
    } else if any(&text, &["already committed", "already visible", "could not abort"]) {
        AbortOutcome::AlreadyCommitted
    } else if any(&text, &["no transaction id selected"]) {
        AbortOutcome::NeedsId
    } else if text.contains("transaction") && any(&text, &["not found", "does not exist", "not exist"]) {
        AbortOutcome::NotFound
    } else if any(&text, &["convert txn_id", "no transaction", "operation should be"]) {
        AbortOutcome::Fatal { cause: FatalCause::BadRequest, message }
    } else {
        AbortOutcome::Retry { message: message.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{parse_load, parse_txn};

    fn load(status: &str, more: &str, message: &str) -> String {
        format!(
            r#"{{"TxnId":7,"Label":"l","Comment":"","TwoPhaseCommit":"true","Status":"{status}",{more}"Message":"{message}",
            "NumberTotalRows":2,"NumberLoadedRows":2,"NumberFilteredRows":0,"NumberUnselectedRows":0,"LoadBytes":40}}"#
        )
    }

    fn outcome(body: &str) -> LoadOutcome {
        classify_load(parse_load(200, body.as_bytes()), 2, TwoPhase::Yes)
    }

    #[test]
    fn a_success_needs_every_row() {
        assert_eq!(outcome(&load("Success", "", "OK")), LoadOutcome::Done { txn_id: 7 });
        for (from, to) in [
            ("\"NumberTotalRows\":2", "\"NumberTotalRows\":1"),
            ("\"NumberLoadedRows\":2", "\"NumberLoadedRows\":1"),
            ("\"NumberFilteredRows\":0", "\"NumberFilteredRows\":1"),
            ("\"NumberUnselectedRows\":0", "\"NumberUnselectedRows\":1"),
            ("\"NumberLoadedRows\":2,", ""),
        ] {
            let body = load("Success", r#""ErrorURL":"http://be/x","#, "OK").replace(from, to);
            let LoadOutcome::WrongCount { txn_id, message, error_url } = outcome(&body) else { panic!("{body}") };
            assert_eq!((txn_id, error_url.as_deref()), (Some(7), Some("http://be/x")));
            assert!(message.starts_with("2 rows sent, "), "{message}");
        }
        let one_phase = load(
            "Publish Timeout",
            "",
            "[PUBLISH_TIMEOUT]TStatus: transaction commit successfully, BUT data will be visible later",
        )
        .replace("\"true\"", "\"false\"");
        let reply = parse_load(200, one_phase.as_bytes());
        assert_eq!(classify_load(reply, 2, TwoPhase::No), LoadOutcome::Done { txn_id: 7 });
        // One phase where two were asked for: the rows are visible already.
        for body in [one_phase, load("Success", r#""GroupCommit":true,"#, "OK"), load("Publish Timeout", "", "x")] {
            assert!(matches!(outcome(&body), LoadOutcome::Fatal { cause: FatalCause::Disobeyed, .. }), "{body}");
        }
        let no_txn = load("Success", "", "OK").replace("\"TxnId\":7", "\"TxnId\":-1");
        assert!(matches!(outcome(&no_txn), LoadOutcome::Ambiguous { .. }));
    }

    #[test]
    fn a_taken_label_names_its_transaction() {
        let body = load(
            "Label Already Exists",
            r#""ExistingJobStatus":"PRECOMMITTED","#,
            "[LABEL_ALREADY_EXISTS]errCode = 2, detailMessage = Label [l] has already been used, relate to txn [38597]",
        );
        let exists = LoadOutcome::Exists { existing: Existing::PreCommitted, txn_id: Some(38597) };
        assert_eq!(outcome(&body.replace("\"TxnId\":7", "\"TxnId\":-1")), exists);
        assert_eq!(outcome(&body), exists);
    }

    /// Every text of a failed load that is known, in each of the three dialects.
    #[test]
    fn failed_loads() {
        enum Is {
            Retry(RetryCause),
            Fatal(FatalCause),
            Ambiguous,
            Unknown,
        }
        use Is::{Ambiguous, Fatal, Retry, Unknown};
        #[rustfmt::skip]
        let table = [
            ("current running txns on db 805314 is 1000, larger than limit 1000", Retry(RetryCause::Quota)),
            ("Database[d] data size exceeds quota[1.0]", Retry(RetryCause::Quota)),
            ("too many filtered rows", Fatal(FatalCause::DataQuality)),
            ("timeout by txn manager", Retry(RetryCause::RolledBack)),
            ("coordinate BE restart", Retry(RetryCause::RolledBack)),
            ("tablet 3049414 alive replica num 0 < quorum replica num 1, alive backends: []", Retry(RetryCause::Busy)),
            ("tablet writer write failed, tablet_id=1, txn_id=2, err=-235, host: h", Retry(RetryCause::TooManyVersions)),
            ("tablet writer write failed, tablet_id=1, txn_id=2, err=-238, host: h", Fatal(FatalCause::TooManySegments)),
            ("failed to call frontend service", Ambiguous),
            ("transaction [5] is already COMMITTED, could not abort.", Ambiguous),
            ("cancelled", Retry(RetryCause::Busy)),
            ("Multiple JSON objects in a single line", Fatal(FatalCause::DataQuality)),
            ("Parse json data failed. code: 3", Fatal(FatalCause::DataQuality)),
            ("all partitions have no load data", Retry(RetryCause::RolledBack)),
            ("Have not get FE Master heartbeat yet", Retry(RetryCause::NotMaster)),
            ("FE is NOT_MASTER", Retry(RetryCause::NotMaster)),
            ("get tableList write lock timeout, tableList=(t)", Retry(RetryCause::Busy)),
            ("receive body don't equal with body bytes", Retry(RetryCause::RolledBack)),
            ("no valid Basic authorization", Fatal(FatalCause::Auth)),
            ("Access denied; you need (at least one of) the (LOAD) privilege(s) for this operation", Fatal(FatalCause::Auth)),
            ("stream load 2pc is unsupported for mow table", Fatal(FatalCause::TwoPhaseUnsupported)),
            ("Label format error. regex: ^[-_A-Za-z0-9:]{1,128}$, label: a.b", Fatal(FatalCause::BadRequest)),
            ("unknown table, tableName=t", Fatal(FatalCause::UnknownTable)),
            ("unknown database, database=d", Fatal(FatalCause::UnknownTable)),
            ("Unknown column 'x' in 't'", Fatal(FatalCause::UnknownColumn)),
            ("Table t has sequence column, need to specify the sequence column", Fatal(FatalCause::UnknownColumn)),
            ("content_length is empty and transfer-encoding!=chunked, please set content_length or transfer-encoding=chunked", Unknown),
            ("body size 11 exceed BE's conf `streaming_load_max_mb`", Fatal(FatalCause::TooLarge)),
            ("label and group_commit can't be set at the same time", Fatal(FatalCause::BadRequest)),
            ("thrift rpc failed", Ambiguous),
            ("wait close timed out", Ambiguous),
            ("a text of the future", Unknown),
        ];
        for (text, expected) in table {
            for raw in [
                text.to_owned(),
                format!("[INTERNAL_ERROR]errCode = 2, detailMessage = {text}"),
                format!("[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {text}"),
            ] {
                let found = outcome(&load("Fail", "", &raw));
                let matches = match (&found, &expected) {
                    (LoadOutcome::Retry { cause, .. }, Retry(wanted)) => cause == wanted,
                    (LoadOutcome::Fatal { cause, .. }, Fatal(wanted)) => cause == wanted,
                    (LoadOutcome::Ambiguous { .. }, Ambiguous) | (LoadOutcome::UnknownFailure { .. }, Unknown) => true,
                    _ => false,
                };
                assert!(matches, "{raw}: {found:?}");
            }
        }
        // The code alone decides where the text is new.
        let coded = |code: &str| outcome(&load("Fail", "", &format!("[{code}]new")));
        assert!(matches!(coded("NOT_AUTHORIZED"), LoadOutcome::Fatal { cause: FatalCause::Auth, .. }));
        assert!(matches!(coded("INVALID_ARGUMENT"), LoadOutcome::Fatal { cause: FatalCause::BadRequest, .. }));
        assert!(matches!(coded("DELETE_BITMAP_LOCK_ERR"), LoadOutcome::Retry { cause: RetryCause::Busy, .. }));
        let explained = load(
            "Fail",
            r#""ErrorURL":"http://be/log","FirstErrorMsg":"row 3","#,
            "[DATA_QUALITY_ERROR]too many filtered rows",
        );
        let LoadOutcome::Fatal { message, error_url, .. } = outcome(&explained) else { panic!() };
        assert!(message.text.contains("row 3") && error_url.as_deref() == Some("http://be/log"));
        assert!(matches!(outcome(&load("Maybe", "", "")), LoadOutcome::Ambiguous { .. }));
    }

    #[test]
    fn anything_but_a_reply_is_no_success() {
        let be = |status, body: &str| classify_load(parse_load(status, body.as_bytes()), 2, TwoPhase::Yes);
        let fe = |status, body: &str| classify_no_redirect(parse_load(status, body.as_bytes()));
        assert!(matches!(be(200, ""), LoadOutcome::Ambiguous { .. }));
        assert!(matches!(be(200, "<html>"), LoadOutcome::Ambiguous { .. }));
        assert!(matches!(be(502, ""), LoadOutcome::Ambiguous { .. }));
        assert!(matches!(be(429, ""), LoadOutcome::Ambiguous { .. }));
        assert!(matches!(be(401, ""), LoadOutcome::Fatal { cause: FatalCause::Auth, .. }));
        assert!(matches!(be(404, "Not Found"), LoadOutcome::Fatal { cause: FatalCause::BadRequest, .. }));
        assert!(matches!(be(413, ""), LoadOutcome::Fatal { cause: FatalCause::TooLarge, .. }));
        let unauthorized = r#"{"msg":"Unauthorized","code":401,"data":"x","count":0}"#;
        assert!(matches!(be(200, unauthorized), LoadOutcome::Fatal { cause: FatalCause::Auth, .. }));
        assert!(matches!(fe(200, unauthorized), LoadOutcome::Fatal { cause: FatalCause::Auth, .. }));
        let failed = |msg: &str| format!(r#"{{"status":"FAILED","msg":"{msg}"}}"#);
        assert!(matches!(fe(200, &failed("There is no 100-continue header")), LoadOutcome::Fatal { .. }));
        assert!(matches!(fe(200, &failed("No backend load available, policy: x")), LoadOutcome::Retry { .. }));
        assert!(matches!(fe(200, &failed("rpc")), LoadOutcome::Retry { .. }));
        assert!(matches!(fe(200, ""), LoadOutcome::Retry { .. }));
        assert!(matches!(fe(503, ""), LoadOutcome::Retry { .. }));
        assert!(matches!(fe(429, ""), LoadOutcome::Retry { cause: RetryCause::Overload, .. }));
        assert!(matches!(fe(404, ""), LoadOutcome::Fatal { .. }));
        assert!(matches!(fe(200, &load("Success", "", "OK")), LoadOutcome::Fatal { .. }), "a BE in sink.fe");
    }

    fn wrapped(text: &str) -> [String; 3] {
        [
            format!(r#"{{"status":"ANALYSIS_ERROR","msg":"{text}"}}"#),
            format!(r#"{{"status":"ANALYSIS_ERROR","msg":"TStatus: errCode = 2, detailMessage = {text}"}}"#),
            format!(
                r#"{{"status":"ANALYSIS_ERROR","msg":"[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = {text}"}}"#
            ),
        ]
    }

    #[test]
    fn commits() {
        fn name(outcome: &CommitOutcome) -> &'static str {
            match outcome {
                CommitOutcome::Done => "done",
                CommitOutcome::AlreadyDone => "already",
                CommitOutcome::Retry { .. } => "retry",
                CommitOutcome::Aborted { .. } => "aborted",
                CommitOutcome::NotFound => "not found",
                CommitOutcome::Fatal { cause: FatalCause::WrongState, .. } => "state",
                CommitOutcome::Fatal { cause: FatalCause::UnknownTable, .. } => "table",
                CommitOutcome::Fatal { cause: FatalCause::Auth, .. } => "auth",
                CommitOutcome::Fatal { .. } => "fatal",
            }
        }
        let of = |status, body: &str| classify_commit(parse_txn(status, body.as_bytes()));
        assert_eq!(
            of(200, r#"{"status":"Success","msg":"transaction [1] commit successfully."}"#),
            CommitOutcome::Done
        );
        for (text, expected) in [
            ("transaction [563067] is already visible, not pre-committed.", "already"),
            ("transaction [563067] is already committed, not pre-committed.", "already"),
            ("transaction [5] is already COMMITTED, not pre-committed.", "already"),
            ("transaction [5] is prepare, not pre-committed.", "state"),
            ("transaction [5] is already aborted. abort reason: User Abort", "aborted"),
            ("transaction [5] is already aborted. abort reason: transaction [4] is already visible", "aborted"),
            ("transaction [5] not found", "not found"),
            ("running transaction not found, label=l", "not found"),
            ("unknown table, tableId=7", "table"),
            ("get tableList write lock timeout, tableList=(t)", "retry"),
            ("NOT_MASTER", "retry"),
            ("something new", "retry"),
            ("convert txn_id [x] failed, reason=y", "fatal"),
            ("transaction operation should be 'commit' or 'abort'", "fatal"),
            ("Access denied; you need (at least one of) the (LOAD) privilege(s) for this operation", "auth"),
            ("check schema compatibility failed, partial update can't commit with old schema sucessfully .", "state"),
        ] {
            for body in wrapped(text) {
                assert_eq!(name(&of(200, &body)), expected, "{body}");
            }
        }
        assert_eq!(name(&of(200, "")), "retry");
        assert_eq!(name(&of(503, "")), "retry");
        assert_eq!(name(&of(401, "")), "auth");
        assert_eq!(name(&of(200, r#"{"msg":"Unauthorized","code":401}"#)), "auth");
    }

    #[test]
    fn aborts() {
        fn name(outcome: &AbortOutcome) -> &'static str {
            match outcome {
                AbortOutcome::Done => "done",
                AbortOutcome::NotFound => "not found",
                AbortOutcome::AlreadyCommitted => "committed",
                AbortOutcome::NeedsId => "id",
                AbortOutcome::Retry { .. } => "retry",
                AbortOutcome::Fatal { .. } => "fatal",
            }
        }
        let of = |status, body: &str| classify_abort(parse_txn(status, body.as_bytes()));
        assert_eq!(of(200, r#"{"status":"Success","msg":"transaction [1] abort successfully."}"#), AbortOutcome::Done);
        for (text, expected) in [
            ("transaction [5] is already COMMITTED, could not abort.", "committed"),
            ("transaction [5] is already VISIBLE, could not abort.", "committed"),
            ("transaction [5] is already aborted, abort reason: R", "done"),
            ("transaction [5] not found", "not found"),
            ("running transaction not found, label=l", "not found"),
            ("No transaction id selected.", "id"),
            ("No transaction id or label selected.", "fatal"),
            ("NOT_MASTER", "retry"),
        ] {
            for body in wrapped(text) {
                assert_eq!(name(&of(200, &body)), expected, "{body}");
            }
        }
        assert_eq!(name(&of(500, "")), "retry");
    }
}
