//! A row of the text protocol.

use millstream_wire::codec::Reader;
use millstream_wire::response::Values;
use millstream_wire::response::encode_text_row;
use millstream_wire::{ColumnDefinition, RowFormat, Value};

/// `u8 columns, packet`.
pub(crate) fn run(data: &[u8]) {
    let Some((&count, packet)) = data.split_first() else { return };
    let columns = vec![ColumnDefinition::text("c"); usize::from(count % 64)];
    let values = || Values::new(packet, &columns, RowFormat::Text);
    let mut texts = Vec::new();
    for value in values() {
        match value {
            Ok(Value::Null) => texts.push(None),
            Ok(Value::Bytes(bytes)) => {
                super::assert_inside(bytes, packet);
                texts.push(Some(bytes));
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => break,
        }
    }
    assert_eq!(texts, plain(packet, columns.len()));
    // The first error ends it, and a whole row comes back as it was.
    let errors = values().filter(Result::is_err).count();
    assert!(errors <= 1 && values().count() <= columns.len() + 1);
    if errors == 0 {
        assert_eq!(texts.len(), columns.len());
        let again = encode_text_row(texts.iter().copied());
        assert!(Values::new(&again, &columns, RowFormat::Text).eq(values()));
        assert!(again.len() <= packet.len());
    }
}

fn plain(packet: &[u8], columns: usize) -> Vec<Option<&[u8]>> {
    let (mut r, mut out) = (Reader::new(packet), Vec::new());
    for _ in 0..columns {
        let size = match r.u8("head") {
            Ok(0xfb) => {
                out.push(None);
                continue;
            }
            Ok(0xfc) => r.uint_le(2, "size"),
            Ok(0xfd) => r.uint_le(3, "size"),
            Ok(0xfe) => r.uint_le(8, "size"),
            Ok(n @ 0..0xfb) => Ok(u64::from(n)),
            Ok(0xff) | Err(_) => break,
        };
        let bytes = size.ok().and_then(|n| r.bytes(usize::try_from(n).ok()?, "bytes").ok());
        match bytes {
            Some(bytes) => out.push(Some(bytes)),
            None => break,
        }
    }
    out
}
