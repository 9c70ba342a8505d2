//! What the back end and the front end refuse, in which order, and with which words (doris.md 1, 2.3, 3, 4, 12.2).

use crate::client::*;
use millstream_tests::doris::{Dialect, Fault, Knob, SimOptions, TxnState};

const ROW: &str = "{\"k\":1,\"v\":\"a\"}\n";

/// One way to fail a check.
struct Violation {
    /// The message, as far as it is told by the check alone.
    says: &'static str,
    /// Headers; an empty value takes the header away.
    headers: &'static [(&'static str, &'static str)],
    /// Where the load goes, if that is the fault.
    database: Option<&'static str>,
    table: Option<&'static str>,
    knob: Option<Fault>,
}

const FINE: Violation = Violation { says: "", headers: &[], database: None, table: None, knob: None };

/// The checks in the order of doris.md 12.2.
const CHECKS: &[Violation] = &[
    Violation {
        says: "[INVALID_ARGUMENT]Header `group_commit` can only be `sync_mode`, `async_mode` or `off_mode`.",
        headers: &[("group_commit", "maybe")],
        ..FINE
    },
    Violation { says: "[NOT_AUTHORIZED]no valid Basic authorization", headers: &[("Authorization", "")], ..FINE },
    Violation { says: "[DATA_FILE_TYPE_ERROR]unknown data format, format=xml", headers: &[("format", "xml")], ..FINE },
    Violation {
        says: "[EXCEEDED_LIMIT]body size 10737418241 exceed BE's conf `streaming_load_max_mb` 10737418240",
        headers: &[("Content-Length", "10737418241")],
        ..FINE
    },
    Violation {
        says: "[INVALID_ARGUMENT]please do not set both content_length and transfer-encoding",
        headers: &[("Transfer-Encoding", "chunked")],
        ..FINE
    },
    Violation { says: "[INVALID_ARGUMENT]Invalid timeout format, soon", headers: &[("timeout", "soon")], ..FINE },
    Violation {
        says: "[NOT_AUTHORIZED]errCode = 2, detailMessage = Access denied for user 'root@127.0.0.1' (using password: YES)",
        headers: &[("Authorization", "Basic cm9vdDp3cm9uZw==")],
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = unknown database, database=x",
        database: Some("x"),
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = unknown table, tableName=y",
        table: Some("y"),
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = Database[d] data size exceeds quota",
        knob: Some(Fault::Quota { data: true }),
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = Label format error. regex: ^[-_A-Za-z0-9:]{1,128}$, label: no dots.",
        headers: &[("label", "no dots.")],
        ..FINE
    },
    Violation {
        says: "[LABEL_ALREADY_EXISTS]errCode = 2, detailMessage = Label [used] has already been used, relate to txn [",
        headers: &[("label", "used")],
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = current running txns on db ",
        knob: Some(Fault::Quota { data: false }),
        ..FINE
    },
    Violation {
        says: "[INVALID_ARGUMENT]errCode = 2, detailMessage = enclose must be single-char, actually is ab",
        headers: &[("enclose", "ab")],
        ..FINE
    },
    Violation {
        says: "[ANALYSIS_ERROR]errCode = 2, detailMessage = Unknown column 'nope' in 'u'",
        headers: &[("columns", "k,nope")],
        ..FINE
    },
    Violation {
        says: "[NOT_IMPLEMENTED_ERROR]errCode = 2, detailMessage = stream load 2pc is unsupported for mow table",
        headers: &[("two_phase_commit", "true")],
        knob: Some(Fault::Cloud),
        ..FINE
    },
];

/// Each check alone, and each pair of checks: a request that fails two is answered by the first of them.
#[tokio::test]
async fn of_two_failed_checks_the_first_answers() {
    let sim = start().await;
    tables(&sim);
    let used = load(&sim, "d.a", &[("label", "used"), ("two_phase_commit", "true")], ROW).await;
    assert_eq!(used.field("Status"), "Success", "{}", used.body);
    let mut pairs = 0;
    for (i, first) in CHECKS.iter().enumerate() {
        for second in std::iter::once(&FINE).chain(&CHECKS[i + 1..]) {
            let mut headers = vec![("columns", U)];
            let names = |v: &Violation| v.headers.iter().map(|(n, _)| *n).collect::<Vec<_>>();
            if names(first).iter().any(|n| names(second).contains(n)) {
                // One header cannot be wrong in two ways.
                continue;
            }
            for (n, v) in second.headers.iter().chain(first.headers) {
                headers.retain(|(have, _)| have != n);
                headers.push((n, v));
            }
            for knob in [&first.knob, &second.knob].into_iter().flatten() {
                sim.set(Knob::always(knob.clone()));
            }
            let database = first.database.or(second.database).unwrap_or("d");
            let table = format!("{database}.{}", first.table.or(second.table).unwrap_or("u"));
            let r = load(&sim, &table, &headers, "").await;
            sim.clear_knobs();
            let message = r.field("Message");
            assert!(message.starts_with(first.says), "{} and {}: {message}", first.says, second.says);
            let status = if first.says.contains("has already been used") { "Label Already Exists" } else { "Fail" };
            assert_eq!((r.status, r.field("Status").as_str()), (200, status));
            // Header values and the plan are looked at after the begin: a transaction was made, and rolled back.
            let begun = first.says.contains("enclose") || first.says.contains("nope") || first.says.contains("2pc");
            assert_eq!(r.field("TxnId") != "-1", begun, "{message}");
            pairs += 1;
        }
    }
    assert!(pairs > 120, "{pairs}");
    let open = sim.transactions("d").into_iter().filter(|t| t.state != TxnState::Aborted).count();
    assert_eq!(open, 1, "the load that took the label");
    let long = "x".repeat(129);
    let too_long = load(&sim, "d.a", &[("label", &long)], ROW).await;
    assert!(too_long.field("Message").contains("Label format error"), "{}", too_long.body);
    sim.set_quota_full("d", true);
    let r = load(&sim, "d.a", &[("label", "b")], ROW).await;
    assert!(r.field("Message").contains("exceeds quota"), "{}", r.body);
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
        (
            &[("group_commit", "async_mode"), ("label", "x"), ("Content-Length", "9")],
            "label and group_commit can't be set at the same time",
        ),
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
