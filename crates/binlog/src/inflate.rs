//! zlib data of MariaDB's compressed events.

use core::fmt;

use flate2::{Decompress, FlushDecompress, Status};
use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::error::{Error, Place};

/// Opens MariaDB's compressed events, with one context and one buffer for all of them.
pub struct Inflater {
    zlib: Decompress,
    buffer: Vec<u8>,
    max: usize,
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("max", &self.max).finish_non_exhaustive()
    }
}

/// Inflated at a time.
const STEP: usize = 128 << 10;
/// Memory that is kept from one event to the next.
const KEEP: usize = 1 << 20;

impl Inflater {
    /// An inflater that refuses what is over `max` bytes when opened.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { zlib: Decompress::new(true), buffer: Vec::new(), max }
    }

    /// Opens `binlog_buf_compress`'s form. The buffer grows as bytes come out, never by what the size claims.
    ///
    /// ```text
    /// u8: 0x80, algorithm << 4 (0 zlib), n | n bytes size when opened, big endian | zlib data
    /// ```
    pub(crate) fn open(&mut self, packed: &[u8], place: Place) -> Result<&[u8], Error> {
        let mut r = Reader::new(packed);
        let size = size(&mut r).map_err(|e| place.malformed(e))?;
        let size = usize::try_from(size).ok().filter(|n| *n <= self.max);
        let size = size.ok_or_else(|| Error::limit("a compressed event when opened", self.max as u64))?;
        let wrong_size = || place.malformed(r.error("compressed data", ParseErrorKind::BadLength));
        self.buffer.clear();
        self.buffer.shrink_to(KEEP);
        self.zlib.reset(true);
        let mut input = r.peek();
        loop {
            let start = self.buffer.len();
            // One byte of room beyond the size, so that more data than it says is seen.
            let room = size.saturating_sub(start).saturating_add(1).min(STEP);
            self.buffer.resize(start.saturating_add(room), 0);
            let (read, written) = (self.zlib.total_in(), self.zlib.total_out());
            let output = self.buffer.get_mut(start..).unwrap_or_default();
            let status = self.zlib.decompress(input, output, FlushDecompress::None);
            let status = status.map_err(|e| place.compressed(e.into()))?;
            let moved = |now: u64, before| usize::try_from(now.saturating_sub(before)).unwrap_or(usize::MAX);
            let (read, written) = (moved(self.zlib.total_in(), read), moved(self.zlib.total_out(), written));
            input = input.get(read..).unwrap_or_default();
            self.buffer.truncate(start.saturating_add(written));
            if self.buffer.len() > size {
                return Err(wrong_size());
            }
            if status == Status::StreamEnd {
                break;
            }
            if read == 0 && written == 0 {
                return Err(wrong_size());
            }
        }
        if self.buffer.len() != size || !input.is_empty() {
            return Err(wrong_size());
        }
        Ok(&self.buffer)
    }
}

/// The header of compressed data: its size when opened.
fn size(r: &mut Reader<'_>) -> Result<u64, ParseError> {
    let head = r.u8("compression header")?;
    let n = usize::from(head & 7);
    if head & 0x80 == 0 || n == 0 {
        return Err(r.error("compression header", ParseErrorKind::BadTag(head)));
    }
    if head & 0x70 != 0 {
        return Err(r.error("compression algorithm", ParseErrorKind::Unsupported));
    }
    r.uint_be(n, "size when opened")
}
