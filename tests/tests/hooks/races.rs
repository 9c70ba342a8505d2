//! A change of each kind at each step of a chunk, in each state that its key's range can have.

use std::sync::Arc;

use millstream_engine::merge::{Broken, Rules};
use millstream_engine::pipeline::RunOptions;
use millstream_engine::pipeline::hooks::{Action, Point};
use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Server};

use crate::disturb::{disturb, number};
use crate::script::{GateId, Run, Script, Seen};

/// Rows of a chunk.
const CHUNK: usize = 24;
/// Keys above this stay Unread until the end: about the middle, where two readers cut the range.
const MIDDLE: i32 = 10_000;

/// What the stream does while a chunk is halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The changes are judged before the chunk goes on.
    Runs,
    /// They are judged after the driver has the chunk's rows.
    Held,
}

/// Every place, with every way in which the stream can stand to it.
const PLACES: [(Point, Stream); 23] = [
    (Point::BeforeLowWatermark, Stream::Runs),
    (Point::BeforeLowWatermark, Stream::Held),
    (Point::AfterLowWatermark, Stream::Runs),
    (Point::AfterLowWatermark, Stream::Held),
    (Point::BeforeSelect, Stream::Runs),
    (Point::BeforeSelect, Stream::Held),
    (Point::AfterSelect, Stream::Runs),
    (Point::AfterSelect, Stream::Held),
    (Point::BeforeHighWatermark, Stream::Runs),
    (Point::BeforeHighWatermark, Stream::Held),
    (Point::AfterHighWatermark, Stream::Runs),
    (Point::AfterHighWatermark, Stream::Held),
    (Point::Read, Stream::Held),
    (Point::BeforeEntry, Stream::Held),
    (Point::AfterEntry, Stream::Held),
    (Point::BeforeLoad, Stream::Runs),
    (Point::AfterLoad, Stream::Runs),
    (Point::BeforeRecord, Stream::Held),
    (Point::AfterRecord, Stream::Held),
    (Point::BeforeCommit, Stream::Runs),
    (Point::AfterCommit, Stream::Runs),
    (Point::BeforeMark, Stream::Held),
    (Point::AfterMark, Stream::Held),
];

/// A table whose keys go up to 20,000, of which two readers see two ranges; the upper one stays Unread.
pub(crate) fn rig(server: &Server, database: &str, rows: i32) -> Rig {
    server.sql(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT NOT NULL);
         SET cte_max_recursion_depth = 2000;
         INSERT INTO {database}.t WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {rows}) \
         SELECT n * {}, n FROM r",
        20_000 / rows
    ));
    let mut rig = Rig::new(server, &[&format!("{database}.*")]);
    rig.snapshot = format!("chunk_rows = {CHUNK}\nworkers = 2");
    rig.flush = "{ interval = \"100ms\" }".to_owned();
    rig
}

pub(crate) fn start(rig: &Rig, options: RunOptions) -> Run {
    let run = Run::with(rig, options);
    run.script.close_ranges(|range| range.lo.as_ref().is_some_and(|lo| number(lo) >= MIDDLE));
    // Something must be Done before anything is changed; then one chunk at a time.
    let first = run.script.gate(|seen| seen.point == Point::BeforeLowWatermark && is_amid(seen));
    run.script.reached(first);
    run.script.read_at_most(0);
    run.script.open(first, Action::GoOn);
    run
}

/// Whether a chunk can be disturbed: there are rows below it, and as many above it as are needed.
fn is_amid(seen: &Seen) -> bool {
    let lo = seen.range.lo.as_ref().map(number);
    lo.is_some_and(|lo| (1_700..=6_000).contains(&lo))
}

fn is_chunk(point: Point) -> bool {
    point <= Point::AfterHighWatermark
}

fn gate(script: &Script, point: Point) -> GateId {
    script.gate(move |seen| seen.point == point && (!is_chunk(point) || is_amid(seen)))
}

/// Halts the run at a place, changes rows all around the chunk, and lets it go on.
pub(crate) fn race(run: &Run, server: &Server, table: &str, (point, stream): (Point, Stream), round: i32) {
    let script = &run.script;
    let mut session = server.session().unwrap();
    let at = gate(script, point);
    script.read_at_most(1);
    let seen = script.reached(at);
    let last = script.chunks().into_iter().rfind(is_amid);
    let chunk = if is_chunk(point) { seen } else { last.expect("a chunk was read") };
    if stream == Stream::Held {
        script.hold_stream();
    }
    disturb(&mut session, table, number(chunk.range.lo.as_ref().unwrap()), CHUNK, MIDDLE, round);
    if stream == Stream::Runs {
        script.judged(server.position());
    }
    if stream == Stream::Held && is_chunk(point) {
        let read = gate(script, Point::Read);
        script.open(at, Action::GoOn);
        script.reached(read);
        script.open(read, Action::GoOn);
    } else {
        script.open(at, Action::GoOn);
    }
    script.release_stream();
}

/// `docs/exactly-once.md`: the order of one chunk.
#[test]
fn every_kind_of_change_at_every_step_of_a_chunk() {
    let Some(server) = server::shared() else { return };
    let rig = rig(server, "race_all", 2000);
    let run = start(&rig, RunOptions::default());
    for (place, round) in PLACES.into_iter().zip(1..) {
        race(&run, server, "race_all.t", place, round);
    }
    run.script.read_all();
    let script = Arc::clone(&run.script);
    let report = run.finish().unwrap();
    assert!(report.balances(), "{report:?}");
    let chunks = script.chunks();
    assert!(chunks.len() > 70 && chunks.iter().all(|c| c.rows <= CHUNK && c.bytes < CHUNK * 200), "{chunks:?}");
    for rule in ["unread", "held", "in_low_watermark"] {
        assert!(report.changes_dropped.get(rule).is_some_and(|n| *n > 20), "{rule}: {report:?}");
    }
    Run::start(&rig).finish().unwrap();
    rig.assert_exact(&server.endpoint(), "race_all", &["t"]);
}

/// One race under broken rules. What is wrong afterwards.
fn broken(server: &Server, database: &str, rules: Rules, place: (Point, Stream)) -> Vec<String> {
    let rig = rig(server, database, 250);
    let run = start(&rig, RunOptions { rules, ..RunOptions::default() });
    race(&run, server, &format!("{database}.t"), place, 1);
    run.script.read_all();
    run.finish().unwrap();
    Run::start(&rig).finish().unwrap();
    let mut faults = rig.upsert_differences(&server.endpoint(), database, "t");
    faults.extend(rig.append_faults(&server.endpoint(), database, "t"));
    faults
}

#[test]
fn a_broken_rule_is_noticed_every_time() {
    let Some(server) = server::shared() else { return };
    let cases = [
        (None, (Point::BeforeSelect, Stream::Held)),
        (Some(Broken::HwAfterSelect), (Point::BeforeSelect, Stream::Held)),
        (None, (Point::AfterSelect, Stream::Held)),
        (Some(Broken::LwBeforeSelect), (Point::AfterSelect, Stream::Held)),
        (None, (Point::AfterSelect, Stream::Runs)),
        (Some(Broken::MarkBeforeLw), (Point::AfterSelect, Stream::Runs)),
        (Some(Broken::Normalize), (Point::AfterSelect, Stream::Runs)),
    ];
    std::thread::scope(|scope| {
        let tests: Vec<_> = cases
            .into_iter()
            .enumerate()
            .map(|(n, (rule, place))| {
                let rules = rule.map_or_else(Rules::default, Rules::without);
                scope.spawn(move || (rule, place, broken(server, &format!("race_{n}"), rules, place)))
            })
            .collect();
        for test in tests {
            let (rule, place, faults) = test.join().unwrap();
            let first: Vec<&String> = faults.iter().take(5).collect();
            assert_eq!(faults.is_empty(), rule.is_none(), "{rule:?} at {place:?}: {first:#?}");
        }
    });
}
