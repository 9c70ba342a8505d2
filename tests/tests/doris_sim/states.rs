//! Every state and every event of the transaction table of doris.md 12.1, over HTTP: what is answered, and how the label
//! stands afterwards. What HTTP cannot bring about (`-`), such as a second body for a transaction that has one, is in the
//! table beside the state machine (`src/doris/txn_table.rs`).

use crate::client::*;
use crate::faults::{ROW, until};
use millstream_tests::doris::{DorisSim, SimOptions};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const STATES: [&str; 6] = ["UNKNOWN", "PREPARE", "PRECOMMITTED", "COMMITTED", "VISIBLE", "ABORTED"];

/// Event, then per state: `answer | state of the label afterwards`.
#[rustfmt::skip]
const CELLS: &[(&str, [&str; 6])] = &[
    ("load, two phases", [
        "Success | PRECOMMITTED",
        "Label Already Exists RUNNING | PREPARE",
        "Label Already Exists PRECOMMITTED | PRECOMMITTED",
        "Label Already Exists FINISHED | COMMITTED",
        "Label Already Exists FINISHED | VISIBLE",
        "Success | PRECOMMITTED",
    ]),
    ("load, one phase", [
        "Publish Timeout | COMMITTED",
        "Label Already Exists RUNNING | PREPARE",
        "Label Already Exists PRECOMMITTED | PRECOMMITTED",
        "Label Already Exists FINISHED | COMMITTED",
        "Label Already Exists FINISHED | VISIBLE",
        "Publish Timeout | COMMITTED",
    ]),
    ("body ends, one phase", [
        "Fail transaction [N] not found | UNKNOWN", "Publish Timeout | COMMITTED", "-", "-", "-",
        "Fail transaction [N] is already aborted. abort reason: User Abort | ABORTED",
    ]),
    ("body ends, two phases", [
        "Fail transaction [N] not found | UNKNOWN", "Success | PRECOMMITTED", "-", "-", "-",
        "Fail transaction [N] is already aborted. abort reason: User Abort | ABORTED",
    ]),
    ("body is bad", [
        "Fail too many filtered rows | UNKNOWN", "Fail too many filtered rows | ABORTED", "-", "-", "-",
        "Fail too many filtered rows | ABORTED",
    ]),
    ("client goes", ["| UNKNOWN", "| ABORTED", "-", "-", "-", "| ABORTED"]),
    ("client goes, no rollback", ["| UNKNOWN", "| PREPARE", "-", "-", "-", "| ABORTED"]),
    ("commit by id", [
        "ANALYSIS_ERROR transaction [N] not found | UNKNOWN",
        "ANALYSIS_ERROR transaction [N] is prepare, not pre-committed. | PREPARE",
        "Success | COMMITTED",
        "ANALYSIS_ERROR transaction [N] is already committed, not pre-committed. | COMMITTED",
        "ANALYSIS_ERROR transaction [N] is already visible, not pre-committed. | VISIBLE",
        "ANALYSIS_ERROR transaction [N] is already aborted. abort reason: User Abort | ABORTED",
    ]),
    ("commit by label", [
        "ANALYSIS_ERROR running transaction not found, label=L | UNKNOWN",
        "ANALYSIS_ERROR running transaction not found, label=L | PREPARE",
        "Success | COMMITTED",
        "ANALYSIS_ERROR running transaction not found, label=L | COMMITTED",
        "ANALYSIS_ERROR running transaction not found, label=L | VISIBLE",
        "ANALYSIS_ERROR running transaction not found, label=L | ABORTED",
    ]),
    ("abort by id", [
        "ANALYSIS_ERROR transaction [N] not found | UNKNOWN",
        "Success | ABORTED",
        "Success | ABORTED",
        "ANALYSIS_ERROR transaction [N] is already COMMITTED, could not abort. | COMMITTED",
        "ANALYSIS_ERROR transaction [N] is already VISIBLE, could not abort. | VISIBLE",
        "ANALYSIS_ERROR transaction [N] is already aborted, abort reason: User Abort | ABORTED",
    ]),
    ("abort by label", [
        "ANALYSIS_ERROR running transaction not found, label=L | UNKNOWN",
        "Success | ABORTED",
        "Success | ABORTED",
        "ANALYSIS_ERROR running transaction not found, label=L | COMMITTED",
        "ANALYSIS_ERROR running transaction not found, label=L | VISIBLE",
        "ANALYSIS_ERROR running transaction not found, label=L | ABORTED",
    ]),
    ("599 s pass", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED"]),
    ("prepare timeout: 601 s pass", [
        "| UNKNOWN", "timeout by txn manager | ABORTED", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED",
    ]),
    ("3590 s pass", [
        "| UNKNOWN", "timeout by txn manager | ABORTED", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED",
    ]),
    ("precommit timeout: 3601 s pass", [
        "| UNKNOWN", "timeout by txn manager | ABORTED", "timeout by txn manager | ABORTED", "| COMMITTED", "| VISIBLE",
        "User Abort | ABORTED",
    ]),
    ("publish tick", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| VISIBLE", "| VISIBLE", "User Abort | ABORTED"]),
    ("front end restarts", ["| UNKNOWN", "| UNKNOWN", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED"]),
    ("its back end restarts", [
        "| UNKNOWN", "coordinate BE restart | ABORTED", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED",
    ]),
    ("another back end restarts", [
        "| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "User Abort | ABORTED",
    ]),
    ("12 hours pass", [
        "| UNKNOWN", "timeout by txn manager | ABORTED", "timeout by txn manager | ABORTED", "| COMMITTED", "| UNKNOWN", "| UNKNOWN",
    ]),
    ("more finish than are kept", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| UNKNOWN", "| UNKNOWN"]),
    ("purge", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| UNKNOWN", "| UNKNOWN"]),
    ("table dropped, load", [
        "Fail unknown table, tableName=a | UNKNOWN",
        "Fail unknown table, tableName=a | PREPARE",
        "Fail unknown table, tableName=a | PRECOMMITTED",
        "Fail unknown table, tableName=a | COMMITTED",
        "Fail unknown table, tableName=a | VISIBLE",
        "Fail unknown table, tableName=a | ABORTED",
    ]),
    ("table dropped, body ends, two phases", [
        "Fail transaction [N] not found | UNKNOWN", "Fail unknown table, tableId=T | ABORTED", "-", "-", "-",
        "Fail transaction [N] is already aborted. abort reason: User Abort | ABORTED",
    ]),
    ("table dropped, commit by id", [
        "ANALYSIS_ERROR transaction [N] not found | UNKNOWN",
        "ANALYSIS_ERROR transaction [N] is prepare, not pre-committed. | PREPARE",
        "ANALYSIS_ERROR unknown table, tableId=T | PRECOMMITTED",
        "ANALYSIS_ERROR transaction [N] is already committed, not pre-committed. | COMMITTED",
        "ANALYSIS_ERROR transaction [N] is already visible, not pre-committed. | VISIBLE",
        "ANALYSIS_ERROR transaction [N] is already aborted. abort reason: User Abort | ABORTED",
    ]),
    ("table dropped, abort by id", [
        "ANALYSIS_ERROR transaction [N] not found | UNKNOWN",
        "Success | ABORTED",
        "Success | ABORTED",
        "ANALYSIS_ERROR transaction [N] is already COMMITTED, could not abort. | COMMITTED",
        "ANALYSIS_ERROR transaction [N] is already VISIBLE, could not abort. | VISIBLE",
        "ANALYSIS_ERROR transaction [N] is already aborted, abort reason: User Abort | ABORTED",
    ]),
    ("table dropped, publish tick", [
        "| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| VISIBLE", "| VISIBLE", "User Abort | ABORTED",
    ]),
];

/// A cluster, and a load under the label L that is in a state, perhaps with its body still to end.
struct Bed {
    sim: DorisSim,
    id: String,
    flying: Option<TcpStream>,
    table_id: String,
}

impl Bed {
    async fn new(state: &str, two_phase: bool, body_is_due: bool, rollback: bool) -> Self {
        let mut options = SimOptions {
            be_ports: vec![0, 0],
            rollback_on_client_gone: rollback,
            publish_wait: Duration::from_millis(10),
            ..SimOptions::default()
        };
        options.limits.keep_count = 3;
        let sim = start_with(options).await;
        tables(&sim);
        // What is committed stays so until its event.
        sim.hold_publish();
        let mut bed = Self { sim, id: "424242".into(), flying: None, table_id: String::new() };
        if body_is_due || state == "PREPARE" {
            let mut stream = TcpStream::connect(bed.sim.be_addrs()[0]).await.unwrap();
            let head = format!(
                "PUT /api/d/a/_stream_load HTTP/1.1\r\nAuthorization: {}\r\nContent-Length: {}\r\nlabel: L\r\nformat: json\r\n\
                 timeout: 600\r\ntwo_phase_commit: {two_phase}\r\n\r\n",
                basic(&bed.sim),
                ROW.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            until(&bed.sim, "L", "PREPARE").await;
            bed.flying = Some(stream);
        } else if state != "UNKNOWN" {
            let r = load(&bed.sim, "d.a", &[("label", "L"), ("two_phase_commit", "true")], ROW).await;
            assert_eq!(r.field("Status"), "Success", "{}", r.body);
        }
        if let Some(txn) = bed.sim.transactions("d").first() {
            (bed.id, bed.table_id) = (txn.id.to_string(), txn.table_id.to_string());
        }
        match state {
            "UNKNOWN" if body_is_due => bed.sim.restart_fe(),
            "COMMITTED" | "VISIBLE" => {
                assert_eq!(finish(&bed.sim, "d", &bed.id, "commit").await.0, "Success");
                if state == "VISIBLE" {
                    bed.sim.release_publish();
                    bed.sim.hold_publish();
                }
            }
            "ABORTED" => assert_eq!(finish(&bed.sim, "d", &bed.id, "abort").await.0, "Success"),
            _ => {}
        }
        assert_eq!(label_state(&bed.sim, "d", "L").await, state);
        bed
    }

    /// Status and text, without what wraps the text.
    fn said(&self, status: &str, text: &str) -> String {
        let text = text.rsplit_once("detailMessage = ").map_or(text, |(_, t)| t);
        let text = text.rsplit_once("_ERROR]").map_or(text, |(_, t)| t);
        let done = text == "OK" || text.ends_with("successfully.") || text.contains("visible later");
        let text = if done { "" } else { text };
        let text =
            text.replace(&format!("[{}]", self.id), "[N]").replace(&format!("tableId={}", self.table_id), "tableId=T");
        format!("{status} {text}").trim_end().to_owned()
    }

    fn loaded(&self, r: &Response) -> String {
        match r.field("Status").as_str() {
            "Label Already Exists" => format!("Label Already Exists {}", r.field("ExistingJobStatus")),
            status => self.said(status, &r.field("Message")),
        }
    }

    async fn ends(&mut self, body: &str) -> String {
        let mut stream = self.flying.take().unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let r = read_response(&mut stream).await.unwrap();
        self.loaded(&r)
    }

    async fn happens(&mut self, event: &str) -> String {
        let sim = &self.sim;
        let by_label = async |op| {
            let r = second_phase(sim, "d", &[("label", "L"), ("txn_operation", op)]).await.unwrap();
            self.said(&r.field("status"), &r.field("msg"))
        };
        let by_id = async |op| {
            let (status, text) = finish(sim, "d", &self.id, op).await;
            self.said(&status, &text)
        };
        let loads =
            async |two: &str| self.loaded(&load(sim, "d.a", &[("label", "L"), ("two_phase_commit", two)], ROW).await);
        match event {
            "load" | "load, two phases" => return loads("true").await,
            "load, one phase" => return loads("false").await,
            "body ends, one phase" | "body ends, two phases" => return self.ends(ROW).await,
            // As long as a good one.
            "body is bad" => return self.ends("{\"k\":null      }\n").await,
            "client goes" | "client goes, no rollback" => {
                self.flying = None;
                let end = std::time::Instant::now() + Duration::from_secs(10);
                // The back end has noticed once the request is in the log.
                while !sim.requests().iter().any(|r| r.header("label") == Some("L")) {
                    assert!(std::time::Instant::now() < end);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return String::new();
            }
            "commit by id" => return by_id("commit").await,
            "commit by label" => return by_label("commit").await,
            "abort by id" => return by_id("abort").await,
            "abort by label" => return by_label("abort").await,
            "publish tick" => sim.release_publish(),
            "front end restarts" => sim.restart_fe(),
            "its back end restarts" => sim.restart_be(0),
            "another back end restarts" => sim.restart_be(1),
            "12 hours pass" => sim.advance(Duration::from_secs(43_201)),
            "more finish than are kept" => {
                for i in 0..4 {
                    let label = format!("other{i}");
                    load(sim, "d.a", &[("label", &label)], "{\"k\":null}\n").await;
                }
                sim.advance(Duration::ZERO);
            }
            "purge" => sim.purge(),
            other => {
                let (_, seconds) = other.rsplit_once(": ").unwrap_or(("", other));
                let seconds = seconds.strip_suffix(" s pass").expect(other).parse().unwrap();
                sim.advance(Duration::from_secs(seconds));
            }
        }
        // What happened by itself has its reason in the transaction.
        let id: i64 = self.id.parse().unwrap();
        sim.transactions("d").iter().find(|t| t.id == id).map_or(String::new(), |t| t.reason.clone())
    }
}

#[tokio::test]
async fn every_state_and_every_event_over_http() {
    let mut seen = 0;
    for (event, cells) in CELLS {
        for (state, want) in STATES.iter().zip(cells) {
            if *want == "-" {
                continue;
            }
            let body_is_due = event.contains("body") || event.starts_with("client");
            let rollback = !event.contains("no rollback");
            let mut bed = Bed::new(state, !event.contains("one phase"), body_is_due, rollback).await;
            let mut happens = *event;
            if let Some(rest) = event.strip_prefix("table dropped, ") {
                bed.sim.sql("DROP TABLE d.a").unwrap();
                happens = rest;
            }
            let answer = bed.happens(happens).await;
            let got = format!("{answer} | {}", label_state(&bed.sim, "d", "L").await);
            assert_eq!(got.trim(), *want, "{event} in {state}");
            seen += 1;
        }
    }
    assert!(seen > 130, "{seen}");
}
