//! The compressed protocol (`page_protocol_basic_compression`): after the login all bytes travel in frames of their own.
//!
//! ```text
//! u24 length of the body   u8 sequence   u24 length when inflated, 0: the body is stored as it is   body
//! ```
//!
//! Frames and packets are two layers that are not aligned: a frame holds many packets, or a piece of one. Both sides
//! number frames through one command; the packets inside have numbers that mean nothing, since servers reset them at each
//! flush (`net_flush` in `sql-common/net_serv.cc`).

mod algorithm;

use bytes::{Buf, BytesMut};

use crate::codec::{ParseError, ParseErrorKind};
use crate::error::{Error, Kind};
use crate::packet::MAX_FRAME;
use algorithm::Algorithm;

/// Bytes before each frame's body.
pub const HEADER_LEN: usize = 7;
/// Shorter payloads are stored: they would not shrink (`MIN_COMPRESS_LENGTH`).
const MIN_LEN: usize = 50;
/// Inflated bytes to make room for at first, whatever is declared.
const FIRST_ROOM: usize = 64 * 1024;
const DURING: &str = "reading a compressed frame";

/// What the bytes after the login are compressed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// zlib, known to every server. Needs feature `zlib`.
    Zlib,
    /// zstd, known to MySQL since 8.0.18 and to no MariaDB. Needs feature `zstd`.
    Zstd {
        /// For both directions, 1 to 22; 3 is the usual one.
        level: u8,
    },
}

impl Compression {
    /// Whether it can be used: that the feature is there and the level exists.
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::Zlib if !cfg!(feature = "zlib") => Err(Error::usage("zlib is not part of this build")),
            Self::Zstd { .. } if !cfg!(feature = "zstd") => Err(Error::usage("zstd is not part of this build")),
            Self::Zstd { level } if !matches!(level, 1..=22) => Err(Error::usage("a zstd level is one of 1 to 22")),
            _ => Ok(()),
        }
    }
}

/// Puts bytes into frames and takes them out of frames. Both sides of a session share the numbers of a command.
#[derive(Debug)]
pub struct CompressedFrames {
    algorithm: Algorithm,
    sequence: u8,
    /// No frame came since the last command.
    fresh: bool,
    /// The next frame may have any number.
    any_order: bool,
}

impl CompressedFrames {
    /// Frames of a session that is past its login. [`Compression::None`] stores everything and inflates nothing.
    ///
    /// # Errors
    /// An algorithm that is not part of this build, or a level that does not exist.
    pub fn new(compression: Compression) -> Result<Self, Error> {
        compression.check()?;
        Ok(Self { algorithm: Algorithm::new(compression)?, sequence: 0, fresh: true, any_order: false })
    }

    /// Begins a new command: its first frame has number 0.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
        self.fresh = true;
        self.any_order = false;
    }

    /// Takes the next frame whatever its number: the answer to a command that was cut short.
    pub fn skip_order_check(&mut self) {
        self.any_order = true;
    }

    /// Appends `bytes` (packets, whole or in part) to `out` as one or more frames.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for chunk in bytes.chunks(MAX_FRAME) {
            let (body, inflated) = match chunk.len() {
                ..MIN_LEN => (chunk, 0),
                len => self.algorithm.deflate(chunk).map_or((chunk, 0), |body| (body, len)),
            };
            let [a, b, c, ..] = body.len().to_le_bytes();
            let [d, e, f, ..] = inflated.to_le_bytes();
            out.extend_from_slice(&[a, b, c, self.sequence, d, e, f]);
            out.extend_from_slice(body);
            self.sequence = self.sequence.wrapping_add(1);
        }
    }

    /// Appends `bytes` to `out` as frames apart from the conversation: they count from number 0, and what is due next does
    /// not change.
    pub fn encode_apart(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let due = core::mem::replace(&mut self.sequence, 0);
        self.encode(bytes, out);
        self.sequence = due;
    }

    /// Takes the whole frame at the front of `frames`, if there is one, and appends its bytes to `out`. Says whether there
    /// was one.
    ///
    /// Room is made as bytes come out, never by what the header declares alone: at most 64 KiB, 8 times the body, or
    /// twice of what has come out.
    ///
    /// # Errors
    /// Frames out of order, or a body that does not inflate to exactly what its header declares. The stream is then of no
    /// more use.
    pub fn decode(&mut self, frames: &mut BytesMut, out: &mut BytesMut) -> Result<bool, Error> {
        let Some(&[a, b, c, sequence, d, e, f]) = frames.first_chunk::<HEADER_LEN>() else {
            return Ok(false);
        };
        let len = u24(a, b, c);
        // A server that gives up an idle session says why in a frame of its own numbering.
        if sequence != self.sequence && !self.any_order && !(self.fresh && sequence == 0) {
            return Err(Error::new(Kind::OutOfOrder { expected: self.sequence, got: sequence }));
        }
        if frames.len().saturating_sub(HEADER_LEN) < len {
            return Ok(false);
        }
        frames.advance(HEADER_LEN);
        self.sequence = sequence.wrapping_add(1);
        self.fresh = false;
        self.any_order = false;
        let body = frames.split_to(len);
        match u24(d, e, f) {
            0 if out.is_empty() => *out = body,
            0 => out.extend_from_slice(&body),
            inflated => self
                .inflate(&body, inflated, out)
                .map_err(|kind| Error::malformed(DURING, ParseError::new("body", kind, body.len())))?,
        }
        Ok(true)
    }

    fn inflate(&mut self, body: &[u8], len: usize, out: &mut BytesMut) -> Result<(), ParseErrorKind> {
        let start = out.len();
        let (mut rest, mut done) = (body, 0usize);
        self.algorithm.begin()?;
        loop {
            let room = FIRST_ROOM.max(body.len().saturating_mul(8)).max(done.saturating_mul(2)).min(len);
            out.resize(start.saturating_add(room), 0);
            let into = out.get_mut(start.saturating_add(done)..).unwrap_or_default();
            let step = self.algorithm.inflate(rest, into)?;
            rest = rest.get(step.read..).unwrap_or_default();
            done = done.saturating_add(step.written);
            match step.ended {
                true if done == len && rest.is_empty() => return Ok(()),
                true => return Err(ParseErrorKind::BadLength),
                // Neither an end nor a byte further: the body is short, or it holds more than it declares.
                false if step.read == 0 && step.written == 0 => return Err(ParseErrorKind::BadLength),
                false => {}
            }
        }
    }

    /// How many bytes, counted from the front of `frames`, must be there before [`decode`](Self::decode) can take a
    /// frame: a hint for sizing reads.
    #[must_use]
    pub fn needed(&self, frames: &[u8]) -> usize {
        match frames.first_chunk::<HEADER_LEN>() {
            Some(&[a, b, c, ..]) => u24(a, b, c).saturating_add(HEADER_LEN),
            None => HEADER_LEN,
        }
    }
}

fn u24(a: u8, b: u8, c: u8) -> usize {
    usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16
}

#[cfg(test)]
mod tests;
