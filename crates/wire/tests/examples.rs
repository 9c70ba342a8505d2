//! The example that needs no feature, against a scripted server over real sockets. (`tail` runs against real servers, in
//! the tests of the workspace.)

#[path = "../examples/handshake.rs"]
mod handshake;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use bytes::BytesMut;
use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::server;

const NONCE: [u8; 20] = *b"abcdefghij0123456789";

/// One session of a server that knows one statement.
fn serve(mut stream: TcpStream) -> Option<()> {
    let mut codec = PacketCodec::new(MAX_PACKET);
    let mut buffer = BytesMut::new();
    let send = |codec: &mut PacketCodec, mut stream: &TcpStream, payload: &[u8]| {
        let mut frames = Vec::new();
        codec.encode(payload, &mut frames);
        stream.write_all(&frames).ok()
    };
    let mut receive = |codec: &mut PacketCodec, stream: &mut TcpStream| loop {
        if let Some(packet) = codec.decode(&mut buffer).ok()? {
            return Some(packet);
        }
        let mut chunk = [0; 512];
        let n = stream.read(&mut chunk).ok().filter(|n| *n > 0)?;
        buffer.extend_from_slice(chunk.get(..n)?);
    };
    send(&mut codec, &stream, &server::greeting("5.7.0-scripted", 7, NONCE))?;
    let login = receive(&mut codec, &mut stream)?;
    let login = server::HandshakeResponse41::parse(&login).ok()?;
    if !server::check_native_password(b"pw", &NONCE, login.auth) {
        return send(&mut codec, &stream, &server::err(1045, *b"28000", "Access denied"));
    }
    send(&mut codec, &stream, &server::ok(0))?;
    codec.begin_command();
    let query = receive(&mut codec, &mut stream)?;
    assert_eq!(&query[..], b"\x03SELECT VERSION()");
    for packet in server::result_set(&["VERSION()"], [[Some("5.7.0-scripted")]]) {
        send(&mut codec, &stream, &packet)?;
    }
    codec.begin_command();
    assert_eq!(&receive(&mut codec, &mut stream)?[..], b"\x01", "goodbye");
    Some(())
}

fn ask(password: &str) -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let server = thread::spawn(move || listener.accept().ok().and_then(|(stream, _)| serve(stream)));
    let stream = TcpStream::connect(address).map_err(|e| e.to_string())?;
    let answer = handshake::run(stream, "app", password, "SELECT VERSION()").map_err(|e| e.to_string());
    assert!(server.join().is_ok_and(|served| served.is_some()), "{answer:?}");
    answer
}

#[test]
fn a_login_and_a_query_without_tokio() {
    assert_eq!(ask("pw").as_deref(), Ok("5.7.0-scripted"));
    let refused = ask("other").err().unwrap_or_default();
    assert!(refused.contains("1045") && refused.contains("Access denied"), "{refused}");
}
