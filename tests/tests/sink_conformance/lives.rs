//! The engine's lives between the phases: T12, T13, T15, and what else a restart may find.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use millstream_doris_sink::{CommitOutcome, DorisClient, TwoPhase};
use millstream_tests::doris::{DorisSim, Fault, Knob, LostAt, Op, SimOptions, TxnState};
use millstream_tests::engine::Engine;
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Endpoint};
use millstream_tests::workload::Workload;

use crate::bed::{Bed, label};

/// A source with three tables, whose rows an engine has brought over before, and changes that none has seen yet.
struct Life {
    rig: Rig,
    endpoint: Endpoint,
    workload: Workload,
    database: &'static str,
}

impl Life {
    fn new(database: &'static str) -> Option<Self> {
        let server = server::shared()?;
        let endpoint = server.endpoint();
        let mut workload = Workload::new(database, 7, 2);
        workload.create(&endpoint).unwrap();
        workload.load(&endpoint, 300, &AtomicU64::new(0)).unwrap();
        let mut rig = Rig::simulated(server, &[&format!("{database}.*")])?;
        rig.run_well();
        workload.run(&endpoint, 100).unwrap();
        // Long enough for the first epoch to hold changes of every table.
        rig.flush = "{ interval = \"1s\" }".to_owned();
        rig.sim().clear_requests();
        Some(Self { rig, endpoint, workload, database })
    }

    fn sim(&self) -> &DorisSim {
        self.rig.sim()
    }

    /// Transactions in both of the pipeline's databases.
    fn transactions(&self) -> Vec<millstream_tests::doris::Txn> {
        ["up", "log"].iter().flat_map(|p| self.sim().transactions(&format!("{p}_{}", self.database))).collect()
    }

    fn ids(&self, state: TxnState) -> Vec<i64> {
        self.transactions().iter().filter(|t| t.state == state).map(|t| t.id).collect()
    }

    fn state_of(&self, id: i64) -> Option<TxnState> {
        self.transactions().iter().find(|t| t.id == id).map(|t| t.state)
    }

    /// Transactions that a second phase was asked for.
    fn asked(&self, operation: &str) -> Vec<i64> {
        let requests = self.sim().requests();
        let asked = requests.iter().filter(|r| r.header("txn_operation") == Some(operation));
        let mut ids: Vec<i64> = asked.filter_map(|r| r.header("txn_id")?.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Runs an engine until `reached`, and kills it.
    fn killed_at(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        let mut engine = self.rig.spawn();
        self.wait(what, &mut engine, reached);
        engine.kill9().unwrap();
    }

    fn wait(&self, what: &str, engine: &mut Engine, reached: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE / 2;
        while !reached(self) {
            assert!(engine.try_wait().unwrap().is_none(), "it ended before {what}\n{}", engine.stderr());
            assert!(Instant::now() < deadline, "no {what}\n{}", engine.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Everything is exact after another run, and nothing is left open.
    fn ends_exactly(&self) {
        self.rig.run_well();
        self.rig.assert_exact(&self.endpoint, self.database, &Workload::TABLES);
        assert_eq!((self.ids(TxnState::Prepare), self.ids(TxnState::PreCommitted)), (vec![], vec![]));
    }
}

/// Commits are lost before Doris does them.
fn commits_held(table: &str) -> Knob {
    Knob::always(Fault::ReplyLost { op: Op::Commit, state: LostAt::PreCommitted }).table(table)
}

/// Doris commits, but nobody hears of it.
fn commits_unheard(table: &str) -> Knob {
    Knob::always(Fault::ReplyLost { op: Op::Commit, state: LostAt::Visible }).table(table)
}

/// Killed with some tables of an epoch PRECOMMITTED and no record: they are aborted. Killed with a durable record: its
/// transactions are committed, those of the next epoch are not. No PRECOMMITTED remains.
/// Conformance: T12
#[test]
fn t12_what_the_record_knows_is_committed_and_nothing_else() {
    let Some(mut life) = Life::new("conf12") else { return };
    // One table's loads never get through, so the epoch never has all of its loads.
    life.sim().set(Knob::always(Fault::NotMaster { op: Op::Load, text: None }).table("events"));
    life.killed_at("loads precommitted", |l| l.ids(TxnState::PreCommitted).len() >= 2);
    let unrecorded = life.ids(TxnState::PreCommitted);
    assert!(life.asked("commit").is_empty());
    life.sim().clear_knobs();
    life.sim().set(commits_held(""));
    life.killed_at("a commit", |l| !l.asked("commit").is_empty());
    let recorded = life.asked("commit");
    assert!(recorded.iter().all(|id| life.state_of(*id) == Some(TxnState::PreCommitted)));
    life.sim().clear_knobs();
    life.workload.run(&life.endpoint, 50).unwrap();
    life.ends_exactly();
    assert!(unrecorded.iter().all(|id| life.state_of(*id) == Some(TxnState::Aborted)), "{unrecorded:?}");
    assert!(recorded.iter().all(|id| life.state_of(*id) == Some(TxnState::Visible)), "{recorded:?}");
}

/// A stop that comes while commits are on their way waits for them: what was handed to the committer is never aborted.
/// Conformance: T13
#[test]
fn t13_a_stop_aborts_nothing_that_is_being_committed() {
    let Some(life) = Life::new("conf13") else { return };
    life.sim().set(Knob::always(Fault::NotMaster { op: Op::Commit, text: None }));
    let mut engine = life.rig.spawn();
    life.wait("a commit", &mut engine, |l| !l.asked("commit").is_empty());
    let handed_over = life.asked("commit");
    engine.sigterm().unwrap();
    life.wait("the stop", &mut engine, |_| engine_said(&life, "stopping"));
    assert!(engine.try_wait().unwrap().is_none(), "it waits for its commits");
    life.sim().clear_knobs();
    let exit = engine.wait(PATIENCE).unwrap().expect("it ends");
    assert!(exit.success(), "{exit:?}\n{}", engine.stderr());
    assert!(handed_over.iter().all(|id| life.state_of(*id) == Some(TxnState::Visible)), "{handed_over:?}");
    assert!(life.asked("abort").is_empty());
    life.ends_exactly();
}

/// Whether the newest run of a home has logged this.
fn engine_said(life: &Life, text: &str) -> bool {
    let mut logs: Vec<_> = std::fs::read_dir(life.rig.home.path())
        .unwrap()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "err"))
        .collect();
    logs.sort_by_key(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok());
    logs.last().is_some_and(|path| std::fs::read_to_string(path).is_ok_and(|log| log.contains(text)))
}

/// `transaction not found` at the commit: an upsert table takes the same rows again; an append table is asked for its last
/// sequence (design 4.3; where the notes say that it stops, the design has it stop only if the table cannot be read). A start
/// warns when the cluster forgets too soon.
/// Conformance: T15
#[test]
fn t15_forgotten_transactions_are_found_out_from_the_data() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(bed) = Bed::simulated("t15").await else { return };
        let mut t = bed.log().await;
        let (seen, lost) = (t.numbered(0..10), t.numbered(10..20));
        let seen = t.load(&bed.client, &seen, label(0), TwoPhase::Yes).await.unwrap();
        let lost = t.load(&bed.client, &lost, label(1), TwoPhase::Yes).await.unwrap();
        bed.commit(seen).await;
        bed.sim().advance(Duration::from_secs(3601));
        bed.sim().purge();
        for (loaded, low, want) in [(seen, 0, true), (lost, 10, false)] {
            let outcome = bed.client.commit(&bed.database, loaded.txn_id.unwrap()).await.unwrap();
            assert_eq!(outcome, CommitOutcome::NotFound);
            let found = bed.client.any_row_in_seq_range(&bed.database, "log", low, low + 9).await.unwrap();
            assert_eq!(found, want);
        }
        let mut options = SimOptions::default();
        (options.limits.keep_count, options.limits.keep_ms) = (100, 600_000);
        let bed = Bed::simulated_with("t15", options).await.unwrap();
        let warnings = DorisClient::new(bed.options()).unwrap().probe().await.unwrap().warnings.join("\n");
        for name in ["label_num_threshold is 100", "streaming_label_keep_max_second is 600"] {
            assert!(warnings.contains(name), "{warnings}");
        }
    });
    // The engine is down while more than 2000 transactions of others finish in its databases, and longer than a PRECOMMITTED
    // transaction lives: of its own, some were committed unheard, others are lost, and none is known any more.
    let Some(mut life) = Life::new("conf15") else { return };
    life.sim().set(commits_held("orders"));
    life.sim().set(commits_unheard("stock"));
    life.sim().set(commits_unheard("events"));
    life.killed_at("commits", |l| l.asked("commit").len() >= 4);
    life.sim().clear_knobs();
    assert!(!life.ids(TxnState::PreCommitted).is_empty());
    life.sim().advance(Duration::from_secs(3700));
    for database in ["up_conf15", "log_conf15"] {
        life.sim().others_finish(database, 2001);
    }
    let known = life.transactions().iter().filter(|t| t.label.starts_with("ms1_")).count();
    assert_eq!(known, 0, "others have pushed them out");
    life.workload.run(&life.endpoint, 50).unwrap();
    life.ends_exactly();
}

/// Half of an epoch's tables are committed when the engine dies and the front end restarts: the other half is committed by the
/// next start, from the same record.
#[test]
fn half_of_the_tables_are_committed() {
    let Some(mut life) = Life::new("conf_half") else { return };
    life.sim().set(commits_held("up_"));
    life.killed_at("commits of both halves", |l| {
        let asked = l.asked("commit");
        let is = |state| asked.iter().any(|id| l.state_of(*id) == Some(state));
        is(TxnState::Visible) && is(TxnState::PreCommitted)
    });
    let recorded = life.asked("commit");
    let held: Vec<i64> =
        recorded.iter().copied().filter(|id| life.state_of(*id) == Some(TxnState::PreCommitted)).collect();
    life.sim().clear_knobs();
    life.sim().restart_fe();
    life.sim().clear_requests();
    life.workload.run(&life.endpoint, 50).unwrap();
    life.ends_exactly();
    let again = life.asked("commit");
    assert!(held.iter().all(|id| again.contains(id) && life.state_of(*id) == Some(TxnState::Visible)), "{held:?}");
}

/// A table is dropped in Doris while its PRECOMMITTED load waits for the next start: the table is left out by name and its
/// transaction aborted, once and not for ever; the other tables of the epoch are committed.
#[test]
fn a_table_is_dropped_while_its_load_waits() {
    let Some(mut life) = Life::new("conf_drop") else { return };
    life.sim().set(commits_held("stock"));
    life.killed_at("commits of every table", |l| {
        let asked = l.asked("commit");
        asked.iter().any(|id| l.state_of(*id) == Some(TxnState::PreCommitted)) && asked.len() >= 4
    });
    life.sim().clear_knobs();
    life.sim().sql("DROP TABLE log_conf_drop.stock").unwrap();
    life.workload.run(&life.endpoint, 50).unwrap();
    for _ in 0..2 {
        let output = life.rig.run();
        assert_eq!(output.exit.code, 1, "{}", output.stderr);
        assert!(output.stderr.contains("log_conf_drop.stock is gone from Doris"), "{}", output.stderr);
        assert_eq!((life.ids(TxnState::Prepare), life.ids(TxnState::PreCommitted)), (vec![], vec![]));
    }
    life.rig.assert_exact(&life.endpoint, life.database, &["orders", "events"]);
    life.rig.assert_upsert_equal(&life.endpoint, life.database, &["stock"]);
}
