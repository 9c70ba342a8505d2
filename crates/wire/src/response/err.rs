use crate::codec::{ParseError, Reader, Writer};
use crate::error::{ServerError, escape};

/// Reads an ERR packet (`page_protocol_basic_err_packet`): `ff`, `u16` code, `#` and five characters of SQLSTATE
/// (absent before the login), text.
///
/// # Errors
/// A packet without a code.
pub fn parse_err(payload: &[u8]) -> Result<ServerError, ParseError> {
    let mut r = Reader::new(payload);
    r.skip(1, "header")?;
    let code = r.u16_le("error code")?;
    let mut sqlstate = *b"HY000";
    if r.peek_u8() == Some(b'#') {
        let mut with_state = r;
        if let Ok([_, state @ ..]) = with_state.array::<6>("sqlstate")
            && state.iter().all(u8::is_ascii_alphanumeric)
        {
            sqlstate = state;
            r = with_state;
        }
    }
    Ok(ServerError { code, sqlstate, message: escape(r.rest(), 4096) })
}

/// Writes an ERR packet.
#[must_use]
pub fn encode_err(code: u16, sqlstate: [u8; 5], message: &str) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(0xff).u16_le(code).u8(b'#').bytes(&sqlstate).bytes(message.as_bytes());
    w.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_a_state() {
        let e = parse_err(&encode_err(1045, *b"28000", "Access denied\n")).unwrap();
        assert_eq!((e.code, e.sqlstate(), &*e.message), (1045, "28000", "Access denied\\n"));
        let e = parse_err(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((e.code, e.sqlstate(), &*e.message), (1040, "HY000", "Too many connections"));
        assert_eq!(parse_err(b"\xff\x15\x04").unwrap().message, "");
        assert_eq!(parse_err(b"\xff\x15\x04#28").unwrap().message, "#28");
        assert!(parse_err(b"\xff\x15").is_err());
    }
}
