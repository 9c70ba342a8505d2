//! `snapshot.backfill = "skip"`: chunks enter at once, changes may come twice, and every key ends right.

use millstream_engine::merge::{Broken, Rules};
use millstream_engine::pipeline::RunOptions;
use millstream_engine::pipeline::hooks::{Action, Point};
use millstream_tests::rig::Rig;
use millstream_tests::server::{self, Server};

use crate::races::{Stream, race, rig, start};
use crate::script::Run;

fn skipping(server: &Server, database: &str, rows: i32) -> Rig {
    let mut rig = rig(server, database, rows);
    rig.snapshot.push_str("\nbackfill = \"skip\"\nallow_duplicates = true");
    rig
}

#[test]
fn every_key_ends_right_whatever_was_emitted_before_its_chunk() {
    let Some(server) = server::shared() else { return };
    let rig = skipping(server, "skip_all", 1000);
    let run = start(&rig, RunOptions::default());
    let places = [
        (Point::BeforeLowWatermark, Stream::Runs),
        (Point::BeforeLowWatermark, Stream::Held),
        (Point::AfterLowWatermark, Stream::Runs),
        (Point::AfterLowWatermark, Stream::Held),
        (Point::AfterSelect, Stream::Runs),
        (Point::AfterSelect, Stream::Held),
        (Point::Read, Stream::Held),
        (Point::AfterEntry, Stream::Held),
    ];
    for (place, round) in places.into_iter().zip(1..) {
        race(&run, server, "skip_all.t", place, round);
    }
    // The stream stands still, the SELECT sees changes that it has not judged, and the chunk enters nevertheless.
    let selects = run.script.gate(|seen| seen.point == Point::BeforeSelect);
    run.script.read_at_most(1);
    let chunk = run.script.reached(selects);
    run.script.hold_stream();
    let lo = crate::disturb::number(chunk.range.lo.as_ref().unwrap());
    server.sql(&format!("UPDATE skip_all.t SET v = v + 1 WHERE id > {lo}"));
    let entered = run.script.gate(|seen| seen.point == Point::AfterEntry);
    run.script.open(selects, Action::GoOn);
    run.script.reached(entered);
    run.script.open(entered, Action::GoOn);
    run.script.release_stream();
    run.script.read_all();
    let report = run.finish().unwrap();
    assert!(report.balances() && report.guarantee == "at-least-once", "{report:?}");
    assert!(report.changes_dropped.get("below_high_watermark").is_some_and(|n| *n > 0), "{report:?}");
    Run::start(&rig).finish().unwrap();
    rig.assert_upsert_equal(&server.endpoint(), "skip_all", &["t"]);
    // The log has changes that a chunk had brought, so it is no exact history; but each change of the stream is there at most
    // once, and the log too ends as the source.
    let faults = rig.append_faults(&server.endpoint(), "skip_all", "t");
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault.starts_with("cannot be")), "{faults:#?}");
}

#[test]
fn a_change_that_is_lost_on_the_way_is_noticed() {
    let Some(server) = server::shared() else { return };
    let rig = skipping(server, "skip_broken", 250);
    let run = start(&rig, RunOptions { rules: Rules::without(Broken::Normalize), ..RunOptions::default() });
    race(&run, server, "skip_broken.t", (Point::AfterSelect, Stream::Runs), 1);
    run.script.read_all();
    run.finish().unwrap();
    Run::start(&rig).finish().unwrap();
    assert!(!rig.upsert_differences(&server.endpoint(), "skip_broken", "t").is_empty());
}
