//! The faults of doris.md 12.3 about redirects, cuts, lost replies and states: F1, F2, F7, F8, F12, F16, F18, F24, F31; the
//! clock; and how other processes set them.

use crate::client::*;
use millstream_tests::doris::{DorisSim, Fault, Knob, LostAt, Op, SimOptions, TxnState};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

pub(crate) const ROW: &str = "{\"k\":1,\"v\":\"a\"}\n";

pub(crate) async fn redirect(sim: &DorisSim) -> Response {
    let auth = basic(sim);
    let headers = [("Authorization", auth.as_str()), ("Expect", "100-continue"), ("Content-Length", "0")];
    http(fe(sim), "PUT /api/d/a/_stream_load", &headers, b"").await.unwrap()
}

/// Waits until a label is in a state.
pub(crate) async fn until(sim: &DorisSim, label: &str, state: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while label_state(sim, "d", label).await != state {
        assert!(Instant::now() < end, "{label} never was {state}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn f1_a_slow_redirect() {
    let sim = start().await;
    tables(&sim);
    sim.set(Knob::once(Fault::SlowRedirect { ms: 120 }).table("d.a"));
    let started = Instant::now();
    assert_eq!(redirect(&sim).await.status, 307);
    assert!(started.elapsed() >= Duration::from_millis(120));
    assert_eq!(redirect(&sim).await.status, 307);
    assert_eq!(sim.knobs_fired(), 1);
}

#[tokio::test]
async fn f2_forms_of_the_location() {
    let sim = start_with(SimOptions { trailing_question: false, be_ports: vec![0, 0], ..SimOptions::default() }).await;
    tables(&sim);
    let bes: Vec<String> = sim.be_addrs().iter().map(ToString::to_string).collect();
    for (userinfo, question, want) in [
        (Some("u%40x:p%2F%3F"), true, "http://u%40x:p%2F%3F@BE/api/d/a/_stream_load?"),
        (Some(""), true, "http://BE/api/d/a/_stream_load?"),
        (Some("root:"), false, "http://root:@BE/api/d/a/_stream_load"),
        (None, false, "http://root:sim%3A%40%25%2F%C3%A9%20pass@BE/api/d/a/_stream_load"),
    ] {
        sim.set(Knob::once(Fault::RedirectForm {
            userinfo: userinfo.map(str::to_owned),
            trailing_question: question,
            host: None,
        }));
        let seen = redirect(&sim).await.header("location").to_owned();
        assert!(bes.iter().any(|be| seen == want.replace("BE", be)), "{seen}");
    }
    // Back ends take turns.
    let (one, two) = (redirect(&sim).await, redirect(&sim).await);
    assert_ne!(one.header("location"), two.header("location"));
}

#[tokio::test]
async fn f7_a_load_cut_at_any_byte_leaves_nothing() {
    let sim = start().await;
    tables(&sim);
    let body = "{\"k\":1}\n{\"k\":2}\n";
    for at in 0..=body.len() as u64 {
        sim.set(Knob::once(Fault::Cut { at }));
        let label = format!("cut{at}");
        let got = load_raw(&sim, "d.a", &[("label", &label)], body.as_bytes()).await;
        assert!(got.is_none(), "cut at {at}: {got:?}");
        until(&sim, &label, "ABORTED").await;
    }
    assert_eq!(sim.row_count("d", "a"), 0);
    assert_eq!(load(&sim, "d.a", &[("label", "cut3")], body).await.field("Status"), "Success");
}

#[tokio::test]
async fn a_client_that_goes_away_is_rolled_back_or_left_to_the_timeout() {
    for rollback in [true, false] {
        let sim = start_with(SimOptions { rollback_on_client_gone: rollback, ..SimOptions::default() }).await;
        tables(&sim);
        let mut stream = tokio::net::TcpStream::connect(sim.be_addrs()[0]).await.unwrap();
        let head = format!(
            "PUT /api/d/a/_stream_load HTTP/1.1\r\nAuthorization: {}\r\nContent-Length: 500\r\nlabel: gone\r\n\
             timeout: 60\r\nformat: json\r\n\r\n{ROW}",
            basic(&sim)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        until(&sim, "gone", "PREPARE").await;
        // While it runs, the label is taken.
        let r = load(&sim, "d.a", &[("label", "gone")], ROW).await;
        assert_eq!(r.field("ExistingJobStatus"), "RUNNING");
        drop(stream);
        if !rollback {
            // The back end has noticed once the request is in the log.
            let end = Instant::now() + Duration::from_secs(10);
            while sim.requests().iter().filter(|r| r.header("label") == Some("gone")).count() < 2 {
                assert!(Instant::now() < end);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(label_state(&sim, "d", "gone").await, "PREPARE");
            sim.advance(Duration::from_secs(61));
            assert_eq!(sim.transactions("d")[0].reason, "timeout by txn manager");
        }
        until(&sim, "gone", "ABORTED").await;
    }
}

#[tokio::test]
async fn f8_replies_lost_after_each_state() {
    let sim = start().await;
    tables(&sim);
    let lose = |op, state| sim.set(Knob::once(Fault::ReplyLost { op, state }).table("d.a"));
    for (two_phase, state, after, rows) in [
        ("false", LostAt::Prepare, "ABORTED", 0),
        ("false", LostAt::Committed, "VISIBLE", 1),
        ("false", LostAt::Visible, "VISIBLE", 2),
        ("true", LostAt::Prepare, "ABORTED", 2),
        ("true", LostAt::PreCommitted, "PRECOMMITTED", 2),
    ] {
        lose(Op::Load, state);
        let label = format!("l-{two_phase}-{state:?}");
        let headers = [("label", label.as_str()), ("two_phase_commit", two_phase)];
        assert!(load_raw(&sim, "d.a", &headers, ROW.as_bytes()).await.is_none());
        assert_eq!(label_state(&sim, "d", &label).await, after, "{label}");
        assert_eq!(sim.row_count("d", "a"), rows, "{label}");
    }
    lose(Op::Load, LostAt::Aborted);
    assert!(load_raw(&sim, "d.a", &[("label", "bad")], b"{\"k\":null}\n").await.is_none());
    assert_eq!(label_state(&sim, "d", "bad").await, "ABORTED");
    for (op, state, verb, after) in [
        (Op::Commit, LostAt::Committed, "commit", "VISIBLE"),
        (Op::Commit, LostAt::Visible, "commit", "VISIBLE"),
        (Op::Abort, LostAt::Aborted, "abort", "ABORTED"),
    ] {
        let label = format!("{verb}-{state:?}");
        let r = load(&sim, "d.a", &[("label", &label), ("two_phase_commit", "true")], ROW).await;
        lose(op, state);
        let headers = [("txn_id", r.field("TxnId")), ("txn_operation", verb.to_owned())];
        let headers = headers.each_ref().map(|(n, v)| (*n, v.as_str()));
        assert!(second_phase(&sim, "d", &headers).await.is_none());
        assert_eq!(label_state(&sim, "d", &label).await, after);
        assert!(finish(&sim, "d", &r.field("TxnId"), verb).await.1.to_lowercase().contains("already"));
    }
    assert_eq!(sim.row_count("d", "a"), 4);
}

#[tokio::test]
async fn f12_committed_is_not_visible_yet() {
    let sim = start_with(SimOptions { publish_wait: Duration::from_millis(30), ..SimOptions::default() }).await;
    tables(&sim);
    // Two phases: the commit answers at once, readers see nothing.
    sim.set(Knob::once(Fault::PublishDelay { ms: Some(60_000) }).label("slow"));
    let id = load(&sim, "d.a", &[("label", "slow"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    assert_eq!(finish(&sim, "d", &id, "commit").await.0, "Success");
    assert_eq!((label_state(&sim, "d", "slow").await.as_str(), sim.row_count("d", "a")), ("COMMITTED", 0));
    // A later load of the table waits behind it, and says so after its own wait.
    let r = load(&sim, "d.a", &[("label", "next")], ROW).await;
    assert_eq!(r.field("Status"), "Publish Timeout");
    assert_eq!(
        r.field("Message"),
        "[PUBLISH_TIMEOUT]TStatus: transaction commit successfully, BUT data will be visible later"
    );
    assert_eq!(r.field("NumberLoadedRows"), "1");
    // Another table does not.
    let r = load(&sim, "d.u", &[("columns", U)], &line(1, "a", 1, false)).await;
    assert_eq!(r.field("Status"), "Success");
    sim.advance(Duration::from_secs(61));
    assert_eq!((label_state(&sim, "d", "next").await.as_str(), sim.row_count("d", "a")), ("VISIBLE", 2));
    // Held for good, until released.
    sim.set(Knob::always(Fault::PublishDelay { ms: None }));
    assert_eq!(load(&sim, "d.a", &[("label", "held")], ROW).await.field("Status"), "Publish Timeout");
    sim.advance(Duration::from_secs(1_000_000));
    assert_eq!(label_state(&sim, "d", "held").await, "COMMITTED");
    sim.clear_knobs();
    assert_eq!(label_state(&sim, "d", "held").await, "VISIBLE");
}

#[tokio::test]
async fn f16_a_front_end_restart_forgets_prepare_only() {
    let sim = start_with(SimOptions { rollback_on_client_gone: false, ..SimOptions::default() }).await;
    tables(&sim);
    sim.set(Knob::once(Fault::ReplyLost { op: Op::Load, state: LostAt::Prepare }));
    assert!(load_raw(&sim, "d.a", &[("label", "prepared")], ROW.as_bytes()).await.is_none());
    assert_eq!(label_state(&sim, "d", "prepared").await, "PREPARE");
    let id = load(&sim, "d.a", &[("label", "pre"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    load(&sim, "d.a", &[("label", "done")], ROW).await;
    // A load in flight loses its transaction under its feet.
    let body = ROW.repeat(2);
    let mut stream = tokio::net::TcpStream::connect(sim.be_addrs()[0]).await.unwrap();
    let head = format!(
        "PUT /api/d/a/_stream_load HTTP/1.1\r\nAuthorization: {}\r\nContent-Length: {}\r\nlabel: flying\r\nformat: json\r\n\r\n{ROW}",
        basic(&sim),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&sim, "flying", "PREPARE").await;
    let flying = sim.transactions("d").iter().find(|t| t.label == "flying").unwrap().id;
    let mut c = sql(&sim).await;
    sim.restart_fe();
    assert!(c.query_all("SELECT 1").await.is_err(), "the connection must be gone");
    for (label, state) in [("prepared", "UNKNOWN"), ("flying", "UNKNOWN"), ("pre", "PRECOMMITTED"), ("done", "VISIBLE")]
    {
        assert_eq!(label_state(&sim, "d", label).await, state, "{label}");
    }
    stream.write_all(ROW.as_bytes()).await.unwrap();
    let r = read_response(&mut stream).await.unwrap();
    assert_eq!(r.field("Status"), "Fail");
    assert!(r.field("Message").ends_with(&format!("transaction [{flying}] not found")), "{}", r.body);
    assert_eq!(r.field("NumberLoadedRows"), "0");
    assert_eq!(finish(&sim, "d", &id, "commit").await.0, "Success");
    assert_eq!(sim.row_count("d", "a"), 2);
    // As a knob: it restarts between the two phases.
    sim.set(Knob::once(Fault::RestartFrontend { after: LostAt::PreCommitted }));
    let id = load(&sim, "d.a", &[("label", "between"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    assert_eq!(finish(&sim, "d", &id, "commit").await.0, "Success");
}

#[tokio::test]
async fn f17_a_back_end_restart_aborts_its_prepare_and_cuts_its_connections() {
    let sim = start_with(SimOptions { rollback_on_client_gone: false, ..SimOptions::default() }).await;
    tables(&sim);
    sim.set(Knob::once(Fault::ReplyLost { op: Op::Load, state: LostAt::Prepare }));
    assert!(load_raw(&sim, "d.a", &[("label", "x")], ROW.as_bytes()).await.is_none());
    let id = load(&sim, "d.a", &[("label", "pre"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    let mut stream = tokio::net::TcpStream::connect(sim.be_addrs()[0]).await.unwrap();
    let head = "PUT /api/d/a/_stream_load HTTP/1.1\r\nContent-Length: 9\r\n";
    stream
        .write_all(format!("{head}Authorization: {}\r\nlabel: flying\r\n\r\n", basic(&sim)).as_bytes())
        .await
        .unwrap();
    until(&sim, "flying", "PREPARE").await;
    sim.restart_be(0);
    assert!(read_response(&mut stream).await.is_none(), "the connection must be gone");
    assert_eq!(sim.transactions("d")[0].reason, "coordinate BE restart");
    assert_eq!(label_state(&sim, "d", "flying").await, "ABORTED");
    // What is PRECOMMITTED stays, and the back end serves again.
    assert_eq!(finish(&sim, "d", &id, "commit").await.0, "Success");
    // As a knob: it restarts just when the load is PRECOMMITTED, so that nobody hears of it.
    sim.set(Knob::once(Fault::RestartBackend { after: LostAt::PreCommitted }));
    let two = [("label", "unheard"), ("two_phase_commit", "true")];
    assert!(load_raw(&sim, "d.a", &two, ROW.as_bytes()).await.is_none());
    assert_eq!(label_state(&sim, "d", "unheard").await, "PRECOMMITTED");
    assert_eq!(label_state(&sim, "d", "x").await, "ABORTED");
}

#[tokio::test]
async fn f18_purged_labels_may_be_used_again() {
    let sim = start().await;
    tables(&sim);
    let id = load(&sim, "d.a", &[("label", "L")], ROW).await.field("TxnId");
    let pre = load(&sim, "d.a", &[("label", "P"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    sim.purge();
    assert_eq!(label_state(&sim, "d", "L").await, "UNKNOWN");
    assert!(finish(&sim, "d", &id, "commit").await.1.ends_with(&format!("transaction [{id}] not found")));
    assert_eq!(load(&sim, "d.a", &[("label", "L")], ROW).await.field("Status"), "Success");
    assert_eq!(finish(&sim, "d", &pre, "commit").await.0, "Success");
    assert_eq!(sim.row_count("d", "a"), 3);
    // As a knob: forgotten as soon as it is visible, before its client hears of it.
    sim.set(Knob::once(Fault::Purge { after: LostAt::Visible }));
    assert_eq!(load(&sim, "d.a", &[("label", "quick")], ROW).await.field("Status"), "Success");
    assert_eq!(label_state(&sim, "d", "quick").await, "UNKNOWN");
}

#[tokio::test]
async fn f24_filtered_rows_fail_the_load_and_have_a_page() {
    let sim = start().await;
    tables(&sim);
    sim.set(Knob::once(Fault::FilterRows { rows: 2 }).label("f24"));
    let body = ROW.repeat(3);
    let r = load(&sim, "d.a", &[("label", "f24"), ("two_phase_commit", "true")], &body).await;
    assert_eq!((r.field("Status"), r.field("NumberFilteredRows")), ("Fail".into(), "2".into()), "{}", r.body);
    let url = r.field("ErrorURL");
    let (addr, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let page = http(addr.parse().unwrap(), &format!("GET /{path}"), &[], b"").await.unwrap().body;
    assert_eq!(page.lines().count(), 2);
    assert!(page.starts_with("Reason: filtered by knob F24. src line ["), "{page}");
    let r = load(&sim, "d.a", &[("label", "f24"), ("two_phase_commit", "true")], &body).await;
    assert_eq!((r.field("Status"), r.field("NumberLoadedRows")), ("Success".into(), "3".into()));
}

#[tokio::test]
async fn f31_fail_is_no_proof() {
    let sim = start().await;
    tables(&sim);
    for (two_phase, state) in [("false", "VISIBLE"), ("true", "PRECOMMITTED")] {
        sim.set(Knob::once(Fault::FalseFail { op: Op::Load }));
        let r = load(&sim, "d.a", &[("label", two_phase), ("two_phase_commit", two_phase)], ROW).await;
        assert_eq!((r.field("Status"), r.field("NumberLoadedRows")), ("Fail".into(), "0".into()));
        assert!(r.field("Message").contains("failed to call frontend service"), "{}", r.body);
        assert_eq!(label_state(&sim, "d", two_phase).await, state);
    }
    let id = sim.transactions("d").iter().find(|t| t.state == TxnState::PreCommitted).unwrap().id.to_string();
    sim.set(Knob::once(Fault::FalseFail { op: Op::Commit }));
    assert!(finish(&sim, "d", &id, "commit").await.1.contains("failed to call frontend service"));
    assert_eq!(label_state(&sim, "d", "true").await, "VISIBLE");
    assert_eq!(sim.row_count("d", "a"), 2);
    let id = load(&sim, "d.a", &[("label", "gone"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    sim.set(Knob::once(Fault::FalseFail { op: Op::Abort }));
    assert_ne!(finish(&sim, "d", &id, "abort").await.0, "Success");
    assert_eq!(label_state(&sim, "d", "gone").await, "ABORTED");
}

#[tokio::test]
async fn time_ends_what_nobody_ends() {
    let sim = start().await;
    tables(&sim);
    let headers = [("label", "pre"), ("two_phase_commit", "true"), ("timeout", "10")];
    let id = load(&sim, "d.a", &headers, ROW).await.field("TxnId");
    sim.advance(Duration::from_secs(3590));
    assert_eq!(label_state(&sim, "d", "pre").await, "PRECOMMITTED");
    sim.advance(Duration::from_secs(20));
    let said = finish(&sim, "d", &id, "commit").await.1;
    assert!(said.ends_with("is already aborted. abort reason: timeout by txn manager"), "{said}");
    sim.advance(Duration::from_secs(12 * 3600));
    assert_eq!(label_state(&sim, "d", "pre").await, "UNKNOWN");
}

#[tokio::test]
async fn the_front_end_counts_the_bytes_that_reach_it() {
    let sim = start().await;
    tables(&sim);
    redirect(&sim).await;
    assert_eq!(sim.fe_body_bytes(), 0);
    let auth = basic(&sim);
    let headers = [("Authorization", auth.as_str()), ("Expect", "100-continue"), ("Content-Length", "17")];
    let r = http(fe(&sim), "PUT /api/d/a/_stream_load", &headers, b"{\"k\":1,\"v\":\"a\"}\n").await.unwrap();
    assert_eq!(r.status, 307);
    let end = Instant::now() + Duration::from_secs(10);
    while sim.fe_body_bytes() == 0 {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let seen = sim.requests();
    assert!(seen.iter().any(|r| r.body_bytes > 0 && r.header("expect") == Some("100-continue")), "{seen:?}");
}

#[tokio::test]
async fn other_processes_set_faults_over_http() {
    let sim = start().await;
    tables(&sim);
    let post = async |what: &str, body: &str| {
        let length = body.len().to_string();
        http(fe(&sim), &format!("POST /sim/{what}"), &[("Content-Length", &length)], body.as_bytes()).await.unwrap()
    };
    let knob = r#"{"knob":"F8","op":"load","state":"COMMITTED","label":"x","times":1}"#;
    assert_eq!(post("knob", knob).await.status, 200);
    assert!(load_raw(&sim, "d.a", &[("label", "x1")], ROW.as_bytes()).await.is_none());
    assert_eq!(load(&sim, "d.a", &[("label", "x2")], ROW).await.field("Status"), "Success");
    for (body, want) in [("{\"knob\":\"F0\"}", "no knob: "), ("x", "no knob: ")] {
        let r = post("knob", body).await;
        assert!(r.status == 400 && r.field("error").starts_with(want), "{}", r.body);
    }
    assert_eq!(post("hold", "").await.status, 200);
    let id = load(&sim, "d.a", &[("label", "h"), ("two_phase_commit", "true")], ROW).await.field("TxnId");
    finish(&sim, "d", &id, "commit").await;
    let state = http(fe(&sim), "GET /sim/state", &[], b"").await.unwrap().json();
    assert_eq!(state["databases"]["d"]["transactions"], serde_json::json!({"COMMITTED": 1, "VISIBLE": 2}));
    assert_eq!(state["databases"]["d"]["rows"]["a"], 2);
    post("release", "").await;
    assert_eq!(label_state(&sim, "d", "h").await, "VISIBLE");
    post("knob", r#"{"knob":"F12"}"#).await;
    assert_eq!(http(fe(&sim), "GET /sim/knob", &[], b"").await.unwrap().json()["set"].as_array().unwrap().len(), 1);
    post("clear", "").await;
    post("advance", "{\"secs\": 50000}").await;
    assert_eq!(label_state(&sim, "d", "h").await, "UNKNOWN");
    load(&sim, "d.a", &[("label", "p")], ROW).await;
    post("purge", "").await;
    assert_eq!(label_state(&sim, "d", "p").await, "UNKNOWN");
    assert_eq!(post("restart-fe", "").await.status, 200);
    assert_eq!(post("dance", "").await.status, 400);
    assert_eq!(sim.fe_body_bytes(), 0);
}
