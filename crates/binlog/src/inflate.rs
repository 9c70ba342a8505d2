//! zlib data of MariaDB's compressed events and values.

use core::fmt;

use flate2::{Decompress, DecompressError, FlushDecompress, Status};
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
/// The most that zlib makes of a byte.
const ZLIB_RATIO: usize = 1032;
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
        self.buffer.clear();
        self.buffer.shrink_to(KEEP);
        self.zlib.reset(true);
        match inflate(&mut self.zlib, r.peek(), size, &mut self.buffer) {
            Ok(()) => Ok(&self.buffer),
            Err(Wrong::Data(e)) => Err(place.compressed(e.into())),
            Err(Wrong::Size) => Err(place.malformed(r.error("compressed data", ParseErrorKind::BadLength))),
        }
    }
}

/// Why data did not open.
pub(crate) enum Wrong {
    /// It is no zlib.
    Data(DecompressError),
    /// It opens to another size than stated, ends early, or something follows it.
    Size,
}

/// Appends `input` opened, which has `size` bytes. `out` grows as bytes come out, never by the size.
pub(crate) fn inflate(zlib: &mut Decompress, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let (begin, mut rest) = (out.len(), input);
    loop {
        let start = out.len();
        let done = start.saturating_sub(begin);
        // One byte of room beyond the size, so that more data than it says is seen; and not more than zlib makes of the
        // input, so that a few bytes that state a large size do not cost a whole step.
        let most = rest.len().saturating_mul(ZLIB_RATIO).saturating_add(64);
        let room = size.saturating_sub(done).saturating_add(1).min(STEP).min(most);
        out.resize(start.saturating_add(room), 0);
        let before = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress(rest, out.get_mut(start..).unwrap_or_default(), FlushDecompress::None);
        let moved = |now: u64, before: u64| usize::try_from(now.saturating_sub(before)).unwrap_or(usize::MAX);
        let (read, written) = (moved(zlib.total_in(), before.0), moved(zlib.total_out(), before.1));
        rest = rest.get(read..).unwrap_or_default();
        out.truncate(start.saturating_add(written));
        let done = done.saturating_add(written);
        match status.map_err(Wrong::Data)? {
            Status::StreamEnd if done == size && rest.is_empty() => return Ok(()),
            Status::StreamEnd => return Err(Wrong::Size),
            _ if done > size || (read == 0 && written == 0) => return Err(Wrong::Size),
            _ => {}
        }
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
