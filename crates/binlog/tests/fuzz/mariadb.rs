//! Events of a MariaDB, compressed ones opened.

use std::collections::HashMap;

use millstream_binlog::event::{EventBody, Inflater};
use millstream_binlog::{DecoderOptions, EventDecoder, MariaGtidList};

const MAX_EVENT: usize = 256 << 10;

/// What a MariaDB 11.8 says of itself at the start of a log, without checksums.
pub(super) fn prime(decoder: &mut EventDecoder) {
    let mut body = vec![4, 0];
    body.extend_from_slice(b"11.8.9-MariaDB-log");
    body.resize(2 + 50 + 4, 0);
    body.push(19);
    // Post-header lengths of types 1 to 171; 0 but for those that the decoder looks at.
    let mut lengths = [0; 171];
    for (ty, length) in [(2, 13), (4, 8), (15, 228), (18, 26), (19, 8), (23, 8), (24, 8), (25, 8), (165, 13)] {
        lengths[ty - 1] = length;
    }
    for ty in [30, 31, 32, 169, 170, 171] {
        lengths[ty - 1] = 10;
    }
    for ty in [166, 167, 168] {
        lengths[ty - 1] = 8;
    }
    body.extend_from_slice(&lengths);
    body.extend_from_slice(&[0, 0, 0, 0, 0]);
    let raw = super::event_of(15, &body);
    let EventBody::FormatDescription(fde) = decoder.decode(&raw).unwrap().body else { panic!() };
    assert!(fde.is_mariadb());
}

/// `u16 length, bytes` again and again, as for the target `event`.
pub(crate) fn run(data: &[u8]) {
    let mut decoder = EventDecoder::new(DecoderOptions { max_event: MAX_EVENT, stream_checksum: None });
    prime(&mut decoder);
    let mut inflater = Inflater::new(MAX_EVENT);
    let mut tables = HashMap::new();
    for raw in super::event::events(data) {
        let Ok(event) = decoder.decode(&raw) else { continue };
        let packed = matches!(event.body, EventBody::CompressedQuery(_) | EventBody::CompressedRows(_));
        let Ok(event) = event.inflate(&mut inflater) else {
            assert!(packed);
            continue;
        };
        super::event::look(&event.body, &mut tables);
        match event.body {
            EventBody::MariaGtid(event) => {
                assert!(event.gtid.sequence > 0);
                assert_eq!(event.gtid.to_string().parse().ok(), Some(event.gtid));
            }
            EventBody::GtidList(list) => {
                let state: MariaGtidList = list.iter().filter(|g| g.sequence > 0).collect();
                assert_eq!(state.to_string().parse().as_ref(), Ok(&state));
            }
            EventBody::Query(query) => assert!(query.sql.len() <= MAX_EVENT),
            EventBody::CompressedQuery(_) | EventBody::CompressedRows(_) => panic!("an event that was not opened"),
            _ => {}
        }
    }
}
