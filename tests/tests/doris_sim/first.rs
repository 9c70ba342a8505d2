//! The way of one batch: redirect, load, precommit, commit, and what readers see in between.

use crate::client::*;

#[tokio::test]
async fn a_batch_goes_through_both_phases() {
    let sim = start().await;
    let mut c = sql(&sim).await;
    c.execute(
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`id` BIGINT NOT NULL, `name` VARCHAR(64) NULL, `at` DATETIME(6) NULL) \
         UNIQUE KEY(`id`) DISTRIBUTED BY HASH(`id`) BUCKETS AUTO PROPERTIES(\"replication_num\"=\"1\",\
         \"enable_unique_key_merge_on_write\"=\"true\",\"light_schema_change\"=\"true\",\
         \"function_column.sequence_type\"=\"bigint\")",
    )
    .await
    .unwrap();
    // Step 1: headers to the front end, which names a back end and the credentials in its URL.
    let auth = basic(&sim);
    let headers = [("Authorization", auth.as_str()), ("Expect", "100-continue"), ("Content-Length", "0")];
    let r = http(fe(&sim), "PUT /api/d/t/_stream_load", &headers, b"").await.unwrap();
    assert_eq!(r.status, 307);
    assert_eq!(r.header("content-type"), "text/html;charset=utf-8");
    let be = sim.be_addrs()[0];
    let want = format!("http://root:sim%3A%40%25%2F%C3%A9%20pass@{be}/api/d/t/_stream_load?");
    assert_eq!(r.header("location"), want);
    assert_eq!(r.body, "");
    // Step 2: the body to the back end.
    let columns = ("columns", "id,name,at,__DORIS_SEQUENCE_COL__,__DORIS_DELETE_SIGN__");
    let body = "{\"id\":1,\"name\":\"a\",\"at\":\"2026-01-01 00:00:00\",\"__DORIS_SEQUENCE_COL__\":5,\"__DORIS_DELETE_SIGN__\":0}\n\
                {\"id\":2,\"name\":null,\"at\":null,\"__DORIS_SEQUENCE_COL__\":6,\"__DORIS_DELETE_SIGN__\":\"0\"}\n";
    let r = load(&sim, "d.t", &[("label", "l:1"), ("two_phase_commit", "true"), columns], body).await;
    assert_eq!((r.status, r.field("Status").as_str()), (200, "Success"), "{r:?}");
    assert_eq!(r.field("NumberTotalRows"), "2");
    assert_eq!(r.field("NumberLoadedRows"), "2");
    assert_eq!(r.field("LoadBytes"), body.len().to_string());
    assert_eq!(r.field("TwoPhaseCommit"), "true");
    let id = r.field("TxnId");
    assert_eq!(label_state(&sim, "d", "l:1").await, "PRECOMMITTED");
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.t").await, [[Some("0".to_owned())]]);
    let shown = rows(&mut c, "SHOW TRANSACTION FROM d WHERE LABEL = 'l:1'").await;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].len(), 15);
    assert_eq!(shown[0][..4], [&id, "l:1", "BE: 127.0.0.1", "PRECOMMITTED"].map(|s: &str| Some(s.to_owned())));
    assert_eq!(
        finish(&sim, "d", &id, "commit").await,
        ("Success".into(), format!("transaction [{id}] commit successfully."))
    );
    assert_eq!(label_state(&sim, "d", "l:1").await, "VISIBLE");
    let got = rows(&mut c, "SELECT * FROM `d`.`t` ORDER BY `id`").await;
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(got, [vec![text("1"), text("a"), text("2026-01-01 00:00:00.000000")], vec![text("2"), None, None]]);
    assert_eq!(sim.rows("d", "t"), got);
    assert_eq!(sim.fe_body_bytes(), 0);
}
