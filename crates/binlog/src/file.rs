//! Binlog files.

use std::io::Read;

use crate::error::Error;
use crate::header::EventHeader;

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
    max_buffer: usize,
}

/// A raw event and where it lies.
#[derive(Clone, Copy, Debug)]
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
        let mut file = Self { input, buffer: Vec::new(), start: 0, end: 0, offset: 0, max_event, max_buffer: STEP };
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

    /// The next event; `None` at the end of the file. A file that ends inside an event is an error.
    #[allow(clippy::should_implement_trait, reason = "lends the buffer, which Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<RawEvent<'_>>, Error> {
        if !self.fill(1)? {
            return Ok(None);
        }
        let cut = "the file ends inside an event";
        if !self.fill(EventHeader::LEN)? {
            return Err(Error::file(self.offset, cut));
        }
        let Some([.., l0, l1, l2, l3]) = self.waiting().first_chunk::<13>() else {
            return Err(Error::file(self.offset, cut));
        };
        let length = usize::try_from(u32::from_le_bytes([*l0, *l1, *l2, *l3])).unwrap_or(usize::MAX);
        if length < EventHeader::LEN {
            return Err(Error::file(self.offset, "the event's length is less than its header"));
        }
        if length > self.max_event {
            return Err(Error::limit("an event", self.max_event as u64));
        }
        if !self.fill(length)? {
            return Err(Error::file(self.offset, cut));
        }
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
                let size = self.buffer.len().saturating_mul(2).max(self.max_buffer);
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
