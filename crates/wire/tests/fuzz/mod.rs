//! Bodies of the fuzz targets over this crate. The targets and the test `hostile` run the same code.

pub(crate) mod auth;
pub(crate) mod binary_row;
pub(crate) mod compressed;
pub(crate) mod dump;
pub(crate) mod handshake;
pub(crate) mod packet;
pub(crate) mod prepare;
pub(crate) mod response;
pub(crate) mod result;
pub(crate) mod session_track;
pub(crate) mod text_row;

use bytes::Bytes;
use millstream_wire::flags::CapabilityFlags;

/// Input of a target that takes several packets: `u16 length, payload` again and again, the last one as long as it is.
pub(crate) fn packets(data: &[u8]) -> Vec<Bytes> {
    let (mut all, mut rest) = (Vec::new(), data);
    while let Some(([low, high], tail)) = rest.split_first_chunk::<2>() {
        let (packet, tail) = tail.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(tail.len()));
        all.push(Bytes::copy_from_slice(packet));
        rest = tail;
    }
    all
}

/// The capabilities that change how an answer is read, from the low bits of a byte.
pub(crate) fn capabilities(bits: u8) -> CapabilityFlags {
    let mut caps = CapabilityFlags::PROTOCOL_41;
    caps.set(CapabilityFlags::DEPRECATE_EOF, bits & 1 != 0);
    caps.set(CapabilityFlags::SESSION_TRACK, bits & 2 != 0);
    caps
}

/// What was handed out lies inside what was handed in.
pub(crate) fn assert_inside(part: &[u8], whole: &[u8]) {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    assert!(part.is_empty() || (part.start >= whole.start && part.end <= whole.end), "{part:?} {whole:?}");
}
