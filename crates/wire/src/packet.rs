//! Frames (`page_protocol_basic_packets`): `u24` length, `u8` sequence id, payload. A payload of 0xffffff bytes or more
//! is split; the last frame is the first one shorter than that, and may be empty.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Error, Kind};

/// The longest payload of one frame.
pub const MAX_FRAME: usize = 0xff_ffff;
/// Bytes before each frame's payload.
pub const HEADER_LEN: usize = 4;
/// Cap on a packet before the login has succeeded: greetings, keys and plugin data are small.
pub const LOGIN_LIMIT: usize = 64 * 1024;
/// The most a server sends in one packet (`max_log_event_size`, which a dump always allows).
pub const MAX_PACKET: usize = 1 << 30;

/// Cuts packets out of a byte stream and writes packets into one. It keeps the sequence id, which both sides share.
///
/// A packet in one frame is a slice of the read buffer, without a copy. A packet in several frames is joined into a
/// buffer of its own that grows as bytes arrive, never by what a header declares.
#[derive(Debug)]
pub struct PacketCodec {
    sequence: u8,
    /// No packet came since the last command.
    fresh: bool,
    /// The next packet may have any sequence id.
    any_order: bool,
    /// No packet's sequence id says anything.
    unordered: bool,
    limit: usize,
    joining: Option<Joining>,
}

#[derive(Debug)]
struct Joining {
    body: BytesMut,
    /// Bytes of the current frame that have not come yet.
    left: usize,
    /// The current frame is the packet's last.
    last: bool,
}

impl PacketCodec {
    /// A codec for a connection's first packet, with a cap on the size of a packet.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { sequence: 0, fresh: true, any_order: false, unordered: false, limit, joining: None }
    }

    /// Changes the cap on the size of a packet.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The sequence id of the next packet, whoever sends it.
    #[must_use]
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Begins a new command: its packet has sequence id 0.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
        self.fresh = true;
        self.any_order = false;
    }

    /// Goes back to where a command was just sent: the server's next packet has sequence id 1. A source of
    /// semi-synchronous replication begins again so after each event that it wants acknowledged.
    pub fn begin_answer(&mut self) {
        self.sequence = 1;
        self.fresh = true;
        self.any_order = false;
    }

    /// Takes the next packet whatever its sequence id: the answer to a command that was cut short.
    pub fn skip_order_check(&mut self) {
        self.any_order = true;
    }

    /// Takes packets whatever their sequence ids from now on: under compression servers begin anew at each flush, and
    /// the order shows in the compressed frames.
    pub fn ignore_order(&mut self) {
        self.unordered = true;
    }

    /// Appends `payload` to `out` as one or more frames.
    pub fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mut chunks = payload.chunks(MAX_FRAME);
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let [a, b, c, ..] = chunk.len().to_le_bytes();
            out.extend_from_slice(&[a, b, c, self.sequence]);
            out.extend_from_slice(chunk);
            self.sequence = self.sequence.wrapping_add(1);
            if chunk.len() < MAX_FRAME {
                return;
            }
        }
    }

    /// Appends `payload` to `out` as a packet apart from the conversation: its frames count from sequence id 0, and what is
    /// due next does not change. For acknowledgements in a dump.
    pub fn encode_apart(&self, payload: &[u8], out: &mut Vec<u8>) {
        Self::new(self.limit).encode(payload, out);
    }

    /// The next whole packet at the front of `buf`, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Frames out of order, or a packet over the limit. The stream is then of no more use.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(joining) = &mut self.joining {
                let n = joining.left.min(buf.len());
                if let Some(part) = buf.get(..n) {
                    joining.body.extend_from_slice(part);
                    buf.advance(n);
                    joining.left = joining.left.saturating_sub(n);
                }
                if joining.left > 0 {
                    return Ok(None);
                }
                if joining.last {
                    return Ok(self.joining.take().map(|j| j.body.freeze()));
                }
            }
            let Some(&[a, b, c, sequence]) = buf.first_chunk::<HEADER_LEN>() else {
                return Ok(None);
            };
            let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            let before = self.joining.as_ref().map_or(0, |j| j.body.len());
            if before.saturating_add(len) > self.limit {
                return Err(Error::new(Kind::Limit { what: "a packet of the server", limit: self.limit }));
            }
            if sequence != self.sequence && !self.any_order && !self.unordered {
                // A server that gives up an idle session says why with an ERR of its own numbering.
                let may_be_farewell = self.fresh && sequence == 0 && len > 0;
                match buf.get(HEADER_LEN) {
                    None if may_be_farewell => return Ok(None),
                    Some(0xff) if may_be_farewell => {}
                    _ => return Err(Error::new(Kind::OutOfOrder { expected: self.sequence, got: sequence })),
                }
            }
            let whole = len < MAX_FRAME && self.joining.is_none();
            if whole && buf.len().saturating_sub(HEADER_LEN) < len {
                return Ok(None);
            }
            buf.advance(HEADER_LEN);
            self.sequence = sequence.wrapping_add(1);
            self.fresh = false;
            self.any_order = false;
            if whole {
                return Ok(Some(buf.split_to(len).freeze()));
            }
            let joining = self.joining.get_or_insert_with(|| Joining { body: BytesMut::new(), left: 0, last: false });
            joining.left = len;
            joining.last = len < MAX_FRAME;
        }
    }

    /// How many bytes, counted from the front of `buf`, must be there before [`decode`](Self::decode) can make
    /// progress: a hint for sizing reads, at most one frame.
    #[must_use]
    pub fn needed(&self, buf: &[u8]) -> usize {
        match (&self.joining, buf.first_chunk::<HEADER_LEN>()) {
            (None, Some(&[a, b, c, _])) => {
                (usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16).saturating_add(HEADER_LEN)
            }
            _ => HEADER_LEN.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        PacketCodec::new(MAX_PACKET).encode(payload, &mut out);
        out
    }

    /// Conformance: W8
    /// Bug: 82
    #[test]
    fn exact_multiples_end_with_an_empty_frame() {
        for (len, headers) in
            [(0, 1), (1, 1), (MAX_FRAME - 1, 1), (MAX_FRAME, 2), (MAX_FRAME + 1, 2), (2 * MAX_FRAME, 3)]
        {
            let payload = vec![7; len];
            let bytes = frames(&payload);
            assert_eq!(bytes.len(), len + headers * HEADER_LEN);
            let mut codec = PacketCodec::new(MAX_PACKET);
            let mut buf = BytesMut::from(&bytes[..]);
            assert_eq!(codec.decode(&mut buf).unwrap().unwrap().len(), len);
            assert_eq!(usize::from(codec.sequence()), headers);
            assert!(buf.is_empty());
        }
    }

    #[test]
    fn a_single_frame_is_not_copied() {
        let mut buf = BytesMut::from(&frames(b"payload")[..]);
        let at = buf.as_ptr() as usize + HEADER_LEN;
        let packet = PacketCodec::new(100).decode(&mut buf).unwrap().unwrap();
        assert_eq!(packet.as_ptr() as usize, at);
    }

    #[test]
    fn limits_hold_before_any_byte_is_stored() {
        let mut buf = BytesMut::from(&[0xff, 0xff, 0x7f, 0][..]);
        let e = PacketCodec::new(LOGIN_LIMIT).decode(&mut buf).unwrap_err();
        assert_eq!(e.to_string(), "a packet of the server is over its limit of 65536 bytes");
        // Joined packets count as a whole.
        let mut codec = PacketCodec::new(MAX_FRAME + 2);
        let mut bytes = frames(&vec![1; MAX_FRAME]);
        bytes.truncate(MAX_FRAME + HEADER_LEN);
        bytes.extend_from_slice(&[3, 0, 0, 1]);
        assert!(codec.decode(&mut BytesMut::from(&bytes[..])).is_err());
    }

    #[test]
    fn order_is_checked_but_a_farewell_is_heard() {
        let mut codec = PacketCodec::new(100);
        codec.encode(b"?", &mut Vec::new());
        assert!(codec.decode(&mut BytesMut::from(&[1, 0, 0, 2, 0][..])).is_err());
        let farewell = [3, 0, 0, 0, 0xff, 0xbf, 0x0f];
        for cut in 0..farewell.len() {
            assert!(codec.decode(&mut BytesMut::from(&farewell[..cut])).unwrap().is_none());
        }
        assert_eq!(codec.decode(&mut BytesMut::from(&farewell[..])).unwrap().unwrap().len(), 3);
        assert!(codec.decode(&mut BytesMut::from(&[1, 0, 0, 0, 0xff][..])).is_err());
    }

    /// Conformance: D6
    /// Bug: 94
    #[test]
    fn acknowledgements_are_apart_and_events_count_from_one_again() {
        let mut codec = PacketCodec::new(100);
        codec.encode(b"dump", &mut Vec::new());
        let one = |sequence| BytesMut::from(&[1, 0, 0, sequence, 7][..]);
        assert!(codec.decode(&mut one(1)).unwrap().is_some() && codec.decode(&mut one(2)).unwrap().is_some());
        codec.begin_answer();
        let mut ack = Vec::new();
        codec.encode_apart(b"ack", &mut ack);
        assert_eq!(ack, [3, 0, 0, 0, b'a', b'c', b'k']);
        assert!(codec.decode(&mut one(1)).unwrap().is_some() && codec.decode(&mut one(1)).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_packets(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            cuts in prop::collection::vec(1usize..64, 1..40),
        ) {
            let (mut bytes, mut writer) = (Vec::new(), PacketCodec::new(MAX_PACKET));
            for p in &payloads { writer.encode(p, &mut bytes); }
            let (mut codec, mut buf, mut got) = (PacketCodec::new(MAX_PACKET), BytesMut::new(), Vec::new());
            let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (head, tail) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                buf.extend_from_slice(head);
                rest = tail;
                while let Some(p) = codec.decode(&mut buf).unwrap() { got.push(p.to_vec()); }
            }
            prop_assert_eq!(got, payloads);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut buf = BytesMut::from(&bytes[..]);
            let mut codec = PacketCodec::new(1000);
            while let Ok(Some(_)) = codec.decode(&mut buf) {}
        }
    }
}
