//! The faults of doris.md 12.3 about what is answered, when, and by whom: F3 to F6, F9 to F11, F13 to F15, F19 to F23, F25,
//! F27 to F30.

use crate::client::*;
use crate::faults::{ROW, redirect, until};
use millstream_tests::doris::{Dialect, DorisSim, Fault, Garbage, Knob, LostAt, Op, Side, SimOptions};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TWO: (&str, &str) = ("two_phase_commit", "true");

async fn bed() -> DorisSim {
    let sim = start().await;
    tables(&sim);
    sim
}

/// Begins a load of `declared` bytes at the back end and sends `body`.
async fn open(sim: &DorisSim, label: &str, declared: usize, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(sim.be_addrs()[0]).await.unwrap();
    let head = format!(
        "PUT /api/d/a/_stream_load HTTP/1.1\r\nAuthorization: {}\r\nContent-Length: {declared}\r\nlabel: {label}\r\n\
         format: json\r\ntwo_phase_commit: true\r\n\r\n",
        basic(sim)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    stream
}

#[tokio::test]
async fn f3_redirects_in_a_chain_and_in_a_loop() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::RedirectAgain { at: Side::Fe }).times(2));
    for _ in 0..2 {
        let to = redirect(&sim).await.header("location").to_owned();
        assert!(to.contains(&format!("@{}/api/d/a/", fe(&sim))), "{to}");
    }
    assert!(redirect(&sim).await.header("location").contains(&sim.be_addrs()[0].to_string()));
    sim.set(Knob::always(Fault::RedirectAgain { at: Side::Be }));
    for _ in 0..3 {
        let r = load(&sim, "d.a", &[("label", "x")], ROW).await;
        assert_eq!((r.status, r.body.as_str()), (307, ""));
        assert_eq!(r.header("location"), format!("http://{}/api/d/a/_stream_load", sim.be_addrs()[0]));
    }
    assert!(sim.transactions("d").is_empty());
}

#[tokio::test]
async fn f4_a_back_end_that_refuses_connections() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::DeadBackend).times(2));
    let auth = basic(&sim);
    let get =
        async || http(fe(&sim), "GET /api/backends?is_alive=true", &[("Authorization", &auth)], b"").await.unwrap();
    assert_eq!(get().await.json()["data"]["backends"].as_array().unwrap().len(), 2, "it is taken for alive");
    for _ in 0..2 {
        let to = redirect(&sim).await.header("location").to_owned();
        let dead = to.rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
        assert_ne!(dead, sim.be_addrs()[0].to_string());
        assert!(TcpStream::connect(dead.as_str()).await.is_err(), "{dead} answers");
    }
    assert_eq!(get().await.json()["data"]["backends"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn f5_and_f6_refusals_of_the_front_end_have_status_200() {
    let sim = bed().await;
    let text = "no backend load available, policy: x".to_owned();
    sim.set(Knob::once(Fault::FrontendRefuses { text: text.clone() }).table("d.a"));
    sim.set(Knob::once(Fault::FrontendUnauthorized).table("d.a"));
    let r = redirect(&sim).await;
    assert_eq!((r.status, r.body), (200, format!("{{\"status\":\"FAILED\",\"msg\":\"{text}\"}}")));
    let r = redirect(&sim).await;
    assert_eq!((r.status, r.field("code"), r.field("msg")), (200, "401".into(), "Unauthorized".into()));
    assert_eq!(redirect(&sim).await.status, 307);
}

#[tokio::test]
async fn f9_a_reply_later_than_its_client_waits() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::SlowReply { op: Op::Load, ms: 60_000 }));
    let mut stream = open(&sim, "slow", ROW.len(), ROW.as_bytes()).await;
    until(&sim, "slow", "PRECOMMITTED").await;
    // Nothing was said yet, and a try meanwhile hears how far it is.
    assert_eq!(load(&sim, "d.a", &[("label", "slow")], ROW).await.field("ExistingJobStatus"), "PRECOMMITTED");
    sim.advance(Duration::from_secs(61));
    let r = read_response(&mut stream).await.unwrap();
    assert_eq!(r.field("Status"), "Success");
    sim.set(Knob::once(Fault::SlowReply { op: Op::Commit, ms: 60_000 }));
    let (id, headers) = (r.field("TxnId"), [("txn_operation", "commit")]);
    let headers = [("txn_id", id.as_str()), headers[0]];
    let waiting = second_phase(&sim, "d", &headers);
    let meanwhile = async {
        until(&sim, "slow", "VISIBLE").await;
        sim.advance(Duration::from_secs(61));
    };
    let (reply, ()) = tokio::join!(waiting, meanwhile);
    assert_eq!(reply.unwrap().field("status"), "Success");
}

#[tokio::test]
async fn f10_an_early_reply_while_the_body_is_on_its_way() {
    let sim = bed().await;
    // Long enough for the reply to be read before the reset comes.
    sim.set(Knob::once(Fault::EarlyReply { at: 10, ms: 500 }));
    let mut stream = open(&sim, "early", 1 << 30, ROW.as_bytes()).await;
    let r = read_response(&mut stream).await.unwrap();
    assert_eq!((r.field("Status"), r.field("Message")), ("Fail".into(), "[CANCELLED]cancelled".into()));
    assert_eq!(label_state(&sim, "d", "early").await, "ABORTED");
    assert!(!matches!(stream.read(&mut [0; 1]).await, Ok(1..)), "the connection must be gone");
    // At once, the reply may be lost with the connection: the load is rolled back all the same.
    sim.set(Knob::once(Fault::EarlyReply { at: 0, ms: 0 }));
    drop(load_raw(&sim, "d.a", &[("label", "at-once")], ROW.as_bytes()).await);
    assert_eq!(load(&sim, "d.a", &[("label", "early")], ROW).await.field("Status"), "Success");
}

#[tokio::test]
async fn f11_a_label_that_runs_on_without_its_client() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::HoldRunning { ms: 60_000, cut: true }));
    assert!(load_raw(&sim, "d.a", &[("label", "on"), TWO], ROW.as_bytes()).await.is_none());
    let r = load(&sim, "d.a", &[("label", "on"), TWO], ROW).await;
    assert_eq!((r.field("Status"), r.field("ExistingJobStatus")), ("Label Already Exists".into(), "RUNNING".into()));
    sim.advance(Duration::from_secs(61));
    until(&sim, "on", "PRECOMMITTED").await;
    // Aborted meanwhile by whoever waits for the label, it finds its transaction gone.
    sim.set(Knob::once(Fault::HoldRunning { ms: 60_000, cut: false }));
    let mut stream = open(&sim, "off", ROW.len(), ROW.as_bytes()).await;
    until(&sim, "off", "PREPARE").await;
    let by_label = [("label", "off"), ("txn_operation", "abort")];
    assert_eq!(second_phase(&sim, "d", &by_label).await.unwrap().field("status"), "Success");
    sim.advance(Duration::from_secs(61));
    let r = read_response(&mut stream).await.unwrap();
    assert!(r.field("Message").ends_with("is already aborted. abort reason: User Abort"), "{}", r.body);
}

#[tokio::test]
async fn f13_too_many_versions_and_too_many_segments() {
    let mut options = SimOptions::default();
    (options.limits.max_versions, options.limits.compaction_per_second) = (2, 1);
    let sim = start_with(options).await;
    tables(&sim);
    let refused = |r: &Response, err: i32| {
        let id = r.field("TxnId");
        let want = format!("[INTERNAL_ERROR]tablet writer write failed, tablet_id=10{id}, txn_id={id}, err={err}");
        assert_eq!(
            (r.field("Status"), r.field("Message"), r.field("NumberLoadedRows")),
            ("Fail".into(), want, "0".into())
        );
    };
    sim.set(Knob::once(Fault::TabletError { err: -235, above_rows: 0 }).table("d.a"));
    refused(&load(&sim, "d.a", &[("label", "v")], ROW).await, -235);
    assert_eq!(label_state(&sim, "d", "v").await, "ABORTED");
    sim.set(Knob::once(Fault::TabletError { err: -238, above_rows: 2 }));
    assert_eq!(load(&sim, "d.a", &[("label", "few")], &ROW.repeat(2)).await.field("Status"), "Success");
    refused(&load(&sim, "d.a", &[("label", "many")], &ROW.repeat(3)).await, -238);
    // Without a knob: each visible load is a version, and compaction merges one in a second.
    assert_eq!(load(&sim, "d.a", &[("label", "second")], ROW).await.field("Status"), "Success");
    refused(&load(&sim, "d.a", &[("label", "third")], ROW).await, -235);
    assert_eq!(load(&sim, "d.u", &[("columns", U)], &line(1, "a", 1, false)).await.field("Status"), "Success");
    sim.advance(Duration::from_secs(1));
    assert_eq!(load(&sim, "d.a", &[("label", "third")], ROW).await.field("Status"), "Success");
}

#[tokio::test]
async fn f14_quotas() {
    let sim = bed().await;
    for (data, want) in [(false, "is 0, larger than limit 0"), (true, "Database[d] data size exceeds quota")] {
        sim.set(Knob::once(Fault::Quota { data }));
        let r = load(&sim, "d.a", &[("label", "q")], ROW).await;
        assert!(
            r.field("Message").starts_with("[ANALYSIS_ERROR]errCode = 2, ") && r.field("Message").ends_with(want),
            "{}",
            r.body
        );
        assert_eq!(r.field("TxnId"), "-1");
    }
    assert_eq!(load(&sim, "d.a", &[("label", "q")], ROW).await.field("Status"), "Success");
}

#[tokio::test]
async fn f15_the_front_end_is_not_the_master_for_a_while() {
    let sim = bed().await;
    let id = load(&sim, "d.a", &[("label", "pre"), TWO], ROW).await.field("TxnId");
    for op in [Op::Load, Op::Commit, Op::Abort] {
        sim.set(Knob::always(Fault::NotMaster { op, text: None }).lasting(Duration::from_secs(30)));
    }
    let r = load(&sim, "d.a", &[("label", "x")], ROW).await;
    assert_eq!(r.field("Message"), "[NOT_MASTER]errCode = 2, detailMessage = FE is not master");
    for op in ["commit", "abort"] {
        let (status, text) = finish(&sim, "d", &id, op).await;
        assert!(status == "NOT_MASTER" && text.contains("FE is not master"), "{status}: {text}");
    }
    assert_eq!(label_state(&sim, "d", "pre").await, "PRECOMMITTED");
    sim.advance(Duration::from_secs(31));
    assert_eq!(finish(&sim, "d", &id, "commit").await.0, "Success");
    // Other refusals of the moment.
    let busy = "get tableList write lock timeout, tableList=(a)".to_owned();
    sim.set(Knob::once(Fault::NotMaster { op: Op::Load, text: Some(busy.clone()) }));
    let r = load(&sim, "d.a", &[("label", "x")], ROW).await;
    assert_eq!(r.field("Message"), format!("[ANALYSIS_ERROR]errCode = 2, detailMessage = {busy}"));
}

#[tokio::test]
async fn f19_the_reply_may_be_the_loads_record() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::RecordReply));
    let r = load(&sim, "d.a", &[("label", "r"), ("comment", "hi")], ROW).await;
    assert_eq!(r.body.matches("\"Comment\":\"hi\"").count(), 2, "{}", r.body);
    assert!(!r.body.contains('\n') && r.field("Status") == "Success", "{}", r.body);
    for (name, want) in [("Db", "d"), ("Table", "a"), ("User", "root"), ("ClientIp", "127.0.0.1")] {
        assert_eq!(r.field(name), want);
    }
}

#[tokio::test]
async fn f20_texts_in_three_dialects() {
    let sim = bed().await;
    for (dialect, pre) in [
        (Dialect::Plain, ""),
        (Dialect::ErrCode, "errCode = 2, detailMessage = "),
        (Dialect::TStatus, "TStatus: errCode = 2, detailMessage = "),
    ] {
        sim.set(Knob::always(Fault::Dialect { dialect }));
        let r = load(&sim, "d.no", &[], ROW).await;
        assert_eq!(r.field("Message"), format!("[ANALYSIS_ERROR]{pre}unknown table, tableName=no"));
        assert_eq!(finish(&sim, "d", "7", "commit").await.1, format!("{pre}transaction [7] not found"));
        sim.clear_knobs();
    }
}

#[tokio::test]
async fn f21_what_comes_with_status_200_need_not_be_a_reply() {
    let sim = bed().await;
    for (i, body) in [Garbage::Html, Garbage::Empty, Garbage::Truncated, Garbage::NoStatus].into_iter().enumerate() {
        let label = format!("g{i}");
        sim.set(Knob::once(Fault::Garbage { body, at: Side::Be, op: Op::Load }));
        let r = load(&sim, "d.a", &[("label", &label), TWO], ROW).await;
        assert_eq!(r.status, 200);
        let parsed = serde_json::from_str::<serde_json::Value>(&r.body);
        assert!(parsed.is_err() == (body != Garbage::NoStatus), "{body:?}: {}", r.body);
        assert!(parsed.map_or(true, |v| v.get("Status").is_none()));
        assert_eq!(label_state(&sim, "d", &label).await, "PRECOMMITTED", "it was done all the same");
        let id = sim.transactions("d").iter().find(|t| t.label == label).unwrap().id.to_string();
        sim.set(Knob::once(Fault::Garbage { body, at: Side::Be, op: Op::Commit }));
        let headers = [("txn_id", id.as_str()), ("txn_operation", "commit")];
        assert_eq!(second_phase(&sim, "d", &headers).await.unwrap().status, 200);
        assert_eq!(label_state(&sim, "d", &label).await, "VISIBLE");
        sim.set(Knob::once(Fault::Garbage { body, at: Side::Fe, op: Op::Load }));
        let r = redirect(&sim).await;
        assert!(r.status == 200 && !r.body.contains("\"status\""), "{body:?}: {}", r.body);
    }
}

#[tokio::test]
async fn f22_a_proxy_answers() {
    let sim = bed().await;
    for status in [500, 503, 429, 401, 403] {
        for (at, after) in [(Side::Fe, false), (Side::Be, false), (Side::Be, true)] {
            sim.set(Knob::once(Fault::Proxy { status, at, after, op: Op::Load }));
            let label = format!("{status}-{after}");
            let r = match at {
                Side::Fe => redirect(&sim).await,
                _ => load(&sim, "d.a", &[("label", &label), TWO], ROW).await,
            };
            assert_eq!(r.status, status);
            let want = if after { "PRECOMMITTED" } else { "UNKNOWN" };
            assert_eq!(label_state(&sim, "d", &label).await, want, "{status} {at:?} {after}");
        }
    }
    sim.set(Knob::once(Fault::Proxy { status: 503, at: Side::Be, after: true, op: Op::Commit }));
    let id = sim.transactions("d")[0].id.to_string();
    let headers = [("txn_id", id.as_str()), ("txn_operation", "commit")];
    assert_eq!(second_phase(&sim, "d", &headers).await.unwrap().status, 503);
    assert_eq!(sim.row_count("d", "a"), 1);
}

#[tokio::test]
async fn f23_replies_in_chunks_and_connections_that_end_unannounced() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::Framing { chunked: true, close: true }));
    let mut stream = open(&sim, "chunks", ROW.len(), ROW.as_bytes()).await;
    let r = read_response(&mut stream).await.unwrap();
    assert_eq!(r.header("transfer-encoding"), "chunked");
    assert!(r.header("content-length").is_empty() && r.header("connection").is_empty());
    assert_eq!(r.field("Status"), "Success");
    assert!(!matches!(stream.read(&mut [0; 1]).await, Ok(1..)), "the connection must be gone");
    // Without the knob a second request goes over the same connection.
    let mut stream = open(&sim, "one", ROW.len(), ROW.as_bytes()).await;
    assert_eq!(read_response(&mut stream).await.unwrap().field("Status"), "Success");
    stream.write_all(b"GET /api/health HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(read_response(&mut stream).await.unwrap().field("status"), "OK");
}

#[tokio::test]
async fn f25_no_two_phases_on_merge_on_write_tables_where_storage_is_apart() {
    let sim = bed().await;
    sim.set(Knob::always(Fault::Cloud));
    let body = line(1, "a", 1, false);
    let r = load(&sim, "d.u", &[("label", "u"), ("columns", U), TWO], &body).await;
    let want = "[NOT_IMPLEMENTED_ERROR]errCode = 2, detailMessage = stream load 2pc is unsupported for mow table";
    assert_eq!(r.field("Message"), want);
    // The refusal comes after the begin: the transaction is rolled back, and the label free.
    assert_eq!(label_state(&sim, "d", "u").await, "ABORTED");
    assert_eq!(load(&sim, "d.u", &[("label", "u"), ("columns", U)], &body).await.field("Status"), "Success");
    assert_eq!(load(&sim, "d.a", &[("label", "a"), TWO], ROW).await.field("Status"), "Success");
    sim.clear_knobs();
    let r = load(&sim, "d.u", &[("label", "u2"), ("columns", U), TWO], &body).await;
    assert_eq!(r.field("Status"), "Success");
}

#[tokio::test]
async fn f27_an_old_front_end_knows_no_second_phase_by_label() {
    let sim = bed().await;
    let id = load(&sim, "d.a", &[("label", "L"), TWO], ROW).await.field("TxnId");
    sim.set(Knob::always(Fault::NoLabels));
    let by_label = [("label", "L"), ("txn_operation", "abort")];
    assert_eq!(second_phase(&sim, "d", &by_label).await.unwrap().field("msg"), "no transaction id selected.");
    let auth = basic(&sim);
    let headers = [("Authorization", auth.as_str()), ("Content-Length", "0"), by_label[0], by_label[1]];
    let r = http(fe(&sim), "PUT /api/d/_stream_load_2pc", &headers, b"").await.unwrap();
    assert_eq!(r.field("msg"), "No transaction id selected.");
    assert_eq!(http(fe(&sim), "PUT /api/d/a/_stream_load_2pc", &headers, b"").await.unwrap().status, 404);
    assert_eq!(finish(&sim, "d", &id, "abort").await.0, "Success");
}

#[tokio::test]
async fn f28_a_back_end_that_reads_slowly_holds_its_client_up() {
    let sim = start_with(SimOptions { counting: true, ..SimOptions::default() }).await;
    tables(&sim);
    sim.set(Knob::once(Fault::SlowReader { bytes: 4 << 20, ms: 3_600_000 }));
    // More than the sockets between the two can hold.
    let size = 32 << 20;
    let mut stream = open(&sim, "slow", size, b"").await;
    let mut filler = vec![b' '; size];
    filler.chunks_mut(1 << 20).for_each(|line| line[0] = b'\n');
    let sending = async {
        stream.write_all(&filler).await.unwrap();
        read_response(&mut stream).await.unwrap()
    };
    tokio::pin!(sending);
    let stuck = tokio::time::timeout(Duration::from_millis(300), &mut sending).await;
    assert!(stuck.is_err(), "the body went out although nobody reads it");
    assert_eq!(label_state(&sim, "d", "slow").await, "PREPARE");
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        sim.advance(Duration::from_secs(3601));
        // The load outlives its own timeout here: it is aborted, but its body is read to the end all the same.
        if let Ok(r) = tokio::time::timeout(Duration::from_millis(5), &mut sending).await {
            assert_eq!(r.field("LoadBytes"), size.to_string());
            return;
        }
    }
    panic!("the body never arrived");
}

#[tokio::test]
async fn f29_a_labels_state_may_be_asked_of_the_master() {
    let sim = bed().await;
    load(&sim, "d.a", &[("label", "L")], ROW).await;
    sim.set(Knob::once(Fault::StateRedirect));
    let auth = basic(&sim);
    let headers = [("Authorization", auth.as_str())];
    let r = http(fe(&sim), "GET /api/d/get_load_state?label=L", &headers, b"").await.unwrap();
    assert_eq!(r.status, 307);
    assert_eq!(r.header("location"), format!("http://{}/api/d/get_load_state?label=L", fe(&sim)));
    assert_eq!(label_state(&sim, "d", "L").await, "VISIBLE");
}

#[tokio::test]
async fn f30_a_transaction_that_begins_when_its_client_has_given_up() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::LateBegin { ms: 60_000 }));
    let stream = open(&sim, "late", ROW.len(), ROW.as_bytes()).await;
    let end = Instant::now() + Duration::from_secs(10);
    while sim.knobs_fired() == 0 {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(stream);
    assert_eq!(label_state(&sim, "d", "late").await, "UNKNOWN", "nothing has begun");
    sim.advance(Duration::from_secs(61));
    until(&sim, "late", "PRECOMMITTED").await;
    assert_eq!(sim.transactions("d").len(), 1);
}

#[tokio::test]
async fn group_commits_say_so_and_have_labels_of_their_own() {
    let sim = bed().await;
    let group = |mode| [("label", ""), ("group_commit", mode)];
    let r = load(&sim, "d.a", &group("sync_mode"), ROW).await;
    assert_eq!((r.field("Status"), r.field("GroupCommit")), ("Success".into(), "true".into()), "{}", r.body);
    assert!(r.field("Label").starts_with("group_commit_") && r.json().get("TwoPhaseCommit").is_none(), "{}", r.body);
    assert!(r.json().get("BeginTxnTimeMs").is_none());
    assert_eq!(sim.row_count("d", "a"), 1);
    // Acknowledged before it is visible.
    let r = load(&sim, "d.a", &group("async_mode"), ROW).await;
    assert_eq!((r.field("GroupCommit"), sim.row_count("d", "a")), ("true".into(), 1));
    sim.advance(Duration::from_secs(11));
    assert_eq!(sim.row_count("d", "a"), 2);
    let r = load(&sim, "d.a", &[("label", "L"), ("group_commit", "sync_mode"), ("two_phase_commit", "")], ROW).await;
    assert_eq!(r.field("Message"), "[INVALID_ARGUMENT]label and group_commit can't be set at the same time");
    // Two phases fall back to a load of its own.
    let r = load(&sim, "d.a", &[("label", "L"), ("group_commit", "sync_mode"), TWO], ROW).await;
    assert_eq!((r.field("TwoPhaseCommit"), r.json().get("GroupCommit")), ("true".into(), None), "{}", r.body);
    // A table may make group commits of loads that do not say off_mode.
    sim.sql(
        "CREATE TABLE d.g (k INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 \
         PROPERTIES(\"replication_num\"=\"1\", \"group_commit_mode\"=\"sync_mode\")",
    )
    .unwrap();
    let r = load(&sim, "d.g", &[("group_commit", "")], "{\"k\":1}").await;
    assert_eq!(r.field("GroupCommit"), "true", "{}", r.body);
    let r = load(&sim, "d.g", &[("label", "mine")], "{\"k\":1}").await;
    assert_eq!((r.field("Label"), r.json().get("GroupCommit")), ("mine".into(), None), "{}", r.body);
    assert_eq!(sim.row_count("d", "g"), 2);
}

#[tokio::test]
async fn f8_at_precommitted_loses_the_reply_of_two_phases_only() {
    let sim = bed().await;
    sim.set(Knob::once(Fault::ReplyLost { op: Op::Load, state: LostAt::PreCommitted }));
    assert_eq!(load(&sim, "d.a", &[("label", "one")], ROW).await.field("Status"), "Success");
    assert!(load_raw(&sim, "d.a", &[("label", "two"), TWO], ROW.as_bytes()).await.is_none());
    assert_eq!(label_state(&sim, "d", "two").await, "PRECOMMITTED");
}
