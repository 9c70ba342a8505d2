//! Generated and damaged bytes through the body of the fuzz target `packet`.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

#[path = "hostile/packets.rs"]
mod packets;

use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::server;
use proptest::prelude::*;

/// A whole session: a greeting, an OK, a result set.
fn session() -> Vec<u8> {
    let (mut codec, mut out) = (PacketCodec::new(MAX_PACKET), Vec::new());
    codec.encode(&server::greeting("9.7.4", 1, *b"01234567890123456789"), &mut out);
    codec.encode(&server::ok(0), &mut out);
    out
}

fn result_set() -> Vec<u8> {
    let (mut codec, mut out) = (PacketCodec::new(MAX_PACKET), Vec::new());
    for packet in server::result_set(&["id", "name"], [[Some("1"), None], [Some("2"), Some("two")]]) {
        codec.encode(&packet, &mut out);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..600)) {
        packets::run(&data);
    }

    #[test]
    fn damaged_streams(
        head in any::<[u8; 2]>(),
        result in any::<bool>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut data = head.to_vec();
        data.extend(if result { result_set() } else { session() });
        for (at, byte) in edits {
            let at = at.index(data.len());
            if let Some(b) = data.get_mut(at) { *b = byte; }
        }
        data.truncate(cut.index(data.len() + 1));
        packets::run(&data);
    }
}
