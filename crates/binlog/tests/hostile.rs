//! Damaged logs end in an error or in other values: never in a panic, an endless loop or a huge allocation.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "hostile/bounded.rs"]
mod bounded;
mod common;

use common::{LIMIT, Seen, event, fixtures, read};
use millstream_binlog::event::{EventBody, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, Error, EventDecoder};

/// The checksum of an event that was edited, so that the edit reaches the parser.
fn seal(event: &mut [u8]) {
    if let Some(end) = event.len().checked_sub(4) {
        let crc = crc32fast::hash(&event[..end]);
        event[end..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Every event of a log with the decoder and the tables as they are just before it.
fn each_event(log: &[u8], mut f: impl FnMut(&[u8], &EventDecoder, &mut PayloadReader, &Seen)) {
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(LIMIT, LIMIT as u64);
    let mut seen = Seen::default();
    let mut file = BinlogFile::new(log, LIMIT).unwrap();
    while let Some(raw) = file.next().unwrap() {
        f(raw.bytes, &decoder, &mut payloads, &seen);
        event(raw.bytes, &mut decoder, &mut payloads, &mut seen).unwrap();
    }
}

#[test]
fn a_log_cut_anywhere_ends_in_an_error_or_between_events() {
    for (name, log) in fixtures() {
        let step = 1 + log.len() / 1000;
        let mut whole = Seen::default();
        read(&log, &mut whole).unwrap();
        for end in (0..log.len()).step_by(step) {
            let mut seen = Seen::default();
            let done = read(&log[..end], &mut seen);
            assert_eq!(done.is_ok(), end == 4 || whole.ends.contains(&end), "{name} cut at {end}");
        }
    }
}

#[test]
fn a_flipped_bit_is_found_by_the_checksum() {
    for (name, log) in fixtures() {
        if name == "types-nochecksum" {
            continue;
        }
        let step = 1 + log.len() / 1000;
        for at in (4..log.len()).step_by(step) {
            let mut edited = log.clone();
            edited[at] ^= 1 << (at % 8);
            let error = read(&edited, &mut Seen::default()).expect_err(&name);
            // An edited length is found before the checksum, an edited FORMAT_DESCRIPTION by its own parser.
            assert!(
                error.is_checksum() || error.is_malformed() || error.is_limit() || error.is_unsupported(),
                "{error}"
            );
        }
    }
}

/// Conformance: P3
/// Bug: 117
#[test]
fn an_events_length_must_be_its_packets_length() {
    let (_, log) = fixtures().into_iter().find(|(name, _)| name == "rows-query").unwrap();
    each_event(&log, |raw, decoder, _, _| {
        let mut longer = raw.to_vec();
        longer.push(0);
        assert!(decoder.clone().decode(&longer).unwrap_err().is_malformed());
        assert!(decoder.clone().decode(&raw[..raw.len() - 1]).unwrap_err().is_malformed());
    });
}

#[test]
fn unknown_types_are_skipped_only_with_the_ignorable_flag() {
    let decode = |ty: u8, flags: u16| -> Result<&'static str, Error> {
        let mut raw = vec![0; 19];
        raw[4] = ty;
        raw[9] = 19;
        raw[17..].copy_from_slice(&flags.to_le_bytes());
        match EventDecoder::new(DecoderOptions::default()).decode(&raw)?.body {
            EventBody::Ignored { rule } => Ok(rule),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decode(98, 0x80).unwrap(), "unknown-ignorable");
    assert_eq!(decode(100, 0).unwrap(), "aurora");
    assert_eq!(decode(28, 0).unwrap(), "ignorable");
    assert_eq!(decode(37, 0).unwrap(), "group-replication");
    for ty in [0, 1, 20, 98, 101, 172, 255] {
        assert!(decode(ty, 0).unwrap_err().is_unsupported(), "{ty}");
    }
}

#[test]
fn a_payload_over_its_limit_is_refused_while_it_is_opened() {
    let (_, log) = fixtures().into_iter().find(|(name, _)| name == "compression-zstd").unwrap();
    let mut file = BinlogFile::new(log.as_slice(), LIMIT).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let mut payloads = PayloadReader::new(LIMIT, 1000);
    let mut refused = 0;
    while let Some(raw) = file.next().unwrap() {
        if let EventBody::TransactionPayload(payload) = decoder.decode(raw.bytes).unwrap().body {
            let mut inner = payloads.open(&payload).unwrap();
            let end = loop {
                match inner.next_event() {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(e) => break Some(e),
                }
            };
            assert_eq!(end.is_some(), payload.uncompressed_size.unwrap() > 1000);
            if let Some(e) = end {
                assert!(e.is_limit());
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

/// A default collation is two bytes and a word on every column: thousands of them would be a thousandfold of work.
#[test]
fn metadata_that_comes_twice_is_refused() {
    let map = |fields: &[&[u8]]| {
        let mut raw = vec![0; 19];
        raw[4] = 19;
        raw.extend_from_slice(&[1, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 2, 15, 15, 4, 9, 0, 9, 0, 0]);
        raw.extend(fields.concat());
        let length = u32::try_from(raw.len()).unwrap();
        raw[9..13].copy_from_slice(&length.to_le_bytes());
        let event = EventDecoder::new(DecoderOptions::default()).decode(&raw).map(|event| match event.body {
            EventBody::TableMap(map) => map.schema().map(|schema| schema.columns.len()),
            other => panic!("{other:?}"),
        });
        event.and_then(|schema| schema)
    };
    let (collation, names) = (&[2, 1, 45][..], &[4, 4, 1, b'a', 1, b'b'][..]);
    assert_eq!(map(&[collation, names]).unwrap(), 2);
    assert!(map(&[collation, names, collation]).unwrap_err().is_malformed());
    assert!(map(&[names, names]).unwrap_err().is_malformed());
    // What a newer server may add is not looked into and may come as it likes.
    assert_eq!(map(&[&[99, 1, 0], &[99, 1, 0], names]).unwrap(), 2);
}

/// Payloads out of frames that hold nothing, or a byte each.
#[test]
fn payloads_of_many_small_frames_open_as_one() {
    let (_, log) = fixtures().into_iter().find(|(name, _)| name == "xa").unwrap();
    let mut file = BinlogFile::new(log.as_slice(), LIMIT).unwrap();
    let mut inner = Vec::new();
    while let Some(raw) = file.next().unwrap() {
        inner.extend_from_slice(raw.bytes);
    }
    let mut frames = Vec::new();
    for byte in &inner {
        // A frame to skip, then a frame with one raw block of one byte.
        frames.extend_from_slice(&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
        frames.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 1, 9, 0, 0, *byte]);
    }
    let mut raw = vec![0; 19];
    raw[4] = 40;
    raw.extend_from_slice(&[2, 1, 0, 0]);
    raw.extend(frames);
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let EventBody::TransactionPayload(payload) = decoder.decode(&raw).unwrap().body else { panic!() };
    let mut payloads = PayloadReader::new(LIMIT, LIMIT as u64);
    let mut events = payloads.open(&payload).unwrap();
    let mut opened = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        opened.extend_from_slice(&event);
    }
    assert_eq!(opened, inner);
}
