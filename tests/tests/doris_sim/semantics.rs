//! UNIQUE and DUPLICATE tables: what readers see.

use crate::client::*;
use millstream_tests::doris::{DorisSim, Fault, Knob, LostAt, Op};

/// The rows of `d.u` as `k=v`, in key order.
fn seen(sim: &DorisSim) -> String {
    let text = |v: &Option<String>| v.clone().unwrap_or_else(|| "NULL".into());
    sim.rows("d", "u").iter().map(|r| format!("{}={}", text(&r[0]), text(&r[1]))).collect::<Vec<_>>().join(" ")
}

async fn push(sim: &DorisSim, label: &str, body: String) {
    let r = load(sim, "d.u", &[("label", label), ("columns", U)], &body).await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
}

#[tokio::test]
async fn the_largest_sequence_wins_in_whatever_order_loads_come() {
    let sim = start().await;
    tables(&sim);
    for (label, body, want) in [
        ("1", line(1, "b", 20, false) + &line(2, "x", 5, false) + &line(-3, "n", 1, false), "-3=n 1=b 2=x"),
        // Older than what is stored: nothing changes, not even by a delete.
        ("2", line(1, "a", 10, false) + &line(2, "", 4, true), "-3=n 1=b 2=x"),
        // A delete needs at least the stored sequence.
        ("3", line(2, "", 5, true), "-3=n 1=b"),
        // An insert with a deleted row's sequence stays invisible, an older one too, a newer one shows.
        ("4", line(2, "y", 5, false), "-3=n 1=b"),
        ("5", line(2, "y", 3, false), "-3=n 1=b"),
        ("6", line(2, "z", 6, false), "-3=n 1=b 2=z"),
        // A delete of a key nobody knows is remembered.
        ("7", line(9, "", 50, true), "-3=n 1=b 2=z"),
        ("8", line(9, "q", 49, false), "-3=n 1=b 2=z"),
        // Within one load the sequence decides as well.
        ("9", line(9, "new", 60, false) + &line(9, "old", 55, false), "-3=n 1=b 2=z 9=new"),
    ] {
        push(&sim, label, body).await;
        assert_eq!(seen(&sim), want, "after load {label}");
        assert_eq!(sim.row_count("d", "u"), sim.rows("d", "u").len() as u64, "after load {label}");
    }
    assert_eq!(sim.sequence_conflicts("d", "u"), 0);
    push(&sim, "10", line(9, "other", 60, false)).await;
    assert_eq!(sim.sequence_conflicts("d", "u"), 1);
}

#[tokio::test]
async fn without_a_sequence_the_later_load_wins() {
    let sim = start().await;
    sim.sql(
        "CREATE TABLE d.p (k INT NOT NULL, v STRING) UNIQUE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 \
         PROPERTIES(\"replication_num\"=\"1\")",
    )
    .unwrap();
    for (label, body) in [("1", "{\"k\":1,\"v\":\"a\"}\n{\"k\":2,\"v\":\"b\"}"), ("2", "{\"k\":1,\"v\":\"c\"}")] {
        assert_eq!(load(&sim, "d.p", &[("label", label)], body).await.field("Status"), "Success");
    }
    let delete = [("label", "3"), ("merge_type", "delete"), ("columns", "k")];
    assert_eq!(load(&sim, "d.p", &delete, "{\"k\":2}").await.field("Status"), "Success");
    assert_eq!(sim.rows("d", "p"), [vec![Some("1".to_owned()), Some("c".to_owned())]]);
    let hidden = [("label", "4"), ("hidden_columns", "__DORIS_DELETE_SIGN__")];
    let r = load(&sim, "d.p", &hidden, "{\"k\":1,\"__DORIS_DELETE_SIGN__\":true}").await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    assert_eq!(sim.row_count("d", "p"), 0);
    // Nothing orders the versions but the loads: a deleted key comes back.
    assert_eq!(load(&sim, "d.p", &[("label", "5")], "{\"k\":1,\"v\":null}").await.field("Status"), "Success");
    assert_eq!(sim.rows("d", "p"), [vec![Some("1".to_owned()), None]]);
}

#[tokio::test]
async fn duplicate_tables_keep_every_row() {
    let sim = start().await;
    tables(&sim);
    for label in ["1", "2"] {
        let r = load(
            &sim,
            "d.a",
            &[("label", label), ("columns", "k,v")],
            "{\"k\":1,\"v\":\"x\"}\n{\"k\":1,\"v\":\"x\"}\n",
        )
        .await;
        assert_eq!(r.field("Status"), "Success", "{}", r.body);
    }
    assert_eq!(sim.row_count("d", "a"), 4);
    let r = load(&sim, "d.a", &[("merge_type", "DELETE")], "{\"k\":1}").await;
    assert!(r.field("Message").contains("only supported in unique tables"), "{}", r.body);
    let mut c = sql(&sim).await;
    assert!(refusal(&mut c, "SELECT __DORIS_DELETE_SIGN__ FROM d.a").await.contains("Unknown column"));
    c.execute("TRUNCATE TABLE d.a").await.unwrap();
    assert_eq!(sim.row_count("d", "a"), 0);
}

#[tokio::test]
async fn a_commit_lost_before_it_is_done_leaves_the_load_precommitted() {
    let sim = start().await;
    tables(&sim);
    let two_phase = [("label", "one"), ("columns", U), ("two_phase_commit", "true")];
    let id = load(&sim, "d.u", &two_phase, &line(1, "a", 1, false)).await.field("TxnId");
    let commit = [("txn_id", id.as_str()), ("txn_operation", "commit")];
    sim.set(Knob::once(Fault::ReplyLost { op: Op::Commit, state: LostAt::PreCommitted }));
    assert!(second_phase(&sim, "d", &commit).await.is_none());
    assert_eq!((sim.knobs_fired(), label_state(&sim, "d", "one").await.as_str()), (1, "PRECOMMITTED"));
    assert_eq!(seen(&sim), "");
    assert!(second_phase(&sim, "d", &commit).await.is_some());
    assert_eq!(seen(&sim), "1=a");
    let visible = sim.visible("d", "u").unwrap();
    let rows: Vec<Vec<_>> = visible.rows().map(|row| row.skip(1).values().take(1).collect()).collect();
    assert_eq!((visible.schema().keys, rows), (1, vec![vec![Some(&b"a"[..])]]));
}

/// Loads of some columns: the others stay as they are, the sequence decides for the row as a whole, and a load that was made
/// before another one was visible keeps that one's columns.
#[tokio::test]
async fn some_columns() {
    let sim = start().await;
    let mut c = sql(&sim).await;
    c.execute("CREATE DATABASE IF NOT EXISTS d").await.unwrap();
    c.execute(
        "CREATE TABLE d.s (k INT NOT NULL, a INT NOT NULL, b VARCHAR(10) NULL, e INT NULL DEFAULT \"7\") UNIQUE KEY(k) \
         DISTRIBUTED BY HASH(k) BUCKETS 1 PROPERTIES(\"replication_num\"=\"1\", \"enable_unique_key_merge_on_write\"=\"true\", \
         \"function_column.sequence_type\"=\"bigint\")",
    )
    .await
    .unwrap();
    let hidden = ",__DORIS_DELETE_SIGN__,__DORIS_SEQUENCE_COL__";
    let (whole, some) = (format!("k,a,b,e{hidden}"), format!("k,b{hidden}"));
    let line = |k: i64, rest: &str, seq: i64, deleted: i64| {
        format!("{{\"k\":{k},{rest}\"__DORIS_DELETE_SIGN__\":{deleted},\"__DORIS_SEQUENCE_COL__\":{seq}}}\n")
    };
    let rows = || -> Vec<String> {
        let text = |row: Vec<Option<String>>| {
            row.into_iter().map(|v| v.unwrap_or_else(|| "-".into())).collect::<Vec<_>>().join(",")
        };
        sim.rows("d", "s").into_iter().map(text).collect()
    };
    let first = line(1, "\"a\":1,\"b\":\"x\",\"e\":null,", 1, 0);
    assert_eq!(load(&sim, "d.s", &[("label", "1"), ("columns", &whole)], &first).await.field("Status"), "Success");
    let partial = |label: &'static str, policy: &'static str, columns: &str| {
        vec![
            ("label", label.to_owned()),
            ("columns", columns.to_owned()),
            ("partial_columns", "true".to_owned()),
            ("partial_update_new_key_behavior", policy.to_owned()),
        ]
    };
    let send = async |headers: Vec<(&'static str, String)>, body: String| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        load(&sim, "d.s", &headers, &body).await
    };
    let r = send(partial("2", "ERROR", &some), line(1, "\"b\":\"y\",", 3, 0)).await;
    assert_eq!((r.field("Status").as_str(), rows()), ("Success", vec!["1,1,y,-".to_owned()]));
    // An older one is dropped as a whole.
    send(partial("3", "ERROR", &some), line(1, "\"b\":\"z\",", 2, 0)).await;
    assert_eq!(rows(), ["1,1,y,-"]);
    // A key without a row.
    for (label, policy, columns, why) in [
        ("4", "ERROR", &some, "Can't append new rows"),
        ("5", "APPEND", &some, "the unmentioned column `a` should have default value"),
    ] {
        let r = send(partial(label, policy, columns), line(2, "\"b\":\"y\",", 4, 0)).await;
        assert!(r.field("Message").contains("too many filtered rows"), "{}", r.body);
        let url = r.field("ErrorURL");
        let path = url.split_once("/api").unwrap().1;
        let page = http(sim.be_addrs()[0], &format!("GET /api{path}"), &[], b"").await.unwrap();
        assert!(page.body.contains(why), "{}", page.body);
    }
    let with_a = format!("k,a{hidden}");
    send(partial("6", "APPEND", &with_a), line(2, "\"a\":2,", 5, 0)).await;
    assert_eq!(rows(), ["1,1,y,-", "2,2,-,7"]);
    let delete = format!("k{hidden}");
    send(partial("7", "ERROR", &delete), line(2, "", 6, 1)).await;
    assert_eq!(rows(), ["1,1,y,-"]);
    // Two at once, of other columns, and committed in order.
    let mut ids = Vec::new();
    for (label, columns, line) in
        [("8", &with_a, line(1, "\"a\":9,", 7, 0)), ("9", &some, line(1, "\"b\":\"w\",", 8, 0))]
    {
        let mut headers = partial(label, "ERROR", columns);
        headers.push(("two_phase_commit", "true".to_owned()));
        ids.push(send(headers, line).await.field("TxnId"));
    }
    for id in &ids {
        second_phase(&sim, "d", &[("txn_id", id.as_str()), ("txn_operation", "commit")]).await.unwrap();
    }
    assert_eq!(rows(), ["1,9,w,-"]);
    let r = send(partial("10", "ERROR", &format!("b{hidden}")), line(1, "", 9, 0)).await;
    assert!(r.field("Message").contains("should include all key columns"), "{}", r.body);
}
