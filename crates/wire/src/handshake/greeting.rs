use nom::Parser;
use nom::bytes::complete::{tag, take, take_till};
use nom::combinator::{opt, rest};
use nom::number::complete::{le_u8, le_u16, le_u32};

use crate::codec::{ParseError, ParseErrorKind, Reader, Writer};
use crate::flags::{CapabilityFlags, StatusFlags};

/// Bytes of the server's nonce that the SHA plugins use.
pub const NONCE_LEN: usize = 20;

/// The server's first packet (`page_protocol_connection_phase_packets_protocol_handshake_v10`).
///
/// ```text
/// 0a  version NUL  u32 id  nonce[8]  00  u16 caps low  u8 charset  u16 status  u16 caps high
/// u8 auth length  reserved[10]  nonce part 2 [max(13, auth length - 8)]  plugin NUL
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeV10 {
    /// Such as `9.7.4` or `5.5.5-10.11.18-MariaDB`; not checked to be anything but text.
    pub server_version: String,
    /// The session's id, as in SHOW PROCESSLIST (its low 32 bits).
    pub connection_id: u32,
    /// What the password is mixed with.
    pub nonce: [u8; NONCE_LEN],
    /// What the server can do.
    pub capabilities: CapabilityFlags,
    /// Low byte of the server's default collation id.
    pub charset: u8,
    /// The session's state.
    pub status: StatusFlags,
    /// The plugin the server would start with; empty if it named none.
    pub auth_plugin: String,
}

/// `caps high`, `auth length`, `reserved`.
fn extension(input: &[u8]) -> nom::IResult<&[u8], (u16, u8), ParseError> {
    let (input, (caps_high, auth_len, _)) = (le_u16, le_u8, take(10usize)).parse(input)?;
    Ok((input, (caps_high, auth_len)))
}

fn until_nul(input: &[u8]) -> nom::IResult<&[u8], &[u8], ParseError> {
    let (input, (text, _)) = (take_till(|b| b == 0), tag(&[0u8][..])).parse(input)?;
    Ok((input, text))
}

/// First part of the nonce, `caps low`.
fn start_of_nonce(input: &[u8]) -> nom::IResult<&[u8], (&[u8], u16), ParseError> {
    let (input, (nonce, _filler, caps_low)) = (take(8usize), le_u8, le_u16).parse(input)?;
    Ok((input, (nonce, caps_low)))
}

impl HandshakeV10 {
    /// Reads a greeting. Tolerant where servers and proxies differ: a nonce with or without its NUL, a plugin name
    /// with or without its NUL.
    ///
    /// # Errors
    /// Another protocol version, a server older than 4.1, a nonce of fewer than 20 bytes, a short packet.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        let version = r.u8("protocol version")?;
        if version != 10 {
            return Err(ParseError::new("protocol version", ParseErrorKind::BadTag(version), payload.len()));
        }
        let server_version = r.parse("server version", until_nul)?;
        let connection_id = r.parse("thread id", le_u32)?;
        let (nonce1, caps_low) = r.parse("nonce, capabilities", start_of_nonce)?;
        let (charset, status) = r.parse("charset, status", |input| (le_u8, le_u16).parse(input))?;
        let (caps_high, auth_len) = r.parse("capabilities, auth length", extension)?;
        let capabilities = CapabilityFlags::from_bits_retain(u32::from(caps_low) | u32::from(caps_high) << 16);
        if !capabilities.contains(CapabilityFlags::PROTOCOL_41 | CapabilityFlags::SECURE_CONNECTION) {
            return Err(r.error("capabilities", ParseErrorKind::Unsupported));
        }
        let part2_len = usize::from(auth_len).saturating_sub(8).max(13).min(r.left());
        let part2 = r.bytes(part2_len, "nonce part 2")?;
        let (plugin, rest) = r.parse("auth plugin", |input| (opt(until_nul), rest).parse(input))?;
        // Without its NUL the name is what is left.
        let plugin = plugin.unwrap_or(rest);

        let mut nonce = [0; NONCE_LEN];
        let (a, b) = nonce.split_at_mut(8);
        a.copy_from_slice(nonce1);
        match part2.get(..b.len()) {
            Some(part) => b.copy_from_slice(part),
            None => return Err(ParseError::new("nonce part 2", ParseErrorKind::Short { need: 12 }, part2.len())),
        }
        Ok(Self {
            server_version: crate::error::escape(server_version, 256),
            connection_id,
            nonce,
            capabilities,
            charset,
            status: StatusFlags::from_bits_retain(status),
            auth_plugin: crate::error::escape(plugin, 64),
        })
    }

    /// Writes the greeting, as a server does.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let [a, b, c, d] = self.capabilities.bits().to_le_bytes();
        let (nonce1, nonce2) = self.nonce.split_at(8);
        let mut w = Writer::new();
        w.u8(10).nul_bytes(self.server_version.as_bytes()).u32_le(self.connection_id).bytes(nonce1).u8(0);
        w.bytes(&[a, b]).u8(self.charset).u16_le(self.status.bits()).bytes(&[c, d]);
        w.u8(21).zeros(10).nul_bytes(nonce2).nul_bytes(self.auth_plugin.as_bytes());
        w.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> HandshakeV10 {
        HandshakeV10 {
            server_version: "9.7.4".into(),
            connection_id: 9,
            nonce: *b"abcdefghijklmnopqrst",
            capabilities: CapabilityFlags::from_bits_retain(0xdfff_ffff),
            charset: 255,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: "caching_sha2_password".into(),
        }
    }

    #[test]
    fn round_trip() {
        assert_eq!(HandshakeV10::parse(&greeting().encode()).unwrap(), greeting());
    }

    /// Bug: 101, 102
    #[test]
    fn no_prefix_panics_and_short_ones_are_errors() {
        let bytes = greeting().encode();
        let nonce_end = bytes.len() - "caching_sha2_password".len() - 2;
        for cut in 0..nonce_end {
            assert!(HandshakeV10::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        // The nonce's NUL and the plugin's NUL are not insisted on.
        assert_eq!(HandshakeV10::parse(&bytes[..nonce_end]).unwrap().auth_plugin, "");
        assert_eq!(HandshakeV10::parse(&bytes[..bytes.len() - 1]).unwrap(), greeting());
    }

    #[test]
    fn old_protocols_are_named() {
        assert_eq!(
            HandshakeV10::parse(b"\x093.23\0").unwrap_err().to_string(),
            "protocol version: unexpected value 0x09 (6 left)"
        );
        let mut old = greeting();
        old.capabilities.remove(CapabilityFlags::PROTOCOL_41);
        assert_eq!(HandshakeV10::parse(&old.encode()).unwrap_err().kind, ParseErrorKind::Unsupported);
    }
}
