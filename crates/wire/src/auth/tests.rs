use super::*;

pub(super) fn hex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks_exact(2).map(byte).collect()
}

const NONCE: [u8; NONCE_LEN] = *b"01234567890123456789";

struct Given {
    password: Password,
    encrypted: bool,
    secure: bool,
    retrieval: bool,
    key: Option<Vec<u8>>,
    cleartext: bool,
    client_nonce: Option<[u8; 32]>,
}

fn given(password: &str) -> Given {
    let password = Password::from(password);
    Given {
        password,
        encrypted: false,
        secure: false,
        retrieval: false,
        key: None,
        cleartext: false,
        client_nonce: Some([7; 32]),
    }
}

impl Given {
    fn context(&self) -> Context<'_> {
        Context {
            password: &self.password,
            encrypted: self.encrypted,
            secure: self.secure,
            allow_public_key_retrieval: self.retrieval,
            public_key: self.key.as_deref(),
            allow_cleartext: self.cleartext,
            client_nonce: self.client_nonce.as_ref(),
        }
    }
}

fn sent(step: Step) -> Vec<u8> {
    match step {
        Step::Send(bytes) => bytes.to_vec(),
        _ => panic!("not a send"),
    }
}

#[test]
fn strangers_are_unknown() {
    for name in ["mysql_old_password", "ed25519", "", "caching_sha2_password\0"] {
        assert_eq!(Plugin::by_name(name.as_bytes()), None, "{name}");
    }
    for plugin in Plugin::ALL {
        assert_eq!(Plugin::by_name(plugin.name().as_bytes()), Some(plugin));
    }
}

/// Conformance: W5
#[test]
fn caching_sha2_in_full_by_channel() {
    let begun = |given: &Given| {
        let mut e = Exchange::opening(Plugin::CachingSha2, NONCE);
        assert_eq!(sent(e.start(&given.context()).unwrap()).len(), 32);
        e
    };
    let secure = Given { secure: true, ..given("secret") };
    let mut e = begun(&secure);
    assert_eq!(sent(e.more(&[4], &secure.context()).unwrap()), b"secret\0");
    assert!(e.more(&[4], &secure.context()).is_err());

    let plain = given("secret");
    let refused = begun(&plain).more(&[4], &plain.context()).err().unwrap();
    assert!(refused.is_auth() && refused.to_string().contains("allow_public_key_retrieval"));

    let retrieval = Given { retrieval: true, ..given("secret") };
    let mut e = begun(&retrieval);
    assert_eq!(sent(e.more(&[4], &retrieval.context()).unwrap()), [2]);
    let Step::Encrypt { public_key_pem, plaintext } = e.more(b"PEM", &retrieval.context()).unwrap() else { panic!() };
    assert_eq!((&public_key_pem[..], plaintext.len()), (&b"PEM"[..], 7));
}

/// Conformance: W4
#[test]
fn a_known_key_needs_no_request_and_sha256_shows_nothing_on_a_plain_connection() {
    let key = Given { key: Some(b"PINNED".to_vec()), ..given("secret") };
    let mut e = Exchange::switched(Plugin::Sha256, &NONCE).unwrap();
    assert!(
        matches!(e.start(&key.context()).unwrap(), Step::Encrypt { public_key_pem, .. } if public_key_pem == b"PINNED")
    );
    let mut e = Exchange::opening(Plugin::CachingSha2, NONCE);
    e.start(&key.context()).unwrap();
    // Whatever key the server sends after that has no place.
    assert!(
        matches!(e.more(&[4], &key.context()).unwrap(), Step::Encrypt { public_key_pem, .. } if public_key_pem == b"PINNED")
    );
    assert!(e.more(b"PEM", &key.context()).is_err());

    let start = |given: &Given| Exchange::switched(Plugin::Sha256, &NONCE).unwrap().start(&given.context());
    assert!(start(&given("secret")).is_err());
    assert_eq!(sent(start(&Given { retrieval: true, ..given("secret") }).unwrap()), [1]);
    assert_eq!(sent(start(&Given { encrypted: true, secure: true, ..given("secret") }).unwrap()), b"secret\0");
    // A unix socket: the server wants it encrypted all the same.
    assert_eq!(sent(start(&Given { secure: true, retrieval: true, ..given("secret") }).unwrap()), [1]);
}

#[test]
fn the_clear_password_needs_leave_and_a_channel() {
    let start = |given: &Given| Exchange::switched(Plugin::Clear, b"").unwrap().start(&given.context());
    for (secure, cleartext, text) in
        [(false, false, "allow_cleartext_password"), (true, false, "allow_cleartext_password"), (false, true, "TLS")]
    {
        let e = start(&Given { secure, cleartext, ..given("secret") }).err().unwrap();
        assert!(e.is_auth() && e.to_string().contains(text), "{e}");
    }
    assert_eq!(sent(start(&Given { secure: true, cleartext: true, ..given("secret") }).unwrap()), b"secret\0");
}

/// Conformance: W6
#[test]
fn ed25519_and_parsec_take_challenges_of_their_length_only() {
    for plugin in [Plugin::Ed25519, Plugin::Parsec] {
        assert!(!plugin.can_open());
        for length in [0, 20, 31, 33] {
            assert!(Exchange::switched(plugin, &vec![1; length]).is_err(), "{length}");
        }
    }
    let pw = given("secret");
    let mut e = Exchange::switched(Plugin::Ed25519, &[1; 32]).unwrap();
    assert_eq!(sent(e.start(&pw.context()).unwrap()).len(), 64);
    assert!(e.more(&[4], &pw.context()).is_err());
    let (stored, nonce) = e.proof_parts(&pw.password, &NONCE).unwrap();
    assert_eq!((stored.len(), nonce), (32, NONCE));

    let salt = [&[b'P', 0][..], &[5; 18]].concat();
    let mut e = Exchange::switched(Plugin::Parsec, &[1; 32]).unwrap();
    assert!(sent(e.start(&pw.context()).unwrap()).is_empty());
    assert_eq!(e.proof_parts(&pw.password, &NONCE), None);
    let answer = sent(e.more(&salt, &pw.context()).unwrap());
    assert_eq!((answer.len(), &answer[..32]), (96, &[7; 32][..]));
    assert_eq!(e.proof_parts(&pw.password, &NONCE).unwrap().0.len(), 52);
    assert!(e.more(&salt, &pw.context()).is_err());

    // Without random bytes of its own the client signs nothing.
    let bare = Given { client_nonce: None, ..given("secret") };
    let mut e = Exchange::switched(Plugin::Parsec, &[1; 32]).unwrap();
    e.start(&bare.context()).unwrap();
    assert!(e.more(&salt, &bare.context()).err().unwrap().to_string().contains("client_nonce"));
}

/// Bug: 100
#[test]
fn no_password_is_an_empty_answer() {
    for (plugin, answer) in [(Plugin::NativePassword, &[][..]), (Plugin::CachingSha2, &[]), (Plugin::Sha256, &[0])] {
        let mut e = Exchange::switched(plugin, &NONCE).unwrap();
        assert_eq!(sent(e.start(&given("").context()).unwrap()), answer);
        assert_eq!(e.proof_parts(&Password::default(), &NONCE), None);
    }
}

#[test]
fn nonsense_ends_the_exchange() {
    let secure = Given { secure: true, ..given("secret") };
    for data in [&[][..], &[1], &[5], &[3, 3]] {
        assert!(Exchange::opening(Plugin::CachingSha2, NONCE).more(data, &secure.context()).is_err());
    }
    assert!(Exchange::opening(Plugin::NativePassword, NONCE).more(&[4], &secure.context()).is_err());
}
