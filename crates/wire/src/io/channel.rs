use core::time::Duration;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroize;

use crate::compress::{CompressedFrames, Compression};
use crate::error::{Error, Kind};
use crate::packet::{LOGIN_LIMIT, PacketCodec};

/// Any ordered byte stream: TCP, a unix socket, TLS over either, a pipe in a test.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// Room made before each read: many packets come with one system call.
const READ_ROOM: usize = 256 * 1024;
/// The most room made ahead for one packet; beyond that the buffer grows as bytes arrive.
const MAX_ROOM: usize = 2 * 1024 * 1024;

/// Packets over a byte stream.
pub(super) struct Channel {
    stream: Box<dyn Stream>,
    codec: PacketCodec,
    input: BytesMut,
    output: Vec<u8>,
    /// The frames around all bytes, once they are agreed on.
    compressed: Option<Compressed>,
    /// The buffer that is read into was enlarged for a packet over [`READ_ROOM`].
    grown: bool,
    pub(super) timeout: Option<Duration>,
    /// A write was begun and not finished, or an error left the stream in an unknown state.
    broken: bool,
}

struct Compressed {
    frames: CompressedFrames,
    /// Bytes as they come; `Channel::input` then holds what came out of them.
    input: BytesMut,
    output: Vec<u8>,
}

impl Channel {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            codec: PacketCodec::new(LOGIN_LIMIT),
            input: BytesMut::new(),
            output: Vec::new(),
            compressed: None,
            grown: false,
            timeout: None,
            broken: false,
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.codec.set_limit(limit);
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// Changes the stream underneath, once nothing is left of the old one's bytes.
    pub(super) async fn wrap<F, E>(mut self, wrap: impl FnOnce(Box<dyn Stream>) -> F) -> Result<Self, Error>
    where
        F: Future<Output = Result<Box<dyn Stream>, E>>,
        Error: From<E>,
    {
        if !self.input.is_empty() {
            return Err(Error::unexpected("changing to TLS", "bytes ahead of the TLS handshake"));
        }
        self.stream = wrap(self.stream).await?;
        Ok(self)
    }

    /// Goes on in compressed frames, both ways.
    pub(super) fn compress(&mut self, compression: Compression) -> Result<(), Error> {
        let frames = CompressedFrames::new(compression)?;
        self.codec.ignore_order();
        self.compressed = Some(Compressed { frames, input: core::mem::take(&mut self.input), output: Vec::new() });
        Ok(())
    }

    /// Sends a command: its packet has sequence id 0.
    pub(super) async fn send_command(&mut self, payload: &[u8]) -> Result<(), Error> {
        if self.broken {
            return Err(Error::new(Kind::Broken));
        }
        self.codec.begin_command();
        if let Some(compressed) = &mut self.compressed {
            compressed.frames.begin_command();
        }
        self.send(payload).await
    }

    /// Sends a packet with the next sequence id.
    pub(super) async fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        if self.broken {
            return Err(Error::new(Kind::Broken));
        }
        self.output.clear();
        self.codec.encode(payload, &mut self.output);
        if let Some(compressed) = &mut self.compressed {
            compressed.output.clear();
            compressed.frames.encode(&self.output, &mut compressed.output);
        }
        self.write_output().await
    }

    /// Sends a packet apart from the conversation: with sequence id 0, and without an answer.
    pub(super) async fn send_apart(&mut self, payload: &[u8]) -> Result<(), Error> {
        if self.broken {
            return Err(Error::new(Kind::Broken));
        }
        self.output.clear();
        self.codec.encode_apart(payload, &mut self.output);
        if let Some(compressed) = &mut self.compressed {
            compressed.output.clear();
            compressed.frames.encode_apart(&self.output, &mut compressed.output);
        }
        self.write_output().await
    }

    /// The server's packets count from sequence id 1 again.
    pub(super) fn begin_answer(&mut self) {
        self.codec.begin_answer();
        if let Some(compressed) = &mut self.compressed {
            compressed.frames.skip_order_check();
        }
    }

    /// Writes what was encoded.
    async fn write_output(&mut self) -> Result<(), Error> {
        // Until the last byte is out, a drop of this future leaves half a packet behind.
        self.broken = true;
        let mut rest = self.compressed.as_ref().map_or(&self.output, |c| &c.output).as_slice();
        while !rest.is_empty() {
            let write = self.stream.write(rest);
            let sent = match within(self.timeout, "sending", write).await? {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                other => other,
            };
            match sent {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(source) => return Err(self.farewell("sending", source).await),
            }
        }
        if let Err(source) = within(self.timeout, "sending", self.stream.flush()).await? {
            return Err(self.farewell("sending", source).await);
        }
        for output in [Some(&mut self.output), self.compressed.as_mut().map(|c| &mut c.output)].into_iter().flatten() {
            if output.capacity() > READ_ROOM {
                *output = Vec::new();
            }
        }
        self.broken = false;
        Ok(())
    }

    /// Wipes what was sent last: it held a password.
    pub(super) fn wipe(&mut self) {
        self.output.zeroize();
    }

    /// A server that refuses a packet (too large, a killed session) says why and closes: what it said is worth more
    /// than "broken pipe".
    async fn farewell(&mut self, during: &'static str, source: io::Error) -> Error {
        const PATIENCE: Duration = Duration::from_secs(1);
        if let Ok(Ok(Some(packet))) = timeout(PATIENCE, self.try_receive()).await
            && packet.first() == Some(&0xff)
            && let Ok(error) = crate::response::parse_err(&packet)
        {
            return Error::server(during, error);
        }
        Error::new(Kind::Transport { during, target: None, source })
    }

    async fn try_receive(&mut self) -> Result<Option<Bytes>, Error> {
        // The command was cut short, so the answer's sequence id is not the one that is due.
        self.codec.skip_order_check();
        if let Some(compressed) = &mut self.compressed {
            compressed.frames.skip_order_check();
        }
        loop {
            if let Some(packet) = self.decode()? {
                return Ok(Some(packet));
            }
            let input = self.compressed.as_mut().map_or(&mut self.input, |c| &mut c.input);
            if matches!(self.stream.read_buf(input).await, Ok(0) | Err(_)) {
                return Ok(None);
            }
        }
    }

    /// The next packet if it is here already.
    #[inline]
    pub(super) fn buffered(&mut self) -> Result<Option<Bytes>, Error> {
        if self.broken {
            return Err(Error::new(Kind::Broken));
        }
        let packet = self.decode();
        self.broken = packet.is_err();
        packet
    }

    #[inline]
    fn decode(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let packet = self.codec.decode(&mut self.input)?;
            let Some(compressed) = &mut self.compressed else {
                return Ok(packet);
            };
            if packet.is_some() {
                return Ok(packet);
            }
            // One frame after the other, and only as long as no packet is whole.
            if self.input.is_empty() && self.input.capacity() > READ_ROOM {
                self.input = BytesMut::new();
            }
            if !compressed.frames.decode(&mut compressed.input, &mut self.input)? {
                return Ok(None);
            }
        }
    }

    /// The next packet. Safe to cancel: bytes read stay in the buffer.
    pub(super) async fn receive(&mut self, during: &'static str) -> Result<Bytes, Error> {
        loop {
            if let Some(packet) = self.buffered()? {
                return Ok(packet);
            }
            self.fill(during, self.timeout).await?;
        }
    }

    /// Reads once. Safe to cancel.
    pub(super) async fn fill(&mut self, during: &'static str, limit: Option<Duration>) -> Result<(), Error> {
        let input = match &mut self.compressed {
            None => {
                let needed = self.codec.needed(&self.input);
                make_room(&mut self.input, &mut self.grown, needed);
                &mut self.input
            }
            Some(Compressed { frames, input, .. }) => {
                let needed = frames.needed(input);
                make_room(input, &mut self.grown, needed);
                input
            }
        };
        let read = within(limit, during, self.stream.read_buf(input)).await;
        let source = match read {
            Ok(Ok(n)) if n > 0 => return Ok(()),
            Ok(Ok(_)) => closed(),
            // rustls tells a TLS stream that ended without a goodbye apart; MySQL servers end most of them so.
            Ok(Err(source)) if source.kind() == io::ErrorKind::UnexpectedEof => closed(),
            Ok(Err(source)) => source,
            Err(timeout) => {
                self.broken = true;
                return Err(timeout);
            }
        };
        self.broken = true;
        Err(Error::new(Kind::Transport { during, target: None, source }))
    }

    /// Ends the stream in good order; a server that is gone already does not matter.
    pub(super) async fn shutdown(mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        drop(timeout(PATIENCE, self.stream.shutdown()).await);
    }
}

/// Makes room for a read. A buffer that grew for a large packet is not kept for the small ones after it: a connection
/// should not hold 16 MiB because it once saw a row of that size.
fn make_room(input: &mut BytesMut, grown: &mut bool, needed: usize) {
    let wanted = needed.clamp(READ_ROOM, MAX_ROOM.max(input.len().saturating_mul(2)));
    if *grown && wanted <= READ_ROOM {
        let mut small = BytesMut::with_capacity(READ_ROOM);
        small.extend_from_slice(input);
        *input = small;
        *grown = false;
    } else if input.capacity().saturating_sub(input.len()) < READ_ROOM / 8 {
        input.reserve(wanted.saturating_sub(input.len()).max(READ_ROOM / 2));
        *grown = wanted > READ_ROOM;
    }
}

#[cold]
fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

async fn within<T>(limit: Option<Duration>, during: &'static str, future: impl Future<Output = T>) -> Result<T, Error> {
    match limit {
        None => Ok(future.await),
        Some(after) => timeout(after, future).await.map_err(|_| Error::new(Kind::Timeout { during, after })),
    }
}

impl core::fmt::Debug for Channel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Buffers may hold secrets.
        f.debug_struct("Channel").field("broken", &self.broken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MAX_PACKET;

    #[tokio::test]
    async fn a_large_packet_leaves_no_large_buffer_behind() {
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let mut channel = Channel::new(Box::new(client));
        channel.set_limit(MAX_PACKET);
        let sizes = [10usize, 10 << 20, 40 << 20, 100, 1000];
        let writer = tokio::spawn(async move {
            let mut codec = PacketCodec::new(MAX_PACKET);
            for size in sizes {
                let mut out = Vec::new();
                codec.encode(&vec![7; size], &mut out);
                server.write_all(&out).await.unwrap();
            }
        });
        for size in sizes {
            let packet = channel.receive("test").await.unwrap();
            assert_eq!(packet.len(), size);
            // What is declared is not allocated ahead: at most twice of what has come.
            assert!(channel.input.capacity() <= 32 << 20);
        }
        assert!(channel.input.capacity() <= READ_ROOM, "{}", channel.input.capacity());
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_declared_length_is_not_allocated() {
        let (client, mut server) = tokio::io::duplex(64);
        let mut channel = Channel::new(Box::new(client));
        channel.set_limit(MAX_PACKET);
        server.write_all(&[0xff, 0xff, 0xfe, 0, 1, 2, 3]).await.unwrap();
        drop(server);
        assert!(channel.receive("test").await.unwrap_err().is_transport());
        assert!(channel.input.capacity() <= MAX_ROOM);
    }
}
