//! Frames of the compressed protocol.

use bytes::BytesMut;
use millstream_wire::compress::{CompressedFrames, Compression, HEADER_LEN};

/// `u8 algorithm, u8 size of the pieces, the server's stream`.
pub(crate) fn run(data: &[u8]) {
    let Some((&[algorithm, cut], stream)) = data.split_first_chunk::<2>() else { return };
    let algorithm = [Compression::None, Compression::Zlib, Compression::Zstd { level: 1 }][usize::from(algorithm) % 3];
    // A build without an algorithm refuses it.
    let algorithm = if CompressedFrames::new(algorithm).is_ok() { algorithm } else { Compression::None };
    let (inflated, ended) = decode(stream.chunks(usize::from(cut) + 1), algorithm);
    assert_eq!((&inflated, ended), (&decode(stream.chunks(stream.len().max(1)), algorithm).0, ended));
    // A frame is taken only when it is whole and comes to what it declares.
    assert!(inflated.len() <= declared(stream));

    // What comes out goes in again, also any bytes at all.
    for bytes in [&inflated[..], stream] {
        let mut frames = Vec::new();
        CompressedFrames::new(algorithm).unwrap().encode(bytes, &mut frames);
        assert!(frames.len() <= bytes.len() + HEADER_LEN * (1 + bytes.len() / 0xff_ffff));
        assert_eq!(decode(frames.chunks(frames.len().max(1)), algorithm), (bytes.to_vec(), false));
    }
}

/// The bytes in the frames, and whether the stream ended in an error.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>, algorithm: Compression) -> (Vec<u8>, bool) {
    let mut frames = CompressedFrames::new(algorithm).unwrap();
    let (mut buf, mut out, mut all) = (BytesMut::new(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match frames.decode(&mut buf, &mut out) {
                Ok(true) => all.extend_from_slice(&out.split()),
                Ok(false) => break,
                Err(_) => return (all, true),
            }
        }
        assert!(frames.needed(&buf) > buf.len());
    }
    (all, false)
}

/// What the frames' headers say in all.
fn declared(stream: &[u8]) -> usize {
    let (mut rest, mut sum) = (stream, 0);
    while let Some((&[a, b, c, _, d, e, f], body)) = rest.split_first_chunk::<HEADER_LEN>() {
        let number = |a: u8, b: u8, c: u8| usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let (len, inflated) = (number(a, b, c), number(d, e, f));
        let Some((_, tail)) = body.split_at_checked(len) else { break };
        sum += if inflated == 0 { len } else { inflated };
        rest = tail;
    }
    sum
}
