//! Body of the fuzz target `event`: any bytes as a log's events, payloads opened, rows read with the tables they name.

use std::collections::HashMap;

use millstream_binlog::event::{EventBody, Inflater, PayloadReader};
use millstream_binlog::{DecoderOptions, EventDecoder, GtidSet, RowChange, TableSchema};

use super::touch::{complete, touch};

const MAX_EVENT: usize = 1 << 20;
const MAX_PAYLOAD: u64 = 4 << 20;

/// `u16 length, bytes` again and again.
pub(crate) fn run(data: &[u8]) {
    let mut decoder = EventDecoder::new(DecoderOptions { max_event: MAX_EVENT, stream_checksum: None });
    let mut payloads = PayloadReader::new(MAX_EVENT, MAX_PAYLOAD);
    let mut inflater = Inflater::new(MAX_EVENT);
    let mut tables = HashMap::new();
    for raw in events(data) {
        let Ok(event) = decoder.decode(&raw).and_then(|e| e.inflate(&mut inflater)) else { continue };
        look(&event.body, &mut tables);
        if let EventBody::TransactionPayload(payload) = event.body
            && let Ok(mut inner) = payloads.open(&payload)
        {
            while let Ok(Some(raw)) = inner.next_event() {
                if let Ok(event) = decoder.decode_inner(&raw) {
                    look(&event.body, &mut tables);
                }
            }
            assert!(inner.opened() <= MAX_PAYLOAD + (128 << 10));
        }
    }
}

/// The events in an input. The length in each header is set right, so that mutations reach the bodies; the checksum is
/// off until a FORMAT_DESCRIPTION switches it on.
pub(super) fn events(data: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let ([low, high], tail) = rest.split_first_chunk::<2>()?;
        let n = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (head, tail) = tail.split_at(n);
        rest = tail;
        let mut raw = head.to_vec();
        if let Some(slot) = raw.get_mut(9..13) {
            slot.copy_from_slice(&u32::try_from(n).unwrap().to_le_bytes());
        }
        Some(raw)
    })
}

pub(super) fn look(body: &EventBody<'_>, tables: &mut HashMap<u64, TableSchema>) {
    match body {
        EventBody::TableMap(map) => {
            if let Ok(schema) = map.schema() {
                // A schema out of a map always agrees with that map, unless its key is over prefixes.
                if let Err(e) = map.resolve(&schema) {
                    assert!(e.to_string().contains("the primary key"), "{e}");
                }
                if tables.len() < 64 {
                    tables.insert(map.table_id, schema);
                }
            }
        }
        EventBody::Rows(rows) => {
            if let Some(schema) = tables.get(&rows.table_id) {
                for change in rows.rows(schema) {
                    match change {
                        Ok(RowChange::Insert(row) | RowChange::Delete(row)) => touch(row),
                        Ok(RowChange::Update { before, after }) => {
                            touch(before);
                            touch(after);
                            complete(before, after);
                        }
                        Err(e) => drop(e.to_string()),
                    }
                }
            }
        }
        EventBody::PreviousGtids(set) => {
            if let Ok(set) = set.decode() {
                assert_eq!(GtidSet::decode(&set.encode()).as_ref(), Ok(&set));
                assert_eq!(set.to_string().parse::<GtidSet>().as_ref(), Ok(&set));
            }
        }
        EventBody::Query(query) | EventBody::ExecuteLoadQuery(query) => {
            let status = query.status;
            let _ = status.iter().count();
            let _ = (status.client_charset(), status.sql_mode(), status.time_zone(), status.ddl_xid());
        }
        EventBody::GtidList(list) => {
            list.iter().for_each(|g| assert_eq!(g.to_string().parse().ok(), (g.sequence > 0).then_some(g)))
        }
        _ => {}
    }
}
