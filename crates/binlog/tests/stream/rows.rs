//! Row events of every version, with what stands before their rows.

use millstream_binlog::event::{Checksum, EventBody, RowsExtra, RowsKind};
use millstream_wire::codec::ParseErrorKind;

use super::{decode, decoder, event};

/// Conformance: E6
/// Bug: 44, 45
#[test]
fn what_ndb_and_partitions_add_is_read_and_passed_over_by_its_length() {
    let ndb = [0, 10, 1, b'n', b'd', b'b', 0, 1, 2, 3, 4];
    let partition = |id, source| Ok(RowsExtra::Partition { id, source });
    let of_ndb = || Ok(RowsExtra::Ndb { format: 1, data: &ndb[3..] });
    let unsupported = || Err(ParseErrorKind::Unsupported);
    for (ty, kind, extra, parts) in [
        (30, RowsKind::Write, &[][..], vec![]),
        (30, RowsKind::Write, &ndb, vec![of_ndb()]),
        // An UPDATE names the partition that the row leaves, too.
        (30, RowsKind::Write, &[1, 7, 0], vec![partition(7, None)]),
        (31, RowsKind::Update, &[1, 7, 0, 6, 0], vec![partition(7, Some(6))]),
        (32, RowsKind::Delete, &[1, 0xff, 0x1f], vec![partition(0x1fff, None)]),
        (32, RowsKind::Delete, &[&ndb[..], &[1, 7, 0]].concat(), vec![of_ndb(), partition(7, None)]),
        // Of a later server.
        (30, RowsKind::Write, &[1, 7, 0, 9, 1, 2, 3], vec![partition(7, None), unsupported()]),
        // Not so.
        (30, RowsKind::Write, &[0, 1, 1], vec![Err(ParseErrorKind::BadLength)]),
        (30, RowsKind::Write, &[0, 9, 1, 0], vec![Err(ParseErrorKind::Short { need: 7 })]),
        (31, RowsKind::Update, &[1, 7, 0], vec![Err(ParseErrorKind::Short { need: 2 })]),
    ] {
        let length = u16::try_from(extra.len() + 2).unwrap().to_le_bytes();
        let bitmaps: &[u8] = if kind == RowsKind::Update { &[1, 1] } else { &[1] };
        let body = [&[5, 0, 0, 0, 0, 1, 17, 0][..], &length, extra, &[1], bitmaps, &[0, 1, 2, 3, 4]].concat();
        decode(ty, &body, |body| {
            let EventBody::Rows(rows) = body else { panic!("{body:?}") };
            assert_eq!((rows.kind, rows.table_id, rows.flags, rows.columns), (kind, 0x0100_0000_0005, 17, 1));
            assert_eq!((rows.extra, rows.data()), (extra, &[0, 1, 2, 3, 4][..]));
            let read: Vec<_> = rows.extra_parts().map(|p| p.map_err(|e| e.kind)).collect();
            assert_eq!(read, parts);
        })
        .unwrap();
    }
}

/// Conformance: P3
/// Bug: 118
#[test]
fn lengths_of_extra_data_that_are_not_so_are_errors() {
    for extra in [&[0, 0][..], &[1, 0], &[200, 0, 1, 2], &[0xff, 0xff]] {
        for ty in [30, 31, 32] {
            let body = [&[5, 0, 0, 0, 0, 0, 1, 0][..], extra].concat();
            assert!(decode(ty, &body, |_| ()).unwrap_err().is_malformed(), "{extra:?}");
        }
    }
    // A FORMAT_DESCRIPTION that ends too early.
    for n in 0..30 {
        let body = [&[4, 0][..], b"8.0.40", &[0; 22]].concat();
        assert!(decode(15, &body[..n], |_| ()).unwrap_err().is_malformed());
    }
}

/// Version 1 has neither extra data nor, in old logs, table ids of six bytes.
///
/// Conformance: E6
#[test]
fn table_ids_of_four_and_six_bytes() {
    let table_map = |id: &[u8]| [id, &[1, 0, 1, b'd', 0, 1, b't', 0, 1, 3, 0, 0]].concat();
    let rows = |id: &[u8]| [id, &[1, 0, 1, 1, 0, 1, 2, 3, 4]].concat();
    for (id, post_header) in [(&[5, 0, 0, 1][..], 6), (&[5, 0, 0, 1, 0, 0], 8)] {
        let mut fde = vec![4, 0];
        fde.extend_from_slice(b"5.1.73-log");
        fde.resize(52, 0);
        fde.extend_from_slice(&[0, 0, 0, 0, 19]);
        let mut lengths = [0; 27];
        lengths[18] = post_header;
        lengths[22..25].fill(post_header);
        fde.extend_from_slice(&lengths);
        let mut decoder = decoder(Checksum::None);
        decoder.decode(&event(15, &fde)).unwrap();
        let raw = event(19, &table_map(id));
        let EventBody::TableMap(map) = decoder.decode(&raw).unwrap().body else { panic!() };
        assert_eq!((map.table_id, map.database, map.table), (0x0100_0005, "d", "t"));
        let schema = map.schema().unwrap();
        for ty in [23, 25] {
            let raw = event(ty, &rows(id));
            let EventBody::Rows(rows) = decoder.decode(&raw).unwrap().body else { panic!() };
            assert_eq!((rows.table_id, rows.rows(&schema).count()), (0x0100_0005, 1));
        }
    }
}

/// Conformance: E6
#[test]
fn rows_of_5_1_pre_releases_are_refused_by_name() {
    for ty in [20, 21, 22] {
        let error = decode(ty, &[5, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 2, 3, 4], |_| ()).unwrap_err();
        assert!(error.is_unsupported());
        assert!(error.to_string().ends_with("a row event of a 5.1 pre-release is not supported"), "{error}");
    }
}
