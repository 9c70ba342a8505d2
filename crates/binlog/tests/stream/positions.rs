//! Where a stream stands: positions over 4 GiB, and events that do not say theirs.

use millstream_binlog::event::{Checksum, EventBody, Inflater, PayloadReader};
use millstream_binlog::{EventDecoder, Position, PositionTracker};

use super::{decoder, event};

/// A header's fields that decide a position.
fn at(ty: u8, log_pos: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut raw = event(ty, body);
    raw[13..17].copy_from_slice(&log_pos.to_le_bytes());
    raw[17..19].copy_from_slice(&flags.to_le_bytes());
    raw
}

const ARTIFICIAL: u16 = 0x20;

fn rotate(position: u64, file: &str) -> Vec<u8> {
    [&position.to_le_bytes()[..], file.as_bytes()].concat()
}

fn fde(version: &str) -> Vec<u8> {
    let mut body = vec![4, 0];
    body.extend_from_slice(version.as_bytes());
    body.resize(52, 0);
    body.extend_from_slice(&[0, 0, 0, 0, 19]);
    body.resize(body.len() + 42, 0);
    // No checksums; four bytes that nobody looks at.
    body.extend_from_slice(&[0, 0, 0, 0, 0]);
    body
}

/// Conformance: D9, E1
/// Bug: 70, 81
#[test]
fn a_stream_is_followed_across_four_gigabytes_and_events_that_do_not_say_where_they_are() {
    const G4: u64 = 1 << 32;
    let xid = 9u64.to_le_bytes();
    let gtid = [&42u64.to_le_bytes()[..], &[0; 11]].concat();
    let start = G4 - 200;
    // (event, place behind it)
    let events = [
        (at(4, 0, ARTIFICIAL, &rotate(start, "mbin.000007")), start),
        // A dump from the middle of a file: the file's own FORMAT_DESCRIPTION without its place.
        (at(15, 0, 0, &fde("11.8.9-MariaDB-log")), start),
        (at(163, 0, ARTIFICIAL, &[0; 4]), start),
        (at(162, u32::MAX - 161, 8, &gtid), G4 - 162),
        // Inside a transaction from 11.4 on: only lengths.
        (at(160, 0, 0, b"INSERT INTO t VALUES (1)"), G4 - 119),
        (at(29, 0, 0, &[0; 200]), G4 + 100),
        (at(16, 127, 0, &xid), G4 + 127),
        (at(162, 165, 8, &gtid), G4 + 165),
        // Annotations that were not asked for are left out: the next word of the log counts.
        (at(16, 500, 0, &xid), G4 + 500),
        // Heartbeats: MariaDB's with the whole position, MySQL's old one with its low half, of this file and of another.
        (at(27, 0, ARTIFICIAL, &[&(G4 + 900).to_le_bytes()[..], b"mbin.000007"].concat()), G4 + 900),
        (at(27, 950, ARTIFICIAL, b"mbin.000007"), G4 + 950),
        (at(27, 10, ARTIFICIAL, b"mbin.000006"), G4 + 950),
        (
            at(
                41,
                0,
                ARTIFICIAL,
                &[&[1, 11][..], b"mbin.000007", &[2, 9, 0xfe], &(2 * G4).to_le_bytes(), &[0]].concat(),
            ),
            2 * G4,
        ),
        (at(16, 27, 0, &xid), 2 * G4 + 27),
        // The next file: its own word, then the stream's.
        (at(4, 80, 0, &rotate(4, "mbin.000008")), 4),
        (at(4, 0, ARTIFICIAL, &rotate(4, "mbin.000008")), 4),
        (at(15, 122, 0, &fde("11.8.9-MariaDB-log")), 122),
    ];
    let mut decoder = decoder(Checksum::None);
    let mut tracker = PositionTracker::new(Position::new("", 0));
    for (i, (raw, place)) in events.iter().enumerate() {
        // A heartbeat of MariaDB is only told from MySQL's by who wrote the log.
        let event = decoder.decode(raw).unwrap_or_else(|e| panic!("{i}: {e}"));
        tracker.follow(&event);
        assert_eq!(tracker.position().offset, *place, "{i}: {event:?}");
    }
    assert_eq!(tracker.position().to_string(), "mbin.000008:122");
}

/// The events inside a payload carry positions of nowhere; the payload's end is the transaction's.
///
/// Conformance: E9
/// Bug: 71, 72
#[test]
fn a_payload_moves_the_position_once_and_none_of_its_events_is_lost() {
    let (_, log) = super::common::fixtures().into_iter().find(|(name, _)| name == "compression-zstd").unwrap();
    let mut file = millstream_binlog::BinlogFile::new(log.as_slice(), super::common::LIMIT).unwrap();
    let mut decoder = EventDecoder::new(millstream_binlog::DecoderOptions::default());
    let mut payloads = PayloadReader::new(super::common::LIMIT, 1 << 30);
    let mut inflater = Inflater::new(0);
    let mut tracker = PositionTracker::new(Position::new("binlog.000001", 4));
    let (mut payload_count, mut commits) = (0, 0);
    while let Some(raw) = file.next().unwrap() {
        let end = raw.offset + raw.bytes.len() as u64;
        let event = decoder.decode(raw.bytes).unwrap();
        if matches!(event.body, EventBody::Rotate(_)) {
            continue;
        }
        tracker.follow(&event);
        assert_eq!(tracker.position().offset, end);
        if let EventBody::TransactionPayload(payload) = event.body {
            payload_count += 1;
            let mut inner = payloads.open(&payload).unwrap();
            let mut last = None;
            while let Some(raw) = inner.next_event().unwrap() {
                let event = decoder.decode_inner(&raw).unwrap().inflate(&mut inflater).unwrap();
                last = Some(event.header.event_type.0);
            }
            // Each ends in its XID.
            commits += usize::from(last == Some(16));
        }
    }
    assert_eq!((payload_count, commits), (27, 27));
}

/// 2.3 GB when opened, in a few steps and little memory.
///
/// Bug: 73
#[test]
fn a_payload_over_two_gigabytes_is_read_event_by_event() {
    const EVENT: usize = 16 << 20;
    const FRAMES: usize = 140;
    let inner = event(29, &vec![0; EVENT - 19]);
    let frame = zstd::bulk::compress(&inner, 1).unwrap();
    let payload = frame.repeat(FRAMES);
    let size = (EVENT * FRAMES) as u64;
    assert!(size > i32::MAX as u64);
    let body = [
        &[2, 1, 0, 3, 9, 0xfe][..],
        &size.to_le_bytes(),
        &[1, 9, 0xfe],
        &(payload.len() as u64).to_le_bytes(),
        &[0],
        &payload,
    ]
    .concat();
    let raw = event(40, &body);
    let mut decoder = decoder(Checksum::None);
    let EventBody::TransactionPayload(payload) = decoder.decode(&raw).unwrap().body else { panic!() };
    assert_eq!(payload.uncompressed_size, Some(size));
    let mut reader = PayloadReader::new(EVENT, 1 << 40);
    let mut events = reader.open(&payload).unwrap();
    let mut count = 0;
    while let Some(raw) = events.next_event().unwrap() {
        assert_eq!(raw.len(), EVENT);
        count += 1;
    }
    assert_eq!((count, events.opened()), (FRAMES, size));
}
