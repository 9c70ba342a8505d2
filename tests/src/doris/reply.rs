//! The texts of doris.md 4 and 5: load replies, two-phase replies, and how the front end's texts are dressed.

use super::options::Dialect;

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
    /// A group commit: its reply says so, and says less.
    pub(crate) group_commit: bool,
    /// Whether the version tells `ReceiveDataTimeMs`.
    pub(crate) receive_time: bool,
    pub(crate) error_url: Option<String>,
    pub(crate) first_error: Option<String>,
}

/// What a load's record says beside the reply (trap 1 of section 5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) db: &'a str,
    pub(crate) table: &'a str,
    pub(crate) user: &'a str,
    pub(crate) client: &'a str,
    pub(crate) started: &'a str,
    pub(crate) finished: &'a str,
}

impl LoadReply {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let mut out = vec![
            ("TxnId", self.txn_id.to_string()),
            ("Label", text(&self.label)),
            ("Comment", text(&self.comment)),
            if self.group_commit {
                ("GroupCommit", "true".to_owned())
            } else {
                ("TwoPhaseCommit", text(if self.two_phase { "true" } else { "false" }))
            },
            ("Status", text(self.status)),
        ];
        out.extend(self.existing.map(|existing| ("ExistingJobStatus", text(existing))));
        out.push(("Message", text(&self.message)));
        for (name, n) in [
            ("NumberTotalRows", self.total),
            ("NumberLoadedRows", self.loaded),
            ("NumberFilteredRows", self.filtered),
            ("NumberUnselectedRows", 0),
            ("LoadBytes", self.load_bytes),
            ("LoadTimeMs", self.load_ms),
            ("BeginTxnTimeMs", self.begin_ms),
            ("StreamLoadPutTimeMs", self.plan_ms),
            ("ReadDataTimeMs", self.read_ms),
            ("WriteDataTimeMs", self.read_ms),
            ("ReceiveDataTimeMs", self.read_ms),
            ("CommitAndPublishTimeMs", self.commit_ms),
        ] {
            let of_transaction = matches!(name, "BeginTxnTimeMs" | "CommitAndPublishTimeMs");
            if !(self.group_commit && of_transaction || name == "ReceiveDataTimeMs" && !self.receive_time) {
                out.push((name, n.to_string()));
            }
        }
        out.extend(self.error_url.as_ref().map(|url| ("ErrorURL", text(url))));
        out.extend(self.first_error.as_ref().map(|first| ("FirstErrorMsg", text(first))));
        out
    }

    /// The JSON text: this field order, four spaces, a newline at the end.
    pub(crate) fn to_json(&self) -> String {
        let lines: Vec<String> = self.fields().into_iter().map(|(n, v)| format!("    \"{n}\": {v}")).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }

    /// F19: the record instead of the reply: one line, and `Comment` a second time.
    pub(crate) fn to_record(&self, record: Record<'_>) -> String {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let mut fields = vec![("cluster", text("default_cluster"))];
        fields.extend([("Db", record.db), ("Table", record.table), ("User", record.user)].map(|(n, v)| (n, text(v))));
        fields.push(("ClientIp", text(record.client)));
        fields.extend(self.fields());
        fields.push(("Comment", text(&self.comment)));
        fields.extend([("StartTime", record.started), ("FinishTime", record.finished)].map(|(n, v)| (n, text(v))));
        let fields: Vec<String> = fields.into_iter().map(|(n, v)| format!("\"{n}\":{v}")).collect();
        format!("{{{}}}", fields.join(","))
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
            receive_time: true,
            ..LoadReply::default()
        };
        let want = "{\n    \"TxnId\": -1,\n    \"Label\": \"l\",\n    \"Comment\": \"\",\n    \"TwoPhaseCommit\": \"false\",\n    \
                    \"Status\": \"Label Already Exists\",\n    \"ExistingJobStatus\": \"RUNNING\",\n    \"Message\": \"a \\\"b\\\"\",\n    \
                    \"NumberTotalRows\": 0,\n    \"NumberLoadedRows\": 0,\n    \"NumberFilteredRows\": 0,\n    \"NumberUnselectedRows\": 0,\n    \
                    \"LoadBytes\": 0,\n    \"LoadTimeMs\": 0,\n    \"BeginTxnTimeMs\": 0,\n    \"StreamLoadPutTimeMs\": 0,\n    \
                    \"ReadDataTimeMs\": 0,\n    \"WriteDataTimeMs\": 0,\n    \"ReceiveDataTimeMs\": 0,\n    \"CommitAndPublishTimeMs\": 0,\n    \
                    \"ErrorURL\": \"http://h/x\"\n}\n";
        assert_eq!(reply.to_json(), want);
        let older = LoadReply { receive_time: false, ..reply.clone() }.to_json();
        assert_eq!(older, want.replace("    \"ReceiveDataTimeMs\": 0,\n", ""));
        let group = LoadReply { group_commit: true, ..reply.clone() }.to_json();
        let want = want.replace("\"TwoPhaseCommit\": \"false\"", "\"GroupCommit\": true");
        let want = want.replace("    \"BeginTxnTimeMs\": 0,\n", "").replace("    \"CommitAndPublishTimeMs\": 0,\n", "");
        assert_eq!(group, want);
        let record = Record { db: "d", table: "t", user: "u", client: "h", started: "1", finished: "2" };
        let text = reply.to_record(record);
        assert!(text.starts_with("{\"cluster\":\"default_cluster\",\"Db\":\"d\",") && !text.contains('\n'), "{text}");
        assert_eq!(text.matches("\"Comment\":").count(), 2);
    }
}
