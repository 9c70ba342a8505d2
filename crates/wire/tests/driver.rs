//! The driver against a scripted server on an in-memory pipe.

#![cfg(feature = "client")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

#[path = "driver/allocations.rs"]
mod allocations;
#[path = "driver/compressed.rs"]
mod compressed;
#[path = "driver/logins.rs"]
mod logins;
#[path = "driver/results.rs"]
mod results;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millstream_wire::packet::{MAX_FRAME, MAX_PACKET, PacketCodec};
use millstream_wire::server::{self, HandshakeResponse41};
use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpStart, Error, SslMode, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

const NONCE: [u8; 20] = *b"01234567890123456789";

fn options() -> ConnectOptions {
    ConnectOptions::tcp("server", 3306).user("repl").password("secret").ssl_mode(SslMode::Disabled)
}

/// The server's end of the pipe.
struct Server {
    io: DuplexStream,
    codec: PacketCodec,
    input: BytesMut,
}

impl Server {
    fn new(io: DuplexStream) -> Self {
        Self { io, codec: PacketCodec::new(MAX_PACKET), input: BytesMut::new() }
    }

    async fn send(&mut self, payload: &[u8]) {
        let mut out = Vec::new();
        self.codec.encode(payload, &mut out);
        self.io.write_all(&out).await.unwrap();
    }

    async fn send_all(&mut self, payloads: &[Vec<u8>]) {
        for payload in payloads {
            self.send(payload).await;
        }
    }

    async fn packet(&mut self) -> Bytes {
        loop {
            if let Some(packet) = self.codec.decode(&mut self.input).unwrap() {
                return packet;
            }
            assert_ne!(self.io.read_buf(&mut self.input).await.unwrap(), 0, "the client went away");
        }
    }

    async fn command(&mut self) -> Bytes {
        self.codec.begin_command();
        self.packet().await
    }

    /// The next command must be this statement.
    async fn query(&mut self, sql: &str) {
        let command = self.command().await;
        assert_eq!((command[0], std::str::from_utf8(&command[1..]).unwrap()), (3, sql));
    }

    async fn login(&mut self) {
        self.send(&server::greeting("9.7.4-fake", 42, NONCE)).await;
        let login = self.packet().await;
        let login = HandshakeResponse41::parse(&login).unwrap();
        assert!(server::check_native_password(b"secret", &NONCE, login.auth));
        self.send(&server::ok(0)).await;
        self.query("SET NAMES utf8mb4").await;
        self.send(&server::ok(0)).await;
    }
}

/// A logged-in connection and a server that goes on with `script`.
async fn connected<F>(pipe: usize, script: impl FnOnce(Server) -> F) -> (Connection, JoinHandle<F::Output>)
where
    F: Future<Output: Send> + Send + 'static,
{
    let (client, io) = duplex(pipe);
    let mut server = Server::new(io);
    let options = options();
    let (connection, ()) = tokio::join!(Connection::login(client, &options, false), server.login());
    (connection.unwrap(), tokio::spawn(script(server)))
}

fn rows() -> Vec<Vec<u8>> {
    server::result_set(&["id", "name"], [[Some("1"), Some("one")], [Some("2"), None], [Some("3"), Some("")]])
}

#[tokio::test]
async fn commands_work_when_every_byte_comes_alone() {
    let (mut c, server) = connected(1, |mut s| async move {
        s.query("SELECT id, name FROM t").await;
        s.send_all(&rows()).await;
        s.query("DELETE FROM t").await;
        s.send(&server::ok(3)).await;
        assert_eq!(s.command().await[..], [0x0e]);
        s.send(&server::ok(0)).await;
        assert_eq!(s.command().await[..], [0x01]);
        assert_eq!(s.io.read(&mut [0; 8]).await.unwrap(), 0);
    })
    .await;
    assert_eq!((c.server_version(), c.connection_id(), c.tls()), ("9.7.4-fake", 42, false));
    let result = c.query_all("SELECT id, name FROM t").await.unwrap();
    assert_eq!(result.columns(), ["id", "name"]);
    assert_eq!((result.text(0, "NAME"), result.text(1, "name"), result.text(2, "name")), (Some("one"), None, Some("")));
    assert_eq!((result.len(), result.scalar(), result.text(0, "nothing")), (3, Some("1"), None));
    assert_eq!(c.execute("DELETE FROM t").await.unwrap().affected_rows, 3);
    c.ping().await.unwrap();
    c.close().await;
    server.await.unwrap();
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_an_error_and_never_an_end() {
    let mut answer = Vec::new();
    let mut codec = PacketCodec::new(MAX_PACKET);
    codec.encode(b"?", &mut Vec::new());
    for packet in rows() {
        codec.encode(&packet, &mut answer);
    }
    for cut in 0..=answer.len() {
        let part = answer[..cut].to_vec();
        let (mut c, server) = connected(4096, move |mut s| async move {
            s.query("SELECT 1").await;
            s.io.write_all(&part).await.unwrap();
        })
        .await;
        let result = c.query_all("SELECT 1").await;
        server.await.unwrap();
        if cut == answer.len() {
            assert_eq!(result.unwrap().len(), 3);
            continue;
        }
        let e = result.unwrap_err();
        assert!(e.is_transport() && e.is_retryable() && !e.is_connect(), "{cut}: {e}");
        assert!(!c.is_usable());
        assert!(c.ping().await.unwrap_err().to_string().contains("open a new one"));
    }
}

#[tokio::test]
async fn a_login_cut_at_any_byte_is_an_error() {
    let (mut bytes, mut codec) = (Vec::new(), PacketCodec::new(MAX_PACKET));
    codec.encode(&server::greeting("9.7.4", 1, NONCE), &mut bytes);
    codec.encode(b"login", &mut Vec::new());
    codec.encode(&server::ok(0), &mut bytes);
    for cut in 0..=bytes.len() {
        let (client, mut io) = duplex(4096);
        io.write_all(&bytes[..cut]).await.unwrap();
        io.shutdown().await.unwrap();
        let e = Connection::login(client, &options(), false).await.unwrap_err();
        assert!(e.is_transport(), "{cut}: {e}");
    }
}

#[tokio::test]
async fn an_error_among_the_rows_leaves_the_connection_in_order() {
    let (mut c, server) = connected(64, |mut s| async move {
        s.query("SELECT 1").await;
        s.send_all(&rows()[..5]).await;
        s.send(&server::err(1317, *b"70100", "Query execution was interrupted")).await;
        s.query("SELECT 2").await;
        s.send_all(&rows()).await;
    })
    .await;
    let mut result = c.query("SELECT 1").await.unwrap();
    assert!(result.next().await.unwrap().is_some());
    let e = result.next().await.unwrap_err();
    assert_eq!(e.server_error().unwrap().code, 1317);
    assert!(result.next().await.unwrap().is_none());
    assert_eq!(c.query_all("SELECT 2").await.unwrap().len(), 3);
    server.await.unwrap();
}

#[tokio::test]
async fn rows_left_unread_are_read_by_the_next_command() {
    let (mut c, server) = connected(16, |mut s| async move {
        s.query("SELECT 1").await;
        s.send_all(&rows()).await;
        s.query("SELECT 2").await;
        s.send_all(&rows()[..4]).await;
        s.send(&server::err(1028, *b"HY000", "an error nobody waits for")).await;
        s.query("SELECT 3").await;
        s.send_all(&rows()).await;
    })
    .await;
    assert!(c.query("SELECT 1").await.unwrap().next().await.unwrap().is_some());
    drop(c.query("SELECT 2").await.unwrap());
    assert_eq!(c.query_all("SELECT 3").await.unwrap().len(), 3);
    server.await.unwrap();
}

#[tokio::test]
async fn a_wait_can_be_cancelled_and_taken_up_again() {
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let (mut c, server) = connected(4096, |mut s| async move {
        s.query("SELECT 1").await;
        let (mut bytes, rows) = (Vec::new(), rows());
        for row in &rows {
            s.codec.encode(row, &mut bytes);
        }
        let (a, b) = bytes.split_at(bytes.len() - 20);
        s.io.write_all(a).await.unwrap();
        wait.await.unwrap();
        s.io.write_all(b).await.unwrap();
        s
    })
    .await;
    let mut result = c.query("SELECT 1").await.unwrap();
    let mut count = 0;
    // The rest of the rows is not on its way yet: this wait ends by the timer alone.
    while let Ok(row) = tokio::time::timeout(Duration::from_millis(20), result.next()).await {
        row.unwrap().unwrap();
        count += 1;
    }
    go.send(()).unwrap();
    while result.next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 3);
    server.await.unwrap();
}

#[tokio::test]
async fn a_cancelled_send_breaks_the_connection() {
    // The pipe takes 64 bytes and nobody reads.
    let (mut c, server) = connected(64, |s| async move {
        std::future::pending::<()>().await;
        s
    })
    .await;
    let sql = "x".repeat(1000);
    assert!(tokio::time::timeout(Duration::from_millis(20), c.execute(&sql)).await.is_err());
    assert!(!c.is_usable());
    let e = c.ping().await.unwrap_err();
    assert!(!e.is_retryable() && e.to_string().contains("cancelled"), "{e}");
    server.abort();
}

#[tokio::test]
async fn a_server_that_refuses_a_packet_half_way_is_heard() {
    let (mut c, server) = connected(64, |mut s| async move {
        // It has read the header, says no with a sequence id of its own, and closes.
        assert_ne!(s.io.read(&mut [0; 8]).await.unwrap(), 0);
        let refusal = server::err(1153, *b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes");
        let [len, ..] = refusal.len().to_le_bytes();
        s.io.write_all(&[&[len, 0, 0, 3], &refusal[..]].concat()).await.unwrap();
    })
    .await;
    let e = c.execute(&"x".repeat(1000)).await.unwrap_err();
    assert_eq!(e.server_error().unwrap().code, 1153, "{e}");
    assert!(!e.is_connection_usable() && !c.is_usable());
    server.await.unwrap();
}

/// The wait lies above the transport: a TLS connection that neither speaks nor closes ends by it too.
/// Bug: 112
#[tokio::test]
async fn silence_is_told_after_the_read_timeout() {
    let (client, io) = duplex(4096);
    let mut s = Server::new(io);
    let patient = options().read_timeout(Some(Duration::from_millis(50)));
    let (c, ()) = tokio::join!(Connection::login(client, &patient, false), s.login());
    let e = c.unwrap().execute("SELECT SLEEP(100)").await.unwrap_err();
    assert!(e.is_transport() && e.is_retryable(), "{e}");
    assert!(e.to_string().contains("nothing came for 0.050 s"), "{e}");
    drop(s);
}

#[tokio::test]
async fn packets_over_sixteen_mebibytes_go_both_ways() {
    for len in [MAX_FRAME - 10, MAX_FRAME, 2 * MAX_FRAME + 5] {
        let (mut c, server) = connected(1 << 20, move |mut s| async move {
            let command = s.command().await;
            assert_eq!(command.len(), len);
            assert!(command[1..].iter().all(|b| *b == b'x'));
            // A row whose first byte is 0xfe, as an EOF's: its first column takes 16 MiB or more.
            let big = vec![0xfe; len];
            s.send_all(&server::result_set(&["b"], [[Some(big)]])).await;
        })
        .await;
        let sql = "x".repeat(len - 1);
        let mut result = c.query(&sql).await.unwrap();
        let row = result.next().await.unwrap().unwrap();
        let Value::Bytes(value) = row.values().next().unwrap().unwrap() else { panic!() };
        assert!(value.len() == len && value.iter().all(|b| *b == 0xfe));
        assert!(result.next().await.unwrap().is_none());
        server.await.unwrap();
    }
}

#[tokio::test]
async fn a_row_over_the_cap_is_refused() {
    let (client, io) = duplex(1 << 16);
    let mut s = Server::new(io);
    let small = options().max_packet(10_000);
    let (c, ()) = tokio::join!(Connection::login(client, &small, false), s.login());
    let mut c = c.unwrap();
    let server = tokio::spawn(async move {
        s.query("SELECT b").await;
        s.send_all(&server::result_set(&["b"], [[Some(vec![7; 10_001])]])).await;
    });
    let e = c.query_all("SELECT b").await.unwrap_err();
    assert!(e.to_string().contains("over its limit of 10000 bytes"), "{e}");
    assert!(!c.is_usable());
    server.await.unwrap();
}

#[tokio::test]
async fn statements_send_parameters_and_read_binary_rows() {
    let (mut c, server) = connected(4096, |mut s| async move {
        let prepare = s.command().await;
        assert_eq!(prepare[..], *b"\x16SELECT ?, ?");
        let column = millstream_wire::ColumnDefinition::text("c").encode();
        s.send(&[0, 7, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0]).await;
        for _ in 0..2 {
            s.send_all(&[column.clone(), column.clone(), server::eof()]).await;
        }
        let execute = s.command().await;
        assert_eq!(execute[..15], [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 253, 0, 6]);
        s.send_all(&[vec![2], column.clone(), column, server::eof()]).await;
        s.send_all(&[vec![0, 0b1000, 1, b'a'], server::eof()]).await;
        assert_eq!(s.command().await[..], [0x19, 7, 0, 0, 0]);
        s.codec.begin_command();
        assert_eq!(s.packet().await[..], [0x0e]);
        s.send(&server::ok(0)).await;
    })
    .await;
    let statement = c.prepare("SELECT ?, ?").await.unwrap();
    assert_eq!((statement.params(), statement.columns().len()), (2, 2));
    assert!(c.execute_statement(&statement, &[Value::Null]).await.unwrap_err().is_connection_usable());
    let mut result = c.execute_statement(&statement, &[Value::Text("a"), Value::Null]).await.unwrap();
    let row = result.next().await.unwrap().unwrap();
    assert_eq!(row.values().map(Result::unwrap).collect::<Vec<_>>(), [Value::Bytes(b"a"), Value::Null]);
    assert!(result.next().await.unwrap().is_none());
    c.close_statement(statement).await.unwrap();
    c.ping().await.unwrap();
    server.await.unwrap();
}

async fn login_error(options: ConnectOptions, packets: Vec<Vec<u8>>) -> Error {
    let (client, io) = duplex(1 << 18);
    let mut s = Server::new(io);
    let server = async move {
        s.send(&packets[0]).await;
        for packet in &packets[1..] {
            s.packet().await;
            s.send(packet).await;
        }
        s
    };
    let (result, _server) = tokio::join!(Connection::login(client, &options, false), server);
    result.unwrap_err()
}

#[tokio::test]
async fn logins_that_must_fail() {
    let greeting = || server::greeting("9.7.4", 1, NONCE);
    let e = login_error(options(), vec![b"\xff\x10\x04Too many connections".to_vec()]).await;
    assert!(e.is_retryable() && !e.is_auth(), "{e}");
    let denied = server::err(1045, *b"28000", "Access denied for user 'repl'");
    let e = login_error(options(), vec![greeting(), denied]).await;
    assert!(e.is_auth() && !e.is_retryable(), "{e}");
    assert_eq!(e.server_error().unwrap().sqlstate(), "28000");
    let e = login_error(options(), vec![greeting(), b"\xfemysql_clear_password\0".to_vec()]).await;
    assert!(e.is_auth() && e.to_string().contains("mysql_clear_password"), "{e}");
    let e = login_error(options(), vec![vec![10; 70_000]]).await;
    assert!(e.to_string().contains("65536"), "{e}");
    // TLS is asked for and this server has none; the password is not sent.
    let e = login_error(options().ssl_mode(SslMode::Required), vec![greeting()]).await;
    assert!(e.is_tls() && !e.is_retryable(), "{e}");
    // A file without certificates is noticed before anything is sent.
    let no_ca = options().ssl_mode(SslMode::VerifyCa).ssl_ca(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let (client, _server) = duplex(64);
    let e = Connection::login(client, &no_ca, false).await.unwrap_err();
    assert!(e.is_tls() && e.to_string().contains("no certificate"), "{e}");
}

#[tokio::test]
async fn nobody_there_is_a_connect_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let e = Connection::connect(&ConnectOptions::tcp("127.0.0.1", port)).await.unwrap_err();
    assert!(e.is_connect() && e.is_retryable() && e.to_string().contains(&format!("127.0.0.1:{port}")), "{e}");
    // A server that accepts and says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let o = ConnectOptions::tcp("127.0.0.1", port).connect_timeout(Duration::from_millis(50));
    let e = Connection::connect(&o).await.unwrap_err();
    assert!(e.is_connect() && e.is_retryable(), "{e}");
}

fn dump() -> BinlogDump {
    let mut dump = BinlogDump::new(DumpStart::Gtid(vec![0; 8]), 7, "11111111-2222-3333-4444-555555555555");
    dump.silence = Some(Duration::from_millis(50));
    dump
}

async fn dump_begins(s: &mut Server) {
    let set = s.command().await;
    let set = std::str::from_utf8(&set[1..]).unwrap();
    assert!(set.starts_with("SET @source_binlog_checksum='CRC32'") && set.contains("net_write_timeout"), "{set}");
    s.send(&server::ok(0)).await;
    assert_eq!(s.command().await[..5], [0x15, 7, 0, 0, 0]);
    s.send(&server::ok(0)).await;
    let request = s.command().await;
    assert_eq!((request[0], &request[2..7]), (0x1e, &[0, 7, 0, 0, 0][..]));
}

/// Conformance: D7, W8
/// Bug: 82
#[tokio::test]
async fn events_come_whole_and_batched_and_the_end_is_told() {
    let big = vec![9u8; MAX_FRAME + 100];
    let expected = [b"first".to_vec(), b"second".to_vec(), big.clone(), b"last".to_vec()];
    let non_blocking = BinlogDump { non_blocking: true, ..dump() };
    for pipe in [7, 1 << 20] {
        let events = expected.clone();
        let (c, server) = connected(pipe, move |mut s| async move {
            dump_begins(&mut s).await;
            for event in events.iter().take(if pipe == 7 { 2 } else { 4 }) {
                s.send(&[&[0], &event[..]].concat()).await;
            }
            s.send(&[0xfe, 0, 0, 2, 0]).await;
        })
        .await;
        let mut stream = c.dump(non_blocking.clone()).await.unwrap();
        let mut got = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            got.push(event.to_vec());
            while let Some(event) = stream.try_next().unwrap() {
                got.push(event.to_vec());
            }
        }
        assert_eq!(got.len(), if pipe == 7 { 2 } else { 4 });
        assert!(expected.starts_with(&got));
        assert!(stream.next().await.unwrap().is_none() && stream.try_next().unwrap().is_none());
        server.await.unwrap();
    }
}

/// Conformance: D7
/// Bug: 83
#[tokio::test]
async fn a_dump_that_waits_for_more_has_no_end() {
    let (c, server) = connected(4096, |mut s| async move {
        dump_begins(&mut s).await;
        s.send(b"\0event").await;
        s.send(&[0xfe, 0, 0, 2, 0]).await;
        s
    })
    .await;
    let mut stream = c.dump(dump()).await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    let e = stream.next().await.unwrap_err();
    assert!(e.is_retryable() && e.to_string().contains("the server ended the dump"), "{e}");
    assert!(!stream.next().await.unwrap_err().is_retryable());
    drop(server.await.unwrap());
}

/// Conformance: D6
/// Bug: 94
#[tokio::test]
async fn semi_sync_events_are_acknowledged_and_counted_from_one_again() {
    let event = |n: u8| [&[n; 9][..], &20u32.to_le_bytes(), &[n; 7]].concat();
    let (c, server) = connected(7, move |mut s| async move {
        let set = s.command().await;
        assert!(std::str::from_utf8(&set).unwrap().contains("@rpl_semi_sync_replica=1, @rpl_semi_sync_slave=1"));
        s.send(&server::ok(0)).await;
        s.command().await;
        s.send(&server::ok(0)).await;
        s.command().await;
        for (n, flag) in [(1, 0), (2, 1), (3, 0), (4, 0), (5, 1)] {
            s.send(&[&[0, 0xef, flag][..], &event(n)].concat()).await;
            if flag == 1 {
                // The acknowledgement has sequence id 0, and the next event 1.
                let ack = s.command().await;
                assert_eq!(ack[..], [&[0xef, n, 0, 0, 0, 1, 0, 0, 0][..], b"b.000001"].concat());
            }
        }
        // A source that gave up on semi-sync marks no more events.
        s.send(&[&[0][..], &event(6)].concat()).await;
        s.send(&[0xfe, 0, 0, 2, 0]).await;
    })
    .await;
    let mut stream = c.dump(BinlogDump { semi_sync: true, ..dump() }).await.unwrap();
    for n in 1..=6 {
        assert_eq!(stream.next().await.unwrap().unwrap()[..], event(n));
        assert_eq!(stream.wants_ack(), n == 2 || n == 5);
        if stream.wants_ack() {
            stream.acknowledge("b.000001", u64::from(n) | 1 << 32).await.unwrap();
        }
    }
    let e = stream.next().await.unwrap_err();
    assert!(e.to_string().contains("the server ended the dump"), "{e}");
    server.await.unwrap();
}

#[tokio::test]
async fn small_events_of_one_read_share_its_buffer() {
    let (c, server) = connected(1 << 20, |mut s| async move {
        dump_begins(&mut s).await;
        let mut bytes = Vec::new();
        for i in 0..1000u32 {
            s.codec.encode(&[&[0], &i.to_le_bytes()[..]].concat(), &mut bytes);
        }
        s.io.write_all(&bytes).await.unwrap();
        s
    })
    .await;
    let mut stream = c.dump(dump()).await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let (start, mut count) = (first.as_ptr() as usize, 1usize);
    while let Some(event) = stream.try_next().unwrap() {
        assert_eq!(event.as_ptr() as usize, start + count * 9);
        assert_eq!(event[..], u32::try_from(count).unwrap().to_le_bytes());
        count += 1;
    }
    assert_eq!(count, 1000);
    server.await.unwrap();
}

/// Conformance: D5
/// Bug: 84
#[tokio::test]
async fn a_silent_dump_is_given_up() {
    let (c, server) = connected(4096, |mut s| async move {
        dump_begins(&mut s).await;
        s.send(b"\0event").await;
        s
    })
    .await;
    let mut stream = c.dump(dump()).await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    let e = stream.next().await.unwrap_err();
    assert!(e.is_transport() && e.to_string().contains("waiting for the next binlog event"), "{e}");
    assert!(stream.next().await.is_err());
    drop(server.await.unwrap());
}

#[tokio::test]
async fn a_refused_dump_says_why() {
    for (packet, lost, duplicate) in [
        (server::err(1236, *b"HY000", "Cannot replicate because the source purged required binary logs."), true, false),
        (
            server::err(1236, *b"HY000", "A replica with the same server_uuid/server_id as this replica has connected"),
            false,
            true,
        ),
    ] {
        let (c, server) = connected(4096, |mut s| async move {
            dump_begins(&mut s).await;
            s.send(&packet).await;
            s
        })
        .await;
        let mut stream = c.dump(dump()).await.unwrap();
        let e = stream.next().await.unwrap_err();
        assert_eq!((e.is_position_lost(), e.is_duplicate_replica(), e.is_retryable()), (lost, duplicate, duplicate));
        drop(server.await.unwrap());
    }
}

/// Bug: 83
#[tokio::test]
async fn a_dump_cut_inside_an_event_is_an_error() {
    for cut in [0, 1, 3, 4, 5, 9] {
        let (c, server) = connected(4096, move |mut s| async move {
            dump_begins(&mut s).await;
            let mut bytes = Vec::new();
            s.codec.encode(b"\0event", &mut bytes);
            s.io.write_all(&bytes[..cut]).await.unwrap();
        })
        .await;
        let mut stream = c.dump(dump()).await.unwrap();
        let e = stream.next().await.unwrap_err();
        assert!(e.is_transport() && e.is_retryable(), "{cut}: {e}");
        server.await.unwrap();
    }
}

#[tokio::test]
async fn wrong_dumps_are_refused_before_anything_is_sent() {
    for change in [
        (|d: &mut BinlogDump| d.server_id = 0) as fn(&mut BinlogDump),
        |d| d.replica_uuid = "'; DROP TABLE t; --".into(),
        |d| d.start = DumpStart::Position { file: "b.000001".into(), position: 1 << 32 },
    ] {
        let (c, server) = connected(4096, |mut s| async move { s.io.read(&mut [0; 1]).await.unwrap() }).await;
        let mut d = dump();
        change(&mut d);
        assert!(c.dump(d).await.is_err());
        assert_eq!(server.await.unwrap(), 0);
    }
}
