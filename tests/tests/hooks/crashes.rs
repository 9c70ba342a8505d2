//! The engine dies, or what it does fails, at every place.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use millstream_engine::pipeline::RunErrorKind;
use millstream_engine::pipeline::hooks::{Action, Point};
use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Endpoint};
use millstream_tests::workload::Workload;

use crate::script::{GateId, Run};

const CHUNKS: [Point; 9] = [
    Point::BeforeLowWatermark,
    Point::AfterLowWatermark,
    Point::BeforeSelect,
    Point::AfterSelect,
    Point::BeforeHighWatermark,
    Point::AfterHighWatermark,
    Point::Read,
    Point::BeforeEntry,
    Point::AfterEntry,
];

const EPOCHS: [Point; 8] = [
    Point::BeforeLoad,
    Point::AfterLoad,
    Point::BeforeRecord,
    Point::AfterRecord,
    Point::BeforeCommit,
    Point::AfterCommit,
    Point::BeforeMark,
    Point::AfterMark,
];

/// A gate at the place when it is reached for the time number `skip` (from 0).
fn gate(run: &Run, point: Point, skip: usize) -> GateId {
    let left = AtomicU64::new(skip as u64);
    run.script.gate(move |seen| {
        use std::sync::atomic::Ordering::SeqCst;
        seen.point == point && left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err()
    })
}

struct Life {
    rig: Rig,
    workload: Workload,
    endpoint: Endpoint,
}

impl Life {
    fn new(database: &str, seed: u64) -> Option<Self> {
        let server = server::shared()?;
        let endpoint = server.endpoint();
        let mut workload = Workload::new(database, seed, 2);
        workload.create(&endpoint).unwrap();
        workload.load(&endpoint, 2400, &AtomicU64::new(0)).unwrap();
        let mut rig = Rig::new(server, &[&format!("{database}.*")]);
        rig.snapshot = "chunk_rows = 10\nworkers = 2".to_owned();
        rig.flush = "{ interval = \"50ms\" }".to_owned();
        Some(Self { rig, workload, endpoint })
    }

    /// Writes, and lets a chunk be read now and then, until the gate is reached.
    fn trickle_until(&mut self, run: &Run, gate: GateId) {
        let mut times = 0;
        run.script.reached_by(gate, || {
            if times % 8 == 0 {
                run.script.read_at_most(2);
            }
            times += 1;
            self.workload.run(&self.endpoint, 1).unwrap();
        });
    }

    fn exact(&self) {
        Run::start(&self.rig).finish().unwrap();
        self.rig.assert_exact(&self.endpoint, self.workload.database(), &Workload::TABLES);
    }
}

#[test]
fn a_crash_at_every_place() {
    let Some(mut life) = Life::new("crash_all", 51) else { return };
    let mut died: BTreeMap<Point, u32> = BTreeMap::new();
    let mut die = |life: &mut Life, point: Point, skip: usize| {
        life.workload.run(&life.endpoint, 10).unwrap();
        let run = Run::start(&life.rig);
        let at = gate(&run, point, skip);
        life.trickle_until(&run, at);
        life.workload.run(&life.endpoint, 10).unwrap();
        run.script.open(at, Action::Die);
        assert_eq!(run.finish().unwrap_err().kind(), RunErrorKind::Stopped);
        *died.entry(point).or_default() += 1;
    };
    // While tables are read; of the epochs' places also a later one.
    for (point, n) in CHUNKS.into_iter().zip(0..) {
        die(&mut life, point, n % 3);
    }
    for (point, n) in EPOCHS.into_iter().zip(0..) {
        die(&mut life, point, n % 2);
        die(&mut life, point, 2 + n % 2);
    }
    // And when all of them are live.
    life.exact();
    for point in EPOCHS {
        die(&mut life, point, 0);
    }
    life.exact();
    assert_eq!(died.values().sum::<u32>(), 33, "{died:?}");
}

#[test]
fn a_failure_at_every_place() {
    let Some(mut life) = Life::new("crash_fail", 52) else { return };
    let mut run = Run::start(&life.rig);
    for (point, n) in CHUNKS.into_iter().chain(EPOCHS).zip(0..) {
        let at = gate(&run, point, n % 3);
        life.trickle_until(&run, at);
        life.workload.run(&life.endpoint, 5).unwrap();
        run.script.open(at, Action::Fail);
        // A state that cannot be written ends the run; everything else is tried again.
        if matches!(point, Point::BeforeRecord | Point::AfterRecord | Point::BeforeMark | Point::AfterMark) {
            let error = run.finish().unwrap_err();
            assert!(error.to_string().contains(&format!("{point:?}")), "{error}");
            life.workload.run(&life.endpoint, 5).unwrap();
            run = Run::start(&life.rig);
        }
    }
    run.script.read_all();
    let report = run.finish().unwrap();
    assert!(report.balances(), "{report:?}");
    life.exact();
}
