//! Binlog files.

use std::io::Read;

use crate::error::Error;
use crate::header::{EventHeader, EventType};

const MAGIC: [u8; 4] = *b"\xfebin";
const ENCRYPTED: [u8; 4] = *b"\xfdbin";

/// Raw events of a binlog file, one after the other, from any reader.
#[derive(Debug)]
pub struct BinlogFile<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of `start`.
    offset: u64,
    max_event: usize,
    /// START_ENCRYPTION came.
    encrypted: bool,
}

/// A raw event and where it lies.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RawEvent<'a> {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// The event for [`EventDecoder::decode`](crate::EventDecoder::decode).
    pub bytes: &'a [u8],
}

/// Read at a time.
const STEP: usize = 256 << 10;

impl<R: Read> BinlogFile<R> {
    /// Reads and checks the file's first four bytes. Events over `max_event` bytes will be refused.
    pub fn new(input: R, max_event: usize) -> Result<Self, Error> {
        let mut file = Self { input, buffer: Vec::new(), start: 0, end: 0, offset: 0, max_event, encrypted: false };
        file.fill(MAGIC.len())?;
        match file.waiting().first_chunk() {
            Some(&MAGIC) => {}
            Some(&ENCRYPTED) => {
                return Err(Error::file(0, "an encrypted binlog (binlog_encryption=ON); read it from the server"));
            }
            _ => return Err(Error::file(0, "not a binlog file")),
        }
        file.advance(MAGIC.len());
        Ok(file)
    }

    /// The next event; `None` at the end of the file. A file that ends inside an event is an error, and so is an encrypted
    /// event.
    #[allow(clippy::should_implement_trait, reason = "lends the buffer, which Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<RawEvent<'_>>, Error> {
        if !self.fill(1)? {
            return Ok(None);
        }
        if self.encrypted {
            return Err(Error::file(
                self.offset,
                "encrypted from here on (encrypt_binlog=ON); read it from the server",
            ));
        }
        let cut = "the file ends inside an event";
        if !self.fill(EventHeader::LEN)? {
            return Err(Error::file(self.offset, cut));
        }
        let Some([_, _, _, _, ty, _, _, _, _, l0, l1, l2, l3]) = self.waiting().first_chunk::<13>() else {
            return Err(Error::file(self.offset, cut));
        };
        let event = EventType(*ty);
        let length = usize::try_from(u32::from_le_bytes([*l0, *l1, *l2, *l3])).unwrap_or(usize::MAX);
        if length < EventHeader::LEN {
            return Err(Error::file(self.offset, "the event's length is less than its header"));
        }
        if length > self.max_event {
            return Err(Error::limit("an event", self.max_event as u64));
        }
        if !self.fill(length)? {
            return Err(Error::cut(self.offset, event, length, self.waiting().len()));
        }
        self.encrypted = event == EventType::START_ENCRYPTION;
        let (from, offset) = (self.start, self.offset);
        self.advance(length);
        let bytes = self.buffer.get(from..self.start).unwrap_or_default();
        Ok(Some(RawEvent { offset, bytes }))
    }

    /// Offset of the next event.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        self.start = self.start.saturating_add(n);
        self.offset = self.offset.saturating_add(n as u64);
    }

    /// Reads until `need` bytes wait; false when the file ends before. The buffer grows as bytes arrive, never by what
    /// a length claims.
    fn fill(&mut self, need: usize) -> Result<bool, Error> {
        while self.end.saturating_sub(self.start) < need {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end = self.end.saturating_sub(self.start);
                self.start = 0;
            }
            if self.end == self.buffer.len() {
                let size = self.buffer.len().saturating_mul(2).max(STEP);
                self.buffer.resize(size, 0);
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(free) {
                Ok(0) => return Ok(false),
                Ok(n) => self.end = self.end.saturating_add(n),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(self.offset, e)),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    /// Hands out one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let (Some((first, rest)), Some(slot)) = (self.0.split_first(), buf.first_mut()) else { return Ok(0) };
            *slot = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn event(length: u32, body: usize) -> Vec<u8> {
        let mut raw = vec![0; 19 + body];
        raw[9..13].copy_from_slice(&length.to_le_bytes());
        raw
    }

    #[test]
    fn events_come_whole_whatever_the_reads_are() {
        let log = [&MAGIC[..], &event(24, 5), &event(19, 0)].concat();
        let mut file = BinlogFile::new(Slow(&log), 100).unwrap();
        let mut seen = Vec::new();
        while let Some(raw) = file.next().unwrap() {
            seen.push((raw.offset, raw.bytes.len()));
        }
        assert_eq!(seen, [(4, 24), (28, 19)]);
        assert_eq!(file.offset(), 47);
    }

    /// Conformance: E15
    #[test]
    fn events_behind_start_encryption_are_refused() {
        let mut start = event(36, 17);
        start[4] = 164;
        let log = [&MAGIC[..], &start, &event(24, 5)].concat();
        let mut file = BinlogFile::new(log.as_slice(), 100).unwrap();
        assert_eq!(file.next().unwrap().unwrap().bytes, start);
        for _ in 0..2 {
            assert_eq!(
                file.next().unwrap_err().to_string(),
                "offset 40: encrypted from here on (encrypt_binlog=ON); read it from the server"
            );
        }
        // Without anything behind it there is nothing to refuse.
        let mut file = BinlogFile::new(&log[..40], 100).unwrap();
        file.next().unwrap();
        assert!(file.next().unwrap().is_none());
    }

    #[test]
    fn what_is_no_binlog_or_no_event_is_named() {
        for (log, text) in [
            (&b""[..], "offset 0: not a binlog file"),
            (b"\xfebi", "offset 0: not a binlog file"),
            (b"PK\x03\x04", "offset 0: not a binlog file"),
            (b"\xfdbin", "offset 0: an encrypted binlog (binlog_encryption=ON); read it from the server"),
        ] {
            assert_eq!(BinlogFile::new(log, 100).unwrap_err().to_string(), text);
        }
        for (tail, text) in [
            (event(18, 0), "offset 4: the event's length is less than its header"),
            (event(101, 0), "an event is over the limit of 100 bytes"),
            (event(u32::MAX, 0), "an event is over the limit of 100 bytes"),
            (event(50, 0), "offset 4: the file ends inside an event of type UNKNOWN (0): 19 of its 50 bytes are there"),
            (vec![0; 5], "offset 4: the file ends inside an event"),
        ] {
            let log = [&MAGIC[..], &tail].concat();
            let mut file = BinlogFile::new(log.as_slice(), 100).unwrap();
            assert_eq!(file.next().unwrap_err().to_string(), text);
        }
    }
}
