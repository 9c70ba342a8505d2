//! Every cell of the transaction table of doris.md 12.1, as written there, against [`World`].

use super::row::Batch;
use super::sql;
use super::txn::{BeginError, Limits, Selector};
use super::world::{LoadRefused, NewLoad, World};

const BE: &str = "127.0.0.1:8040";
const STATES: [&str; 6] = ["none", "PREPARE", "PRECOMMITTED", "COMMITTED", "VISIBLE", "ABORTED"];

/// Event, then per state: `answer | state of the label afterwards`.
#[rustfmt::skip]
const CELLS: &[(&str, [&str; 6])] = &[
    ("begin", [
        "new txn | PREPARE",
        "exists RUNNING | PREPARE",
        "exists PRECOMMITTED | PRECOMMITTED",
        "exists FINISHED | COMMITTED",
        "exists FINISHED | VISIBLE",
        "new txn | PREPARE",
    ]),
    ("body of a one-phase load", [
        "transaction [N] not found | UNKNOWN",
        "COMMITTED | COMMITTED",
        "-",
        "transaction [N] is already committed | COMMITTED",
        "transaction [N] is already visible | VISIBLE",
        "transaction [N] is already aborted. abort reason: R | ABORTED",
    ]),
    ("body of a two-phase load", [
        "transaction [N] not found | UNKNOWN",
        "PRECOMMITTED | PRECOMMITTED",
        "PRECOMMITTED | PRECOMMITTED",
        "transaction [N] is already committed | COMMITTED",
        "transaction [N] is already visible | VISIBLE",
        "transaction [N] is already aborted. abort reason: R | ABORTED",
    ]),
    ("body fails", [
        "transaction [N] not found | UNKNOWN",
        "ok | ABORTED",
        "-",
        "-",
        "-",
        "transaction [N] is already aborted, abort reason: R | ABORTED",
    ]),
    ("commit by id", [
        "transaction [N] not found | UNKNOWN",
        "transaction [N] is prepare, not pre-committed. | PREPARE",
        "ok | COMMITTED",
        "transaction [N] is already committed, not pre-committed. | COMMITTED",
        "transaction [N] is already visible, not pre-committed. | VISIBLE",
        "transaction [N] is already aborted. abort reason: R | ABORTED",
    ]),
    ("commit by label", [
        "running transaction not found, label=L | UNKNOWN",
        "running transaction not found, label=L | PREPARE",
        "ok | COMMITTED",
        "running transaction not found, label=L | COMMITTED",
        "running transaction not found, label=L | VISIBLE",
        "running transaction not found, label=L | ABORTED",
    ]),
    ("abort by id", [
        "transaction [N] not found | UNKNOWN",
        "ok | ABORTED",
        "ok | ABORTED",
        "transaction [N] is already COMMITTED, could not abort. | COMMITTED",
        "transaction [N] is already VISIBLE, could not abort. | VISIBLE",
        "transaction [N] is already aborted, abort reason: R | ABORTED",
    ]),
    ("abort by label", [
        "running transaction not found, label=L | UNKNOWN",
        "ok | ABORTED",
        "ok | ABORTED",
        "running transaction not found, label=L | COMMITTED",
        "running transaction not found, label=L | VISIBLE",
        "running transaction not found, label=L | ABORTED",
    ]),
    ("just before the prepare timeout", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED"]),
    ("prepare timeout", [
        "| UNKNOWN", "timeout by txn manager | ABORTED", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED",
    ]),
    ("just before the precommit timeout", ["| UNKNOWN", "-", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED"]),
    ("precommit timeout", [
        "| UNKNOWN", "-", "timeout by txn manager | ABORTED", "| COMMITTED", "| VISIBLE", "| ABORTED",
    ]),
    ("publish tick", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| VISIBLE", "| VISIBLE", "| ABORTED"]),
    ("front end restarts", ["| UNKNOWN", "| UNKNOWN", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED"]),
    ("its back end restarts", [
        "| UNKNOWN", "coordinate BE restart | ABORTED", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED",
    ]),
    ("another back end restarts", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED"]),
    ("12 hours pass", ["| UNKNOWN", "-", "-", "| COMMITTED", "| UNKNOWN", "| UNKNOWN"]),
    ("2000 others finish", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| VISIBLE", "| ABORTED"]),
    ("2001 others finish", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| UNKNOWN", "| UNKNOWN"]),
    ("purge", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| COMMITTED", "| UNKNOWN", "| UNKNOWN"]),
    ("drop table, body", [
        "transaction [N] not found | UNKNOWN",
        "unknown table, tableId=T | PREPARE",
        "PRECOMMITTED | PRECOMMITTED",
        "transaction [N] is already committed | COMMITTED",
        "transaction [N] is already visible | VISIBLE",
        "transaction [N] is already aborted. abort reason: R | ABORTED",
    ]),
    ("drop table, commit", [
        "transaction [N] not found | UNKNOWN",
        "transaction [N] is prepare, not pre-committed. | PREPARE",
        "unknown table, tableId=T | PRECOMMITTED",
        "transaction [N] is already committed, not pre-committed. | COMMITTED",
        "transaction [N] is already visible, not pre-committed. | VISIBLE",
        "transaction [N] is already aborted. abort reason: R | ABORTED",
    ]),
    ("drop table, abort", [
        "transaction [N] not found | UNKNOWN",
        "ok | ABORTED",
        "ok | ABORTED",
        "transaction [N] is already COMMITTED, could not abort. | COMMITTED",
        "transaction [N] is already VISIBLE, could not abort. | VISIBLE",
        "transaction [N] is already aborted, abort reason: R | ABORTED",
    ]),
    ("drop table, publish tick", ["| UNKNOWN", "| PREPARE", "| PRECOMMITTED", "| VISIBLE", "| VISIBLE", "| ABORTED"]),
];

/// A database with one table and, but for `none`, a load under the label L in the state.
struct Bed {
    world: World,
    id: i64,
    now: i64,
}

fn begin(world: &mut World, label: &str, two_phase: bool, now: i64) -> Result<i64, LoadRefused> {
    let load = NewLoad { label, two_phase, coordinator: BE, timeout_ms: 600_000, full: None };
    world.begin("d", "t", load, now).map(|(id, _)| id)
}

impl Bed {
    fn new(state: &str, two_phase: bool) -> Self {
        let mut world = World::new(Limits::default());
        world.create_db("d");
        let body = "CREATE TABLE d.t (k INT NOT NULL) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1";
        let table = sql::table_of(99, body);
        world.dbs.get_mut("d").unwrap().tables.insert("t".into(), table);
        let now = 1_000_000;
        let mut bed = Self { world, id: 424_242, now };
        if state == "none" {
            return bed;
        }
        bed.id = begin(&mut bed.world, "L", two_phase, now).unwrap();
        let selector = Selector::Id(bed.id);
        let (id, world) = (bed.id, &mut bed.world);
        match state {
            "PREPARE" => {}
            "ABORTED" => drop(world.abort("d", &selector, "R", now).unwrap()),
            _ => {
                world.finish_body("d", id, Batch::default(), now).unwrap();
                if two_phase && state != "PRECOMMITTED" {
                    world.commit("d", &selector, now).unwrap();
                }
                if state == "VISIBLE" {
                    bed.publish();
                }
            }
        }
        assert_eq!(bed.state(), state);
        bed
    }

    fn state(&self) -> &'static str {
        self.world.dbs["d"].txns.label_state("L")
    }

    fn publish(&mut self) {
        let (id, now) = (self.id, self.now);
        self.world.dbs.get_mut("d").unwrap().txns.publish_at(id, now);
        self.world.tick(now);
    }

    /// What happens to the load, in the words of the table.
    fn happen(&mut self, event: &str) -> String {
        let (id, now) = (self.id, self.now);
        let by_id = Selector::Id(id);
        let by_label = Selector::Label("L".into());
        if let Some(event) = event.strip_prefix("drop table, ") {
            self.world.dbs.get_mut("d").unwrap().tables.remove("t");
            return self.happen(match event {
                "body" => "body of a two-phase load",
                "commit" => "commit by id",
                "abort" => "abort by id",
                other => other,
            });
        }
        let done = |r: Result<i64, String>| r.map_or_else(|e| e, |_| "ok".to_owned());
        let clean = |w: &mut World, at: i64| {
            w.clean(at);
            let txn = w.txn("d", id);
            txn.filter(|t| t.reason != "R").map(|t| t.reason.clone()).unwrap_or_default()
        };
        match event {
            "begin" => match begin(&mut self.world, "L", true, now) {
                Ok(new) => {
                    assert_ne!(new, id);
                    "new txn".into()
                }
                Err(LoadRefused::Begin(BeginError::LabelUsed { txn_id, status }, _)) => {
                    assert_eq!(txn_id, id);
                    format!("exists {status}")
                }
                Err(e) => panic!("{e:?}"),
            },
            "body of a one-phase load" | "body of a two-phase load" => {
                let done = self.world.finish_body("d", id, Batch::default(), now);
                done.map_or_else(|e| e, |s| s.name().to_owned())
            }
            "body fails" => done(self.world.abort("d", &by_id, "client is gone", now)),
            "commit by id" => done(self.world.commit("d", &by_id, now)),
            "commit by label" => done(self.world.commit("d", &by_label, now)),
            "abort by id" => done(self.world.abort("d", &by_id, "User Abort", now)),
            "abort by label" => done(self.world.abort("d", &by_label, "User Abort", now)),
            "just before the prepare timeout" => clean(&mut self.world, now + 599_999),
            "prepare timeout" => clean(&mut self.world, now + 600_000),
            "just before the precommit timeout" => clean(&mut self.world, now + 3_599_999),
            "precommit timeout" => clean(&mut self.world, now + 3_600_000),
            "publish tick" => {
                self.publish();
                String::new()
            }
            "front end restarts" => {
                self.world.dbs.get_mut("d").unwrap().txns.fe_restart();
                String::new()
            }
            "its back end restarts" | "another back end restarts" => {
                let be = if event.starts_with("its") { BE } else { "127.0.0.1:8041" };
                self.world.dbs.get_mut("d").unwrap().txns.be_restart(be, now);
                let txn = self.world.txn("d", id);
                txn.filter(|t| t.reason != "R").map(|t| t.reason.clone()).unwrap_or_default()
            }
            "12 hours pass" => {
                self.world.clean(now + 43_200_000);
                String::new()
            }
            "2000 others finish" | "2001 others finish" => {
                let n: usize = event.split_once(' ').unwrap().0.parse().unwrap();
                // A final transaction of ours is one of the remembered.
                let ours = usize::from(matches!(self.state(), "VISIBLE" | "ABORTED"));
                for i in 0..n - usize::from(n == 2000) * ours {
                    let other = begin(&mut self.world, &format!("other{i}"), false, now).unwrap();
                    self.world.abort("d", &Selector::Id(other), "x", now).unwrap();
                }
                self.world.clean(now + 1);
                String::new()
            }
            "purge" => {
                self.world.dbs.get_mut("d").unwrap().txns.purge();
                String::new()
            }
            other => panic!("no event {other}"),
        }
    }
}

#[test]
fn every_cell_of_the_transaction_table() {
    for (event, cells) in CELLS {
        for (state, want) in STATES.iter().zip(cells) {
            if *want == "-" {
                continue;
            }
            let one_phase = event.contains("one-phase");
            let mut bed = Bed::new(state, !one_phase);
            let answer = bed.happen(event).replace(&format!("[{}]", bed.id), "[N]").replace("tableId=99", "tableId=T");
            let got = format!("{answer} | {}", bed.state());
            assert_eq!(got.trim(), *want, "{event} in {state}");
        }
    }
}

#[test]
fn the_running_limit_counts_what_is_not_final() {
    let mut world = World::new(Limits { running: 3, ..Limits::default() });
    world.create_db("d");
    let body = "CREATE TABLE d.t (k INT NOT NULL) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1";
    world.dbs.get_mut("d").unwrap().tables.insert("t".into(), sql::table_of(99, body));
    let ids: Vec<i64> = ["a", "b", "c"].iter().map(|l| begin(&mut world, l, true, 0).unwrap()).collect();
    world.finish_body("d", ids[1], Batch::default(), 0).unwrap();
    world.finish_body("d", ids[2], Batch::default(), 0).unwrap();
    world.commit("d", &Selector::Id(ids[2]), 0).unwrap();
    // PREPARE, PRECOMMITTED and COMMITTED count; a used label is told before the limit.
    let full = begin(&mut world, "e", true, 0).unwrap_err();
    assert!(matches!(full, LoadRefused::Begin(BeginError::TooMany { running: 3, limit: 3 }, _)), "{full:?}");
    let used = begin(&mut world, "a", true, 0).unwrap_err();
    assert!(matches!(used, LoadRefused::Begin(BeginError::LabelUsed { .. }, _)), "{used:?}");
    world.dbs.get_mut("d").unwrap().txns.publish_at(ids[2], 0);
    world.tick(0);
    begin(&mut world, "e", true, 0).unwrap();
}

#[test]
fn loads_become_visible_in_the_order_of_their_commits() {
    let mut bed = Bed::new("PRECOMMITTED", true);
    let second = begin(&mut bed.world, "M", true, bed.now).unwrap();
    bed.world.finish_body("d", second, Batch::default(), bed.now).unwrap();
    bed.world.commit("d", &Selector::Id(second), bed.now).unwrap();
    bed.world.commit("d", &Selector::Id(bed.id), bed.now).unwrap();
    // The first commit is not due yet: the later one of the same table waits for it.
    bed.world.dbs.get_mut("d").unwrap().txns.publish_at(second, bed.now + 10);
    bed.publish();
    assert_eq!(bed.state(), "COMMITTED");
    bed.world.tick(bed.now + 10);
    assert_eq!(bed.state(), "VISIBLE");
}
