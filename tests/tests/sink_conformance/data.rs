//! What is loaded: T22 to T24.

use std::collections::BTreeMap;

use millstream_binlog::{Charset, ColumnType, ColumnValue, Date, DateTime, TableSchema};
use millstream_doris_sink::{
    Batch, Body, DorisType, EncodeOptions, InvalidDate, Mode, Op, RowEncoder, RowMeta, TargetTable, TwoPhase,
};

use crate::bed::{Bed, column, label, small_schema, text};

/// Inserts, updates, deletes and changes of keys in any number of loads that are committed in any order: the last event of each
/// key stands, and no sequence number comes with two contents.
/// Conformance: T22
#[tokio::test]
async fn t22_the_last_event_of_a_key_wins_whatever_the_order_of_loads() {
    let bed = Bed::new("t22").await;
    let mut rng = fastrand::Rng::with_seed(22);
    let mut t = bed.table(&small_schema(), "orders", Mode::Upsert).await;
    let mut model: BTreeMap<i64, String> = BTreeMap::new();
    let mut loads = Vec::new();
    let mut seq = 1_i64 << 44;
    for _ in 0..12 {
        let notes: Vec<String> = (0..60).map(|_| format!("n{}", rng.u32(..))).collect();
        let mut rows = Vec::new();
        for note in &notes {
            let (id, other) = (rng.i64(0..15), rng.i64(0..15));
            let mut event = |id: i64, op: Op| {
                seq += 1;
                rows.push((vec![text(note), ColumnValue::Int(id)], seq, op));
            };
            match (model.contains_key(&id), rng.u8(0..3)) {
                (false, _) => {
                    event(id, Op::Create);
                    model.insert(id, note.clone());
                }
                (true, 0) => {
                    event(id, Op::Delete);
                    model.remove(&id);
                }
                // A change of the key is a delete and an insert.
                (true, 1) if !model.contains_key(&other) => {
                    event(id, Op::Delete);
                    event(other, Op::Create);
                    model.remove(&id);
                    model.insert(other, note.clone());
                }
                (true, _) => {
                    event(id, Op::Update);
                    model.insert(id, note.clone());
                }
            }
        }
        loads.push(t.body(&rows));
    }
    let mut order: Vec<usize> = (0..loads.len()).collect();
    rng.shuffle(&mut order);
    let mut loaded = Vec::new();
    for at in order {
        let part = u16::try_from(at).unwrap();
        loaded.push(t.load(&bed.client, &loads[at], label(part), TwoPhase::Yes).await.unwrap());
    }
    rng.shuffle(&mut loaded);
    for one in loaded {
        bed.commit(one).await;
    }
    let rows = bed.sql(&format!("SELECT `id`, `note` FROM `{}`.`orders` ORDER BY `id`", bed.database)).await;
    let seen: BTreeMap<i64, String> =
        rows.into_iter().map(|row| (row[0].as_deref().unwrap().parse().unwrap(), row[1].clone().unwrap())).collect();
    assert_eq!(seen, model);
    assert!(!model.is_empty());
    // Only the simulator counts it: a row that came with the sequence of a live row of other content.
    let Some(bed) = Bed::simulated("t22").await else { return };
    let t = bed.table(&small_schema(), "orders", Mode::Upsert).await;
    for (part, body) in (0_u16..).zip(&loads) {
        bed.commit(t.load(&bed.client, body, label(part), TwoPhase::Yes).await.unwrap()).await;
    }
    assert_eq!(bed.sim().sequence_conflicts(&bed.database, "orders"), 0);
}

/// `id`, a date and a time.
fn dated() -> TableSchema {
    let mut schema = small_schema();
    schema.columns.push(column("d", ColumnType::Date, true));
    schema.columns.push(column("at", ColumnType::DateTime { fsp: 6 }, true));
    schema
}

fn one_row(
    target: &TargetTable,
    schema: &TableSchema,
    invalid_date: InvalidDate,
    id: i64,
    date: Date,
) -> Result<Body, String> {
    let options = EncodeOptions { invalid_date, ..EncodeOptions::default() };
    let mut encoder = RowEncoder::new(schema, target, &options);
    let mut batch = Batch::new(target.mode);
    let meta = RowMeta { seq: id, op: Op::Create, gtid: None, file: "b.1", pos: 4, row: 0, ts_micros: None };
    let at = DateTime { date, hour: 1, minute: 2, second: 3, micros: 4 };
    let values = [text("n"), ColumnValue::Int(id), ColumnValue::Date(date), ColumnValue::DateTime(at)];
    match batch.push(&mut encoder, values.into_iter().enumerate(), &meta) {
        Ok(_) => Ok(batch.seal().unwrap()),
        Err(e) if e.is_invalid_date() => Err(format!("{}: {e}", e.column())),
        Err(e) => panic!("{e}"),
    }
}

/// Dates that Doris does not have become NULL or 1970-01-01, or are refused by their column's name, as configured; the first and
/// the last date that it has arrive as they are.
/// Conformance: T23
#[tokio::test]
async fn t23_dates_that_are_none() {
    let bed = Bed::new("t23").await;
    let schema = dated();
    let t = bed.table(&schema, "dates", Mode::Upsert).await;
    let date = |year, month, day| Date { year, month, day };
    let none = [date(0, 0, 0), date(2024, 0, 1), date(2024, 1, 0), date(2023, 2, 29), date(2024, 4, 31)];
    let (mut id, mut part) = (0, 0);
    let mut wanted = Vec::new();
    for (policy, wants) in [
        (InvalidDate::Null, [None, None]),
        (InvalidDate::Epoch, [Some("1970-01-01"), Some("1970-01-01 00:00:00.000000")]),
    ] {
        for bad in none {
            id += 1;
            part += 1;
            let body = one_row(&t.target, &schema, policy, id, bad).unwrap();
            bed.commit(t.load(&bed.client, &body, label(part), TwoPhase::Yes).await.unwrap()).await;
            wanted.push(wants.map(|w| w.map(str::to_owned)).to_vec());
        }
    }
    for (good, wants) in [
        (date(1, 1, 1), ["0001-01-01", "0001-01-01 01:02:03.000004"]),
        (date(9999, 12, 31), ["9999-12-31", "9999-12-31 01:02:03.000004"]),
        (date(2024, 2, 29), ["2024-02-29", "2024-02-29 01:02:03.000004"]),
    ] {
        id += 1;
        part += 1;
        let body = one_row(&t.target, &schema, InvalidDate::Fail, id, good).unwrap();
        bed.commit(t.load(&bed.client, &body, label(part), TwoPhase::Yes).await.unwrap()).await;
        wanted.push(wants.map(|w| Some(w.to_owned())).to_vec());
    }
    for bad in none {
        let error = one_row(&t.target, &schema, InvalidDate::Fail, 99, bad).unwrap_err();
        assert!(error.starts_with("d: ") && error.contains("on_invalid_date"), "{error}");
    }
    let seen = bed.sql(&format!("SELECT `d`, `at` FROM `{}`.`dates` ORDER BY `id`", bed.database)).await;
    assert_eq!(seen, wanted);
}

/// A VARCHAR holds four bytes for each character: 16383 of them fit, 16384 make it a STRING. A text that is a key stays a VARCHAR,
/// or is refused. A text over a MiB is refused by its column's name.
/// Conformance: T24
#[tokio::test]
async fn t24_lengths_of_text() {
    let bed = Bed::new("t24").await;
    let varchar = |chars: u32| ColumnType::VarChar { max_bytes: chars * 4 };
    let mut schema = small_schema();
    schema.columns.push(column("fits", varchar(16_383), true));
    schema.columns.push(column("grows", varchar(16_384), true));
    let t = bed.table(&schema, "texts", Mode::Upsert).await;
    let type_of = |name: &str| t.target.columns.iter().find(|c| c.name == name).unwrap().doris_type;
    assert_eq!((type_of("fits"), type_of("grows")), (DorisType::VarChar(65_532), DorisType::String));
    let (fits, grows) = ("🎈".repeat(16_383), "🎈".repeat(16_384));
    let mut encoder = RowEncoder::new(&schema, &t.target, &EncodeOptions::default());
    let mut batch = Batch::new(Mode::Upsert);
    let meta = RowMeta { seq: 1, op: Op::Create, gtid: None, file: "b.1", pos: 4, row: 0, ts_micros: None };
    let values = [text("n"), ColumnValue::Int(1), text(&fits), text(&grows)];
    batch.push(&mut encoder, values.into_iter().enumerate(), &meta).unwrap();
    let body = batch.seal().unwrap();
    bed.commit(t.load(&bed.client, &body, label(0), TwoPhase::Yes).await.unwrap()).await;
    let seen = bed.sql(&format!("SELECT `fits`, `grows` FROM `{}`.`texts`", bed.database)).await;
    assert_eq!(seen, [[Some(fits), Some(grows)]]);

    // A key may be no STRING.
    let keyed = |ty: ColumnType| {
        let mut schema = small_schema();
        schema.columns[1] = column("id", ty, false);
        TargetTable::plan(&schema, "d", "t", Mode::Upsert)
    };
    let planned = keyed(ColumnType::Text { length_bytes: 1 }).unwrap();
    assert_eq!(planned.keys().next().unwrap().doris_type, DorisType::VarChar(256));
    let refused = keyed(ColumnType::Text { length_bytes: 4 }).unwrap_err();
    assert!(refused.to_string().contains("`id`") && refused.to_string().contains("65533"), "{refused}");

    // Longer than a STRING of the cluster.
    let mut schema = small_schema();
    schema.columns.push(column("letter", ColumnType::Text { length_bytes: 4 }, true));
    let target = TargetTable::plan(&schema, &bed.database, "letters", Mode::Upsert).unwrap();
    let long = "x".repeat((1 << 20) + 1);
    let push = |options: &EncodeOptions| {
        let mut encoder = RowEncoder::new(&schema, &target, options);
        let values = [text("n"), ColumnValue::Int(7), text(&long)];
        Batch::new(Mode::Upsert).push(&mut encoder, values.into_iter().enumerate(), &meta).map(drop)
    };
    let error = push(&EncodeOptions::default()).unwrap_err();
    assert!(error.is_too_long() && error.column() == "letter", "{error}");
    push(&EncodeOptions { string_limit: 1 << 21, ..EncodeOptions::default() }).unwrap();
    assert_eq!(Charset::Utf8mb4, schema.columns[2].charset);
}
