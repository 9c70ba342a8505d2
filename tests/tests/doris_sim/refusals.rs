//! What the back end and the front end refuse, in which order, and with which words (doris.md 1, 2.3, 3, 4, 12.2).

use crate::client::*;
use millstream_tests::doris::{Dialect, SimOptions, TxnState};

const ROW: &str = "{\"k\":1,\"v\":\"a\"}\n";

/// Headers with one fault per check, in the order of 12.2. Each check is tried with every later fault present too.
#[tokio::test]
async fn checks_come_in_the_order_of_the_notes() {
    let sim = start().await;
    tables(&sim);
    let used = load(&sim, "d.a", &[("label", "used"), ("two_phase_commit", "true")], ROW).await;
    assert_eq!(used.field("Status"), "Success", "{}", used.body);
    let long = "x".repeat(129);
    // (fault, its message); what comes later in 12.2 comes later here.
    let faults: &[(&[(&str, &str)], &str)] = &[
        (
            &[("group_commit", "maybe")],
            "[INVALID_ARGUMENT]Header `group_commit` can only be `sync_mode`, `async_mode` or `off_mode`.",
        ),
        (&[("Authorization", "")], "[NOT_AUTHORIZED]no valid Basic authorization"),
        (&[("format", "xml")], "[DATA_FILE_TYPE_ERROR]unknown data format, format=xml"),
        (
            &[("Content-Length", "10737418241")],
            "[EXCEEDED_LIMIT]body size 10737418241 exceed BE's conf `streaming_load_max_mb` 10737418240",
        ),
        (
            &[("Transfer-Encoding", "chunked")],
            "[INVALID_ARGUMENT]please do not set both content_length and transfer-encoding",
        ),
        (&[("timeout", "soon")], "[INVALID_ARGUMENT]Invalid timeout format, soon"),
        (
            &[("Authorization", "Basic cm9vdDp3cm9uZw==")],
            "[NOT_AUTHORIZED]errCode = 2, detailMessage = Access denied for user 'root@127.0.0.1' (using password: YES)",
        ),
        (
            &[("label", "no dots.")],
            "[ANALYSIS_ERROR]errCode = 2, detailMessage = Label format error. regex: ^[-_A-Za-z0-9:]{1,128}$, label: no dots.",
        ),
        (
            &[("label", "used")],
            "[LABEL_ALREADY_EXISTS]errCode = 2, detailMessage = Label [used] has already been used, relate to txn [N]",
        ),
        (
            &[("enclose", "ab")],
            "[INVALID_ARGUMENT]errCode = 2, detailMessage = enclose must be single-char, actually is ab",
        ),
        (&[("columns", "k,nope")], "[ANALYSIS_ERROR]errCode = 2, detailMessage = Unknown column 'nope' in 'a'"),
    ];
    for (i, (_, want)) in faults.iter().enumerate() {
        let mut headers: Vec<(&str, &str)> = Vec::new();
        for (fault, _) in &faults[i..] {
            for f in *fault {
                // An earlier fault of the same header is the one to see.
                if !headers.iter().any(|(n, _)| n == &f.0) {
                    headers.push(*f);
                }
            }
        }
        let r = load_raw(&sim, "d.a", &headers, b"").await.unwrap();
        let got = r.field("Message").replace(&used.field("TxnId"), "N");
        assert_eq!(got, *want, "{headers:?}");
        assert_eq!(r.status, 200);
    }
    let too_long = load(&sim, "d.a", &[("label", &long)], ROW).await;
    assert!(too_long.field("Message").contains("Label format error"), "{}", too_long.body);
    // Database and table come after the password and before the label rule.
    for (table, want) in [("x.a", "unknown database, database=x"), ("d.x", "unknown table, tableName=x")] {
        let r = load(&sim, table, &[("label", "a.b")], ROW).await;
        assert_eq!(r.field("Message"), format!("[ANALYSIS_ERROR]errCode = 2, detailMessage = {want}"));
        assert_eq!((r.field("TxnId"), r.field("Status")), ("-1".into(), "Fail".into()));
    }
    // The data quota comes between the table and the label rule.
    sim.set_quota_full("d", true);
    let r = load(&sim, "d.a", &[("label", "a.b")], ROW).await;
    assert!(r.field("Message").contains("exceeds quota"), "{}", r.body);
    sim.set_quota_full("d", false);
    // Header values and the plan are looked at after the begin: a transaction was made and rolled back.
    let aborted = sim.transactions("d").into_iter().filter(|t| t.state == TxnState::Aborted).count();
    assert_eq!(aborted, 2);
}

#[tokio::test]
async fn headers_that_do_not_fit() {
    let sim = start().await;
    tables(&sim);
    for (headers, want) in [
        (
            &[("Content-Length", "")][..],
            "[INVALID_ARGUMENT]content_length is empty and transfer-encoding!=chunked, please set content_length or transfer-encoding=chunked",
        ),
        (&[("strict_mode", "yes")], "Invalid strict mode format. Must be bool type"),
        (&[("merge_type", "MERGE")], "Excepted DELETE ON clause when merge type is MERGE."),
        (&[("delete", "v=1")], "Not support DELETE ON clause when merge type is not MERGE."),
        (&[("exec_mem_limit", "lots")], "Invalid mem limit format"),
        (&[("max_filter_ratio", "1.5")], "max_filter_ratio must be between 0 and 1"),
        (&[("timeout", "0")], "timeout 0 is not within 1 and 259200 seconds"),
        (&[("timeout", "259201")], "timeout 259201 is not within 1 and 259200 seconds"),
        (&[("group_commit", "async_mode"), ("label", "x")], "label and group_commit can't be set at the same time"),
        (&[("compress_type", "gz")], "the simulator does not do header compress_type"),
        (&[("columns", "k,v")], "Table u has sequence column, need to specify the sequence column"),
        (&[("columns", "v,__DORIS_SEQUENCE_COL__")], "Column has no default value, column=k"),
        (&[("columns", "k,K,__DORIS_SEQUENCE_COL__")], "Duplicate column: K"),
        (&[("columns", "k,v=now(),__DORIS_SEQUENCE_COL__")], "evaluates no expression but constants: now()"),
        (&[("hidden_columns", "__DORIS_SKIP__")], "Unknown column '__DORIS_SKIP__' in 'u'"),
        (
            &[("read_json_by_line", "false"), ("Content-Length", "104857601")],
            "json body size 104857601 exceed BE's conf",
        ),
    ] {
        let r = load(&sim, "d.u", headers, "").await;
        assert!(r.field("Message").contains(want), "{headers:?}: {}", r.body);
        assert_eq!(r.field("Status"), "Fail");
    }
    assert_eq!(sim.transactions("d").iter().filter(|t| t.state != TxnState::Aborted).count(), 0);
    // An off-mode group commit and any case of true are what a careful client sends.
    let r = load(&sim, "d.u", &[("columns", U), ("two_phase_commit", "True")], &line(1, "a", 1, false)).await;
    assert_eq!((r.field("Status"), r.field("TwoPhaseCommit")), ("Success".into(), "false".into()), "{}", r.body);
}

#[tokio::test]
async fn a_used_label_says_what_uses_it() {
    let sim = start().await;
    tables(&sim);
    let two = [("label", "L"), ("two_phase_commit", "true")];
    let first = load(&sim, "d.a", &two, ROW).await.field("TxnId");
    let text = format!("Label [L] has already been used, relate to txn [{first}]");
    let check = |status: &'static str| {
        let (sim, text) = (&sim, text.clone());
        async move {
            // The answer echoes the request's own two-phase header, not the transaction's.
            let r = load(sim, "d.a", &[("label", "L")], ROW).await;
            assert_eq!(r.field("Status"), "Label Already Exists");
            assert_eq!(r.field("ExistingJobStatus"), status);
            assert_eq!((r.field("TxnId"), r.field("TwoPhaseCommit")), ("-1".into(), "false".into()));
            assert_eq!((r.field("NumberTotalRows"), r.field("LoadBytes")), ("0".into(), "0".into()));
            assert!(r.field("Message").ends_with(&text), "{}", r.body);
        }
    };
    check("PRECOMMITTED").await;
    sim.hold_publish();
    assert_eq!(finish(&sim, "d", &first, "commit").await.0, "Success");
    check("FINISHED").await;
    sim.release_publish();
    check("FINISHED").await;
    // The scope is the database, not the table.
    let r = load(&sim, "d.u", &[("label", "L"), ("columns", U)], &line(1, "a", 1, false)).await;
    assert_eq!(r.field("Status"), "Label Already Exists");
    // After an abort the label is free again.
    let two = [("label", "M"), ("two_phase_commit", "true")];
    let id = load(&sim, "d.a", &two, ROW).await.field("TxnId");
    assert_eq!(finish(&sim, "d", &id, "abort").await.0, "Success");
    let again = load(&sim, "d.a", &two, ROW).await;
    assert_eq!(again.field("Status"), "Success");
    assert_ne!(again.field("TxnId"), id);
    assert_eq!(label_state(&sim, "d", "M").await, "PRECOMMITTED");
}

#[tokio::test]
async fn the_second_phase_in_the_words_of_4_3() {
    let sim = start().await;
    tables(&sim);
    let pre = "TStatus: errCode = 2, detailMessage = ";
    let two = |label| [("label", label), ("two_phase_commit", "true")];
    let id = load(&sim, "d.a", &two("L"), ROW).await.field("TxnId");
    sim.hold_publish();
    let both = [("txn_id", id.as_str()), ("label", "L"), ("txn_operation", "commit")];
    let r = second_phase(&sim, "d", &both).await.unwrap();
    assert_eq!(
        r.body,
        format!("{{\"status\":\"Success\",\"msg\":\"transaction [{id}] label [L] commit successfully.\"}}")
    );
    for (op, text) in [
        ("commit", format!("transaction [{id}] is already committed, not pre-committed.")),
        ("abort", format!("transaction [{id}] is already COMMITTED, could not abort.")),
    ] {
        assert_eq!(finish(&sim, "d", &id, op).await, ("ANALYSIS_ERROR".into(), format!("{pre}{text}")));
    }
    sim.release_publish();
    for (op, text) in [
        ("commit", format!("transaction [{id}] is already visible, not pre-committed.")),
        ("abort", format!("transaction [{id}] is already VISIBLE, could not abort.")),
    ] {
        assert_eq!(finish(&sim, "d", &id, op).await, ("ANALYSIS_ERROR".into(), format!("{pre}{text}")));
    }
    load(&sim, "d.a", &two("M"), ROW).await;
    let by_label = [("label", "M"), ("txn_operation", "abort")];
    let r = second_phase(&sim, "d", &by_label).await.unwrap();
    assert_eq!(r.field("msg"), "label [M] abort successfully.");
    let r = second_phase(&sim, "d", &by_label).await.unwrap();
    assert_eq!(r.field("msg"), format!("{pre}running transaction not found, label=M"));
    let dead = sim.transactions("d").iter().find(|t| t.label == "M").unwrap().id.to_string();
    for (op, text) in [
        ("commit", format!("transaction [{dead}] is already aborted. abort reason: User Abort")),
        ("abort", format!("transaction [{dead}] is already aborted, abort reason: User Abort")),
    ] {
        assert_eq!(finish(&sim, "d", &dead, op).await.1, format!("{pre}{text}"));
    }
    for (id, op, status, text) in [
        ("7", "commit", "ANALYSIS_ERROR", format!("{pre}transaction [7] not found")),
        ("x1", "commit", "INTERNAL_ERROR", "convert txn_id [x1] failed, reason=".into()),
        ("7", "Commit", "INVALID_ARGUMENT", "transaction operation should be 'commit' or 'abort'".into()),
    ] {
        let (s, m) = finish(&sim, "d", id, op).await;
        assert_eq!(s, status);
        assert!(m.contains(&text), "{m}");
    }
    // A table dropped between the phases: no commit, but an abort.
    let id = load(&sim, "d.a", &two("N"), ROW).await.field("TxnId");
    sim.sql("DROP TABLE d.a").unwrap();
    assert!(finish(&sim, "d", &id, "commit").await.1.contains("unknown table, tableId="));
    assert_eq!(finish(&sim, "d", &id, "abort").await.0, "Success");
    // The front end redirects the second phase, and checks only that something was named.
    let auth = basic(&sim);
    let ask = async |headers: &[(&str, &str)]| {
        let mut all = vec![("Authorization", auth.as_str()), ("Content-Length", "0")];
        all.extend_from_slice(headers);
        http(fe(&sim), "PUT /api/d/a/_stream_load_2pc", &all, b"").await.unwrap()
    };
    assert_eq!(ask(&[]).await.body, "{\"status\":\"FAILED\",\"msg\":\"No transaction id or label selected.\"}");
    assert_eq!(
        ask(&[("label", "x")]).await.body,
        "{\"status\":\"FAILED\",\"msg\":\"No transaction operation('commit' or 'abort') selected.\"}"
    );
    let r = ask(&[("txn_id", "5"), ("txn_operation", "commit")]).await;
    assert_eq!(r.status, 307);
    assert!(r.header("location").ends_with("/api/d/a/_stream_load_2pc?"), "{}", r.header("location"));
}

#[tokio::test]
async fn the_front_end_answers_with_status_200_whatever_is_wrong() {
    let sim = start().await;
    tables(&sim);
    let auth = basic(&sim);
    let none = http(fe(&sim), "PUT /api/d/a/_stream_load", &[("Expect", "100-continue")], b"").await.unwrap();
    assert_eq!((none.status, none.field("code"), none.field("msg")), (200, "401".into(), "Unauthorized".into()));
    let wrong = [("Authorization", "Basic cm9vdDp3cm9uZw=="), ("Expect", "100-continue")];
    assert_eq!(http(fe(&sim), "PUT /api/d/a/_stream_load", &wrong, b"").await.unwrap().field("code"), "401");
    let r = http(fe(&sim), "PUT /api/d/a/_stream_load", &[("Authorization", &auth)], b"").await.unwrap();
    assert_eq!(r.body, "{\"status\":\"FAILED\",\"msg\":\"There is no 100-continue header\"}");
    let bad = [("Authorization", auth.as_str()), ("Expect", "x"), ("group_commit", "on")];
    let r = http(fe(&sim), "PUT /api/d/a/_stream_load", &bad, b"").await.unwrap();
    assert!(r.field("msg").contains("`group_commit` can only be"), "{}", r.body);
    let get = async |path: &str| http(fe(&sim), path, &[("Authorization", &auth)], b"").await.unwrap();
    assert_eq!(
        get("GET /api/d/get_load_state?label=q").await.body,
        "{\"msg\":\"success\",\"code\":0,\"data\":\"UNKNOWN\",\"count\":0}"
    );
    assert_eq!(get("GET /api/d/get_load_state").await.field("data"), "No label selected");
    assert_eq!(get("GET /api/no/get_load_state?label=q").await.field("msg"), "Error");
    let be = sim.be_addrs()[0];
    assert_eq!(
        get("GET /api/backends?is_alive=true").await.json()["data"]["backends"],
        serde_json::json!([{"ip": "127.0.0.1", "http_port": be.port(), "is_alive": true}])
    );
    let schema = get("GET /api/d/u/_schema").await.json();
    assert_eq!(schema["data"]["keysType"], "UNIQUE_KEYS");
    assert_eq!(schema["data"]["properties"][1]["name"], "v");
    assert_eq!(get("GET /api/bootstrap").await.field("code"), "0");
    assert_eq!(get("GET /api/nothing").await.status, 404);
    let health = http(be, "GET /api/health", &[], b"").await.unwrap();
    assert_eq!(health.field("status"), "OK");
    assert_eq!(http(be, "GET /", &[], b"").await.unwrap().body, "Not Found");
}

#[tokio::test]
async fn the_three_dialects() {
    for (dialect, want) in [
        (Dialect::Plain, "[ANALYSIS_ERROR]unknown table, tableName=t"),
        (Dialect::ErrCode, "[ANALYSIS_ERROR]errCode = 2, detailMessage = unknown table, tableName=t"),
        (Dialect::TStatus, "[ANALYSIS_ERROR]TStatus: errCode = 2, detailMessage = unknown table, tableName=t"),
    ] {
        let sim = start_with(SimOptions { dialect, ..SimOptions::default() }).await;
        assert_eq!(load(&sim, "d.t", &[], ROW).await.field("Message"), want);
    }
}

#[tokio::test]
async fn the_running_limit_is_per_database() {
    let mut options = SimOptions::default();
    options.limits.running = 1;
    let sim = start_with(options).await;
    tables(&sim);
    let two = [("two_phase_commit", "true")];
    assert_eq!(load(&sim, "d.a", &two, ROW).await.field("Status"), "Success");
    let r = load(&sim, "d.a", &two, ROW).await;
    assert!(r.field("Message").ends_with(" is 1, larger than limit 1"), "{}", r.body);
    assert!(r.field("Message").contains("current running txns on db "), "{}", r.body);
}
