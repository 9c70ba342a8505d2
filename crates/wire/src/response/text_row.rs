use super::Value;
use crate::codec::{ParseError, Reader, Writer};

/// One value of a text row: a length-encoded string, or 0xfb for NULL
/// (`page_protocol_com_query_response_text_resultset_row`).
#[inline]
pub(super) fn next_value<'a>(r: &mut Reader<'a>) -> Result<Value<'a>, ParseError> {
    if r.peek_u8() == Some(0xfb) {
        r.skip(1, "text value")?;
        return Ok(Value::Null);
    }
    r.lenenc_bytes("text value").map(Value::Bytes)
}

/// Writes a text row, as a server does.
#[must_use]
pub fn encode_text_row<'a>(values: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut w = Writer::new();
    for value in values {
        match value {
            Some(bytes) => w.lenenc_bytes(bytes),
            None => w.u8(0xfb),
        };
    }
    w.into_bytes()
}
