//! The demo itself, small: the engine is killed in its three critical moments, and every row arrives exactly once.

use millstream_tests::demo::{self, Moment, Options, Show, Stopped};
use millstream_tests::server::{StartError, or_skip};

#[test]
fn a_small_demo_ends_with_a_good_verdict() {
    let options = Options { rows: 3_000, kills: 3, seconds: 6, seed: 7 };
    let report = match demo::run(&options, &Show::plain()) {
        Ok(report) => report,
        Err(Stopped::Missing(what)) => {
            or_skip::<()>(Err(StartError::Unavailable(what)));
            return;
        }
        Err(Stopped::Failed(what)) => panic!("{what}"),
    };
    assert!(report.is_good(), "{report}");
    let moments: Vec<Moment> = report.kills.iter().map(|kill| kill.moment).collect();
    for moment in [Moment::Snapshot, Moment::Precommitted, Moment::Streaming] {
        assert!(moments.contains(&moment), "{moments:?}");
    }
    let line: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let names: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!((&line["kills"], &line["upsert_equal"], &line["append_exact"]), (&3.into(), &true.into(), &true.into()));
    for positive in ["rows", "changes", "snapshot_rows_per_s", "stream_changes_per_s", "peak_rss_mb"] {
        assert!(line[positive].as_u64().unwrap() > 0, "{positive} in {line}");
    }
    assert_eq!(line["changes"], report.counts.changes());
    // Changes of the live tables were compared; how many of all they are is the machine's speed.
    let listed: u64 = report.tables.iter().map(|table| table.listed_live).sum();
    assert!(listed > 0 && listed <= report.counts.changes(), "{report}");
}
