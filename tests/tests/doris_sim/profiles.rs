//! What tells the versions apart, as far as doris.md knows it.

use crate::client::*;
use crate::faults::{ROW, redirect};
use millstream_tests::doris::{Profile, SimOptions};
use std::time::Duration;

/// Everything a client can see of a version, in one line per version.
#[tokio::test]
async fn what_a_client_sees_of_each_version() {
    let mut seen = Vec::new();
    for profile in Profile::ALL {
        let sim = start_with(SimOptions { password: "p".into(), ..SimOptions::profile(profile) }).await;
        tables(&sim);
        let be = sim.be_addrs()[0].to_string();
        let to = redirect(&sim).await.header("location").replace(&be, "BE");
        let two = [("label", "L"), ("two_phase_commit", "true")];
        let r = load(&sim, "d.a", &two, ROW).await;
        let fields = [("ReceiveDataTimeMs", "receive"), ("FirstErrorMsg", "first")];
        let bad = load(&sim, "d.a", &[("label", "bad")], "{\"k\":null}\n").await;
        let more: Vec<&str> = fields.iter().filter(|(n, _)| bad.json().get(n).is_some()).map(|(_, s)| *s).collect();
        let again = load(&sim, "d.a", &two, ROW).await.field("Message").replace(&r.field("TxnId"), "N");
        let missing = finish(&sim, "d", "7", "commit").await.1;
        let by_label = [("label", "L"), ("txn_operation", "abort")];
        let by_label = second_phase(&sim, "d", &by_label).await.unwrap().field("status");
        let upsert = load(&sim, "d.u", &[("label", "u"), ("columns", U), two[1]], &line(1, "a", 1, false)).await;
        let lines = [("read_json_by_line", ""), ("strip_outer_array", "")];
        let by_line = load(&sim, "d.a", &lines, &ROW.repeat(2)).await.field("NumberTotalRows");
        let config = sim.sql("ADMIN SHOW FRONTEND CONFIG LIKE 'max_running_txn_num_per_db'").unwrap();
        let running = config[0][1].clone().unwrap();
        seen.push(format!(
            "{profile:?}: {to} | {} | {again} | {missing} | abort by label {by_label} | two phases on merge-on-write {} | \
             rows without a JSON header {by_line} | running {running}",
            more.join(" "),
            upsert.field("Status"),
        ));
    }
    let used = "Label [L] has already been used, relate to txn [N]";
    let err = "errCode = 2, detailMessage =";
    let want = [
        format!(
            "V2_0: http://root@default_cluster:p@BE/api/d/a/_stream_load? |  | [LABEL_ALREADY_EXISTS]{err} {used} | \
             {err} transaction [7] not found | abort by label INVALID_ARGUMENT | two phases on merge-on-write Success | \
             rows without a JSON header 1 | running 100"
        ),
        format!(
            "V2_1: http://root:p@BE/api/d/a/_stream_load? |  | [LABEL_ALREADY_EXISTS]{err} {used} | \
             TStatus: {err} transaction [7] not found | abort by label Success | two phases on merge-on-write Success | \
             rows without a JSON header 2 | running 1000"
        ),
        format!(
            "V3: http://root:p@BE/api/d/a/_stream_load? | receive | [LABEL_ALREADY_EXISTS]TStatus: {err} {used} | \
             TStatus: {err} transaction [7] not found | abort by label Success | two phases on merge-on-write Success | \
             rows without a JSON header 2 | running 1000"
        ),
        format!(
            "V4: http://root:p@BE/api/d/a/_stream_load | receive first | [LABEL_ALREADY_EXISTS]TStatus: {err} {used} | \
             [ANALYSIS_ERROR]TStatus: {err} transaction [7] not found | abort by label Success | \
             two phases on merge-on-write Success | rows without a JSON header 2 | running 10000"
        ),
        format!(
            "Cloud: http://root:p@BE/api/d/a/_stream_load | receive first | [LABEL_ALREADY_EXISTS]TStatus: {err} {used} | \
             [ANALYSIS_ERROR]TStatus: {err} transaction [7] not found | abort by label Success | \
             two phases on merge-on-write Fail | rows without a JSON header 2 | running 10000"
        ),
    ];
    for (seen, want) in seen.iter().zip(&want) {
        assert_eq!(seen, want);
    }
    assert_eq!(seen.len(), want.len());
}

#[tokio::test]
async fn the_cloud_keeps_labels_by_time_alone_and_counts_aborts() {
    let mut options = SimOptions::profile(Profile::Cloud);
    options.limits.aborts_per_label = 3;
    let sim = start_with(options).await;
    tables(&sim);
    load(&sim, "d.a", &[("label", "old")], ROW).await;
    for round in 0..3 {
        let r = load(&sim, "d.a", &[("label", "worn")], "{\"k\":null}\n").await;
        assert!(r.field("Message").contains("too many filtered rows"), "{round}: {}", r.body);
    }
    let r = load(&sim, "d.a", &[("label", "worn")], ROW).await;
    assert!(r.field("Message").ends_with("label worn has too many aborted transactions"), "{}", r.body);
    sim.advance(Duration::from_secs(2 * 86_400));
    assert_eq!(label_state(&sim, "d", "old").await, "VISIBLE");
    sim.advance(Duration::from_secs(86_400));
    assert_eq!(label_state(&sim, "d", "old").await, "UNKNOWN");
}
