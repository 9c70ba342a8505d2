//! A login against a server that may send anything: it ends, and the password is shown to nobody who could listen.

use millstream_wire::auth::{caching_sha2, check_native_password};
use millstream_wire::connect::{Action, Certificate, Connect, Identity, Login, TlsUse};
use millstream_wire::flags::{CapabilityFlags, StatusFlags};
use millstream_wire::handshake::{HandshakeResponse41, HandshakeV10, NONCE_LEN};

const PASSWORD: &[u8] = b"p4ss of test";
const NONCE: [u8; NONCE_LEN] = *b"01234567890123456789";
const PLUGINS: [&str; 8] = [
    "caching_sha2_password",
    "mysql_native_password",
    "sha256_password",
    "mysql_clear_password",
    "client_ed25519",
    "parsec",
    "unknown",
    "",
];

/// `u8 flags, u8 plugin of the greeting`, then the server's packets after its greeting (see [`super::packets`]).
pub(crate) fn run(data: &[u8]) {
    let Some((&[flags, plugin], rest)) = data.split_first_chunk::<2>() else { return };
    let has = |bit: u8| flags & bit != 0;
    let login = Login {
        user: "user".into(),
        password: if has(1) { "".into() } else { std::str::from_utf8(PASSWORD).unwrap().into() },
        database: None,
        tls: if has(2) { TlsUse::IfOffered } else { TlsUse::Never },
        local: has(4),
        allow_public_key_retrieval: has(8),
        allow_cleartext_password: has(128),
        client_nonce: has(128).then_some([7; 32]),
        max_packet: 1 << 24,
        ..Login::default()
    };
    let offered = if has(16) { CapabilityFlags::empty() } else { CapabilityFlags::SSL };
    let greeting = HandshakeV10 {
        server_version: if has(32) { "5.5.5-11.8.9-MariaDB".into() } else { "9.7.4".into() },
        connection_id: 1,
        nonce: NONCE,
        capabilities: CapabilityFlags::all().difference(CapabilityFlags::SSL) | offered,
        charset: 255,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: PLUGINS[usize::from(plugin) % PLUGINS.len()].into(),
    };
    let mut connect = Connect::new(login).unwrap();
    // Inside TLS to a server that has to prove itself first, nothing may be shown that could be read.
    let unproven = has(64);
    let mut watch = Watch { tls: false, local: has(4), may_ask_key: has(4) || has(8), rounds: 0 };

    let mut inside = false;
    let mut action = connect.handle(&greeting.encode());
    if let Ok(Action::StartTls(_)) = action {
        assert!(has(2) && !has(16));
        (watch.tls, watch.local) = (!unproven, has(4) && !unproven);
        watch.may_ask_key &= !unproven;
        let sha256 = [0; 32];
        let certificate = if unproven { Certificate::ToBeProven { sha256 } } else { Certificate::Unchecked { sha256 } };
        action = connect.tls_ready(certificate);
        inside = true;
    }
    let Ok(Action::Send(packet)) = action else { return };
    watch.sent(&packet);
    let opening = HandshakeResponse41::parse(&packet).unwrap();
    let named = opening.plugin.unwrap_or_default().to_vec();
    watch.scramble(&named, &NONCE, opening.auth);

    let mut packets = super::packets(rest).into_iter();
    while let Some(packet) = packets.next() {
        watch.rounds += 1;
        assert!(watch.rounds < 12, "a login without end");
        match connect.handle(&packet) {
            Ok(Action::Send(bytes)) => {
                watch.sent(&bytes);
                if packet.first() == Some(&0xfe) {
                    // A switch was followed: the answer is the named plugin's, over the new nonce.
                    let name = packet[1..].split(|b| *b == 0).next().unwrap_or_default();
                    let nonce = packet.get(2 + name.len()..).and_then(|n| n.first_chunk());
                    watch.scramble(name, nonce.unwrap_or(&NONCE), &bytes);
                }
            }
            Ok(Action::Encrypt { plaintext, .. }) => {
                assert!(watch.may_ask_key, "a key was believed that was not asked for");
                assert!(!contains(&plaintext, PASSWORD));
                let Ok(Action::Send(bytes)) = connect.encrypted(vec![0; 256]) else { panic!("nothing to send") };
                assert_eq!(bytes[..], [0; 256]);
            }
            Ok(Action::StartTls(_)) => panic!("TLS in the middle of a login"),
            Ok(Action::Done(session)) => {
                assert_eq!((session.tls, packet[0]), (inside, 0));
                assert!(!(inside && unproven) || session.identity == Identity::Password);
                assert!(connect.handle(&packet).is_err());
                return;
            }
            Ok(_) => {}
            Err(error) => {
                // A server may say what it likes; the client does not.
                assert!(contains(&packet, PASSWORD) || !contains(error.to_string().as_bytes(), PASSWORD));
                // An error is the end.
                assert!(connect.handle(&packet).is_err() && packets.all(|p| connect.handle(&p).is_err()));
                return;
            }
        }
    }
}

struct Watch {
    tls: bool,
    local: bool,
    may_ask_key: bool,
    rounds: usize,
}

impl Watch {
    fn sent(&self, bytes: &[u8]) {
        if self.tls || self.local {
            return;
        }
        assert!(!contains(bytes, PASSWORD));
        // Mixed with the nonce only, it is as good as clear.
        let mixed: Vec<u8> = PASSWORD.iter().zip(NONCE).map(|(p, n)| p ^ n).collect();
        assert!(!contains(bytes, &mixed));
    }

    fn scramble(&self, plugin: &[u8], nonce: &[u8; NONCE_LEN], answer: &[u8]) {
        match plugin {
            _ if answer.is_empty() => {}
            b"mysql_native_password" => assert!(check_native_password(PASSWORD, nonce, answer)),
            b"caching_sha2_password" => assert_eq!(answer, caching_sha2(PASSWORD, nonce)),
            b"mysql_clear_password" => assert!(self.tls || self.local),
            b"client_ed25519" => assert_eq!(answer.len(), 64),
            _ => {}
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|w| w == part)
}
