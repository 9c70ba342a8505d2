//! The connection that weighs the text of keys is cut, hangs, reaches another server, or is refused, while an event waits
//! for its answer; and bounds in the state that the source orders otherwise.

use std::net::SocketAddr;
use std::time::Duration;

use millstream_engine::checkpoint::{Backend as _, FileBackend};
use millstream_engine::pipeline::RunErrorKind;
use millstream_engine::pipeline::hooks::{Action, Point};
use millstream_tests::proxy::{Direction, Proxy};
use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Server, ServerOptions};

use crate::script::{GateId, Run};

const PATIENCE: Duration = Duration::from_secs(60);

/// A table whose key only the server can order, read over a proxy.
struct Weighed {
    server: &'static Server,
    database: &'static str,
    rig: Rig,
    proxy: Proxy,
}

impl Weighed {
    fn new(database: &'static str) -> Option<Self> {
        let server = server::shared()?;
        server.sql(&format!(
            "CREATE DATABASE {database};
             CREATE TABLE {database}.t (k VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT NOT NULL);
             INSERT INTO {database}.t WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200) \
             SELECT CONCAT(IF(n % 2, 'Key ', 'k\u{e9}y '), LPAD(n, 4, '0')), n FROM r"
        ));
        let proxy = Proxy::to_port(server.port()).unwrap();
        let mut rig = Rig::new(server, &[&format!("{database}.*")]);
        rig.source_url = rig.source_url.replace(&format!(":{}", server.port()), &format!(":{}", proxy.port()));
        rig.snapshot = "chunk_rows = 20\nworkers = 1".to_owned();
        rig.flush = "{ interval = \"50ms\" }".to_owned();
        Some(Self { server, database, rig, proxy })
    }

    /// Changes rows below, in and above a chunk that is halted after its SELECT, until an event waits for weights. The chunk
    /// goes on meanwhile.
    fn wait_for_weights(&self, run: &Run, round: u32) -> GateId {
        let chunk = run.script.gate(|seen| seen.point == Point::AfterSelect && seen.range.lo.is_some());
        run.script.reached(chunk);
        let weights = weights(run);
        let keys: Vec<String> = (0..20).map(|n| format!("('KEY {:04}x{round}', {})", n * 10, 1000 + round)).collect();
        self.server.sql(&format!(
            "USE {}; INSERT INTO t VALUES {}; UPDATE t SET k = CONCAT(k, ' moved'), v = v + 1 WHERE v % 50 = {round};
             DELETE FROM t WHERE v % 50 = {}",
            self.database,
            keys.join(", "),
            round + 10,
        ));
        run.script.reached(weights);
        run.script.open(chunk, Action::GoOn);
        weights
    }

    fn exact(&self) {
        self.proxy.pass().unwrap();
        Run::start(&self.rig).finish().unwrap();
        self.rig.assert_exact(&self.server.endpoint(), self.database, &["t"]);
    }
}

/// The next time that weights are asked for.
fn weights(run: &Run) -> GateId {
    run.script.gate(|seen| seen.point == Point::BeforeWeights)
}

#[test]
fn the_connection_that_weighs_is_cut_at_any_byte() {
    let Some(weighed) = Weighed::new("weigh_cut") else { return };
    let run = Run::start(&weighed.rig);
    let mut at = weighed.wait_for_weights(&run, 1);
    // In the greeting, the login, the session's setup and the answer; then for good.
    for bytes in [1, 80, 150, 300, 600, 900] {
        let cuts = weighed.proxy.stats().cut;
        weighed.proxy.cut_each_after(Direction::ToClient, bytes);
        let again = weights(&run);
        run.script.open(at, Action::GoOn);
        run.script.reached(again);
        assert_eq!(weighed.proxy.stats().cut, cuts + 1, "cut after {bytes} bytes");
        at = again;
    }
    weighed.proxy.pass().unwrap();
    run.script.open(at, Action::GoOn);
    let report = run.finish().unwrap();
    assert_eq!((report.restarts, report.balances()), (0, true), "{report:?}");
    weighed.exact();
}

#[test]
fn an_answer_that_comes_after_the_stream_was_lost() {
    let Some(weighed) = Weighed::new("weigh_hang") else { return };
    let run = Run::start(&weighed.rig);
    let at = weighed.wait_for_weights(&run, 1);
    // The weigher hangs in its login; then everything is cut, the stream and the event that waits with it.
    let accepted = weighed.proxy.stats().accepted;
    weighed.proxy.freeze();
    run.script.open(at, Action::GoOn);
    assert!(weighed.proxy.wait_for(PATIENCE, |stats| stats.accepted > accepted));
    weighed.proxy.cut_now();
    weighed.proxy.thaw();
    // Again: the question is on its way when the stream is lost, and its answer is of an event that is gone.
    let at = weighed.wait_for_weights(&run, 2);
    let cut = weighed.proxy.stats().cut;
    weighed.proxy.cut_now();
    assert!(weighed.proxy.stats().cut > cut);
    run.script.open(at, Action::GoOn);
    assert!(run.finish().unwrap().balances());
    weighed.exact();
}

#[test]
fn another_server_weighs_nothing() {
    let Some(weighed) = Weighed::new("weigh_other") else { return };
    let Some(other) = server::or_skip(Server::start(ServerOptions::new().durable(false))) else { return };
    let run = Run::start(&weighed.rig);
    let at = weighed.wait_for_weights(&run, 1);
    let accepted = weighed.proxy.stats().accepted;
    weighed.proxy.freeze();
    weighed.proxy.retarget(SocketAddr::from(([127, 0, 0, 1], other.port())));
    run.script.open(at, Action::GoOn);
    assert!(weighed.proxy.wait_for(PATIENCE, |stats| stats.accepted > accepted));
    weighed.proxy.retarget(SocketAddr::from(([127, 0, 0, 1], weighed.server.port())));
    weighed.proxy.thaw();
    let report = run.finish().unwrap();
    assert_eq!(report.restarts, 1, "{report:?}");
    weighed.exact();
}

#[test]
fn a_refusal_while_an_event_waits_stops_by_name_and_loses_nothing() {
    let Some(mut weighed) = Weighed::new("weigh_lock") else { return };
    weighed.server.sql(
        "CREATE USER weigh_lock IDENTIFIED BY 'w'; GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO weigh_lock",
    );
    weighed.rig.source_url = format!("mysql://weigh_lock:w@127.0.0.1:{}", weighed.proxy.port());
    let run = Run::start(&weighed.rig);
    let at = weighed.wait_for_weights(&run, 1);
    weighed.server.sql("ALTER USER weigh_lock ACCOUNT LOCK");
    run.script.open(at, Action::GoOn);
    let error = run.finish().unwrap_err();
    assert_eq!(error.kind(), RunErrorKind::Stopped);
    assert!(error.to_string().contains("the weights of keys"), "{error}");
    weighed.server.sql("ALTER USER weigh_lock ACCOUNT UNLOCK");
    weighed.exact();
}

#[test]
fn bounds_that_the_source_orders_otherwise_stop_by_name() {
    let Some(weighed) = Weighed::new("weigh_bounds") else { return };
    let run = Run::start(&weighed.rig);
    // An epoch with some chunks is durable, then it dies.
    let fifth = run.script.gate({
        let left = std::sync::Mutex::new(4);
        move |seen| {
            let mut left = left.lock().unwrap();
            *left -= i32::from(seen.point == Point::BeforeLowWatermark);
            *left < 0
        }
    });
    run.script.reached(fifth);
    let marked = run.script.gate(|seen| seen.point == Point::AfterMark);
    run.script.reached(marked);
    run.script.open(marked, Action::Die);
    run.finish().unwrap_err();
    // The source's collation cannot be changed, so the state is: as if the server had weighed otherwise then.
    let mut store = FileBackend::open(&weighed.rig.home.path().join("state")).unwrap();
    let before: Vec<(String, String)> =
        store.read().unwrap().into_iter().filter(|(key, _)| key.starts_with("target/")).collect();
    let heavier = |text: &str| {
        const FIRST: &str = "\"done\":[[null,\"";
        let (before, order) = text.split_once(FIRST).expect("a range that is done from the start");
        let mut digits = order.chars();
        let heavier = if digits.next() == Some('f') { 'e' } else { 'f' };
        format!("{before}{FIRST}{heavier}{}", digits.as_str())
    };
    let changed: Vec<(String, String)> = before.iter().map(|(key, text)| (key.clone(), heavier(text))).collect();
    assert!(before.len() == 2 && before.iter().zip(&changed).all(|(a, b)| a != b), "{before:?}");
    store.write(&changed).unwrap();
    drop(store);
    let error = Run::start(&weighed.rig).finish().unwrap_err();
    assert_eq!(error.kind(), RunErrorKind::Stopped);
    let text = error.to_string();
    assert!(text.contains("weigh_bounds.t") && text.contains("orders the key"), "{text}");
    // As it was: the same bounds are good.
    FileBackend::open(&weighed.rig.home.path().join("state")).unwrap().write(&before).unwrap();
    weighed.exact();
}
