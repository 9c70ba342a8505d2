//! Logins that no server of the tests asks for.

use tokio::io::duplex;

use crate::{NONCE, Server, options};
use millstream_wire::server::{self, HandshakeResponse41};
use millstream_wire::{Connection, Error};

/// A login to a server that asks for the password as it is, and what the server got.
async fn clear(allow: bool, local: bool) -> (Result<Connection, Error>, Option<Vec<u8>>) {
    let (client, io) = duplex(1 << 16);
    let mut s = Server::new(io);
    let server = async move {
        s.send(&server::greeting("11.8.9-MariaDB", 1, NONCE)).await;
        let login = s.packet().await;
        assert_eq!(HandshakeResponse41::parse(&login).unwrap().plugin, Some(&b"mysql_native_password"[..]));
        s.send(b"\xfemysql_clear_password\0").await;
        if !(allow && local) {
            return None;
        }
        let answer = s.packet().await;
        s.send(&server::ok(0)).await;
        // SET NAMES.
        s.command().await;
        s.send(&server::ok(0)).await;
        Some(answer.to_vec())
    };
    let options = options().allow_cleartext_password(allow);
    tokio::join!(Connection::login(client, &options, local), server)
}

/// Conformance: W7
#[tokio::test]
async fn the_password_as_it_is_goes_where_it_may() {
    let (connection, answer) = clear(true, true).await;
    assert!(!connection.unwrap().tls());
    assert_eq!(answer.unwrap(), b"secret\0");
    for (allow, local, text) in [(true, false, "TLS"), (false, true, "allow_cleartext"), (false, false, "allow_clear")]
    {
        let error = clear(allow, local).await.0.map(drop).unwrap_err();
        assert!(error.is_auth() && error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_key_file_that_is_none_is_told_before_a_byte_is_sent() {
    let (client, mut server) = duplex(64);
    let options = options().server_public_key(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let error = Connection::login(client, &options, false).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("server_public_key") && error.to_string().contains("Cargo.toml"), "{error}");
    let mut sent = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut server, &mut sent).await.unwrap();
    assert!(sent.is_empty());
}
