//! The answer to COM_QUERY and COM_STMT_EXECUTE.

use std::sync::Arc;

use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::{ColumnDefinition, Row, RowFormat};

/// `u8 capabilities, packets`.
pub(crate) fn run(data: &[u8]) {
    let Some((&bits, rest)) = data.split_first() else { return };
    let packets = super::packets(rest);
    for format in [RowFormat::Text, RowFormat::Binary] {
        let mut reader = ResultReader::new(super::capabilities(bits), format);
        let mut columns: Option<Arc<[ColumnDefinition]>> = None;
        for packet in &packets {
            match reader.handle(packet) {
                Ok(QueryEvent::Columns(known)) => {
                    assert!(columns.is_none() && (1..=4096).contains(&known.len()));
                    columns = Some(known);
                }
                Ok(QueryEvent::Row) => {
                    let columns = columns.clone().unwrap();
                    let row = Row::new(packet.clone(), columns.clone(), format);
                    assert!(row.values().count() <= columns.len() + 1);
                    assert_eq!(row.packet().as_ptr(), packet.as_ptr());
                }
                Ok(QueryEvent::Done { more, .. }) => {
                    assert_eq!(reader.is_finished(), !more);
                    columns = None;
                }
                Ok(_) => assert!(!reader.is_finished()),
                Err(_) => assert!(reader.is_finished()),
            }
            if reader.is_finished() {
                assert!(reader.handle(packet).is_err());
                break;
            }
        }
    }
}
