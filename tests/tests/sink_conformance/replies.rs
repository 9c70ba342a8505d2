//! What replies mean: T7, T9 to T11.

use std::time::{Duration, Instant};

use millstream_doris_sink::classify::FatalCause;
use millstream_doris_sink::{CommitOutcome, DorisClient, Mode, TwoPhase};
use millstream_tests::doris::{Dialect, Fault, Garbage, Knob, LostAt, Op, Side, SimOptions, TxnState};

use crate::bed::{Bed, label, small_schema};

/// A taken label: RUNNING is waited for and then aborted, PRECOMMITTED is this load if this call has sent it and aborted if not,
/// FINISHED is this load in one phase and an error in two. The `TxnId: -1` of such replies is never used.
/// Conformance: T7
#[tokio::test]
async fn t07_labels_that_are_taken() {
    let Some(bed) = Bed::simulated("t07").await else { return };
    let mut t = bed.log().await;
    let (a, b) = (t.numbered(0..10), t.numbered(10..20));
    let (c, d, e) = (t.numbered(20..30), t.numbered(30..40), t.numbered(40..50));
    // RUNNING: an earlier request goes on in the back end, and is aborted when it takes too long.
    bed.set(Knob::once(Fault::HoldRunning { ms: 3_600_000, cut: true }));
    bed.commit(t.load(&bed.client, &a, label(0), TwoPhase::Yes).await.unwrap()).await;
    // PRECOMMITTED by this very call: adopted, not sent again.
    bed.sim().clear_requests();
    bed.set(Knob::once(Fault::ReplyLost { op: Op::Load, state: LostAt::PreCommitted }));
    bed.commit(t.load(&bed.client, &b, label(1), TwoPhase::Yes).await.unwrap()).await;
    assert_eq!(bed.loads().1.len(), 1);
    // PRECOMMITTED by an earlier run: aborted by id, sent again.
    let earlier = t.load(&bed.client, &c, label(2), TwoPhase::Yes).await.unwrap();
    let again = t.load(&bed.client, &c, label(2), TwoPhase::Yes).await.unwrap();
    assert_ne!(earlier.txn_id, again.txn_id);
    bed.commit(again).await;
    // FINISHED in one phase: this load.
    bed.set(Knob::once(Fault::ReplyLost { op: Op::Load, state: LostAt::Visible }));
    t.load(&bed.client, &d, label(3), TwoPhase::No).await.unwrap();
    t.load(&bed.client, &d, label(3), TwoPhase::No).await.unwrap();
    // FINISHED in two phases: nobody can have committed what was never handed over.
    bed.commit(t.load(&bed.client, &e, label(4), TwoPhase::Yes).await.unwrap()).await;
    let error = t.load(&bed.client, &e, label(4), TwoPhase::Yes).await.unwrap_err();
    assert_eq!(error.fatal_cause(), Some(FatalCause::LabelFinished), "{error}");
    assert_eq!(bed.sequences("log").await, (0..50).collect::<Vec<_>>());
    let ids: Vec<String> = bed.sim().requests().iter().filter_map(|r| r.header("txn_id").map(str::to_owned)).collect();
    assert!(!ids.is_empty() && ids.iter().all(|id| id.parse::<u64>().is_ok()), "{ids:?}");
}

/// `Publish Timeout` is a success, once; waiting for the rows to be seen is bounded.
/// Conformance: T9
#[tokio::test]
async fn t09_committed_and_not_visible_yet() {
    let options = SimOptions { publish_wait: Duration::from_millis(20), ..SimOptions::default() };
    let Some(bed) = Bed::simulated_with("t09", options).await else { return };
    let mut t = bed.log().await;
    bed.sim().hold_publish();
    let body = t.numbered(0..10);
    let one = t.load(&bed.client, &body, label(0), TwoPhase::No).await.unwrap();
    let body = t.numbered(10..20);
    let two = t.load(&bed.client, &body, label(1), TwoPhase::Yes).await.unwrap();
    assert_eq!(bed.client.commit(&bed.database, two.txn_id.unwrap()).await.unwrap(), CommitOutcome::Done);
    assert_eq!((bed.loads().1.len(), bed.sequences("log").await.len()), (2, 0));
    for loaded in [one, two] {
        let patience = Duration::from_millis(50);
        assert!(!bed.client.wait_visible(&bed.database, loaded.txn_id.unwrap(), patience).await.unwrap());
    }
    bed.sim().release_publish();
    for loaded in [one, two] {
        let patience = Duration::from_secs(30);
        assert!(bed.client.wait_visible(&bed.database, loaded.txn_id.unwrap(), patience).await.unwrap());
    }
    assert_eq!(bed.sequences("log").await, (0..20).collect::<Vec<_>>());
    assert_eq!(bed.loads().1.len(), 2, "nothing was loaded again");
}

/// Status 200 without `Status`, pages, nothing, half a reply, and every other status: an error, or something to look into, and
/// never a success by itself.
/// Conformance: T10
#[tokio::test]
async fn t10_what_is_no_reply_is_no_success() {
    let Some(bed) = Bed::simulated("t10").await else { return };
    let mut t = bed.log().await;
    let mut options = bed.options();
    options.give_up = Duration::from_millis(120);
    let impatient = DorisClient::new(options).unwrap();
    // Whatever comes back, nothing was done: nothing may count as done.
    let at_front = [Garbage::Html, Garbage::Empty, Garbage::Truncated, Garbage::NoStatus].map(|body| Fault::Garbage {
        body,
        at: Side::Fe,
        op: Op::Load,
    });
    let proxies = [500, 503, 429, 401, 403]
        .into_iter()
        .flat_map(|status| [Side::Fe, Side::Be].map(|at| Fault::Proxy { status, at, after: false, op: Op::Load }));
    let mut part = 0;
    for fault in at_front.into_iter().chain(proxies) {
        part += 1;
        bed.set(Knob::always(fault.clone()));
        let body = t.numbered(0..10);
        let error = t.load(&impatient, &body, label(part), TwoPhase::No).await.expect_err(&format!("{fault:?}"));
        let denied = matches!(fault, Fault::Proxy { status: 401 | 403, .. });
        assert_eq!(error.is_auth(), denied, "{fault:?}: {error}");
        bed.sim().clear_knobs();
    }
    assert!(bed.sequences("log").await.is_empty() && bed.sim().transactions(&bed.database).is_empty());
    // The reply is useless, but the load was done: what became of it is found out, and it is there once.
    let mut seq = 0;
    for body in [Garbage::Html, Garbage::Empty, Garbage::Truncated, Garbage::NoStatus] {
        for two in [TwoPhase::Yes, TwoPhase::No] {
            part += 1;
            bed.set(Knob::once(Fault::Garbage { body, at: Side::Be, op: Op::Load }));
            bed.set(Knob::once(Fault::Garbage { body, at: Side::Be, op: Op::Commit }));
            let rows = t.numbered(seq..seq + 5);
            seq += 5;
            let loaded = t.load(&bed.client, &rows, label(part), two).await.unwrap();
            if two == TwoPhase::Yes {
                bed.commit(loaded).await;
            }
            bed.sim().clear_knobs();
        }
    }
    assert_eq!(bed.sequences("log").await, (0..seq).collect::<Vec<_>>());
}

/// Doubled and unknown members are read over; the three dialects of texts mean the same.
/// Conformance: T11
#[tokio::test]
async fn t11_records_and_dialects() {
    for dialect in [Dialect::Plain, Dialect::ErrCode, Dialect::TStatus] {
        let options = SimOptions { dialect, two_phase_dialect: dialect, ..SimOptions::default() };
        let Some(bed) = Bed::simulated_with("t11", options).await else { return };
        let mut t = bed.log().await;
        bed.set(Knob::always(Fault::RecordReply));
        let body = t.numbered(0..10);
        let loaded = t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap();
        // The label is taken, by this pipeline's earlier load: aborted by the id in the text, and sent again.
        let again = t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap();
        assert_ne!(loaded.txn_id, again.txn_id, "{dialect:?}");
        let gone = bed.client.commit(&bed.database, loaded.txn_id.unwrap()).await.unwrap();
        assert!(matches!(gone, CommitOutcome::Aborted { .. }), "{dialect:?}: {gone:?}");
        bed.commit(again).await;
        assert_eq!(
            bed.client.commit(&bed.database, again.txn_id.unwrap()).await.unwrap(),
            CommitOutcome::AlreadyDone,
            "{dialect:?}"
        );
        assert_eq!(bed.client.commit(&bed.database, 7).await.unwrap(), CommitOutcome::NotFound, "{dialect:?}");
        // For a moment, and for good.
        bed.set(Knob::once(Fault::Quota { data: false }));
        bed.set(Knob::once(Fault::NotMaster { op: Op::Load, text: None }));
        let body = t.numbered(10..20);
        bed.commit(t.load(&bed.client, &body, label(1), TwoPhase::Yes).await.unwrap()).await;
        let mut absent = bed.table(&small_schema(), "absent", Mode::Append).await;
        bed.sim().sql(&format!("DROP TABLE {}.absent", bed.database)).unwrap();
        let body = absent.numbered(0..1);
        let error = absent.load(&bed.client, &body, label(2), TwoPhase::Yes).await.unwrap_err();
        assert_eq!(error.fatal_cause(), Some(FatalCause::UnknownTable), "{dialect:?}: {error}");
        assert_eq!(bed.sequences("log").await.len(), 20, "{dialect:?}");
    }
}

/// Stuck in PREPARE, a back end that restarts, a transaction that begins after its client has given up: a deadline, an abort, the
/// same bytes again, and the rows once.
/// Conformance: T16
#[tokio::test]
async fn t16_deadlines_end_what_hangs() {
    let Some(bed) = Bed::simulated("t16").await else { return };
    let mut t = bed.log().await;
    let mut options = bed.options();
    (options.load_timeout, options.connect_timeout) = (Duration::from_millis(200), Duration::from_millis(100));
    options.give_up = Duration::from_secs(60);
    let hasty = DorisClient::new(options).unwrap();
    let started = Instant::now();
    let faults = [
        Fault::HoldRunning { ms: 3_600_000, cut: false },
        Fault::HoldRunning { ms: 3_600_000, cut: true },
        Fault::SlowReply { op: Op::Load, ms: 3_600_000 },
        Fault::LateBegin { ms: 600 },
        Fault::RestartBackend { after: LostAt::Prepare },
        Fault::RestartFrontend { after: LostAt::Prepare },
    ];
    for (part, fault) in (0_u16..).zip(faults) {
        let low = i64::from(part) * 10;
        let body = t.numbered(low..low + 10);
        bed.set(Knob::once(fault.clone()));
        let loaded =
            t.load(&hasty, &body, label(part), TwoPhase::Yes).await.unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        if matches!(fault, Fault::LateBegin { .. }) {
            // The late one wakes up beside this load's transaction, and must not take its place.
            bed.until("the late begin", |sim| {
                sim.requests().iter().filter(|r| r.header("label") == Some(&label(part).to_string())).count() > 2
            })
            .await;
        }
        bed.commit(loaded).await;
    }
    assert!(started.elapsed() < Duration::from_secs(60));
    // Those that were held find their transaction gone.
    bed.sim().advance(Duration::from_secs(3601));
    let left = |sim: &millstream_tests::doris::DorisSim| {
        let txns = sim.transactions(&bed.database);
        txns.iter().filter(|t| matches!(t.state, TxnState::Prepare | TxnState::PreCommitted)).count()
    };
    bed.until("the end of what was held", |sim| left(sim) == 0).await;
    assert_eq!(bed.sequences("log").await, (0..60).collect::<Vec<_>>());
}

/// A label has at most 99 aborted transactions, for the cloud's meta-service takes no more; then the load needs a label of a new
/// epoch (or era).
/// Conformance: T28
#[tokio::test]
async fn t28_a_label_wears_out() {
    let mut options = SimOptions::profile(millstream_tests::doris::Profile::Cloud);
    options.rollback_on_client_gone = true;
    let Some(bed) = Bed::simulated_with("t28", options).await else { return };
    let mut t = bed.log().await;
    let body = t.numbered(0..10);
    bed.set(Knob::always(Fault::Cut { at: 1 }));
    let mut options = bed.options();
    (options.retry_base, options.retry_cap) = (Duration::from_micros(100), Duration::from_millis(1));
    let client = DorisClient::new(options).unwrap();
    let error = t.load(&client, &body, label(0), TwoPhase::Yes).await.unwrap_err();
    assert!(error.needs_new_label() && error.is_retryable(), "{error}");
    let aborted = bed.sim().transactions(&bed.database).len();
    assert!((80..100).contains(&aborted), "{aborted}");
    bed.sim().clear_knobs();
    // The next epoch's label is another.
    bed.commit(t.load(&bed.client, &body, label(1), TwoPhase::Yes).await.unwrap()).await;
    assert_eq!(bed.sequences("log").await.len(), 10);
}
