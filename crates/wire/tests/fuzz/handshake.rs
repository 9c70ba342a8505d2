//! The greeting and the login packet: what was read is written and read again without a difference.

use millstream_wire::handshake::{HandshakeResponse41, HandshakeV10};

/// A packet, read as either.
pub(crate) fn run(data: &[u8]) {
    if let Ok(greeting) = HandshakeV10::parse(data) {
        let bytes = greeting.encode();
        let again = HandshakeV10::parse(&bytes).unwrap();
        // Texts are escaped and cut for people; a text near its limit may be cut elsewhere the second time.
        let (version, plugin) = (&greeting.server_version, &greeting.auth_plugin);
        assert!(!version.chars().chain(plugin.chars()).any(|c| c.is_control()));
        assert!(version.len() <= 256 + 16 && plugin.len() <= 64 + 16);
        if version.len() < 256 && plugin.len() < 64 {
            assert_eq!(again, greeting);
        } else {
            assert_eq!((again.nonce, again.capabilities), (greeting.nonce, greeting.capabilities));
        }
    }
    if let Ok(login) = HandshakeResponse41::parse(data) {
        for part in [login.user, login.auth, login.database.unwrap_or_default(), login.plugin.unwrap_or_default()] {
            super::assert_inside(part, data);
        }
        let bytes = login.encode();
        let again = HandshakeResponse41::parse(&bytes).unwrap();
        // Parts that were announced and left out are no longer announced.
        assert_eq!(HandshakeResponse41 { capabilities: login.capabilities, ..again }, login);
    }
}
