//! Compressed transactions: what comes out does not depend on pauses, and has its limit.

use millstream_binlog::event::{EventBody, PayloadReader};
use millstream_binlog::{DecoderOptions, EventDecoder};

const MAX_EVENT: usize = 64 << 10;
const MAX_PAYLOAD: u64 = 256 << 10;
/// Opened at a time.
const STEP: u64 = 128 << 10;

/// Body of a TRANSACTION_PAYLOAD.
pub(crate) fn run(data: &[u8]) {
    let raw = super::event_of(40, data);
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    let Ok(event) = decoder.decode(&raw) else { return };
    let EventBody::TransactionPayload(payload) = event.body else { panic!("{:?}", event.body) };
    assert!(payload.compressed_len() <= data.len());

    let mut readers = [PayloadReader::new(MAX_EVENT, MAX_PAYLOAD), PayloadReader::new(MAX_EVENT, MAX_PAYLOAD)];
    let [whole, parts] = &mut readers;
    // What an earlier payload left behind does not show.
    if let Ok(mut other) = parts.open(&payload) {
        drop(other.next_event());
    }
    let (Ok(mut whole), Ok(first)) = (whole.open(&payload), parts.open(&payload)) else { return };
    let mut place = first.pause();
    let (mut size, mut done) = (0, false);
    while !done {
        let event = whole.next_event();
        let mut resumed = parts.resume(&payload, place);
        let again = resumed.next_event();
        place = resumed.pause();
        match (&event, &again) {
            (Ok(a), Ok(b)) => assert_eq!(a, b),
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            _ => panic!("{event:?} {again:?}"),
        }
        done = !matches!(event, Ok(Some(_)));
        if let Ok(Some(raw)) = &event {
            assert!((19..=MAX_EVENT).contains(&raw.len()));
            size += raw.len() as u64;
            drop(decoder.decode_inner(raw).map_err(|e| e.to_string()));
        }
        if let Ok(None) = event {
            assert_eq!(whole.opened(), size);
            assert!(payload.uncompressed_size.is_none_or(|stated| stated == size));
        }
    }
    assert!(whole.opened() <= MAX_PAYLOAD + STEP);
}
