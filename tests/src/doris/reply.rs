//! The texts of doris.md 4 and 5: load replies, two-phase replies, and how the front end's texts are dressed.

use super::Dialect;

/// How texts that come from the front end are prefixed.
pub(crate) fn fe_text(dialect: Dialect, text: &str) -> String {
    match dialect {
        Dialect::Plain => text.to_owned(),
        Dialect::ErrCode => format!("errCode = 2, detailMessage = {text}"),
        Dialect::TStatus => format!("TStatus: errCode = 2, detailMessage = {text}"),
    }
}

/// A load's answer (E2).
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadReply {
    pub(crate) txn_id: i64,
    pub(crate) label: String,
    pub(crate) comment: String,
    pub(crate) two_phase: bool,
    pub(crate) status: &'static str,
    pub(crate) existing: Option<&'static str>,
    pub(crate) message: String,
    pub(crate) total: u64,
    pub(crate) loaded: u64,
    pub(crate) filtered: u64,
    pub(crate) load_bytes: u64,
    pub(crate) load_ms: u64,
    pub(crate) begin_ms: u64,
    pub(crate) plan_ms: u64,
    pub(crate) read_ms: u64,
    pub(crate) commit_ms: u64,
    pub(crate) error_url: Option<String>,
    pub(crate) first_error: Option<String>,
}

impl LoadReply {
    /// The JSON text: this field order, four spaces, a newline at the end.
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::from("{\n");
        let mut field = |name: &str, value: String| {
            if out.len() > 2 {
                out.push_str(",\n");
            }
            out.push_str(&format!("    \"{name}\": {value}"));
        };
        let text = |s: &str| serde_json::Value::from(s).to_string();
        field("TxnId", self.txn_id.to_string());
        field("Label", text(&self.label));
        field("Comment", text(&self.comment));
        field("TwoPhaseCommit", text(if self.two_phase { "true" } else { "false" }));
        field("Status", text(self.status));
        if let Some(existing) = self.existing {
            field("ExistingJobStatus", text(existing));
        }
        field("Message", text(&self.message));
        field("NumberTotalRows", self.total.to_string());
        field("NumberLoadedRows", self.loaded.to_string());
        field("NumberFilteredRows", self.filtered.to_string());
        field("NumberUnselectedRows", "0".into());
        field("LoadBytes", self.load_bytes.to_string());
        field("LoadTimeMs", self.load_ms.to_string());
        field("BeginTxnTimeMs", self.begin_ms.to_string());
        field("StreamLoadPutTimeMs", self.plan_ms.to_string());
        field("ReadDataTimeMs", self.read_ms.to_string());
        field("WriteDataTimeMs", self.read_ms.to_string());
        field("ReceiveDataTimeMs", self.read_ms.to_string());
        field("CommitAndPublishTimeMs", self.commit_ms.to_string());
        if let Some(url) = &self.error_url {
            field("ErrorURL", text(url));
        }
        if let Some(first) = &self.first_error {
            field("FirstErrorMsg", text(first));
        }
        out.push_str("\n}\n");
        out
    }
}

/// A two-phase answer (E3).
pub(crate) fn two_phase_json(status: &str, msg: &str) -> String {
    format!("{{\"status\":{},\"msg\":{}}}", serde_json::Value::from(status), serde_json::Value::from(msg))
}

/// The front end's envelope (E4, E5, E6).
pub(crate) fn envelope(msg: &str, code: i32, data: &serde_json::Value) -> String {
    format!("{{\"msg\":{},\"code\":{code},\"data\":{data},\"count\":0}}", serde_json::Value::from(msg))
}

/// The front end's refusal of a load (E1): HTTP 200.
pub(crate) fn rest_base_failure(msg: &str) -> String {
    two_phase_json("FAILED", msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_has_the_field_order_of_section_5() {
        let reply = LoadReply {
            txn_id: -1,
            label: "l".into(),
            status: "Label Already Exists",
            existing: Some("RUNNING"),
            message: "a \"b\"".into(),
            error_url: Some("http://h/x".into()),
            ..LoadReply::default()
        };
        let want = "{\n    \"TxnId\": -1,\n    \"Label\": \"l\",\n    \"Comment\": \"\",\n    \"TwoPhaseCommit\": \"false\",\n    \
                    \"Status\": \"Label Already Exists\",\n    \"ExistingJobStatus\": \"RUNNING\",\n    \"Message\": \"a \\\"b\\\"\",\n    \
                    \"NumberTotalRows\": 0,\n    \"NumberLoadedRows\": 0,\n    \"NumberFilteredRows\": 0,\n    \"NumberUnselectedRows\": 0,\n    \
                    \"LoadBytes\": 0,\n    \"LoadTimeMs\": 0,\n    \"BeginTxnTimeMs\": 0,\n    \"StreamLoadPutTimeMs\": 0,\n    \
                    \"ReadDataTimeMs\": 0,\n    \"WriteDataTimeMs\": 0,\n    \"ReceiveDataTimeMs\": 0,\n    \"CommitAndPublishTimeMs\": 0,\n    \
                    \"ErrorURL\": \"http://h/x\"\n}\n";
        assert_eq!(reply.to_json(), want);
    }
}
