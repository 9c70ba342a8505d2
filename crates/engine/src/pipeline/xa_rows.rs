//! The rows of prepared XA transactions, as events: in memory within a share of the budget, beyond it in files of the state
//! directory, which go when the transaction is decided, and at the next start.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// Bytes that an event takes in memory beside its own.
const EVENT_OVERHEAD: usize = 48;

/// Where rows may be kept.
#[derive(Debug)]
pub(super) struct Room {
    dir: PathBuf,
    limit: usize,
    used: usize,
    files: u64,
}

impl Room {
    /// `limit` bytes of memory, and files in `dir`. Files that an earlier run left are removed.
    pub(super) fn new(dir: &Path, limit: usize) -> io::Result<Self> {
        match fs::read_dir(dir) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry?.path();
                    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                    if name.starts_with("xa-") && path.extension().is_some_and(|end| end == "rows") {
                        fs::remove_file(&path)?;
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(Self { dir: dir.to_owned(), limit, used: 0, files: 0 })
    }

    /// Gives back the memory of rows that are not needed any more, and removes their file.
    pub(super) fn release(&mut self, rows: Rows) {
        self.used = self.used.saturating_sub(rows.memory);
        drop(rows);
    }

    #[cfg(test)]
    pub(super) const fn used(&self) -> usize {
        self.used
    }
}

/// Events of one transaction, in order.
#[derive(Debug, Default)]
pub(super) struct Rows {
    events: Vec<Bytes>,
    memory: usize,
    spilled: Option<Spilled>,
    count: u64,
}

/// A file with events, each behind its length in four bytes. It holds every event of its transaction.
#[derive(Debug)]
struct Spilled {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // If it stays, the next start removes it.
        drop(fs::remove_file(&self.path));
    }
}

impl Spilled {
    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::InvalidInput.into()) };
        let length = u32::try_from(event.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(event)
    }
}

impl Rows {
    /// How many events there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether they are in a file.
    pub(super) const fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Adds an event.
    pub(super) fn push(&mut self, event: Bytes, room: &mut Room) -> io::Result<()> {
        self.count = self.count.saturating_add(1);
        let need = event.len().saturating_add(EVENT_OVERHEAD);
        if self.spilled.is_none() && room.used.saturating_add(need) > room.limit {
            fs::create_dir_all(&room.dir)?;
            room.files = room.files.saturating_add(1);
            let path = room.dir.join(format!("xa-{}.rows", room.files));
            let file = BufWriter::with_capacity(64 * 1024, File::create(&path)?);
            let mut spilled = Spilled { path, file: Some(file) };
            for event in core::mem::take(&mut self.events) {
                spilled.write(&event)?;
            }
            room.used = room.used.saturating_sub(core::mem::take(&mut self.memory));
            self.spilled = Some(spilled);
        }
        if let Some(spilled) = &mut self.spilled {
            return spilled.write(&event);
        }
        room.used = room.used.saturating_add(need);
        self.memory = self.memory.saturating_add(need);
        self.events.push(event);
        Ok(())
    }

    /// No event follows: nothing of a file stays open.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.spilled.as_mut().and_then(|spilled| spilled.file.take()) {
            Some(file) => file.into_inner().map_err(io::IntoInnerError::into_error).map(drop),
            None => Ok(()),
        }
    }
}

/// Reads [`Rows`] from their first event; once they are finished.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    next: usize,
    file: Option<BufReader<File>>,
}

impl Cursor {
    /// The next event of `rows`; `None` at their end.
    pub(super) fn next(&mut self, rows: &Rows) -> io::Result<Option<Bytes>> {
        let number = self.next;
        self.next = number.saturating_add(1);
        let Some(spilled) = &rows.spilled else { return Ok(rows.events.get(number).cloned()) };
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufReader::with_capacity(64 * 1024, File::open(&spilled.path)?)),
        };
        if u64::try_from(number).unwrap_or(u64::MAX) >= rows.count {
            return Ok(None);
        }
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        let mut event = Vec::new();
        // Grows with what is there, not with what the file says.
        file.by_ref().take(u64::from(length)).read_to_end(&mut event)?;
        if u32::try_from(event.len()) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(event.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &Rows) -> Vec<Bytes> {
        let mut cursor = Cursor::default();
        core::iter::from_fn(|| cursor.next(rows).unwrap()).collect()
    }

    fn files(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn what_is_too_much_for_memory_goes_to_a_file_and_comes_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut room = Room::new(dir.path(), 1_000).unwrap();
        let events: Vec<Bytes> = (0..40u8).map(|n| vec![n; usize::from(n)].into()).collect();
        let mut small = Rows::default();
        small.push(events[3].clone(), &mut room).unwrap();
        let mut large = Rows::default();
        for event in &events {
            large.push(event.clone(), &mut room).unwrap();
        }
        large.finish().unwrap();
        small.finish().unwrap();
        assert!(large.is_spilled() && !small.is_spilled() && large.count() == 40);
        assert_eq!((room.used(), files(dir.path())), (3 + EVENT_OVERHEAD, 1));
        assert_eq!(read(&large), events);
        assert_eq!(read(&large), events, "as often as it is needed");
        assert_eq!(read(&small), [events[3].clone()]);
        room.release(large);
        room.release(small);
        assert_eq!((room.used(), files(dir.path())), (0, 0));
    }

    #[test]
    fn files_of_an_earlier_run_are_removed_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["xa-1.rows", "xa-77.rows", "millstream.redb", "xa-notes"] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        Room::new(dir.path(), 1).unwrap();
        assert_eq!(files(dir.path()), 2);
        Room::new(&dir.path().join("not there"), 1).unwrap();
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut room = Room::new(dir.path(), 0).unwrap();
        let mut rows = Rows::default();
        rows.push(vec![1; 100].into(), &mut room).unwrap();
        rows.finish().unwrap();
        let path = dir.path().join("xa-1.rows");
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(Cursor::default().next(&rows).is_err(), "{end}");
        }
    }
}
