#![cfg(all(feature = "zlib", feature = "zstd"))]

use proptest::prelude::*;

use super::*;
use crate::packet::{MAX_PACKET, PacketCodec};

const ALL: [Compression; 3] = [Compression::None, Compression::Zlib, Compression::Zstd { level: 3 }];

fn frames_of(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    CompressedFrames::new(compression).unwrap().encode(bytes, &mut out);
    out
}

fn inflated(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut frames, mut out) = (BytesMut::from(bytes), BytesMut::new());
    let mut codec = CompressedFrames::new(compression).unwrap();
    while codec.decode(&mut frames, &mut out)? {}
    Ok(out.to_vec())
}

/// Bytes that do not shrink.
fn noise(len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

fn header(body: usize, sequence: u8, inflated: usize) -> [u8; 7] {
    let ([a, b, c, ..], [d, e, f, ..]) = (body.to_le_bytes(), inflated.to_le_bytes());
    [a, b, c, sequence, d, e, f]
}

/// Conformance: W9
#[test]
fn frames_round_trip_at_every_size_that_matters() {
    for compression in ALL {
        for len in [1, MIN_LEN - 1, MIN_LEN, 1000, FIRST_ROOM, FIRST_ROOM + 1, MAX_FRAME, MAX_FRAME + 1, 2 * MAX_FRAME]
        {
            let bytes: Vec<u8> = noise(len.min(3000)).into_iter().cycle().take(len).collect();
            let frames = frames_of(compression, &bytes);
            assert!(inflated(compression, &frames).unwrap() == bytes, "{compression:?} {len}");
            let stored = frames[4..7] == [0, 0, 0];
            assert_eq!(stored, compression == Compression::None || len < FIRST_ROOM, "{compression:?} {len}");
        }
        // What does not shrink is stored.
        assert_eq!(frames_of(compression, &noise(5000))[..7], header(5000, 0, 0));
    }
}

/// Conformance: W9
/// Bug: 97
#[test]
fn packets_and_frames_are_not_aligned() {
    for compression in ALL {
        let payloads = [vec![1; 40_000], vec![2; 3], vec![3; MAX_FRAME], vec![4; 70]];
        let mut packets = Vec::new();
        let mut writer = PacketCodec::new(MAX_PACKET);
        for payload in &payloads {
            // As a server does at each flush.
            writer.begin_command();
            writer.encode(payload, &mut packets);
        }
        let mut sender = CompressedFrames::new(compression).unwrap();
        let mut wire = Vec::new();
        // Pieces that end inside headers and payloads, and pieces that hold several packets.
        for piece in packets.chunks(16_384 + 7) {
            sender.encode(piece, &mut wire);
        }
        let mut receiver = CompressedFrames::new(compression).unwrap();
        let mut reader = PacketCodec::new(MAX_PACKET);
        reader.ignore_order();
        let (mut buffer, mut plain, mut got) = (BytesMut::new(), BytesMut::new(), Vec::new());
        for bytes in wire.chunks(10_007) {
            buffer.extend_from_slice(bytes);
            while receiver.decode(&mut buffer, &mut plain).unwrap() {
                while let Some(packet) = reader.decode(&mut plain).unwrap() {
                    got.push(packet);
                }
            }
        }
        assert!(got.iter().zip(&payloads).all(|(a, b)| a == b) && got.len() == payloads.len(), "{compression:?}");
        assert!(buffer.is_empty() && plain.is_empty());
    }
}

#[test]
fn the_declared_length_must_be_the_true_one() {
    for compression in [Compression::Zlib, Compression::Zstd { level: 1 }] {
        let honest = frames_of(compression, &[7; 5000]);
        let body = honest[7..].to_vec();
        for (declared, ok) in [(5000, true), (4999, false), (5001, false), (1, false), (MAX_FRAME, false)] {
            let frame = [&header(body.len(), 0, declared)[..], &body].concat();
            assert_eq!(inflated(compression, &frame).is_ok(), ok, "{compression:?} {declared}");
        }
        // A body cut short, one with a byte too many, one of another kind, none.
        let short = [&header(body.len() - 1, 0, 5000)[..], &body[..body.len() - 1]].concat();
        let long = [&header(body.len() + 1, 0, 5000)[..], &body, &[0]].concat();
        let other = [&header(8, 0, 60)[..], b"12345678"].concat();
        for frame in [short, long, other, header(0, 0, 60).to_vec()] {
            let e = inflated(compression, &frame).unwrap_err();
            assert!(!e.is_connection_usable() && e.to_string().contains("compressed frame"), "{e}");
        }
    }
    // Nothing was agreed on, so nothing can be inflated.
    let frame = frames_of(Compression::Zlib, &[7; 5000]);
    assert!(inflated(Compression::None, &frame).is_err());
}

#[test]
fn room_is_made_as_bytes_come_out() {
    for compression in [Compression::Zlib, Compression::Zstd { level: 1 }] {
        // 16 MiB are declared, 5000 bytes come.
        let body = frames_of(compression, &[7; 5000]).split_off(7);
        let frame = [&header(body.len(), 0, MAX_FRAME)[..], &body].concat();
        let (mut frames, mut out) = (BytesMut::from(&frame[..]), BytesMut::new());
        assert!(CompressedFrames::new(compression).unwrap().decode(&mut frames, &mut out).is_err());
        assert!(out.capacity() <= 2 * FIRST_ROOM, "{compression:?} {}", out.capacity());
    }
    // A zstd frame without a size, whose window is declared: 16 MiB are the most that can be needed.
    for (window, ok) in [(0x70, true), (0x78, false), (0x88, false)] {
        // The last block: 100 times one byte.
        let body = [0x28, 0xb5, 0x2f, 0xfd, 0x00, window, 0x23, 0x03, 0x00, b'x'];
        let frame = [&header(body.len(), 0, 100)[..], &body].concat();
        assert_eq!(inflated(Compression::Zstd { level: 1 }, &frame).is_ok(), ok, "{window:x}");
    }
}

#[test]
fn frames_are_numbered_through_a_command() {
    let frame = |sequence| [&header(1, sequence, 0)[..], b"x"].concat();
    let mut codec = CompressedFrames::new(Compression::Zlib).unwrap();
    let take = |codec: &mut CompressedFrames, sequence| {
        codec.decode(&mut BytesMut::from(&frame(sequence)[..]), &mut BytesMut::new()).is_ok()
    };
    codec.encode(b"command", &mut Vec::new());
    assert!(take(&mut codec, 1) && take(&mut codec, 2) && !take(&mut codec, 4));
    codec.skip_order_check();
    assert!(take(&mut codec, 9) && take(&mut codec, 10) && !take(&mut codec, 0));
    // A goodbye of the server's own numbering.
    codec.begin_command();
    codec.encode(b"command", &mut Vec::new());
    assert!(take(&mut codec, 0));
}

#[test]
fn what_cannot_be_is_refused() {
    for level in [0, 23, 255] {
        assert!(CompressedFrames::new(Compression::Zstd { level }).is_err());
    }
}

proptest! {
    #[test]
    fn arbitrary_and_damaged_frames_never_panic(
        zstd in any::<bool>(),
        mut frame in prop::collection::vec(any::<u8>(), 0..300),
        good in any::<bool>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let compression = if zstd { Compression::Zstd { level: 1 } } else { Compression::Zlib };
        if good {
            frame = frames_of(compression, &frame.repeat(20));
            if !frame.is_empty() {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
        }
        let (mut frames, mut out) = (BytesMut::from(&frame[..]), BytesMut::new());
        let mut codec = CompressedFrames::new(compression).unwrap();
        while let Ok(true) = codec.decode(&mut frames, &mut out) {}
        prop_assert!(out.len() <= 64 * 1024 + 40_000 * 1032);
    }
}
