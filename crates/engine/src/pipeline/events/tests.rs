#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation, reason = "small numbers")]

use std::path::Path;

use millstream_binlog::event::Checksum;
use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, DecoderOptions};
use millstream_doris_sink::{Batch, EncodeOptions, Format, Mode, Op, RowEncoder, RowMeta, TargetTable};

use super::*;
use crate::delivery::{CommitPermit, EpochRecord, Passed, Step, TableMode, TargetNo, TargetState, TxnId};
use crate::merge::{KeyRange, Rules, XaBook, XaPlace};
use crate::pipeline::output::{Sequence, Shown, Target, Writer};
use crate::pipeline::pace::Pace;
use crate::pipeline::xa_rows::Room;

struct Nothing;

impl Wanted for Nothing {
    fn wants(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// A core that captures no table, of a source with GTIDs.
fn core() -> Core {
    core_at(Passed::default())
}

fn core_at(begin: Passed) -> Core {
    let book = XaBook::new(XaPlace::default(), Position::new("", 0), false);
    let room = Room::new(Path::new("target/none"), 1 << 20).unwrap();
    let options = DecoderOptions { stream_checksum: Some(Checksum::None), ..DecoderOptions::default() };
    let outputs = Outputs {
        pipeline: 1,
        era: 1,
        targets: Vec::new(),
        sequence: Sequence::new(1),
        flush_bytes: 1 << 20,
        on_poison: crate::config::OnPoison::Stop,
        poisoned: Vec::new(),
        turn: 0,
        uploads: Vec::new(),
        lines: Vec::new(),
        emitted: false,
        close_soon: false,
        rows_sent: 0,
        rows_collapsed: 0,
    };
    Core::new(
        EventDecoder::new(options),
        Vec::new(),
        Merge::new(begin, None, Rules::default()),
        Delivery::new(1, 1),
        outputs,
        Xa::new(book, room, Passed::default(), XaPlace::default(), false),
        Coordinate::default(),
        Box::new(Nothing),
        NameCase::Sensitive,
        Weights::new(1 << 20),
    )
}

/// An event, its end 100 bytes behind the last.
fn event(ty: u8, flags: u16, log_pos: u32, body: &[u8]) -> Bytes {
    let mut raw = vec![0; 19];
    raw[4] = ty;
    raw[13..17].copy_from_slice(&log_pos.to_le_bytes());
    raw[17..19].copy_from_slice(&flags.to_le_bytes());
    raw.extend_from_slice(body);
    let length = raw.len() as u32;
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    Bytes::from(raw)
}

fn rotate(file: &str) -> Bytes {
    event(4, 0x20, 0, &[&4u64.to_le_bytes()[..], file.as_bytes()].concat())
}

fn gtid(number: u64, log_pos: u32) -> Bytes {
    event(33, 0, log_pos, &[&[0][..], &[7; 16], &number.to_le_bytes()].concat())
}

fn table_map(id: u32) -> Bytes {
    event(19, 0, 300, &[&id.to_le_bytes()[..], &[0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 1, 3, 0, 0]].concat())
}

/// Ids of tables are forgotten at the next file, and before they are too many to keep; never inside a transaction.
///
/// Bug: 86
#[test]
fn table_maps_do_not_pile_up() {
    let mut core = core();
    core.event(&rotate("binlog.000001")).unwrap();
    let mut most = 0;
    for number in 1..=25_000u32 {
        core.event(&gtid(u64::from(number), 200)).unwrap();
        let before = core.maps.len();
        core.event(&table_map(number)).unwrap();
        assert_eq!(core.maps.len(), before + 1);
        core.event(&event(16, 0, 400, &[0; 8])).unwrap();
        most = most.max(core.maps.len());
    }
    assert_eq!(most, TABLE_MAPS);
    core.event(&rotate("binlog.000002")).unwrap();
    assert!(core.maps.is_empty());
}

/// Conformance: E12, E14, E15
/// Bug: 87, 88
#[test]
fn what_says_nothing_about_rows_is_skipped_and_counted_by_its_rule() {
    let mut core = core();
    core.event(&rotate("binlog.000001")).unwrap();
    let skipped = [
        (5, vec![1; 9], "statement-context"),
        (13, vec![0; 16], "statement-context"),
        (14, vec![1, 0, 0, 0, b'v', 1], "statement-context"),
        (17, vec![0; 8], "load-data-block"),
        (29, vec![1, b'S'], "rows_query"),
        (36, vec![0; 40], "group-replication"),
        (37, vec![0; 52], "group-replication"),
        (100, vec![0; 900], "aurora"),
        (161, vec![1, 0, 0, 0, b'b'], "binlog-checkpoint"),
        (164, vec![0; 17], "start-encryption"),
    ];
    for (ty, body, rule) in &skipped {
        let before = core.report.skipped.get(rule).copied().unwrap_or(0);
        core.event(&event(*ty, 0, 200, body)).unwrap();
        assert_eq!(core.report.skipped.get(rule), Some(&(before + 1)), "{ty}");
    }
}

/// Conformance: E3
#[test]
fn what_the_engine_cannot_follow_stops_it_by_name() {
    let maria_gtid = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0; 11]].concat();
    let rows = [5, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0x81, 5];
    for (ty, body, text) in [
        (162, &maria_gtid[..], "the engine cannot follow a MARIADB_GTID (162) event"),
        (166, &rows, "WRITE_ROWS_COMPRESSED_V1 (166)"),
        (20, &rows, "PRE_GA_WRITE_ROWS (20) event ending at log position 200: a row event of a 5.1 pre-release"),
        (172, &rows, "a row event in fragments (binlog_row_event_fragment_threshold) is not supported"),
        (60, &rows, "unknown event type without the IGNORABLE flag"),
        (26, &[1, 0, 1, b'x'], "the source says that its binlog lacks events (incident 1: \"x\")"),
        (34, &[0; 25], "a transaction without a GTID"),
    ] {
        let mut core = core();
        core.event(&rotate("binlog.000001")).unwrap();
        let error = core.event(&event(ty, 0, 200, body)).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("binlog.000001:"), "{ty}: {error}");
    }
}

/// A position beyond 4 GiB, where headers have wrapped.
///
/// Conformance: D9
/// Bug: 81
#[test]
fn the_position_has_64_bits() {
    let mut core = core();
    core.event(&rotate("binlog.000001")).unwrap();
    for (number, log_pos) in [(1, 3 << 30), (2, u32::MAX - 10), (3, 90), (4, 3 << 30), (5, 7)] {
        core.event(&gtid(number, log_pos)).unwrap();
        core.event(&event(16, 0, log_pos + 1, &[0; 8])).unwrap();
    }
    assert_eq!(core.position().offset, (2 << 32) + 8);
}

fn query(sql: &str, log_pos: u32) -> Bytes {
    event(2, 0, log_pos, &[&[0; 13][..], &[0], sql.as_bytes()].concat())
}

fn format_description(timestamp: u32) -> Bytes {
    let mut body = vec![4, 0];
    body.extend_from_slice(b"5.6.24-log");
    body.resize(52, 0);
    body.extend_from_slice(&[0, 0, 0, 0, 19, 56, 13, 0, 8]);
    // Checksum: none, and its field.
    body.extend_from_slice(&[0, 0, 0, 0, 0]);
    let mut raw = event(15, 0, 0, &body).to_vec();
    raw[0..4].copy_from_slice(&timestamp.to_le_bytes());
    Bytes::from(raw)
}

/// Of a source without GTIDs a transaction begins where its first event does: a BEGIN, a statement of its own, an anonymous
/// GTID, or MariaDB's.
#[test]
fn without_gtids_transactions_are_known_by_where_they_begin() {
    let place = |offset| Position::new("binlog.000001", offset);
    let maria =
        |flags: u8, log_pos| event(162, 0, log_pos, &[&7u64.to_le_bytes()[..], &[0; 4], &[flags], &[0; 6]].concat());
    let anonymous = |log_pos| event(34, 0, log_pos, &[&[0][..], &[0; 24]].concat());
    let xid = |log_pos| event(16, 0, log_pos, &[0; 8]);
    for (first, rest) in [
        (query("BEGIN", 1000), vec![table_map(7), xid(1200)]),
        (anonymous(1000), vec![query("BEGIN", 1100), table_map(7), xid(1200)]),
        (maria(0, 1000), vec![table_map(7), xid(1200)]),
        (maria(0, 1000), vec![table_map(7), query("COMMIT", 1200)]),
        (anonymous(1000), vec![query("CREATE DATABASE x", 1200)]),
        (maria(1, 1000), vec![query("CREATE DATABASE x", 1200)]),
    ] {
        let mut core = core_at(place(500).into());
        core.event(&rotate("binlog.000001")).unwrap();
        let begin = 1000 - first.len() as u64;
        assert_eq!(core.event(&first).unwrap(), Flow::Inside);
        assert_eq!(core.open_transaction(), Some(TxnId::At(place(begin))));
        assert_eq!(core.merge.judged(), &place(500).into(), "it is not over");
        for raw in &rest {
            core.event(raw).unwrap();
        }
        assert!(!core.is_inside());
        assert_eq!(core.merge.judged(), &place(1200).into());
    }
    // One statement, of a server that logs no GTIDs at all.
    let mut core = core_at(place(4).into());
    core.event(&rotate("binlog.000001")).unwrap();
    assert_eq!(core.event(&query("CREATE DATABASE x", 1200)).unwrap(), Flow::Boundary);
    assert_eq!(core.merge.judged(), &place(1200).into());
    // The next file: nothing of the old one is needed any more.
    core.event(&rotate("binlog.000002")).unwrap();
    assert_eq!(core.merge.judged(), &Position::new("binlog.000002", 4).into());
}

#[test]
fn a_file_of_the_same_name_and_another_age_stops_the_stream() {
    let mut core = core_at(Position::new("binlog.000001", 500).into());
    core.event(&rotate("binlog.000001")).unwrap();
    core.event(&format_description(1_700_000_000)).unwrap();
    core.event(&rotate("binlog.000001")).unwrap();
    core.event(&format_description(1_700_000_000)).unwrap();
    let error = core.event(&format_description(1_700_000_001)).unwrap_err().to_string();
    assert!(error.contains("written since 1700000001, not 1700000000") && error.contains("log was reset"), "{error}");
}

/// A live append target of table `no`, in a core whose stream stands at the first file.
fn add_target(core: &mut Core, no: u32) {
    let id = Column {
        name: "id".into(),
        ty: ColumnType::Int { unsigned: false },
        nullable: false,
        charset: Charset::Binary,
        collation: 63,
    };
    let schema = TableSchema { database: "d".into(), table: format!("t{no}"), columns: vec![id], key: vec![0] };
    let planned = TargetTable::plan(&schema, "d", &schema.table, Mode::Append).unwrap();
    let encoder = Box::new(RowEncoder::new(&schema, &planned, &EncodeOptions::default()));
    let live = TargetState { done: vec![KeyRange::default()], ..TargetState::default() };
    core.merge.add_table(TableId(no), &live.done, false, None);
    let columns = planned.columns_header();
    core.outputs.targets.push(Target {
        no: TargetNo(no),
        mode: TableMode::Append,
        database: "d".into(),
        table: schema.table.clone(),
        format: Format::Json,
        columns,
        source: 0,
        group: TableId(no),
        writer: Writer::Doris { encoder, batch: Batch::new(Mode::Append), plan: Box::new(planned) },
        shown: Shown::new(&schema, &[]),
        last: live,
        dirty: false,
        loaded: false,
        pace: Pace::default(),
        held: false,
        out: false,
        patched: false,
        created: false,
    });
}

/// A transaction with one row for each of these targets.
fn transaction(core: &mut Core, number: u32, targets: core::ops::Range<usize>) {
    core.event(&gtid(u64::from(number), 200)).unwrap();
    for target in targets {
        let seq = core.outputs.sequence.next().unwrap();
        let meta = RowMeta { seq, op: Op::Create, gtid: None, file: "b", pos: 4, row: 0, ts_micros: None };
        let row = [(0, ColumnValue::Int(i64::from(number)))].into_iter();
        core.outputs.emit(target, &meta, None, Some(row)).unwrap();
    }
    core.event(&event(16, 0, 400, &[0; 8])).unwrap();
}

/// The record of the closed epoch, which goes through at once.
fn record(core: &mut Core) -> EpochRecord {
    for upload in core::mem::take(&mut core.outputs.uploads) {
        core.delivery.precommitted(upload.id, 7, 0);
    }
    let Step::Write(record) = core.delivery.step() else { panic!("no record") };
    core.delivery.recorded(CommitPermit::issue(record.epoch));
    core.delivery.step();
    for load in &record.loads {
        core.delivery.committed(load.id);
    }
    core.delivery.step();
    core.delivery.marked();
    *record
}

/// A target that is to be loaded less often keeps its rows while epochs go by, at a place that is durable.
#[test]
fn a_held_target_stays_at_its_place_until_it_is_loaded() {
    let mut core = core();
    add_target(&mut core, 1);
    core.outputs.targets[0].pace.loaded(1, 0, &mut fastrand::Rng::with_seed(1));
    core.event(&rotate("binlog.000001")).unwrap();
    let begin = core.closed_at.clone();

    // Held: the record moves the stream, and says where the target stays.
    transaction(&mut core, 1, 0..1);
    core.hold_back(1, false);
    assert!(core.close_epoch(None).unwrap());
    let first = record(&mut core);
    assert!(first.loads.is_empty() && first.next != begin);
    let stays = TargetState { ahead: Some(begin.clone()), done: vec![KeyRange::default()], may_hold_more: false };
    assert_eq!(first.targets.iter().map(|c| (&c.previous.ahead, &c.next)).collect::<Vec<_>>(), [(&None, &stays)]);
    // Nothing new comes: no record says it again.
    core.hold_back(2, false);
    assert!(!core.close_epoch(None).unwrap() && !core.is_clean());
    // The stream moves on: the place is known.
    transaction(&mut core, 2, 0..1);
    core.hold_back(3, false);
    assert!(core.close_epoch(None).unwrap());
    assert!(record(&mut core).targets.is_empty());

    // Its time has come (or the run ends): one load with all of it, and then it stands where the stream stands.
    core.hold_back(3, true);
    assert!(core.close_epoch(None).unwrap());
    assert_eq!(core.outputs.uploads[0].rows, 2);
    let last = record(&mut core);
    let change = &last.targets[0];
    assert_eq!((change.previous.ahead.as_ref(), &change.next.ahead), (Some(&begin), &None));
    assert_eq!(last.loads[0].end.coordinate, last.next);
    assert!(core.is_clean());
}

/// More tables than a database may have running transactions: epochs take them in turn, and each is loaded.
#[test]
fn an_epoch_loads_no_more_targets_than_doris_allows() {
    let mut core = core();
    for no in 1..=1000 {
        add_target(&mut core, no);
    }
    core.event(&rotate("binlog.000001")).unwrap();
    transaction(&mut core, 1, 0..1000);
    let mut loaded = BTreeSet::new();
    for (number, expected) in [(2, 400), (3, 800), (4, 1000)] {
        // The first tables never rest.
        transaction(&mut core, number, 0..400);
        core.hold_back(0, true);
        assert!(core.close_epoch(None).unwrap());
        let record = record(&mut core);
        assert_eq!(record.loads.len(), 400);
        loaded.extend(record.loads.iter().map(|load| load.id.target));
        assert_eq!(loaded.len(), expected);
    }
    while !core.is_clean() {
        core.hold_back(0, true);
        assert!(core.close_epoch(None).unwrap());
        record(&mut core);
    }
    assert!(core.outputs.targets.iter().all(|t| t.last.ahead.is_none()));
}
