//! MariaDB's events, made by hand where no log has them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use millstream_binlog::event::{EventBody, Inflater, MariaGtidEvent, RowsKind, TwoPhaseAlter, XaId};
use millstream_binlog::{Column, ColumnType, ColumnValue, Error, RowChange, TableSchema};

use super::{decode, decoder, event};

fn gtid(flags: u8, tail: &[u8], look: impl FnOnce(MariaGtidEvent<'_>)) -> Result<(), Error> {
    let mut body = [&42u64.to_le_bytes()[..], &7u32.to_le_bytes(), &[flags], tail].concat();
    if body.len() < 19 {
        body.resize(19, 0);
    }
    decode(162, &body, |body| match body {
        EventBody::MariaGtid(event) => look(event),
        other => panic!("{other:?}"),
    })
}

/// Conformance: E3, E11
#[test]
fn every_part_of_a_gtid_is_there_when_its_flag_is() {
    let commit = 0x0102_0304_0506_0708u64;
    let xid = [&1u32.to_le_bytes()[..], &[2, 1], b"gtb"].concat();
    let (standalone, group, transactional, ddl, prepared, completed) = (1, 2, 4, 32, 64, 128);
    gtid(standalone | ddl, &[], |e| {
        assert_eq!(e.gtid.to_string(), "7-0-42");
        assert!(e.is_standalone() && e.flags & MariaGtidEvent::DDL != 0);
        assert_eq!((e.commit_id, e.xid, e.extra_engines, e.alter, e.thread_id), (None, None, None, None, None));
    })
    .unwrap();
    gtid(group | transactional, &commit.to_le_bytes(), |e| assert_eq!((e.commit_id, e.xid), (Some(commit), None)))
        .unwrap();
    for flags in [prepared, completed, prepared | group] {
        let commit_id = if flags & group == 0 { vec![] } else { commit.to_le_bytes().to_vec() };
        gtid(flags, &[&commit_id[..], &xid].concat(), |e| {
            assert_eq!(e.xid, Some(XaId { format_id: 1, gtrid: b"gt", bqual: b"b" }));
            assert_eq!(e.xid.unwrap().to_string(), "X'6774',X'62',1");
            assert_eq!(e.commit_id.is_some(), flags & group != 0);
        })
        .unwrap();
    }
    let start = 41u64.to_le_bytes();
    for (tail, engines, alter, thread) in [
        (vec![1, 3], Some(3), None, None),
        (vec![2], None, Some(TwoPhaseAlter::Start), None),
        ([&[4][..], &start].concat(), None, Some(TwoPhaseAlter::Commit { start: 41 }), None),
        ([&[8][..], &start].concat(), None, Some(TwoPhaseAlter::Rollback { start: 41 }), None),
        (vec![16, 9, 0, 0, 0], None, None, Some(9)),
        (vec![17, 2, 9, 0, 0, 0], Some(2), None, Some(9)),
        ([&[16 | 4][..], &start, &[9, 0, 0, 0]].concat(), None, Some(TwoPhaseAlter::Commit { start: 41 }), Some(9)),
        // A flag of a later server after all that are known.
        (vec![16 | 32, 9, 0, 0, 0, 1, 2, 3], None, None, Some(9)),
    ] {
        gtid(0, &tail, |e| assert_eq!((e.extra_engines, e.alter, e.thread_id), (engines, alter, thread))).unwrap();
    }
}

/// Conformance: P3
/// Bug: 122
#[test]
fn a_gtid_whose_parts_are_not_there_is_an_error() {
    let long = [&1u32.to_le_bytes()[..], &[65, 1], &[b'x'; 66]].concat();
    let short = [&1u32.to_le_bytes()[..], &[64, 64], &[b'x'; 100]].concat();
    for (flags, tail) in [(64, &long), (128, &long), (64, &short)] {
        assert!(gtid(flags, tail, |_| ()).unwrap_err().is_malformed());
    }
    // As in the file of MDEV-39404: lengths of 180 bytes and no such id.
    let file = [&1u32.to_le_bytes()[..], &[0xb4, 0x33, 1], &[0xff; 300]].concat();
    assert!(gtid(0x40, &file, |_| ()).unwrap_err().is_malformed());
    for body in [&[][..], &[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0], &[0; 19], &[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0]]
    {
        assert!(decode(162, body, |_| ()).unwrap_err().is_malformed(), "{body:02x?}");
    }
    let thread = [&42u64.to_le_bytes()[..], &7u32.to_le_bytes(), &[0, 16, 9, 0]].concat();
    assert!(decode(162, &thread, |_| ()).unwrap_err().is_malformed());
}

/// Conformance: E4
/// Bug: 68
#[test]
fn a_list_of_gtids_has_all_domains_and_the_last_server_of_each() {
    let entry = |domain: u32, server: u32, sequence: u64| {
        [&domain.to_le_bytes()[..], &server.to_le_bytes(), &sequence.to_le_bytes()].concat()
    };
    let three = [entry(0, 2, 5), entry(0, 1, 9), entry(4_000_000_000, 1, u64::MAX)].concat();
    let list = |word: u32, entries: &[u8]| {
        decode(163, &[&word.to_le_bytes()[..], entries].concat(), |body| match body {
            EventBody::GtidList(list) => {
                let all: Vec<_> = list.iter().map(|g| g.to_string()).collect();
                (list.flags, all.join(","), list.state().pos().to_string())
            }
            other => panic!("{other:?}"),
        })
    };
    let (flags, all, pos) = list(0x3000_0003, &three).unwrap();
    assert_eq!((flags, all.as_str()), (3, "0-2-5,0-1-9,4000000000-1-18446744073709551615"));
    assert_eq!(pos, "0-1-9,4000000000-1-18446744073709551615");
    assert_eq!(list(0, &[]).unwrap().1, "");
    assert_eq!(list(0, &[0, 0]).unwrap().1, "");
    for (word, entries) in
        [(4, &three[..]), (2, &three), (0x0fff_ffff, &three), (3, &three[1..]), (0, &[0]), (1, &[0, 0])]
    {
        assert!(list(word, entries).unwrap_err().is_malformed(), "{word}");
    }
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// The form of compressed data, with a size of as many bytes as wanted.
fn packed(data: &[u8], size: u64, bytes: usize) -> Vec<u8> {
    let head = 0x80 | u8::try_from(bytes).unwrap();
    [&[head][..], &size.to_be_bytes()[8 - bytes..], &zlib(data)].concat()
}

fn open(ty: u8, body: &[u8], max: usize, look: impl FnOnce(EventBody<'_>)) -> Result<(), Error> {
    let raw = event(ty, body);
    let mut inflater = Inflater::new(max);
    look(decoder(millstream_binlog::event::Checksum::None).decode(&raw)?.inflate(&mut inflater)?.body);
    Ok(())
}

fn query(sql: &[u8]) -> Vec<u8> {
    [&[3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 5, 0, 0, 1, 2, 3, 4][..], b"db\0", sql].concat()
}

/// Conformance: E10
#[test]
fn a_compressed_statement_opens_whatever_the_width_of_its_size() {
    let sql = "INSERT INTO t VALUES (1)".repeat(20_000);
    for bytes in 3..=7 {
        open(165, &query(&packed(sql.as_bytes(), sql.len() as u64, bytes)), 1 << 20, |body| {
            let EventBody::Query(query) = body else { panic!("{body:?}") };
            assert_eq!((query.sql, query.schema, query.thread_id), (sql.as_bytes(), &b"db"[..], 3));
        })
        .unwrap();
    }
    open(165, &query(&packed(b"", 0, 1)), 0, |body| assert!(matches!(body, EventBody::Query(q) if q.sql.is_empty())))
        .unwrap();
}

/// Conformance: P3
/// Bug: 120
#[test]
fn a_size_that_is_not_so_and_data_that_is_no_zlib_are_errors() {
    let sql = [b'x'; 1000];
    let good = packed(&sql, 1000, 2);
    let fails = |sql: &[u8], max: usize| open(165, &query(sql), max, |_| ()).unwrap_err();
    // Nearly 4 GiB in four bytes: over the limit before anything is made room for, and untrue under a limit of 8 GiB.
    let huge = packed(&sql, 0xffff_fff0, 4);
    assert!(fails(&huge, 1 << 30).is_limit());
    assert!(fails(&huge, 1 << 33).is_malformed());
    assert!(fails(&packed(&sql, u64::MAX >> 8, 7), usize::MAX).is_malformed());
    assert!(fails(&good, 999).is_limit());
    for size in [0, 1, 999, 1001] {
        assert!(fails(&packed(&sql, size, 2), 1 << 20).is_malformed(), "{size}");
    }
    // No header, no width, another algorithm, cut data, data behind the end.
    assert!(fails(&[], 10).is_malformed());
    assert!(fails(&good[1..], 1 << 20).is_malformed());
    assert!(fails(&[0x80, 1], 10).is_malformed());
    assert!(fails(&[&[0x92][..], &good[1..]].concat(), 1 << 20).is_unsupported());
    for end in 0..good.len() {
        assert!(fails(&good[..end], 1 << 20).is_malformed(), "{end}");
    }
    assert!(fails(&[&good[..], &[0]].concat(), 1 << 20).is_malformed());
    let mut broken = good.clone();
    broken[4] ^= 0x55;
    assert!(fails(&broken, 1 << 20).is_malformed());
    // An inflater is as new after an error.
    let mut inflater = Inflater::new(1 << 20);
    let mut decoder = decoder(millstream_binlog::event::Checksum::None);
    for (data, ok) in [(&broken, false), (&good, true), (&good[..20].to_vec(), false), (&good, true)] {
        let raw = event(165, &query(data));
        assert_eq!(decoder.decode(&raw).unwrap().inflate(&mut inflater).is_ok(), ok);
    }
}

fn schema() -> TableSchema {
    let column = |name: &str| Column {
        name: name.into(),
        ty: ColumnType::Int { unsigned: false },
        nullable: true,
        charset: millstream_binlog::Charset::Binary,
        collation: 63,
    };
    TableSchema { database: "d".into(), table: "t".into(), columns: vec![column("a"), column("b")], key: vec![0] }
}

/// Conformance: E10
/// Bug: 67
#[test]
fn compressed_rows_of_both_versions_open_to_their_images() {
    // Two rows of (null bitmap, two INTs); an UPDATE has two images to a row.
    let image = |n: i32| [&[0][..], &n.to_le_bytes(), &(n + 1).to_le_bytes()].concat();
    for (ty, kind) in [
        (166, RowsKind::Write),
        (167, RowsKind::Update),
        (168, RowsKind::Delete),
        (169, RowsKind::Write),
        (170, RowsKind::Update),
        (171, RowsKind::Delete),
    ] {
        let images: Vec<u8> = (0..4).flat_map(image).collect();
        let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0];
        if ty >= 169 {
            body.extend_from_slice(&[5, 0, 1, 7, 0]);
        }
        body.push(2);
        body.extend_from_slice(if kind == RowsKind::Update { &[3, 3] } else { &[3] });
        body.extend_from_slice(&packed(&images, images.len() as u64, 1));
        open(ty, &body, 1 << 20, |body| {
            let EventBody::Rows(rows) = body else { panic!("{body:?}") };
            assert_eq!((rows.kind, rows.table_id, rows.is_statement_end(), rows.columns), (kind, 9, true, 2));
            assert_eq!(rows.extra, if ty >= 169 { &[1, 7, 0][..] } else { &[] });
            let schema = schema();
            let mut values = Vec::new();
            for change in rows.rows(&schema) {
                let mut row = |row: millstream_binlog::Row<'_, '_>| {
                    assert!(matches!(row.value(1), Some(ColumnValue::Int(_))));
                    let Some(ColumnValue::Int(n)) = row.value(0) else { panic!() };
                    values.push(n);
                };
                match change.unwrap() {
                    RowChange::Insert(r) | RowChange::Delete(r) => row(r),
                    RowChange::Update { before, after } => {
                        row(before);
                        row(after);
                    }
                }
            }
            assert_eq!(values, [0, 1, 2, 3]);
        })
        .unwrap();
        // What is known without opening.
        decode(ty, &body, |body| {
            let EventBody::CompressedRows(rows) = body else { panic!("{body:?}") };
            assert_eq!((rows.kind(), rows.table_id(), rows.is_statement_end()), (kind, 9, true));
        })
        .unwrap();
    }
}

/// Conformance: E15
/// Bug: 121
#[test]
fn the_start_of_encryption_says_nothing_in_a_stream_and_fragments_are_refused_by_name() {
    let start = [&[1][..], &2u32.to_le_bytes(), &[7; 12]].concat();
    decode(164, &start, |body| match body {
        EventBody::StartEncryption(start) => {
            assert_eq!((start.scheme, start.key_version, start.nonce), (1, 2, [7; 12]));
        }
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert!(decode(164, &start[1..], |_| ()).unwrap_err().is_malformed());
    // A fragment that says it is the first of a row event of 10 bytes, and has more.
    let fragment = [&2u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[1], &10u64.to_le_bytes(), &[0; 400]].concat();
    let error = decode(172, &fragment, |_| ()).unwrap_err();
    assert!(error.is_unsupported());
    assert_eq!(
        error.to_string(),
        "PARTIAL_ROW_DATA (172) event ending at log position 0: a row event in fragments \
         (binlog_row_event_fragment_threshold) is not supported"
    );
}

#[test]
fn a_checkpoint_names_a_file_of_this_folder() {
    let body = |n: u32, name: &[u8]| [&n.to_le_bytes()[..], name].concat();
    decode(161, &body(11, b"mbin.000007"), |body| {
        assert!(matches!(body, EventBody::BinlogCheckpoint("mbin.000007")), "{body:?}");
    })
    .unwrap();
    for (n, name) in [(10, &b"mbin.000007"[..]), (12, b"mbin.000007"), (u32::MAX, b"x"), (3, b"../"), (0, b"")] {
        assert!(decode(161, &body(n, name), |_| ()).unwrap_err().is_malformed(), "{name:?}");
    }
}
