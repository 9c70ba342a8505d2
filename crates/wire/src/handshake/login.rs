use zeroize::Zeroizing;

use crate::codec::{ParseError, ParseErrorKind, Reader, Writer};
use crate::flags::CapabilityFlags;

/// `utf8mb4_general_ci`: known to every server since 5.5, and it fits the login packet's single byte.
pub const UTF8MB4_GENERAL_CI: u8 = 45;

/// The client's request to go on in TLS: the first 32 bytes of the login packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslRequest {
    /// What the client will use; must hold [`CapabilityFlags::SSL`].
    pub capabilities: CapabilityFlags,
    /// The largest packet the client takes, in bytes.
    pub max_packet: u32,
}

impl SslRequest {
    /// The packet's payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32_le(self.capabilities.bits()).u32_le(self.max_packet).u8(UTF8MB4_GENERAL_CI).zeros(23);
        w.into_bytes()
    }
}

/// The login packet (`page_protocol_connection_phase_packets_protocol_handshake_response`).
///
/// ```text
/// u32 caps  u32 max packet  u8 charset  zero[23]  user NUL  auth (lenenc, or u8 length)
/// database NUL (if CONNECT_WITH_DB)  plugin NUL (if PLUGIN_AUTH)  attributes (if CONNECT_ATTRS)
/// u8 zstd level (if ZSTD_COMPRESSION)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeResponse41<'a> {
    /// What both sides will use.
    pub capabilities: CapabilityFlags,
    /// The largest packet the client takes, in bytes.
    pub max_packet: u32,
    /// Low byte of the session's collation id.
    pub charset: u8,
    /// The account's name.
    pub user: &'a [u8],
    /// First answer of the plugin.
    pub auth: &'a [u8],
    /// Default database.
    pub database: Option<&'a [u8]>,
    /// The plugin that `auth` is for.
    pub plugin: Option<&'a [u8]>,
    /// Names and values shown in `performance_schema.session_connect_attrs`.
    pub attributes: Vec<(&'a [u8], &'a [u8])>,
    /// Level that the server compresses with.
    pub zstd_level: Option<u8>,
}

impl<'a> HandshakeResponse41<'a> {
    /// The packet's payload. The capability bits of optional parts follow from the parts.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut caps = self.capabilities;
        caps.set(CapabilityFlags::CONNECT_WITH_DB, self.database.is_some());
        caps.set(CapabilityFlags::PLUGIN_AUTH, self.plugin.is_some());
        caps.set(CapabilityFlags::CONNECT_ATTRS, !self.attributes.is_empty());
        caps.set(CapabilityFlags::ZSTD_COMPRESSION, self.zstd_level.is_some());
        let mut w = Writer::new();
        w.u32_le(caps.bits()).u32_le(self.max_packet).u8(self.charset).zeros(23).nul_bytes(self.user);
        if caps.contains(CapabilityFlags::PLUGIN_AUTH_LENENC) {
            w.lenenc_bytes(self.auth);
        } else {
            let (len, auth) = match u8::try_from(self.auth.len()) {
                Ok(len) => (len, self.auth),
                Err(_) => (0, &[][..]),
            };
            w.u8(len).bytes(auth);
        }
        if let Some(database) = self.database {
            w.nul_bytes(database);
        }
        if let Some(plugin) = self.plugin {
            w.nul_bytes(plugin);
        }
        if !self.attributes.is_empty() {
            let mut pairs = Writer::new();
            for (name, value) in &self.attributes {
                pairs.lenenc_bytes(name).lenenc_bytes(value);
            }
            w.lenenc_bytes(&pairs.into_bytes());
        }
        if let Some(level) = self.zstd_level {
            w.u8(level);
        }
        Zeroizing::new(w.into_bytes())
    }

    /// Reads a login packet, as a server does. An [`SslRequest`] is 32 bytes and ends before the user: check the
    /// length first.
    ///
    /// # Errors
    /// A packet that ends early or a client older than 4.1.
    pub fn parse(payload: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        let capabilities = CapabilityFlags::from_bits_retain(r.u32_le("capabilities")?);
        if !capabilities.contains(CapabilityFlags::PROTOCOL_41) {
            return Err(ParseError::new("capabilities", ParseErrorKind::Unsupported, payload.len()));
        }
        let max_packet = r.u32_le("max packet")?;
        let charset = r.u8("charset")?;
        r.skip(23, "reserved")?;
        let user = r.nul_bytes("user")?;
        let auth = if capabilities.contains(CapabilityFlags::PLUGIN_AUTH_LENENC) {
            r.lenenc_bytes("auth")?
        } else {
            let n = r.u8("auth length")?;
            r.bytes(usize::from(n), "auth")?
        };
        // Some clients announce these parts and leave them out at the packet's end.
        let wants = |flag, r: &Reader<'_>| capabilities.contains(flag) && !r.is_empty();
        let database = if wants(CapabilityFlags::CONNECT_WITH_DB, &r) { Some(r.nul_bytes("database")?) } else { None };
        let plugin = if wants(CapabilityFlags::PLUGIN_AUTH, &r) { Some(r.nul_bytes("plugin")?) } else { None };
        let mut attributes = Vec::new();
        if wants(CapabilityFlags::CONNECT_ATTRS, &r) {
            let n = r.lenenc_len("attributes")?;
            let mut pairs = r.sub(n, "attributes")?;
            while !pairs.is_empty() {
                attributes.push((pairs.lenenc_bytes("attribute name")?, pairs.lenenc_bytes("attribute value")?));
            }
        }
        let zstd_level = if wants(CapabilityFlags::ZSTD_COMPRESSION, &r) { Some(r.u8("zstd level")?) } else { None };
        Ok(Self { capabilities, max_packet, charset, user, auth, database, plugin, attributes, zstd_level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> HandshakeResponse41<'static> {
        HandshakeResponse41 {
            capabilities: CapabilityFlags::PROTOCOL_41
                | CapabilityFlags::PLUGIN_AUTH_LENENC
                | CapabilityFlags::PLUGIN_AUTH
                | CapabilityFlags::CONNECT_WITH_DB
                | CapabilityFlags::CONNECT_ATTRS
                | CapabilityFlags::ZSTD_COMPRESSION,
            max_packet: 1 << 24,
            charset: UTF8MB4_GENERAL_CI,
            user: b"repl",
            auth: b"01234567890123456789",
            database: Some(b"shop"),
            plugin: Some(b"mysql_native_password"),
            attributes: vec![(b"program_name", b"millstream"), (b"x", b"")],
            zstd_level: Some(3),
        }
    }

    #[test]
    fn round_trip() {
        let bytes = login().encode();
        assert_eq!(HandshakeResponse41::parse(&bytes).unwrap(), login());
        let mut short = login();
        short.capabilities.remove(CapabilityFlags::PLUGIN_AUTH_LENENC);
        assert_eq!(HandshakeResponse41::parse(&short.encode()).unwrap(), short);
    }

    #[test]
    fn the_tls_request_is_the_front_of_the_login() {
        let l = login();
        let ssl = SslRequest { capabilities: l.capabilities, max_packet: l.max_packet }.encode();
        assert_eq!(ssl.len(), 32);
        assert_eq!(ssl[..], l.encode()[..32]);
    }

    #[test]
    fn no_prefix_panics() {
        let bytes = login().encode();
        for cut in 0..58 {
            assert!(HandshakeResponse41::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        // From there on optional parts are missing: what is left must still be the front of the whole.
        for cut in 58..bytes.len() {
            if let Ok(part) = HandshakeResponse41::parse(&bytes[..cut]) {
                assert_eq!((part.user, part.auth), (login().user, login().auth), "{cut}");
            }
        }
    }
}
