//! The client over time: T17, T18, T25, T27, T29.

use std::time::{Duration, Instant};

use millstream_doris_sink::classify::FatalCause;
use millstream_doris_sink::retry::Backoff;
use millstream_doris_sink::{AbortOutcome, Body, CommitOutcome, DorisClient, Mode, TwoPhase};
use millstream_engine::delivery::{Coordinate, Delivery, Extra, LoadEnd, PrecommitAge, Sealed, TableMode, TargetNo};
use millstream_tests::doris::{Fault, Knob, LostAt, Op, Side, TxnState};
use millstream_tests::proxy::{Direction, Proxy};

use crate::bed::{Bed, label, log_begins, log_ends, small_schema};

/// A quota, a front end that is not the master, a quorum or a lock that is not there, a proxy's 429 and 503: tried again with
/// waits that grow and jitter, without a loss, and each try is in the log.
/// Conformance: T17
#[tokio::test]
async fn t17_what_passes_is_waited_for() {
    let Some(bed) = Bed::simulated("t17").await else { return };
    let mut t = bed.log().await;
    let text = |text: &str| Fault::NotMaster { op: Op::Load, text: Some(text.into()) };
    let proxy = |status, at| Fault::Proxy { status, at, after: false, op: Op::Load };
    let faults = [
        Fault::Quota { data: false },
        Fault::Quota { data: true },
        Fault::NotMaster { op: Op::Load, text: None },
        text("tablet 3049414 alive replica num 0 < quorum replica num 1, alive backends: []"),
        text("get tableList write lock timeout, tableList=(log)"),
        text("Have not get FE Master heartbeat yet"),
        proxy(429, Side::Fe),
        proxy(429, Side::Be),
        proxy(503, Side::Fe),
        proxy(503, Side::Be),
        Fault::FrontendRefuses { text: "no backend load available, policy: x".into() },
    ];
    let mut seq = 0;
    for (part, fault) in (0_u16..).zip(faults) {
        bed.set(Knob::once(fault.clone()).times(4));
        log_begins();
        let body = t.numbered(seq..seq + 5);
        seq += 5;
        let loaded =
            t.load(&bed.client, &body, label(part), TwoPhase::Yes).await.unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        let log = log_ends();
        assert!(log.matches("load is tried again").count() >= 4, "{fault:?}: {log}");
        bed.commit(loaded).await;
    }
    // The second phase waits as well.
    for text in [None, Some("get tableList write lock timeout, tableList=(log)".to_owned())] {
        let body = t.numbered(seq..seq + 5);
        seq += 5;
        let part = u16::try_from(seq).unwrap();
        let loaded = t.load(&bed.client, &body, label(part), TwoPhase::Yes).await.unwrap();
        bed.set(Knob::once(Fault::NotMaster { op: Op::Commit, text }).times(4));
        bed.commit(loaded).await;
    }
    assert_eq!(bed.sequences("log").await, (0..seq).collect::<Vec<_>>());
    // The waits grow to a cap, and those of two clients differ.
    let waits = |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        (0..10).map(|_| backoff.next(&mut rng)).collect::<Vec<_>>()
    };
    let (one, two) = (waits(1), waits(2));
    assert_ne!(one, two);
    assert!(one[9] > one[0] * 10 && one.iter().all(|w| *w <= Duration::from_secs(5)), "{one:?}");
}

/// -235 is waited out under the same label, and counted, so that the engine loads the table less often; -238 asks for smaller
/// loads, which go through. (What the engine makes of both: `sink_faults`, `versions_are_waited_for_and_segments_halved`.)
/// Conformance: T18
#[tokio::test]
async fn t18_too_many_versions_and_segments() {
    let Some(bed) = Bed::simulated("t18").await else { return };
    let mut t = bed.log().await;
    bed.set(Knob::once(Fault::TabletError { err: -235, above_rows: 0 }).times(2));
    let body = t.numbered(0..10);
    let loaded = t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap();
    assert_eq!(loaded.too_many_versions, 2);
    bed.commit(loaded).await;
    let labels: Vec<_> = bed.loads().1.iter().map(|r| r.header("label").unwrap().to_owned()).collect();
    assert_eq!(labels, vec![label(0).to_string(); 3]);
    bed.set(Knob::always(Fault::TabletError { err: -238, above_rows: 8 }));
    let mut ranges = std::collections::VecDeque::new();
    ranges.push_back(10..42_i64);
    let mut part = 0;
    while let Some(range) = ranges.pop_front() {
        part += 1;
        let body: Body = t.numbered(range.clone());
        match t.load(&bed.client, &body, label(part), TwoPhase::Yes).await {
            Ok(loaded) => bed.commit(loaded).await,
            Err(error) => {
                assert!(error.wants_split() && !error.is_retryable(), "{error}");
                assert_eq!(error.fatal_cause(), Some(FatalCause::TooManySegments));
                let middle = (range.start + range.end) / 2;
                ranges.extend([range.start..middle, middle..range.end]);
            }
        }
    }
    assert_eq!(part, 7, "32 rows, twice 16, four times 8");
    assert_eq!(bed.sequences("log").await, (0..42).collect::<Vec<_>>());
}

/// Transactions that are PRECOMMITTED for long are warned of, and given up after half an hour (where the notes have a forced
/// commit, the design has the epoch aborted and uploaded again: 4.2). At that time all of it can still be aborted or committed; an
/// hour after the phase nothing can.
/// Conformance: T27
#[tokio::test]
async fn t27_precommitted_transactions_do_not_get_old() {
    let mut delivery = Delivery::new(1, 1);
    assert_eq!(delivery.precommit_age(u64::MAX), PrecommitAge::Fine, "nothing waits");
    let mut ids = Vec::new();
    for target in [1, 2] {
        let id = delivery.next_load(TargetNo(target)).unwrap();
        let end = LoadEnd { coordinate: Coordinate::default(), done: Vec::new() };
        delivery.seal(id, "l".into(), Sealed { mode: TableMode::Append, seq: (1, 1), rows: 1, end, more: false });
        ids.push(id);
    }
    assert!(delivery.close(Coordinate::default(), Coordinate::default(), Vec::new(), Extra::default()));
    let minute = 60_000;
    delivery.precommitted(ids[0], 10, 5 * minute);
    delivery.precommitted(ids[1], 11, 25 * minute);
    // The oldest counts, and age is that of the clock the engine gives.
    for (at, want) in [
        (5, PrecommitAge::Fine),
        (14, PrecommitAge::Fine),
        (15, PrecommitAge::Old { ms: 10 * minute }),
        (34, PrecommitAge::Old { ms: 29 * minute }),
        (35, PrecommitAge::TooOld),
        (600, PrecommitAge::TooOld),
    ] {
        assert_eq!(delivery.precommit_age(at * minute), want, "after {at} minutes");
    }
    delivery.committed(ids[0]);
    assert_eq!(delivery.precommit_age(35 * minute), PrecommitAge::Old { ms: 10 * minute });
    delivery.committed(ids[1]);
    assert_eq!(delivery.precommit_age(600 * minute), PrecommitAge::Fine);

    let Some(bed) = Bed::simulated("t27").await else { return };
    let mut t = bed.log().await;
    let (a, b) = (t.numbered(0..10), t.numbered(10..20));
    let given_up = t.load(&bed.client, &a, label(0), TwoPhase::Yes).await.unwrap().txn_id.unwrap();
    let forgotten = t.load(&bed.client, &b, label(1), TwoPhase::Yes).await.unwrap().txn_id.unwrap();
    bed.sim().advance(Duration::from_secs(1800));
    assert_eq!(bed.client.abort(&bed.database, given_up).await.unwrap(), AbortOutcome::Done);
    bed.commit(t.load(&bed.client, &a, label(2), TwoPhase::Yes).await.unwrap()).await;
    bed.sim().advance(Duration::from_secs(1801));
    let late = bed.client.commit(&bed.database, forgotten).await.unwrap();
    assert!(matches!(late, CommitOutcome::Aborted { .. }), "{late:?}");
    assert_eq!(bed.sequences("log").await, (0..10).collect::<Vec<_>>());
}

/// Storage apart from compute: the refusal of two phases on a merge-on-write table is told at the first load, with the way out;
/// in one phase the label alone keeps the rows exact, whatever reply is lost. (The engine with `delivery = "label"`:
/// `sink_faults`.)
/// Conformance: T29
#[tokio::test]
async fn t29_no_two_phases_in_the_cloud() {
    let Some(bed) = Bed::simulated("t29").await else { return };
    bed.set(Knob::always(Fault::Cloud));
    let mut t = bed.table(&small_schema(), "orders", Mode::Upsert).await;
    let body = t.numbered(0..10);
    let error = t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap_err();
    assert_eq!(error.fatal_cause(), Some(FatalCause::TwoPhaseUnsupported), "{error}");
    assert!(!error.is_retryable() && error.to_string().contains("delivery = \"label\""), "{error}");
    assert_eq!(bed.loads().1.len(), 1, "told once, not tried again");
    let states: Vec<_> = bed.sim().transactions(&bed.database).iter().map(|t| t.state).collect();
    assert_eq!(states, [TxnState::Aborted]);
    // The label is free again.
    for (part, state) in [(0, LostAt::Prepare), (1, LostAt::Committed), (2, LostAt::Visible)] {
        bed.set(Knob::once(Fault::ReplyLost { op: Op::Load, state }));
        let low = i64::from(part) * 10;
        let body = t.numbered(low..low + 10);
        t.load(&bed.client, &body, label(part), TwoPhase::No).await.unwrap();
        // A restart sends the same bytes under the same label.
        t.load(&bed.client, &body, label(part), TwoPhase::No).await.unwrap();
    }
    let rows = bed.sql(&format!("SELECT COUNT(*), MAX(`id`) FROM `{}`.`orders`", bed.database)).await;
    assert_eq!(rows, [["30", "29"].map(|n| Some(n.to_owned()))]);
    let visible = bed.sim().transactions(&bed.database).iter().filter(|t| t.state == TxnState::Visible).count();
    assert_eq!(visible, 3, "each load once");
}

/// The connection to the server is cut at any byte, in both directions: every call ends within its time, and the same load goes
/// through afterwards, once. (That the engine's accounts of bytes on their way return to zero is a condition of the good end of
/// every run, `Driver::is_finished`.)
/// Conformance: T25
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t25_nothing_hangs_wherever_the_server_dies() {
    let Some(bed) = Bed::simulated("t25").await else { return };
    let mut t = bed.log().await;
    let (mut part, mut seq) = (0, 0);
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in (0..1500).step_by(125) {
            let proxy = Proxy::start(bed.sim().be_addrs()[0]).unwrap();
            let mut options = bed.options();
            options.be = vec![format!("http://127.0.0.1:{}", proxy.port())];
            options.give_up = Duration::from_millis(60);
            (options.load_timeout, options.connect_timeout) = (Duration::from_millis(400), Duration::from_millis(100));
            options.reply_timeout = Duration::from_millis(400);
            let client = DorisClient::new(options.clone()).unwrap();
            part += 1;
            let body = t.numbered(seq..seq + 10);
            seq += 10;
            proxy.cut_each_after(direction, bytes);
            let started = Instant::now();
            let cut = t.load(&client, &body, label(part), TwoPhase::Yes).await;
            assert!(started.elapsed() < Duration::from_secs(20), "cut after {bytes} bytes {direction:?}");
            if let Err(error) = &cut {
                assert!(error.is_retryable(), "cut after {bytes} bytes {direction:?}: {error}");
            }
            let txn = match cut {
                Ok(loaded) => loaded.txn_id.unwrap(),
                Err(_) => {
                    proxy.pass().unwrap();
                    options.give_up = Duration::from_secs(30);
                    let patient = DorisClient::new(options).unwrap();
                    t.load(&patient, &body, label(part), TwoPhase::Yes).await.unwrap().txn_id.unwrap()
                }
            };
            // The second phase over the same cuts.
            proxy.cut_each_after(direction, bytes);
            let started = Instant::now();
            let commit = client.commit(&bed.database, txn).await;
            assert!(started.elapsed() < Duration::from_secs(20), "commit cut after {bytes} bytes {direction:?}");
            if let Err(error) = commit {
                assert!(error.is_retryable(), "{error}");
                let outcome = bed.client.commit(&bed.database, txn).await.unwrap();
                assert!(matches!(outcome, CommitOutcome::Done | CommitOutcome::AlreadyDone), "{outcome:?}");
            }
        }
    }
    assert_eq!(bed.sequences("log").await, (0..seq).collect::<Vec<_>>());
}
