use core::fmt;

use bytes::{Bytes, BytesMut};
use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};
use zstd::stream::raw::{Decoder, Operation as _};

use crate::error::{Error, Place};
use crate::header::EventHeader;

/// TRANSACTION_PAYLOAD: a whole transaction, from BEGIN to XID, as compressed events (`Transaction_payload_event`).
///
/// ```text
/// (lenenc tag, lenenc length, value)…: 1 payload size, 2 algorithm (0 zstd, 255 none), 3 size when opened, 0 end
/// payload
/// ```
#[derive(Clone, Copy)]
pub struct TransactionPayload<'a> {
    /// How the payload is packed.
    pub compression: Compression,
    /// Size of the inner events as stated. Nothing is sized from it; another size at the end is an error.
    pub uncompressed_size: Option<u64>,
    payload: &'a [u8],
    place: Place,
}

/// How a payload is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// The events as they are.
    None,
    /// One zstd frame or more.
    Zstd,
}

impl fmt::Debug for TransactionPayload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionPayload({:?}, {} bytes)", self.compression, self.payload.len())
    }
}

impl<'a> TransactionPayload<'a> {
    pub(crate) fn parse(mut r: Reader<'a>, place: Place) -> Result<Self, ParseError> {
        let (mut size, mut compression, mut uncompressed_size) = (None, None, None);
        loop {
            let tag = r.lenenc("payload header tag")?;
            if tag == 0 {
                break;
            }
            let n = r.lenenc_len("payload header length")?;
            let mut value = r.sub(n, "payload header value")?;
            match tag {
                1 => size = Some(value.lenenc("payload size")?),
                2 => {
                    compression = Some(match value.lenenc("payload compression")? {
                        0 => Compression::Zstd,
                        255 => Compression::None,
                        _ => return Err(value.error("payload compression", ParseErrorKind::Unsupported)),
                    });
                }
                3 => uncompressed_size = Some(value.lenenc("uncompressed size")?),
                _ => {}
            }
        }
        let payload = r.rest();
        if size.is_some_and(|n| n != payload.len() as u64) {
            return Err(Reader::new(payload).error("payload size", ParseErrorKind::BadLength));
        }
        // The server leaves the algorithm out for none only in theory; without the tag nothing is known.
        let compression =
            compression.ok_or_else(|| Reader::new(payload).error("payload compression", ParseErrorKind::BadLength))?;
        Ok(Self { compression, uncompressed_size, payload, place })
    }

    /// Bytes of the payload as packed.
    #[must_use]
    pub const fn compressed_len(&self) -> usize {
        self.payload.len()
    }
}

/// Opens payloads, with one decompression context for all of them.
pub struct PayloadReader {
    zstd: Option<Decoder<'static>>,
    /// What one step opens, before it goes behind what waits. It is cleared once: a payload of frames of a few bytes would
    /// otherwise clear a whole step for each of them.
    step: Vec<u8>,
    buffer: BytesMut,
    max_event: usize,
    max_payload: u64,
}

impl fmt::Debug for PayloadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayloadReader").field("max_event", &self.max_event).finish_non_exhaustive()
    }
}

/// Decompressed at a time.
const STEP: usize = 128 << 10;

impl PayloadReader {
    /// A reader that refuses inner events over `max_event` bytes and payloads over `max_payload` bytes when opened.
    #[must_use]
    pub fn new(max_event: usize, max_payload: u64) -> Self {
        Self { zstd: None, step: Vec::new(), buffer: BytesMut::new(), max_event, max_payload }
    }

    /// Begins a payload. Whatever was left of an earlier one is forgotten.
    pub fn open<'r, 'a>(&'r mut self, payload: &TransactionPayload<'a>) -> Result<PayloadEvents<'r, 'a>, Error> {
        self.buffer.clear();
        let compressed = |e| payload.place.compressed(e);
        if payload.compression == Compression::Zstd {
            match &mut self.zstd {
                Some(zstd) => zstd.reinit().map_err(compressed)?,
                none => *none = Some(Decoder::new().map_err(compressed)?),
            }
        }
        Ok(PayloadEvents { reader: self, payload: *payload, input: payload.payload, opened: 0, frame_open: false })
    }

    /// Goes on with the payload that was opened last, from where [`PayloadEvents::pause`] left it.
    pub fn resume<'r, 'a>(
        &'r mut self,
        payload: &TransactionPayload<'a>,
        place: PayloadPlace,
    ) -> PayloadEvents<'r, 'a> {
        let read = payload.payload.len().saturating_sub(place.left);
        let input = payload.payload.get(read..).unwrap_or_default();
        PayloadEvents { reader: self, payload: *payload, input, opened: place.opened, frame_open: place.frame_open }
    }
}

/// How far a payload was read, to go on later; what was opened and not taken stays in the [`PayloadReader`].
#[derive(Clone, Copy, Debug)]
pub struct PayloadPlace {
    left: usize,
    opened: u64,
    frame_open: bool,
}

/// The events of one payload. Memory holds one inner event and one step of decompression.
#[derive(Debug)]
pub struct PayloadEvents<'r, 'a> {
    reader: &'r mut PayloadReader,
    payload: TransactionPayload<'a>,
    input: &'a [u8],
    opened: u64,
    frame_open: bool,
}

impl PayloadEvents<'_, '_> {
    /// The next inner event for [`EventDecoder::decode_inner`](crate::EventDecoder::decode_inner): header and body,
    /// without a checksum. `None` at the end.
    pub fn next_event(&mut self) -> Result<Option<Bytes>, Error> {
        let place = self.payload.place;
        if !self.fill(1)? {
            if self.payload.uncompressed_size.is_some_and(|n| n != self.opened) {
                let e = Reader::new(&[]).error("uncompressed size", ParseErrorKind::BadLength);
                return Err(place.malformed(e));
            }
            return Ok(None);
        }
        if !self.fill(EventHeader::LEN)? {
            return Err(place
                .malformed(Reader::new(&self.reader.buffer).error("inner event header", ParseErrorKind::BadLength)));
        }
        let header = EventHeader::parse(&mut Reader::new(&self.reader.buffer)).map_err(|e| place.malformed(e))?;
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if length < EventHeader::LEN {
            let e = Reader::new(&[]).error("inner event length", ParseErrorKind::BadLength);
            return Err(place.malformed(e));
        }
        if length > self.reader.max_event {
            return Err(Error::limit("an event inside a payload", self.reader.max_event as u64));
        }
        if !self.fill(length)? {
            let e = Reader::new(&self.reader.buffer).error("inner event", ParseErrorKind::BadLength);
            return Err(place.malformed(e));
        }
        Ok(Some(self.reader.buffer.split_to(length).freeze()))
    }

    /// Opens more until `need` bytes wait; false when the payload ends before.
    fn fill(&mut self, need: usize) -> Result<bool, Error> {
        while self.reader.buffer.len() < need {
            if self.payload.compression == Compression::None {
                let n = self.input.len().min(STEP.max(need));
                let (head, tail) = self.input.split_at_checked(n).unwrap_or_default();
                if head.is_empty() {
                    return Ok(false);
                }
                self.reader.buffer.extend_from_slice(head);
                self.input = tail;
                self.count(head.len())?;
                continue;
            }
            if !self.inflate()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One step of decompression; false at the payload's end.
    fn inflate(&mut self) -> Result<bool, Error> {
        let place = self.payload.place;
        let truncated = || place.malformed(Reader::new(&[]).error("zstd frame", ParseErrorKind::BadLength));
        if self.input.is_empty() && !self.frame_open {
            return Ok(false);
        }
        let PayloadReader { zstd: Some(zstd), step, buffer, .. } = &mut *self.reader else { return Ok(false) };
        step.resize(STEP, 0);
        let status = zstd.run_on_buffers(self.input, step.as_mut_slice()).map_err(|e| place.compressed(e))?;
        buffer.extend_from_slice(step.get(..status.bytes_written).unwrap_or_default());
        self.input = self.input.get(status.bytes_read..).unwrap_or_default();
        // 0: the frame is complete and flushed; another may follow.
        self.frame_open = status.remaining != 0;
        self.count(status.bytes_written)?;
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(truncated());
        }
        Ok(true)
    }

    fn count(&mut self, more: usize) -> Result<(), Error> {
        self.opened = self.opened.saturating_add(more as u64);
        if self.opened > self.reader.max_payload {
            return Err(Error::limit("a transaction payload", self.reader.max_payload));
        }
        Ok(())
    }

    /// Lets go of the reader and the payload; [`PayloadReader::resume`] goes on.
    #[must_use]
    pub const fn pause(self) -> PayloadPlace {
        PayloadPlace { left: self.input.len(), opened: self.opened, frame_open: self.frame_open }
    }

    /// Bytes opened so far.
    #[must_use]
    pub const fn opened(&self) -> u64 {
        self.opened
    }
}
