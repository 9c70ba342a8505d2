use super::*;
use crate::auth::{caching_sha2, check_native_password, native_password};
use crate::flags::StatusFlags;
use crate::response::encode_err;

fn login(tls: TlsUse) -> Login {
    Login {
        user: "repl".into(),
        password: "secret".into(),
        tls,
        max_packet: 1 << 30,
        attributes: vec![("program_name".into(), "millstream".into())],
        ..Login::default()
    }
}

fn greeting(plugin: &str, remove: CapabilityFlags) -> Vec<u8> {
    HandshakeV10 {
        server_version: "9.7.4".into(),
        connection_id: 5,
        nonce: *b"01234567890123456789",
        capabilities: CapabilityFlags::from_bits_retain(0xdfff_ffff).difference(remove),
        charset: 255,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: plugin.into(),
    }
    .encode()
}

fn switch(plugin: &str, nonce: &[u8]) -> Vec<u8> {
    [&[0xfe], plugin.as_bytes(), &[0], nonce].concat()
}

fn sent(action: Action) -> Vec<u8> {
    match action {
        Action::Send(bytes) => bytes.to_vec(),
        _ => panic!("not a send"),
    }
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

#[test]
fn native_password_and_done() {
    let mut c = Connect::new(login(TlsUse::Never)).unwrap();
    let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
    let parsed = HandshakeResponse41::parse(&packet).unwrap();
    assert!(check_native_password(b"secret", b"01234567890123456789", parsed.auth));
    assert_eq!(parsed.attributes, [(&b"program_name"[..], &b"millstream"[..])]);
    assert!(!parsed.capabilities.intersects(
        CapabilityFlags::LOCAL_FILES | CapabilityFlags::MULTI_STATEMENTS | CapabilityFlags::QUERY_ATTRIBUTES
    ));
    let Action::Done(session) = c.handle(OK).unwrap() else { panic!() };
    assert_eq!((session.connection_id, session.tls), (5, false));
    assert!(c.handle(OK).is_err());
}

#[test]
fn tls_is_never_given_up() {
    let no_tls = greeting("caching_sha2_password", CapabilityFlags::SSL);
    let e = Connect::new(login(TlsUse::Always)).unwrap().handle(&no_tls).err().unwrap();
    assert!(e.is_tls() && !e.is_retryable());
    assert!(matches!(Connect::new(login(TlsUse::IfOffered)).unwrap().handle(&no_tls), Ok(Action::Send(_))));

    let mut c = Connect::new(login(TlsUse::IfOffered)).unwrap();
    let tls = greeting("caching_sha2_password", CapabilityFlags::empty());
    let Action::StartTls(request) = c.handle(&tls).unwrap() else { panic!() };
    assert_eq!(request.len(), 32);
    let packet = sent(c.tls_ready(Certificate::Unchecked { sha256: [0; 32] }).unwrap());
    assert_eq!(packet[..32], request[..]);
    assert_eq!(sent(c.handle(&[1, 4]).unwrap()), b"secret\0");
    assert!(matches!(c.handle(OK).unwrap(), Action::Done(s) if s.tls));

    // A packet in place of the TLS handshake.
    let mut c = Connect::new(login(TlsUse::Always)).unwrap();
    assert!(matches!(c.handle(&tls).unwrap(), Action::StartTls(_)));
    assert!(c.handle(OK).is_err());
}

/// Bug: 101
#[test]
fn switches_are_followed_with_the_new_nonce() {
    let nonce = *b"abcdefghijklmnopqrst";
    // Some servers end the nonce with a NUL, some do not.
    for data in [&nonce[..], &[&nonce[..], &[0]].concat()] {
        let mut c = Connect::new(login(TlsUse::Never)).unwrap();
        sent(c.handle(&greeting("unknown_default", CapabilityFlags::empty())).unwrap());
        let answer = sent(c.handle(&switch("mysql_native_password", data)).unwrap());
        assert_eq!(answer, native_password(b"secret", &nonce));
        assert_eq!(c.plugin(), Some("mysql_native_password"));
        assert!(matches!(c.handle(OK).unwrap(), Action::Done(_)));
    }
}

/// Bug: 104
#[test]
fn hostile_servers_get_an_error_and_no_password() {
    let start = || {
        let mut c = Connect::new(login(TlsUse::Never)).unwrap();
        sent(c.handle(&greeting("caching_sha2_password", CapabilityFlags::empty())).unwrap());
        c
    };
    let e = start().handle(&switch("mysql_clear_password", b"")).err().unwrap();
    assert!(e.is_auth() && e.to_string().contains("mysql_clear_password"));
    assert!(start().handle(&[0xfe]).err().unwrap().to_string().contains("mysql_old_password"));
    // Bug 104: a nonce of four bytes.
    assert!(start().handle(&switch("mysql_native_password", b"abcd")).is_err());
    assert!(start().handle(&[1, 4]).err().unwrap().is_auth());
    assert!(start().handle(&[2]).is_err());
    assert!(start().handle(&[]).is_err());
    assert!(start().handle(&[0xfb, b'x']).is_err());
    let e = start().handle(&encode_err(1045, *b"28000", "Access denied for user")).err().unwrap();
    assert!(e.is_auth());
    let e = start().handle(b"\x02authentication_webauthn_client\0data").err().unwrap().to_string();
    assert!(e.contains("authentication_webauthn_client") && e.contains("multi-factor"), "{e}");
    // Ping-pong ends.
    let mut c = start();
    let mut rounds = 0;
    while c.handle(&switch("mysql_native_password", b"abcdefghijklmnopqrst")).is_ok() {
        rounds += 1;
    }
    assert_eq!(rounds, MAX_ROUNDS);
}

#[test]
fn an_error_instead_of_the_greeting() {
    let e = Connect::new(login(TlsUse::Never)).unwrap().handle(b"\xff\x10\x04Too many connections").err().unwrap();
    assert!(e.is_retryable());
    assert_eq!(e.to_string(), "connecting: server error 1040 (HY000): Too many connections");
}

/// Conformance: W9
#[test]
fn compression_and_tracking_are_used_where_both_want_them() {
    let all = CapabilityFlags::COMPRESS | CapabilityFlags::ZSTD_COMPRESSION | CapabilityFlags::SESSION_TRACK;
    let mut wanted = vec![(Compression::None, CapabilityFlags::empty())];
    if cfg!(feature = "zlib") {
        wanted.push((Compression::Zlib, CapabilityFlags::COMPRESS));
    }
    if cfg!(feature = "zstd") {
        wanted.push((Compression::Zstd { level: 7 }, CapabilityFlags::ZSTD_COMPRESSION));
    }
    for (compression, flag) in wanted {
        let login = Login { compression, ..login(TlsUse::Never) };
        let mut c = Connect::new(login.clone()).unwrap();
        let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
        let parsed = HandshakeResponse41::parse(&packet).unwrap();
        assert_eq!(parsed.capabilities & all, flag);
        assert_eq!(parsed.zstd_level, matches!(compression, Compression::Zstd { .. }).then_some(7));
        assert!(matches!(c.handle(OK).unwrap(), Action::Done(s) if s.compression == compression));

        // A server without it.
        let refused = Connect::new(login.clone()).unwrap().handle(&greeting("mysql_native_password", all));
        assert_eq!(refused.is_err(), compression != Compression::None);

        let mut c = Connect::new(Login { session_track: true, ..login }).unwrap();
        let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
        let capabilities = HandshakeResponse41::parse(&packet).unwrap().capabilities;
        assert_eq!(capabilities & all, flag | CapabilityFlags::SESSION_TRACK);
    }
    let bad = Login { compression: Compression::Zstd { level: 0 }, ..login(TlsUse::Never) };
    assert!(Connect::new(bad).is_err());
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut l = login(TlsUse::Never);
    l.user = "a\0b".into();
    assert!(Connect::new(l).is_err());
    let mut l = login(TlsUse::Never);
    l.attributes = vec![("k".into(), "v".repeat(40_000))];
    assert!(Connect::new(l).is_err());
}

/// A login inside TLS to a server that has no certificate of a CA.
fn unproven(version: &str, password: &str) -> (Connect, Result<Action, Error>) {
    let login = Login { password: password.into(), client_nonce: Some([3; 32]), ..login(TlsUse::Always) };
    let mut c = Connect::new(login).unwrap();
    let mut greeting = HandshakeV10::parse(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap();
    greeting.server_version = version.into();
    assert!(matches!(c.handle(&greeting.encode()).unwrap(), Action::StartTls(_)));
    let action = c.tls_ready(Certificate::ToBeProven { sha256: [9; 32] });
    (c, action)
}

/// The OK of a login with a remark.
fn ok_with(remark: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 2, 0, 0, 0][..], remark].concat()
}

fn proof(stored: &[u8], certificate: [u8; 32]) -> Vec<u8> {
    let digest = expected_proof(stored, b"01234567890123456789", &certificate);
    let hex: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    [&[0x41, 1][..], hex.as_bytes()].concat()
}

/// Conformance: W2
#[test]
fn a_server_proves_its_certificate_by_the_password() {
    let stored = crate::auth::stored_native_password(b"secret");
    let (mut c, action) = unproven("11.8.9-MariaDB", "secret");
    sent(action.unwrap());
    let Action::Done(session) = c.handle(&ok_with(&proof(&stored, [9; 32]))).unwrap() else { panic!() };
    assert_eq!((session.tls, session.identity), (true, Identity::Password));

    // The proof of the server behind somebody who shows a certificate of his own; none; one of another password.
    let other = crate::auth::stored_native_password(b"secreT");
    for (remark, text) in [
        (proof(&stored, [8; 32]), "in between"),
        (Vec::new(), "ssl_ca"),
        (b"welcome".to_vec(), "ssl_ca"),
        (proof(&other, [9; 32]), "in between"),
    ] {
        let (mut c, action) = unproven("11.8.9-MariaDB", "secret");
        sent(action.unwrap());
        let e = c.handle(&ok_with(&remark)).err().unwrap();
        assert!(e.is_tls() && !e.is_retryable() && e.to_string().contains(text), "{e}");
    }
}

/// Conformance: W2
#[test]
fn who_cannot_prove_is_told_at_once_and_learns_nothing() {
    for (version, password, text) in [
        ("9.7.4", "secret", "ssl_ca"),
        ("5.5.5-10.11.18-MariaDB", "secret", "11.4"),
        ("11.8.9-MariaDB", "", "without a password"),
    ] {
        let e = unproven(version, password).1.err().unwrap();
        assert!(e.is_tls() && e.to_string().contains(text), "{e}");
    }
    // Whoever claims to be able to is given nothing from which the password could be read.
    let sha2 = b"abcdefghijklmnopqrst";
    for (plugin, data) in
        [("mysql_clear_password", &b""[..]), ("sha256_password", sha2), ("caching_sha2_password", sha2)]
    {
        let (c, _) = unproven("11.8.9-MariaDB", "secret");
        let mut c = Connect {
            login: Login { allow_cleartext_password: true, allow_public_key_retrieval: true, ..c.login },
            ..c
        };
        let e = match c.handle(&switch(plugin, data)) {
            Ok(action) => {
                assert_eq!(sent(action), caching_sha2(b"secret", sha2));
                c.handle(&[1, 4]).err().unwrap()
            }
            Err(e) => e,
        };
        assert!(e.is_auth() && e.to_string().contains(plugin), "{e}");
    }
}

/// Conformance: W2
#[test]
fn a_proof_for_another_certificate_is_never_overlooked() {
    let stored = crate::auth::stored_native_password(b"secret");
    for (certificate, remark, identity) in [
        (Certificate::Unchecked { sha256: [9; 32] }, proof(&stored, [9; 32]), Some(Identity::Password)),
        (Certificate::Unchecked { sha256: [9; 32] }, Vec::new(), Some(Identity::Unknown)),
        (Certificate::Unchecked { sha256: [9; 32] }, proof(&stored, [8; 32]), None),
        (Certificate::Verified, Vec::new(), Some(Identity::Certificate)),
    ] {
        let mut c = Connect::new(login(TlsUse::IfOffered)).unwrap();
        let greeting = greeting("mysql_native_password", CapabilityFlags::empty());
        assert!(matches!(c.handle(&greeting).unwrap(), Action::StartTls(_)));
        sent(c.tls_ready(certificate).unwrap());
        match (c.handle(&ok_with(&remark)), identity) {
            (Ok(Action::Done(session)), Some(identity)) => assert_eq!(session.identity, identity),
            (Err(e), None) => assert!(e.is_tls(), "{e}"),
            _ => panic!("{certificate:?}"),
        }
    }
}
