//! A whole session in compressed frames.

use bytes::BytesMut;
use millstream_wire::compress::CompressedFrames;
use millstream_wire::flags::{CapabilityFlags, StatusFlags};
use millstream_wire::handshake::HandshakeV10;
use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::{BinlogDump, Compression, Connection, DumpStart, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::{NONCE, options};

/// The server's end: packets that begin anew at each flush, and pieces that are cut anywhere.
struct Server {
    io: DuplexStream,
    codec: PacketCodec,
    frames: CompressedFrames,
    input: BytesMut,
    plain: BytesMut,
    /// Bytes of packets in one frame.
    piece: usize,
}

impl Server {
    async fn login(mut io: DuplexStream, compression: Compression, piece: usize) -> Self {
        let mut codec = PacketCodec::new(MAX_PACKET);
        let greeting = HandshakeV10 {
            server_version: "9.7.4-fake".into(),
            connection_id: 1,
            nonce: NONCE,
            capabilities: server::CAPABILITIES | CapabilityFlags::COMPRESS | CapabilityFlags::ZSTD_COMPRESSION,
            charset: 45,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: "mysql_native_password".into(),
        };
        let mut out = Vec::new();
        codec.encode(&greeting.encode(), &mut out);
        io.write_all(&out).await.unwrap();
        let mut input = BytesMut::new();
        let login = loop {
            match codec.decode(&mut input).unwrap() {
                Some(packet) => break packet,
                None => assert_ne!(io.read_buf(&mut input).await.unwrap(), 0),
            }
        };
        let login = server::HandshakeResponse41::parse(&login).unwrap();
        assert_eq!(login.zstd_level, matches!(compression, Compression::Zstd { .. }).then_some(3));
        out.clear();
        codec.encode(&server::ok(0), &mut out);
        io.write_all(&out).await.unwrap();
        codec.ignore_order();
        let frames = CompressedFrames::new(compression).unwrap();
        Self { io, codec, frames, input, plain: BytesMut::new(), piece }
    }

    async fn command(&mut self) -> Vec<u8> {
        self.frames.begin_command();
        loop {
            if let Some(packet) = self.codec.decode(&mut self.plain).unwrap() {
                return packet.to_vec();
            }
            while !self.frames.decode(&mut self.input, &mut self.plain).unwrap() {
                assert_ne!(self.io.read_buf(&mut self.input).await.unwrap(), 0);
            }
        }
    }

    async fn send(&mut self, payloads: &[Vec<u8>]) {
        let (mut packets, mut out) = (Vec::new(), Vec::new());
        for payload in payloads {
            self.codec.begin_command();
            self.codec.encode(payload, &mut packets);
        }
        for piece in packets.chunks(self.piece) {
            self.frames.encode(piece, &mut out);
        }
        self.io.write_all(&out).await.unwrap();
    }
}

/// Conformance: W9
/// Bug: 97
#[tokio::test]
async fn a_session_in_frames_of_every_size() {
    for compression in [Compression::Zlib, Compression::Zstd { level: 3 }] {
        // Frames of a byte, of less than a packet, of many packets; a pipe that cuts them again.
        for (piece, pipe, row) in [(1, 7, 300), (60, 64, 5000), (16_384, 4096, 100_000), (1 << 24, 1 << 16, 20 << 20)] {
            let (client, io) = duplex(pipe);
            let options = options().compression(compression);
            let value = "x".repeat(row);
            let statement = format!("SELECT '{value}'");
            let (asked, answer) = (statement.clone(), value.clone());
            let server = tokio::spawn(async move {
                let mut s = Server::login(io, compression, piece).await;
                assert_eq!(s.command().await, b"\x03SET NAMES utf8mb4");
                s.send(&[server::ok(0)]).await;
                assert_eq!(s.command().await[1..], *asked.as_bytes());
                s.send(&server::result_set(&["v"], [[Some(&answer)], [Some(&answer)]])).await;
                assert_eq!(s.command().await[0], 3);
                s.send(&[server::ok(0)]).await;
                assert_eq!(s.command().await[0], 0x15);
                s.send(&[server::ok(0)]).await;
                assert_eq!(s.command().await[0], 0x12);
                s.send(&[vec![0; 20], [&[0][..], answer.as_bytes()].concat(), vec![0xfe, 0, 0, 2, 0]]).await;
            });
            let mut c = Connection::login(client, &options, false).await.unwrap();
            assert_eq!(c.compression(), compression);
            let rows = c.query_all(&statement).await.unwrap();
            assert!(rows.len() == 2 && rows.text(1, "v") == Some(&value), "{compression:?} {piece}");
            let start = DumpStart::Position { file: "b.000001".into(), position: 4 };
            let dump = BinlogDump::new(start, 7, "11111111-2222-3333-4444-555555555555");
            let mut stream = c.dump(BinlogDump { non_blocking: true, ..dump }).await.unwrap();
            assert_eq!(stream.next().await.unwrap().unwrap().len(), 19);
            assert_eq!(stream.next().await.unwrap().unwrap().len(), row);
            assert!(stream.next().await.unwrap().is_none());
            server.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_damaged_frame_ends_the_connection() {
    let (client, io) = duplex(1024);
    let options = options().compression(Compression::Zlib);
    let server = tokio::spawn(async move {
        let mut s = Server::login(io, Compression::Zlib, 100).await;
        s.command().await;
        s.send(&[server::ok(0)]).await;
        s.command().await;
        // 60 bytes declared, 8 bytes of nothing.
        s.io.write_all(b"\x08\0\0\x01\x3c\0\0abcdefgh").await.unwrap();
        s
    });
    let mut c = Connection::login(client, &options, false).await.unwrap();
    let e = c.execute("SELECT 1").await.unwrap_err();
    assert!(e.to_string().contains("compressed frame") && !e.is_retryable(), "{e}");
    assert!(!c.is_usable() && c.ping().await.is_err());
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_without_it_is_refused_by_name() {
    let (client, mut io) = duplex(1024);
    let server = tokio::spawn(async move {
        let mut out = Vec::new();
        PacketCodec::new(MAX_PACKET).encode(&server::greeting("9.7.4-fake", 1, NONCE), &mut out);
        io.write_all(&out).await.unwrap();
        // Nothing is sent to it.
        assert_eq!(io.read(&mut [0; 8]).await.unwrap(), 0);
    });
    let options = options().compression(Compression::Zstd { level: 3 });
    let e = Connection::login(client, &options, false).await.unwrap_err();
    assert!(e.to_string().contains("offers no zstd"), "{e}");
    server.await.unwrap();
}
