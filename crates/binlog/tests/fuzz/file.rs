//! Whole files: the events do not depend on how the bytes come.

use std::io::Read;

use millstream_binlog::event::Inflater;
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder};

const MAX_EVENT: usize = 1 << 20;

/// `u8 most bytes of a read, the file`.
pub(crate) fn run(data: &[u8]) {
    let Some((&most, file)) = data.split_first() else { return };
    let mut whole = match BinlogFile::new(file, MAX_EVENT) {
        Ok(whole) => whole,
        Err(error) => {
            assert!(error.is_malformed() && !error.to_string().is_empty());
            return;
        }
    };
    let mut parts = BinlogFile::new(Slow(file, usize::from(most) + 1), MAX_EVENT).unwrap();
    let mut decoder = EventDecoder::new(DecoderOptions { max_event: MAX_EVENT, stream_checksum: None });
    let mut inflater = Inflater::new(MAX_EVENT);
    let mut offset = 4;
    loop {
        let event = whole.next();
        let again = parts.next();
        let (event, again) = match (event, again) {
            (Ok(Some(a)), Ok(Some(b))) => (a, b),
            (Ok(None), Ok(None)) => {
                assert_eq!(offset, file.len());
                return;
            }
            (Err(a), Err(b)) => return assert_eq!(a.to_string(), b.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!((event.offset, event.bytes), (again.offset, again.bytes));
        assert_eq!((event.offset, event.bytes), (offset as u64, &file[offset..offset + event.bytes.len()]));
        offset += event.bytes.len();

        let first = decoder.decode(event.bytes).and_then(|e| e.inflate(&mut inflater)).map(|e| format!("{e:?}"));
        if let Ok(first) = first
            && event.bytes[4] != 15
        {
            let again = decoder.decode_again(event.bytes).and_then(|e| e.inflate(&mut inflater));
            assert_eq!(format!("{:?}", again.unwrap()), first);
        }
    }
}

struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(self.1);
        self.0.read(&mut out[..n])
    }
}
