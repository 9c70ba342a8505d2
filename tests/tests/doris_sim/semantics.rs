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
