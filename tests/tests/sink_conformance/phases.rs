//! The client over time: T25, T27.

use std::time::{Duration, Instant};

use millstream_doris_sink::{CommitOutcome, DorisClient, TwoPhase};
use millstream_tests::proxy::{Direction, Proxy};

use crate::bed::{Bed, label};

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
