//! Every type code: what it becomes, and by which rule it is left out.

use millstream_binlog::event::{EventBody, IntVarKind, UserValueKind};
use millstream_binlog::{DecoderOptions, EventDecoder, EventType};

use super::{decode, event};

/// A body that the type allows, and the variant that it becomes; `None` for types that are refused by name.
fn sample(ty: u8) -> (Vec<u8>, Option<&'static str>) {
    let rows = |v2: bool, update: bool| {
        let mut body = vec![5, 0, 0, 0, 0, 0, 1, 0];
        body.extend_from_slice(if v2 { &[2, 0] } else { &[] });
        body.extend_from_slice(if update { &[1, 1, 1] } else { &[1, 1] });
        body
    };
    let gtid = [&[1][..], &[7; 16], &9u64.to_le_bytes()].concat();
    let query = [&[0; 8][..], &[1, 0, 0, 0, 0], b"d\0SELECT 1"].concat();
    let load_query = [&[0; 8][..], &[1, 0, 0, 0, 0], &[0; 13], b"d\0LOAD DATA"].concat();
    let fde = [&[4, 0][..], b"5.1.73", &[0; 44], &[0, 0, 0, 0, 19], &[0; 27]].concat();
    let tagged = {
        let uuid = [2; 16];
        // Version 1, size, nothing must be known; flags, uuid, number, tag.
        let fields = [&[0, 0, 2][..], &uuid, &[4, 4, 6, 2, b't']].concat();
        let size = u8::try_from(fields.len() + 3).unwrap();
        [&[2, size << 1, 0][..], &fields].concat()
    };
    let payload = vec![2, 3, 0xfc, 255, 0, 0];
    let (body, variant) = match ty {
        2 => (query, "Query"),
        3 => (vec![], "Stop"),
        4 => ([&[4, 0, 0, 0, 0, 0, 0, 0][..], b"b.1"].concat(), "Rotate"),
        5 => (vec![1, 1, 0, 0, 0, 0, 0, 0, 0], "IntVar"),
        13 => (vec![0; 16], "Rand"),
        14 => (vec![1, 0, 0, 0, b'v', 1], "UserVar"),
        15 => (fde, "FormatDescription"),
        16 => (vec![0; 8], "Xid"),
        9 | 11 | 17 | 28 | 36 | 37 | 99 | 100 => (vec![], "Ignored"),
        18 => (load_query, "ExecuteLoadQuery"),
        19 => (vec![5, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 1, 3, 0, 0], "TableMap"),
        23 | 25 => (rows(false, false), "Rows"),
        24 => (rows(false, true), "Rows"),
        30 | 32 => (rows(true, false), "Rows"),
        31 => (rows(true, true), "Rows"),
        26 => (vec![1, 0, 2, b'n', b'o'], "Incident"),
        27 => (b"b.1".to_vec(), "Heartbeat"),
        41 => (vec![1, 3, b'b', b'.', b'1', 2, 1, 4, 0], "Heartbeat"),
        29 => (vec![1, b'S'], "RowsQuery"),
        160 => (vec![b'S'], "RowsQuery"),
        33 | 34 => (gtid, "Gtid"),
        42 => (tagged, "Gtid"),
        35 => (vec![0; 8], "PreviousGtids"),
        38 => (vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'g'], "XaPrepare"),
        39 => (rows(true, true), "Rows"),
        40 => (payload, "TransactionPayload"),
        161 => (vec![1, 0, 0, 0, b'b'], "BinlogCheckpoint"),
        162 => ([&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0; 11]].concat(), "MariaGtid"),
        163 => (vec![0; 4], "GtidList"),
        164 => (vec![0; 17], "StartEncryption"),
        165 => (query, "CompressedQuery"),
        166 | 168 => (rows(false, false), "CompressedRows"),
        167 => (rows(false, true), "CompressedRows"),
        169 | 171 => (rows(true, false), "CompressedRows"),
        170 => (rows(true, true), "CompressedRows"),
        _ => return (vec![], None),
    };
    (body, Some(variant))
}

/// Bug: 89
#[test]
fn every_type_code_becomes_its_own_event_or_an_error_with_its_name() {
    let mut refused = Vec::new();
    for ty in 0..=255 {
        let (body, variant) = sample(ty);
        let name = EventType(ty).name();
        match (decode(ty, &body, |body| format!("{body:?}")), variant) {
            (Ok(text), Some(variant)) => {
                assert_ne!(name, "UNKNOWN", "{ty}");
                let first = text.split(|c: char| !c.is_ascii_alphanumeric()).next();
                assert_eq!(first, Some(variant), "{name}: {text}");
            }
            (Err(e), None) => {
                assert!(e.is_unsupported() && e.to_string().starts_with(&format!("{name} ({ty}) event")), "{e}");
                if name != "UNKNOWN" {
                    refused.push((ty, e.to_string().split(": ").nth(1).unwrap().to_owned()));
                }
            }
            (done, expected) => panic!("{name} ({ty}): {done:?}, not {expected:?}"),
        }
    }
    let old = "a log of MySQL 4 is not supported";
    let pre_release = "a row event of a 5.1 pre-release is not supported";
    let fragments = "a row event in fragments (binlog_row_event_fragment_threshold) is not supported";
    let expected = [(1, old), (6, old), (7, old), (8, old), (10, old), (12, old)];
    let expected = expected.into_iter().chain([20, 21, 22].map(|ty| (ty, pre_release))).chain([(172, fragments)]);
    assert_eq!(refused, expected.map(|(ty, why)| (ty, why.to_owned())).collect::<Vec<_>>());
}

/// Conformance: E14, E12
/// Bug: 87, 88
#[test]
fn events_that_are_left_out_are_so_by_a_rule_with_a_name() {
    let rule = |ty: u8, flags: u16, body: &[u8]| {
        let mut raw = event(ty, body);
        raw[17..19].copy_from_slice(&flags.to_le_bytes());
        let decoded = EventDecoder::new(DecoderOptions::default()).decode(&raw).map(|e| match e.body {
            EventBody::Ignored { rule } => rule,
            other => panic!("{other:?}"),
        });
        decoded.map_err(|e| e.to_string())
    };
    // A view change as group replication writes it: view id, sequence, and certification info of one pair.
    let mut view = b"16632371-1:2".to_vec();
    view.resize(40, 0);
    view.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, b'k', 1, 0, 0, 0, b'v']);
    assert_eq!(rule(37, 0, &view), Ok("group-replication"));
    assert_eq!(rule(36, 0, &[0; 60]), Ok("group-replication"));
    for flags in [0, 0x80] {
        assert_eq!(rule(99, flags, &[b'*'; 900]), Ok("aurora"));
        assert_eq!(rule(100, flags, &[b'*'; 900]), Ok("aurora"));
        assert_eq!(rule(28, flags, &[1]), Ok("ignorable"));
        for ty in [9, 11, 17] {
            assert_eq!(rule(ty, flags, &[0; 8]), Ok("load-data-block"));
        }
    }
    // Types of servers to come: by their flag alone.
    for ty in [43, 50, 98, 101, 159, 173, 255] {
        assert_eq!(rule(ty, 0x80, &[1, 2, 3]), Ok("unknown-ignorable"));
        let text =
            format!("UNKNOWN ({ty}) event ending at log position 0: unknown event type without the IGNORABLE flag");
        assert_eq!(rule(ty, 0, &[1, 2, 3]), Err(text));
    }
}

/// Conformance: E12
#[test]
fn what_a_statement_depends_on_is_read() {
    let eight = 0x0807_0605_0403_0201u64.to_le_bytes();
    for (ty, kind) in [(1, IntVarKind::LastInsertId), (2, IntVarKind::InsertId)] {
        decode(5, &[&[ty][..], &eight].concat(), |body| match body {
            EventBody::IntVar(var) => assert_eq!((var.kind, var.value), (kind, 0x0807_0605_0403_0201)),
            other => panic!("{other:?}"),
        })
        .unwrap();
    }
    decode(13, &[eight, [1, 0, 0, 0, 0, 0, 0, 0]].concat(), |body| match body {
        EventBody::Rand(rand) => assert_eq!(rand.seeds, [0x0807_0605_0403_0201, 1]),
        other => panic!("{other:?}"),
    })
    .unwrap();
    let name = [&[3, 0, 0, 0][..], b"var"].concat();
    let value = |ty: u8, bytes: &[u8], tail: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        [&name[..], &[0, ty, 45, 0, 0, 0], &length, bytes, tail].concat()
    };
    for (ty, kind) in
        [(0, UserValueKind::String), (1, UserValueKind::Real), (2, UserValueKind::Int), (4, UserValueKind::Decimal)]
    {
        // Logs before 5.6 end before the flags; MariaDB goes on after them.
        for (tail, unsigned) in
            [(&[][..], false), (&[0], false), (&[1], true), (&[1, 0, 4, b'i', b'n', b'e', b't'], true)]
        {
            decode(14, &value(ty, &eight, tail), |body| match body {
                EventBody::UserVar(var) => {
                    let value = var.value.unwrap();
                    assert_eq!((var.name, value.kind, value.collation), (&b"var"[..], kind, 45));
                    assert_eq!((value.bytes, value.unsigned), (&eight[..], unsigned));
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
        }
    }
    decode(14, &[&name[..], &[1]].concat(), |body| match body {
        EventBody::UserVar(var) => assert_eq!(var.value, None),
        other => panic!("{other:?}"),
    })
    .unwrap();
    for (ty, body) in [
        (5, vec![3; 9]),
        (5, vec![1; 8]),
        (5, vec![1; 10]),
        (13, vec![0; 15]),
        (14, value(3, &eight, &[])),
        (14, [&[0xff, 0xff, 0xff, 0xff][..], b"var"].concat()),
        (14, [&name[..], &[0, 0, 45, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 1]].concat()),
        (26, vec![1, 0, 9, b'x']),
    ] {
        assert!(decode(ty, &body, |_| ()).unwrap_err().is_malformed(), "{ty}: {body:02x?}");
    }
    // LOAD DATA as a statement: 13 bytes more before the variables.
    let load = [&[3, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0][..], &[7; 13], b"d\0LOAD DATA"].concat();
    decode(18, &load, |body| match body {
        EventBody::ExecuteLoadQuery(query) => assert_eq!((query.sql, query.error_code), (&b"LOAD DATA"[..], 9)),
        other => panic!("{other:?}"),
    })
    .unwrap();
    decode(26, &[1, 0, 2, b'n', b'o'], |body| match body {
        EventBody::Incident { number, message } => assert_eq!((number, message), (1, &b"no"[..])),
        other => panic!("{other:?}"),
    })
    .unwrap();
}
