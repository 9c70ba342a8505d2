//! The sink's client against the simulator: every fault that can hit a load or its second phase, and the rows are there
//! exactly once.

use std::time::Duration;

use bytes::Bytes;
use millstream_binlog::{
    Column, ColumnType, ColumnValue, Date, DateTime, TableSchema, Time, Timestamp, value::JsonBinary,
};
use millstream_doris_sink::classify::FatalCause;
use millstream_doris_sink::txn::TxnStatus;
use millstream_doris_sink::{
    AbortOutcome, Body, ClientOptions, CommitOutcome, DorisClient, GroupCommit, Label, Load, LoadStyle, Mode, Op,
    TargetTable, TwoPhase, TxnFact, TxnRef,
};
use millstream_tests::doris::{
    Dialect, DorisSim, Fault, Garbage, Knob, LostAt, Op as SimOp, Side, SimOptions, TxnState,
};

use crate::bed::{PIPELINE, Target, client, column, label, sim, small_schema, text};

#[tokio::test]
async fn upserts_and_deletes_give_the_last_state() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "orders", Mode::Upsert, &client).await;
    assert_eq!(client.max_sequence("ods", "orders", Mode::Upsert).await.unwrap(), None);
    let row = |id, note, seq, op| (vec![text(note), ColumnValue::Int(id)], seq, op);
    let first = t.body(&[
        row(1, "a", 10, Op::Create),
        row(2, "b", 11, Op::Create),
        row(3, "c", 12, Op::Create),
        row(1, "a2", 13, Op::Update),
    ]);
    let second = t.body(&[row(2, "b", 20, Op::Delete), row(4, "d", 21, Op::Create), row(4, "d", 22, Op::Delete)]);
    // The later load is committed first: the sequence decides, not the order of loads.
    let b = t.load(&client, &second, label(1), TwoPhase::Yes).await.unwrap();
    let a = t.load(&client, &first, label(0), TwoPhase::Yes).await.unwrap();
    assert_eq!(client.count("ods", "orders").await.unwrap(), 0, "nothing is visible before the second phase");
    for loaded in [b, a] {
        assert_eq!(client.commit("ods", loaded.txn_id.unwrap()).await.unwrap(), CommitOutcome::Done);
        assert!(client.wait_visible("ods", loaded.txn_id.unwrap(), Duration::from_secs(5)).await.unwrap());
    }
    let rows: Vec<_> =
        sim.rows("ods", "orders").into_iter().map(|r| r.into_iter().map(Option::unwrap).collect::<Vec<_>>()).collect();
    assert_eq!(rows, [["1", "a2"], ["3", "c"]]);
    assert_eq!(sim.sequence_conflicts("ods", "orders"), 0);
    assert_eq!(client.max_sequence("ods", "orders", Mode::Upsert).await.unwrap(), Some(22), "of a deleted row");
    assert_eq!(client.count("ods", "orders").await.unwrap(), 2);
    assert_eq!(sim.fe_body_bytes(), 0);
    client.truncate("ods", "orders").await.unwrap();
    assert_eq!(client.count("ods", "orders").await.unwrap(), 0);
}

/// One column of each MySQL type, its value, and what Doris then shows.
fn every_type() -> Vec<(Column, ColumnValue<'static>, &'static str)> {
    use ColumnType as M;
    use ColumnValue as V;
    let labels = || -> std::sync::Arc<[String]> { ["x", "y,z"].map(str::to_owned).into() };
    let date = Date { year: 2024, month: 2, day: 29 };
    let at = DateTime { date, hour: 23, minute: 59, second: 58, micros: 120_000 };
    let c = |name: &str, ty| column(name, ty, true);
    #[rustfmt::skip]
    let all = vec![
        (c("tiny", M::TinyInt { unsigned: false }), V::Int(-128), "-128"),
        (c("tiny_u", M::TinyInt { unsigned: true }), V::UInt(255), "255"),
        (c("small_u", M::SmallInt { unsigned: true }), V::UInt(65535), "65535"),
        (c("medium", M::MediumInt { unsigned: false }), V::Int(-8_388_608), "-8388608"),
        (c("int_u", M::Int { unsigned: true }), V::UInt(u64::from(u32::MAX)), "4294967295"),
        (c("big", M::BigInt { unsigned: false }), V::Int(i64::MIN), "-9223372036854775808"),
        (c("big_u", M::BigInt { unsigned: true }), V::UInt(u64::MAX), "18446744073709551615"),
        (c("float", M::Float), V::Float(1.5), "1.5"),
        (c("double", M::Double), V::Double(-0.25), "-0.25"),
        (c("dec", M::Decimal { precision: 38, scale: 4 }), V::DecimalText(b"-1234567890123456789012345678901234.5678"), "-1234567890123456789012345678901234.5678"),
        (c("dec30", M::Decimal { precision: 38, scale: 30 }), V::DecimalText(b"-12345678.000000000000000000000000000001"), "-12345678.000000000000000000000000000001"),
        (c("cr", M::VarChar { max_bytes: 40 }), text("\u{feff}\r"), "\u{feff}\r"),
        (c("dec_long", M::Decimal { precision: 40, scale: 1 }), V::DecimalText(b"999999999999999999999999999999999999999.1"), "999999999999999999999999999999999999999.1"),
        (c("bit1", M::Bit { bits: 1 }), V::Bit(1), "1"),
        (c("bit9", M::Bit { bits: 9 }), V::Bit(511), "511"),
        (c("bit64", M::Bit { bits: 64 }), V::Bit(u64::MAX), "18446744073709551615"),
        (c("year", M::Year), V::Year(2155), "2155"),
        (c("date", M::Date), V::Date(date), "2024-02-29"),
        (c("time", M::Time { fsp: 6 }), V::Time(Time { negative: true, hours: 838, minutes: 59, seconds: 59, micros: 999_999 }), "-838:59:59.999999"),
        (c("dt", M::DateTime { fsp: 2 }), V::DateTime(at), "2024-02-29 23:59:58.12"),
        (c("ts", M::Timestamp { fsp: 6 }), V::Timestamp(Timestamp { seconds: 1, micros: 5 }), "1970-01-01 00:00:01.000005"),
        (c("char", M::Char { max_bytes: 40 }), text("🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈"), "🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈"),
        (c("text", M::Text { length_bytes: 4 }), text("\\N \"quoted\"\r\n\t\0\u{1}\u{feff} null"), "\\N \"quoted\"\r\n\t\0\u{1}\u{feff} null"),
        (c("empty", M::VarChar { max_bytes: 4 }), text(""), ""),
        (c("bin", M::Binary { bytes: 4 }), V::Bytes(b"\x01\xff"), "01ff0000"),
        (c("varbin", M::VarBinary { max_bytes: 4 }), V::Bytes(b"\x01\xff"), "01ff"),
        (c("blob", M::Blob { length_bytes: 4 }), V::Bytes(b""), ""),
        (c("enum", M::Enum { labels: labels(), bytes: 1 }), V::Enum(2), "y,z"),
        (c("set", M::Set { labels: labels(), bytes: 1 }), V::Set(3), "x,y,z"),
        (c("json", M::Json), V::JsonText(b"{\"a\": [1, null, \"x\"]}"), "{\"a\": [1, null, \"x\"]}"),
        (c("json_bin", M::Json), V::Json(JsonBinary { bytes: &[0x04, 0x01] }), "true"),
        (c("geo", M::Geometry), V::Geometry(&[0, 0, 0, 0, 1]), "0000000001"),
        (c("vec", M::Vector), V::Vector(&[0, 0, 0x80, 0x3f]), "[1.0]"),
    ];
    all
}

/// NULL, the empty text and `\N`; control characters, quotes, emoji; 2^64-1, DECIMAL(38,30), floats; `\r` at the end, a BOM at
/// the beginning; binary.
/// Conformance: T21
#[tokio::test]
async fn t21_every_type_arrives_in_both_modes() {
    let sim = sim().await;
    let client = client(&sim);
    let columns = every_type();
    let mut schema = TableSchema {
        database: "shop".into(),
        table: "types".into(),
        columns: columns.iter().map(|(column, _, _)| column.clone()).collect(),
        key: vec![columns.len()],
    };
    schema.columns.push(column("id", ColumnType::Int { unsigned: false }, false));
    let mut filled: Vec<_> = columns.iter().map(|(_, value, _)| *value).collect();
    filled.push(ColumnValue::Int(1));
    let mut nulls = vec![ColumnValue::Null; columns.len()];
    nulls.push(ColumnValue::Int(2));
    for (part, mode) in [(0, Mode::Upsert), (1, Mode::Append)] {
        let table = format!("types_{mode}");
        let mut t = Target::create(&schema, &table, mode, &client).await;
        let existing = client.describe_table("ods", &table).await.unwrap().unwrap();
        assert_eq!(t.target.compare(&existing), Vec::<String>::new());
        // Creating it again changes nothing.
        client.create_table(&t.target, Some(1), Some(1)).await.unwrap();
        let body = t.body(&[(filled.clone(), 100, Op::Create), (nulls.clone(), 101, Op::Create)]);
        let loaded = t.load(&client, &body, label(part), TwoPhase::Yes).await.unwrap();
        client.commit("ods", loaded.txn_id.unwrap()).await.unwrap();
        assert!(client.wait_visible("ods", loaded.txn_id.unwrap(), Duration::from_secs(5)).await.unwrap());
        let rows = sim.rows("ods", &table);
        assert_eq!(rows.len(), 2);
        let shift = if mode == Mode::Upsert { 1 } else { 7 };
        for (i, (column, _, expected)) in columns.iter().enumerate() {
            assert_eq!(rows[0][shift + i].as_deref(), Some(*expected), "{} in {mode}", column.name);
            assert_eq!(rows[1][shift + i], None, "{} in {mode}", column.name);
        }
        if mode == Mode::Append {
            let head: Vec<_> = rows[0].iter().take(7).map(|v| v.as_deref().unwrap()).collect();
            assert_eq!(head, ["100", "c", "g:1", "b.1", "4", "0", "1970-01-01 00:00:01.000000"]);
        }
    }
    // Another mode's table is refused, with every reason.
    let existing = client.describe_table("ods", "types_append").await.unwrap().unwrap();
    let upsert = TargetTable::plan(&schema, "ods", "types_append", Mode::Upsert).unwrap();
    let differences = upsert.compare(&existing).join("; ");
    assert!(differences.contains("DUPLICATE KEY") && differences.contains("`_ms_seq` does not exist"), "{differences}");
    assert_eq!(client.describe_table("ods", "absent").await.unwrap(), None);
    assert_eq!(client.describe_table("absent", "absent").await.unwrap(), None);
}

/// Every fault of a load, in one phase and two, in each dialect of the texts: exactly once, and the same label. (That the bytes
/// are the same too is tried in `crates/doris-sink/tests/client.rs`.)
/// Conformance: T8
#[tokio::test]
async fn t08_no_fault_loses_or_doubles_a_row() {
    let lost = |state| Fault::ReplyLost { op: SimOp::Load, state };
    let faults = [
        Fault::SlowRedirect { ms: 60 },
        Fault::RedirectForm { userinfo: Some("root:p%40ss:/é@x".into()), trailing_question: false, host: None },
        Fault::RedirectForm {
            userinfo: Some("root@default_cluster:p@ss:%/é".into()),
            trailing_question: true,
            host: None,
        },
        Fault::Cut { at: 0 },
        Fault::Cut { at: 1 },
        Fault::Cut { at: 700 },
        lost(LostAt::Prepare),
        lost(LostAt::PreCommitted),
        lost(LostAt::Committed),
        lost(LostAt::Visible),
        lost(LostAt::Aborted),
        Fault::FalseFail { op: SimOp::Load },
        Fault::PublishDelay { ms: Some(100) },
        Fault::DeadBackend,
        Fault::RedirectAgain { at: Side::Fe },
        Fault::FrontendRefuses { text: "no backend load available, policy: x".into() },
        Fault::EarlyReply { at: 100, ms: 0 },
        Fault::HoldRunning { ms: 60, cut: true },
        Fault::NotMaster { op: SimOp::Load, text: None },
        Fault::NotMaster { op: SimOp::Load, text: Some("tablet 7 alive replica num 0 < quorum replica num 1".into()) },
        Fault::Quota { data: false },
        Fault::Quota { data: true },
        Fault::RestartFrontend { after: LostAt::Prepare },
        Fault::RestartFrontend { after: LostAt::PreCommitted },
        Fault::RestartBackend { after: LostAt::Prepare },
        Fault::RestartBackend { after: LostAt::PreCommitted },
        Fault::RestartBackend { after: LostAt::Committed },
        Fault::RecordReply,
        Fault::Garbage { body: Garbage::Html, at: Side::Be, op: SimOp::Load },
        Fault::Garbage { body: Garbage::Empty, at: Side::Be, op: SimOp::Load },
        Fault::Garbage { body: Garbage::Truncated, at: Side::Be, op: SimOp::Load },
        Fault::Garbage { body: Garbage::NoStatus, at: Side::Be, op: SimOp::Load },
        Fault::Garbage { body: Garbage::Html, at: Side::Fe, op: SimOp::Load },
        Fault::Proxy { status: 503, at: Side::Fe, after: false, op: SimOp::Load },
        Fault::Proxy { status: 429, at: Side::Be, after: false, op: SimOp::Load },
        Fault::Proxy { status: 500, at: Side::Be, after: true, op: SimOp::Load },
        Fault::Proxy { status: 503, at: Side::Be, after: true, op: SimOp::Load },
        Fault::Framing { chunked: true, close: true },
        Fault::SlowReader { bytes: 200, ms: 5 },
        Fault::LateBegin { ms: 20 },
    ];
    for (dialect, rollback) in [(Dialect::ErrCode, true), (Dialect::TStatus, false)] {
        let options = SimOptions {
            dialect,
            two_phase_dialect: dialect,
            rollback_on_client_gone: rollback,
            publish_wait: Duration::from_millis(50),
            ..SimOptions::default()
        };
        let sim = DorisSim::start(options).await.unwrap();
        let client = client(&sim);
        let mut part = 0;
        let mut seq = 0_i64;
        for two in [TwoPhase::Yes, TwoPhase::No] {
            let table = if two == TwoPhase::Yes { "two" } else { "one" };
            let mut t = Target::create(&small_schema(), table, Mode::Append, &client).await;
            for fault in &faults {
                for times in [2] {
                    let why = format!("{fault:?} {times} times, {two:?}, {dialect:?}, rollback {rollback}");
                    let body = t.numbered(seq..seq + 10);
                    let (low, high) = (seq, seq + 9);
                    seq += 10;
                    part += 1;
                    sim.clear_requests();
                    sim.set(Knob::once(fault.clone()).times(times).table("ods."));
                    let loaded = t.load(&client, &body, label(part), two).await.expect(&why);
                    sim.clear_knobs();
                    if two == TwoPhase::Yes {
                        let txn_id = loaded.txn_id.expect(&why);
                        assert!(!client.any_row_in_seq_range("ods", table, low, high).await.unwrap(), "{why}");
                        assert!(
                            matches!(client.commit("ods", txn_id).await.expect(&why), CommitOutcome::Done),
                            "{why}"
                        );
                    }
                    if let Some(txn_id) = loaded.txn_id {
                        assert!(client.wait_visible("ods", txn_id, Duration::from_secs(5)).await.unwrap(), "{why}");
                    }
                    assert!(client.any_row_in_seq_range("ods", table, low, high).await.unwrap(), "{why}");
                    for request in
                        sim.requests().iter().filter(|r| r.path.contains("_stream_load") && !r.path.contains("2pc"))
                    {
                        assert_eq!(request.header("label"), Some(label(part).to_string().as_str()), "{why}");
                    }
                }
            }
        }
        let mut seqs: Vec<i64> = ["one", "two"]
            .iter()
            .flat_map(|table| sim.rows("ods", table))
            .map(|row| row[0].as_deref().unwrap().parse().unwrap())
            .collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (0..seq).collect::<Vec<_>>(), "each row once");
        assert_eq!(sim.fe_body_bytes(), 0);
        let left = sim
            .transactions("ods")
            .into_iter()
            .filter(|t| matches!(t.state, TxnState::Prepare | TxnState::PreCommitted));
        assert_eq!(left.count(), 0, "nothing is left open");
    }
}

#[tokio::test]
async fn a_body_cut_anywhere_is_loaded_once() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let length = t.numbered(0..3).bytes.len();
    let step = (length / 40).max(1);
    let mut seq = 0;
    for (part, at) in (0..).zip((0..=length).step_by(step)) {
        sim.set(Knob::once(Fault::Cut { at: at as u64 }));
        let body = t.numbered(seq..seq + 3);
        seq += 3;
        let loaded = t.load(&client, &body, label(part), TwoPhase::Yes).await.unwrap();
        client.commit("ods", loaded.txn_id.unwrap()).await.unwrap();
        sim.clear_knobs();
    }
    assert_eq!(sim.row_count("ods", "log"), seq.cast_unsigned());
}

#[tokio::test]
async fn a_commit_survives_lost_and_false_replies() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let faults = [
        Fault::ReplyLost { op: SimOp::Commit, state: LostAt::PreCommitted },
        Fault::ReplyLost { op: SimOp::Commit, state: LostAt::Committed },
        Fault::ReplyLost { op: SimOp::Commit, state: LostAt::Visible },
        Fault::FalseFail { op: SimOp::Commit },
    ];
    for (part, fault) in (0_u16..).zip(faults) {
        let low = i64::from(part) * 10;
        let body = t.numbered(low..low + 10);
        let loaded = t.load(&client, &body, label(part), TwoPhase::Yes).await.unwrap();
        let txn_id = loaded.txn_id.unwrap();
        sim.set(Knob::once(fault.clone()));
        let outcome = client.commit("ods", txn_id).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done | CommitOutcome::AlreadyDone), "{fault:?}: {outcome:?}");
        sim.clear_knobs();
        assert_eq!(client.commit("ods", txn_id).await.unwrap(), CommitOutcome::AlreadyDone);
        assert!(client.transaction("ods", TxnRef::Id(txn_id)).await.unwrap().is_committed());
        assert!(client.any_row_in_seq_range("ods", "log", low, low + 9).await.unwrap());
    }
    assert_eq!(sim.row_count("ods", "log"), 40);
}

#[tokio::test]
async fn recovery_can_tell_every_state() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let mut ids = Vec::new();
    for part in 0..4_u16 {
        let low = i64::from(part) * 10;
        let body = t.numbered(low..low + 10);
        ids.push(t.load(&client, &body, label(part), TwoPhase::Yes).await.unwrap().txn_id.unwrap());
    }
    let fact = async |part| client.transaction("ods", TxnRef::Label(label(part))).await.unwrap();
    sim.hold_publish();
    client.commit("ods", ids[0]).await.unwrap();
    assert_eq!(fact(0).await, TxnFact::Committed(ids[0]));
    assert!(!client.wait_visible("ods", ids[0], Duration::from_millis(50)).await.unwrap());
    sim.release_publish();
    assert_eq!(fact(0).await, TxnFact::Visible(ids[0]));
    assert_eq!(fact(1).await, TxnFact::PreCommitted(ids[1]));
    assert_eq!(client.abort("ods", ids[1]).await.unwrap(), AbortOutcome::Done);
    assert_eq!(fact(1).await, TxnFact::Aborted(ids[1]));
    assert!(matches!(client.commit("ods", ids[1]).await.unwrap(), CommitOutcome::Aborted { .. }));
    assert_eq!(client.abort("ods", ids[0]).await.unwrap(), AbortOutcome::AlreadyCommitted);
    assert_eq!(fact(99).await, TxnFact::Unknown);
    assert_eq!(client.transaction("absent", TxnRef::Id(1)).await.unwrap(), TxnFact::Unknown);

    // An FE restart leaves what is PRECOMMITTED; the SQL session comes back by itself.
    sim.restart_fe();
    let ours = client.list_ours("ods", &Label::prefix(PIPELINE)).await.unwrap();
    let mut states: Vec<_> = ours.iter().map(|row| (row.label.parse::<Label>().unwrap().part(), row.status)).collect();
    states.sort_by_key(|(part, _)| *part);
    let expected = [TxnStatus::Visible, TxnStatus::Aborted, TxnStatus::PreCommitted, TxnStatus::PreCommitted];
    assert_eq!(states, (0..4).zip(expected).collect::<Vec<_>>());
    assert_eq!(client.list_ours("ods", &Label::prefix(PIPELINE + 1)).await.unwrap(), []);
    assert_eq!(client.list_ours("absent", &Label::prefix(PIPELINE)).await.unwrap(), []);

    // Leftovers go by label too.
    assert_eq!(client.abort_label("ods", label(2)).await.unwrap(), AbortOutcome::Done);
    assert_eq!(client.abort_label("ods", label(2)).await.unwrap(), AbortOutcome::NotFound);

    // Forgotten transactions: the data itself tells.
    client.commit("ods", ids[3]).await.unwrap();
    sim.purge();
    assert_eq!(client.commit("ods", ids[3]).await.unwrap(), CommitOutcome::NotFound);
    assert_eq!(client.commit("ods", ids[1]).await.unwrap(), CommitOutcome::NotFound);
    assert_eq!(fact(3).await, TxnFact::Unknown);
    let visible = async |low| client.any_row_in_seq_range("ods", "log", low, low + 9).await.unwrap();
    assert_eq!([visible(0).await, visible(10).await, visible(20).await, visible(30).await], [true, false, false, true]);
    assert_eq!(client.max_sequence("ods", "log", Mode::Append).await.unwrap(), Some(39));
}

#[tokio::test]
async fn what_precommitted_too_long_ago_is_gone() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let body = t.numbered(0..10);
    let id = t.load(&client, &body, label(0), TwoPhase::Yes).await.unwrap().txn_id.unwrap();
    sim.advance(Duration::from_secs(3601));
    assert!(matches!(client.commit("ods", id).await.unwrap(), CommitOutcome::Aborted { .. }));
    // The same bytes may be sent again under the same label.
    let again = t.load(&client, &body, label(0), TwoPhase::Yes).await.unwrap().txn_id.unwrap();
    assert_ne!(again, id);
    assert_eq!(client.commit("ods", again).await.unwrap(), CommitOutcome::Done);
    assert_eq!(sim.row_count("ods", "log"), 10);
}

/// Any filtered row, and any row that is not counted: aborted in two phases, an error in one, with the first lines of the page.
/// Conformance: T20
#[tokio::test]
async fn t20_filtered_rows_fail_the_load_and_leave_nothing() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let body = t.numbered(0..10);
    sim.set(Knob::once(Fault::FilterRows { rows: 3 }));
    let error = t.load(&client, &body, label(0), TwoPhase::Yes).await.unwrap_err();
    assert!(error.fatal_cause() == Some(FatalCause::DataQuality) || error.is_row_count(), "{error}");
    assert!(!error.is_retryable() && error.to_string().contains("Reason"), "the page is quoted: {error}");
    assert!(sim.transactions("ods").iter().all(|t| t.state == TxnState::Aborted));
    // A real one: more bytes than the column takes, as if the source's column had grown.
    let line = format!("{{\"_ms_seq\":1,\"note\":\"{}\",\"id\":1}}\n", "x".repeat(401));
    let columns = t.target.columns_header();
    let body = Bytes::from(line);
    let load = Load {
        database: "ods",
        table: "log",
        label: label(1),
        columns: &columns,
        partial: false,
        body,
        rows: 1,
        two_phase: TwoPhase::Yes,
    };
    let error = client.load(&load).await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("note"), "{error}");
    assert_eq!(sim.row_count("ods", "log"), 0);
    // Every row is loaded, but they are not as many as were sent: two phases are aborted, one phase says so.
    for (part, two_phase) in [(2, TwoPhase::Yes), (3, TwoPhase::No)] {
        let mut body = t.numbered(0..10);
        body.rows += 1;
        let error = t.load(&client, &body, label(part), two_phase).await.unwrap_err();
        assert!(error.is_row_count() && !error.is_retryable(), "{error}");
        assert!(error.to_string().contains("11 rows sent, 10 read, 10 loaded, 0 filtered, 0 unselected"), "{error}");
    }
    let states: Vec<_> = sim.transactions("ods").iter().map(|t| t.state).collect();
    assert_eq!(states[states.len() - 2..], [TxnState::Aborted, TxnState::Visible]);
}

#[tokio::test]
async fn wrong_credentials_and_missing_tables_are_told() {
    let sim = sim().await;
    let good = client(&sim);
    let t = Target::create(&small_schema(), "log", Mode::Append, &good).await;
    let mut options = ClientOptions::new(vec![sim.fe_url()], sim.sql_addr().to_string(), sim.user(), "wrong");
    options.retry_base = Duration::from_millis(2);
    options.give_up = Duration::from_secs(5);
    let bad = DorisClient::new(options).unwrap();
    let mut filler = Target::new(&small_schema(), "log", Mode::Append);
    let body = filler.numbered(0..1);
    let error = t.load(&bad, &body, label(0), TwoPhase::Yes).await.unwrap_err();
    assert!(error.is_auth(), "{error}");
    let error = bad.count("ods", "log").await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert!(bad.probe().await.is_err());

    let absent = Target::new(&small_schema(), "absent", Mode::Append);
    let error = absent.load(&good, &body, label(0), TwoPhase::Yes).await.unwrap_err();
    assert_eq!(error.fatal_cause(), Some(FatalCause::UnknownTable), "{error}");

    // An FE that is gone is passed over on the SQL port too.
    let sql = format!("127.0.0.1:1,{}", sim.sql_addr());
    let two = DorisClient::new(ClientOptions::new(vec![sim.fe_url()], sql, sim.user(), sim.password())).unwrap();
    assert_eq!(two.count("ods", "log").await.unwrap(), 0);

    let probe = good.probe().await.unwrap();
    assert_eq!(probe.backends.len(), 1);
    let config = good.frontend_config(&["label_num_threshold", "no_such_setting"]).await.unwrap();
    assert_eq!(config.len(), 1);
    assert!(config[0].1.parse::<i64>().is_ok());
    assert_eq!(good.schema_change("ods", "log").await.unwrap(), None);
}

#[tokio::test]
async fn loads_beside_each_other_do_not_disturb_one_another() {
    let sim = DorisSim::start(SimOptions { be_ports: vec![0, 0, 0], ..SimOptions::default() }).await.unwrap();
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    sim.set(Knob::always(Fault::ReplyLost { op: SimOp::Load, state: LostAt::PreCommitted }).times(4));
    sim.set(Knob::always(Fault::Cut { at: 30 }).times(4));
    sim.set(Knob::always(Fault::FalseFail { op: SimOp::Load }).times(4));
    let bodies: Vec<Body> = (0..16).map(|part| t.numbered(part * 10..part * 10 + 10)).collect();
    let (t, client) = (&t, &client);
    let one = async |part: u16| {
        let loaded = t.load(client, &bodies[usize::from(part)], label(part), TwoPhase::Yes).await.unwrap();
        client.commit("ods", loaded.txn_id.unwrap()).await.unwrap();
    };
    // Four at a time.
    for group in 0..4 {
        tokio::join!(one(group * 4), one(group * 4 + 1), one(group * 4 + 2), one(group * 4 + 3));
    }
    let mut seqs: Vec<i64> =
        sim.rows("ods", "log").iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (0..160).collect::<Vec<_>>());
    assert_eq!(sim.fe_body_bytes(), 0);
    assert!(sim.knobs_fired() >= 12);
}

/// A table that is dropped between the phases: the commit is refused for good and not tried again, the abort works.
/// Conformance: T14
#[tokio::test]
async fn t14_a_table_dropped_between_the_phases_is_told_and_can_be_aborted() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let body = t.numbered(0..10);
    let id = t.load(&client, &body, label(0), TwoPhase::Yes).await.unwrap().txn_id.unwrap();
    sim.sql("DROP TABLE ods.log").unwrap();
    let error = client.commit("ods", id).await.unwrap_err();
    assert_eq!(error.fatal_cause(), Some(FatalCause::UnknownTable), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(client.abort("ods", id).await.unwrap(), AbortOutcome::Done);
}

/// Whatever is restarted whenever: the loads that a client says are committed are there, once.
#[tokio::test]
async fn restarts_in_the_middle_lose_and_double_nothing() {
    let sim = sim().await;
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "log", Mode::Append, &client).await;
    let bodies: Vec<Body> = (0..30).map(|part| t.numbered(part * 10..part * 10 + 10)).collect();
    sim.set(Knob::always(Fault::SlowRedirect { ms: 3 }));
    let loads = async {
        for (part, body) in (0..).zip(&bodies) {
            let loaded = t.load(&client, body, label(part), TwoPhase::Yes).await.unwrap();
            let outcome = client.commit("ods", loaded.txn_id.unwrap()).await.unwrap();
            assert!(matches!(outcome, CommitOutcome::Done | CommitOutcome::AlreadyDone), "{outcome:?}");
        }
    };
    let restarts = async {
        for n in 0_u64.. {
            tokio::time::sleep(Duration::from_millis(2 + n % 7)).await;
            if n % 2 == 0 { sim.restart_fe() } else { sim.restart_be(0) }
        }
    };
    tokio::select! {
        () = loads => {}
        () = restarts => unreachable!("restarts have no end"),
    }
    let mut seqs: Vec<i64> =
        sim.rows("ods", "log").iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (0..300).collect::<Vec<_>>());
}

/// Group commit is asked for by name alone, and carries no label.
#[tokio::test]
async fn group_commit_loads_without_a_label() {
    let options = SimOptions { group_commit_interval: Duration::from_millis(20), ..SimOptions::default() };
    let sim = DorisSim::start(options).await.unwrap();
    let client = client(&sim);
    let mut t = Target::create(&small_schema(), "grouped", Mode::Upsert, &client).await;
    for (part, group_commit) in [(0, GroupCommit::Sync), (1, GroupCommit::Async)] {
        let from = i64::from(part) * 10;
        let body = t.numbered(from..from + 10);
        let columns = t.target.columns_header();
        let load = Load {
            database: "ods",
            table: "grouped",
            label: label(part),
            columns: &columns,
            partial: false,
            body: body.bytes.clone(),
            rows: body.rows,
            two_phase: TwoPhase::No,
        };
        client.load_as(&load, LoadStyle { group_commit, ..LoadStyle::default() }).await.unwrap();
    }
    let started = std::time::Instant::now();
    while sim.row_count("ods", "grouped") < 20 {
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        sim.requests().iter().any(|r| r.header("group_commit") == Some("async_mode") && r.header("label").is_none())
    );
}
