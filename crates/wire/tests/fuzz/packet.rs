//! Framing: the packets do not depend on how the stream was cut, and are those that a plain reading finds.

use bytes::{Bytes, BytesMut};
use millstream_wire::packet::{MAX_FRAME, MAX_PACKET, PacketCodec};

/// `u8 flags, u8 size of the pieces, the server's stream`.
pub(crate) fn run(data: &[u8]) {
    let Some((&[flags, cut], stream)) = data.split_first_chunk::<2>() else { return };
    let limit = if flags & 1 == 0 { MAX_PACKET } else { 100 };
    let commanded = flags & 2 != 0;
    let (packets, ended) = decode(stream.chunks(usize::from(cut) + 1), limit, commanded);
    assert_eq!((&packets, ended), (&decode(stream.chunks(stream.len().max(1)), limit, commanded).0, ended));
    assert_eq!((packets.as_slice(), ended), (plain(stream, limit, commanded).as_slice(), ended));
    for packet in &packets {
        assert!(packet.len() <= limit);
    }

    // What was read is what a writer makes of it, unless a server gave up an idle session in its own numbering.
    let mut codec = PacketCodec::new(limit);
    let mut again = Vec::new();
    if commanded {
        codec.encode(b"\x0e", &mut Vec::new());
    }
    for packet in &packets {
        codec.encode(packet, &mut again);
    }
    let own_numbering = commanded && stream.get(3) == Some(&0);
    assert!(own_numbering || stream.starts_with(&again));
}

/// The packets, and whether the stream ended in an error.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize, commanded: bool) -> (Vec<Bytes>, bool) {
    let (mut codec, mut buf, mut packets) = (PacketCodec::new(limit), BytesMut::new(), Vec::new());
    if commanded {
        codec.encode(b"\x0e", &mut Vec::new());
    }
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match codec.decode(&mut buf) {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(_) => return (packets, true),
            }
        }
        // The hint must ask for more than there is: a reader that waits for it would otherwise spin.
        assert!(codec.needed(&buf) > buf.len());
        assert!(codec.needed(&buf) <= MAX_FRAME + 4);
    }
    (packets, false)
}

/// Frames read one by one, without any state but the expected number.
fn plain(stream: &[u8], limit: usize, commanded: bool) -> Vec<Bytes> {
    let (mut rest, mut packets, mut joined) = (stream, Vec::new(), Vec::new());
    let mut expected = u8::from(commanded);
    let mut first = true;
    while let Some((&[a, b, c, sequence], body)) = rest.split_first_chunk::<4>() {
        let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let farewell = first && sequence == 0 && len > 0 && body.first() == Some(&0xff);
        if joined.len() + len > limit || (sequence != expected && !farewell) || body.len() < len {
            break;
        }
        let (payload, tail) = body.split_at(len);
        joined.extend_from_slice(payload);
        if len < MAX_FRAME {
            packets.push(std::mem::take(&mut joined).into());
        }
        (rest, expected, first) = (tail, sequence.wrapping_add(1), false);
    }
    packets
}
