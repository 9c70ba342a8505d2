//! Events as they came over real connections, from recordings of dumps, and events made by hand.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod common;
#[path = "stream/maria.rs"]
mod maria;
#[path = "stream/positions.rs"]
mod positions;
#[path = "stream/recordings.rs"]
mod recordings;
#[path = "stream/rows.rs"]
mod rows;
#[path = "stream/table_map.rs"]
mod table_map;
#[path = "stream/types.rs"]
mod types;

use std::collections::BTreeMap;

use common::corpus;
use millstream_binlog::event::{Checksum, EventBody};
use millstream_binlog::{DecoderOptions, Error, EventDecoder};

/// The event packets of a recording. Anything else of the session does not look like an event: its length field does
/// not fit.
fn events(recording: &str) -> Option<Vec<Vec<u8>>> {
    events_of("mysql-9.7.4", recording)
}

/// The same of any server.
fn events_of(server: &str, recording: &str) -> Option<Vec<Vec<u8>>> {
    let bytes = std::fs::read(corpus("generated/wire")?.join(server).join(recording).with_extension("s2c")).unwrap();
    let mut out = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(([a, b, c, _], tail)) = rest.split_first_chunk::<4>() {
        let n = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let (payload, tail) = tail.split_at(n.min(tail.len()));
        rest = tail;
        let fits = |e: &&[u8]| e.get(9..13).is_some_and(|l| l == u32::try_from(e.len()).unwrap().to_le_bytes());
        // A plain packet, or one with the semi-sync bytes.
        let plain = payload.strip_prefix(&[0]).filter(fits);
        let semi_sync = payload.strip_prefix(&[0, 0xef]).and_then(|p| p.get(1..)).filter(fits);
        out.extend(plain.or(semi_sync).map(<[u8]>::to_vec));
    }
    Some(out)
}

fn decoder(stream_checksum: Checksum) -> EventDecoder {
    EventDecoder::new(DecoderOptions { stream_checksum: Some(stream_checksum), ..DecoderOptions::default() })
}

/// Events per type.
fn count(recording: &str, checksum: Checksum) -> Option<Result<BTreeMap<u8, usize>, Error>> {
    let mut decoder = decoder(checksum);
    let mut counts = BTreeMap::new();
    for raw in events(recording)? {
        match decoder.decode(&raw) {
            Ok(event) => *counts.entry(event.header.event_type.0).or_default() += 1,
            Err(e) => return Some(Err(e)),
        }
    }
    Some(Ok(counts))
}

/// Conformance: D4
/// Bug: 78
#[test]
fn dumps_decode_with_the_negotiated_checksum() {
    let all = |list: &[(u8, usize)]| list.iter().copied().collect::<BTreeMap<_, _>>();
    let types = all(&[(4, 3), (15, 2), (35, 2), (33, 70), (2, 71), (19, 39), (30, 30), (16, 36), (31, 7), (32, 4)]);
    for (recording, checksum) in [("dump-crc32", Checksum::Crc32), ("dump-checksum-none", Checksum::None)] {
        let Some(counts) = count(recording, checksum) else { return };
        assert_eq!(counts.unwrap(), types, "{recording}");
    }
    let gtid = all(&[(4, 7), (15, 4), (35, 4), (33, 101), (2, 103), (19, 61), (30, 44), (16, 55), (31, 13), (32, 8)]);
    assert_eq!(count("dump-gtid-empty-set", Checksum::Crc32).unwrap().unwrap(), gtid);
    let semi_sync = count("dump-semisync", Checksum::Crc32).unwrap().unwrap();
    assert_eq!(semi_sync[&4], 5);
}

/// Conformance: D4
/// Bug: 77
#[test]
fn the_first_rotate_follows_the_negotiation_and_nothing_else_does() {
    // The source has no checksum to say yet: what was agreed on holds.
    let Some(packets) = events("dump-checksum-none") else { return };
    assert!(decoder(Checksum::Crc32).decode(&packets[0]).unwrap_err().is_checksum());
    let mut decoder = decoder(Checksum::None);
    let EventBody::Rotate(rotate) = decoder.decode(&packets[0]).unwrap().body else { panic!() };
    assert_eq!(rotate.position, 4);
    assert!(!rotate.file.is_empty() && rotate.file.bytes().all(|b| b.is_ascii_graphic()), "{}", rotate.file);
    // The file's events have checksums although none were asked for.
    let EventBody::FormatDescription(fde) = decoder.decode(&packets[1]).unwrap().body else { panic!() };
    assert_eq!(fde.checksum, Checksum::Crc32);
    let mut damaged = packets[2].clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(decoder.decode(&damaged).unwrap_err().is_checksum());
    decoder.decode(&packets[2]).unwrap();
}

/// Conformance: D5
#[test]
fn heartbeats_name_file_and_position() {
    let mut seen = Vec::new();
    for (recording, is_whole) in [("dump-heartbeat", false), ("dump-heartbeat-v2", true)] {
        let Some(packets) = events(recording) else { return };
        let mut decoder = decoder(Checksum::Crc32);
        let mut file = String::new();
        let mut beats = 0;
        for raw in &packets {
            match decoder.decode(raw).unwrap().body {
                EventBody::Rotate(rotate) => file = rotate.file.to_owned(),
                EventBody::Heartbeat(beat) => {
                    assert_eq!((beat.file, beat.is_whole), (file.as_str(), is_whole));
                    seen.push(beat.position);
                    beats += 1;
                }
                _ => {}
            }
        }
        assert_eq!(beats, 5);
    }
    assert!(seen.iter().all(|p| *p > 4), "{seen:?}");
}

/// An event of the given type around `body`.
fn event(ty: u8, body: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 19];
    raw[4] = ty;
    raw.extend_from_slice(body);
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    raw
}

fn decode<T>(ty: u8, body: &[u8], look: impl FnOnce(EventBody<'_>) -> T) -> Result<T, Error> {
    let raw = event(ty, body);
    decoder(Checksum::None).decode(&raw).map(|e| look(e.body))
}

/// Conformance: P3
/// Bug: 79
#[test]
fn file_names_that_lead_elsewhere_are_refused() {
    let long = "x".repeat(513);
    for (name, ok) in [
        ("binlog.000001", true),
        ("", false),
        ("../etc/passwd", false),
        ("a\\b", false),
        ("a\0b", false),
        (&"x".repeat(512), true),
        (&long, false),
    ] {
        let body = [&4u64.to_le_bytes()[..], name.as_bytes()].concat();
        assert_eq!(decode(4, &body, |_| ()).is_ok(), ok, "{name:?}");
        assert_eq!(decode(27, name.as_bytes(), |_| ()).is_ok(), ok, "{name:?}");
    }
}

/// Conformance: D5, D9
/// Bug: 81
#[test]
fn positions_over_four_gigabytes_come_whole_in_the_second_heartbeat() {
    let body = [&[1, 8][..], b"bin.0001", &[2, 9, 0xfe], &5_000_000_000u64.to_le_bytes(), &[0]].concat();
    let position = decode(41, &body, |body| match body {
        EventBody::Heartbeat(beat) => beat.position,
        other => panic!("{other:?}"),
    });
    assert_eq!(position.unwrap(), 5_000_000_000);
}

/// Conformance: E13
/// Bug: 66
#[test]
fn a_long_rows_query_is_whole_whatever_its_length_byte_says() {
    let body = [&[144][..], "x".repeat(400).as_bytes()].concat();
    let n = decode(29, &body, |body| match body {
        EventBody::RowsQuery(sql) => sql.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(n.unwrap(), 400);
}

/// Conformance: E2
/// Bug: 65
#[test]
fn a_statement_may_have_bytes_of_any_charset() {
    let sql = [0xd3, 0xc3, 0xbb, 0xa7];
    // thread, time, schema length, error, status length; status 4 says gbk (28); schema; SQL.
    let body = [&[0; 8][..], &[2, 0, 0, 7, 0], &[4, 28, 0, 28, 0, 8, 0], b"db\0", &sql].concat();
    decode(2, &body, |body| {
        let EventBody::Query(query) = body else { panic!("{body:?}") };
        assert_eq!((query.sql, query.schema), (&sql[..], &b"db"[..]));
        assert_eq!(query.status.client_charset(), Some(28));
    })
    .unwrap();
}

/// Conformance: E3
/// Bug: 74
#[test]
fn gtids_of_every_length_of_body() {
    let uuid = [7; 16];
    let base = [&[1][..], &uuid, &9u64.to_le_bytes(), &[2], &5u64.to_le_bytes(), &6u64.to_le_bytes()].concat();
    // 5.6 ends after the number, 5.7 after the clock, 8.0 goes on with times and the length.
    for (body, sequence, length) in [
        (base[..25].to_vec(), 0, 0),
        (base.clone(), 6, 0),
        ([&base[..], &[1, 2, 3, 4, 5, 6, 0], &[0xfe], &3_000_000_000u64.to_le_bytes()].concat(), 6, 3_000_000_000),
        ([&base[..], &[1, 2, 3, 4, 5, 6, 0x80], &[9; 7], &[0xfc, 0, 1]].concat(), 6, 256),
    ] {
        decode(33, &body, |event| {
            let EventBody::Gtid(event) = event else { panic!("{event:?}") };
            assert_eq!(
                (event.gtid.unwrap().gno, event.sequence_number, event.transaction_length),
                (9, sequence, length)
            );
        })
        .unwrap();
        decode(34, &body, |event| {
            let EventBody::Gtid(event) = event else { panic!("{event:?}") };
            assert_eq!(event.gtid, None);
        })
        .unwrap();
    }
    let mut zero = base;
    zero[17] = 0;
    assert!(decode(33, &zero, |_| ()).unwrap_err().is_malformed());
}

/// Conformance: E11
#[test]
fn an_xa_id_prints_as_in_the_servers_statements() {
    let (_, log) = common::fixtures().into_iter().find(|(name, _)| name == "xa").unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut file = millstream_binlog::BinlogFile::new(log.as_slice(), common::LIMIT).unwrap();
    let mut started = Vec::new();
    let mut prepared = Vec::new();
    while let Some(raw) = file.next().unwrap() {
        match decoder.decode(raw.bytes).unwrap().body {
            EventBody::Query(query) => {
                let sql = std::str::from_utf8(query.sql).unwrap();
                started.extend(sql.strip_prefix("XA START ").map(str::to_owned));
            }
            EventBody::XaPrepare(xa) => prepared.push((xa.to_string(), xa.one_phase)),
            _ => {}
        }
    }
    assert!(started.len() >= 3, "{started:?}");
    assert_eq!(prepared.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), started);
    assert!(prepared.iter().any(|(_, one_phase)| *one_phase) && prepared.iter().any(|(_, one_phase)| !*one_phase));
}

#[test]
fn an_event_that_was_checked_decodes_again_without_its_checksum_to_the_same() {
    for (name, crc) in [("compression-zstd.bin", true), ("types-nochecksum.bin", false)] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let mut file = millstream_binlog::BinlogFile::new(std::fs::File::open(path).unwrap(), 1 << 30).unwrap();
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut seen = 0;
        while let Some(raw) = file.next().unwrap() {
            let first = format!("{:?}", decoder.decode(raw.bytes).unwrap());
            if first.contains("FormatDescription(") {
                continue;
            }
            seen += 1;
            assert_eq!(format!("{:?}", decoder.decode_again(raw.bytes).unwrap()), first);
            if crc {
                // What differs is the checksum alone: it is not looked at.
                let mut broken = raw.bytes.to_vec();
                *broken.last_mut().unwrap() ^= 1;
                assert!(decoder.clone().decode(&broken).is_err_and(|e| e.is_checksum()));
                assert_eq!(format!("{:?}", decoder.decode_again(&broken).unwrap()), first);
            }
        }
        assert!(seen > 5, "{name}");
    }
}

/// Bug: 117
#[test]
fn an_event_is_as_long_as_its_header_says_or_nothing_is_read_of_it() {
    for (declared, sent) in [(40, 60), (60, 40), (19, 40), (0, 40), (18, 40), (u32::MAX, 40)] {
        let mut raw = event(3, &vec![0; sent - 19]);
        raw[9..13].copy_from_slice(&u32::to_le_bytes(declared));
        let error = decoder(Checksum::None).decode(&raw).unwrap_err().to_string();
        // Where the length stands.
        assert!(error.contains("STOP (3)") && error.ends_with("at its byte 9"), "{declared} of {sent}: {error}");
    }
}
