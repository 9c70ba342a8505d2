//! Checks the rows of one append target: they must be the history of the source table, each change once.
//!
//! Rows are taken in by `_ms_seq`. Snapshot rows (r) aside, they must be in the order of the binlog, so that nothing is
//! doubled and nothing changed places, and per key they must be a life: it begins with r or c, u and d need a row that is
//! there, d carries what was there, and nothing is read (r) after the key was seen. What is left at the end is what the
//! source must hold now. Whether something is missing, the binlog's own listing tells: see [`check_transaction`].

use std::collections::{BTreeMap, HashMap};

use super::cells;
use super::faults::Faults;

/// One row of an append target; the image is compared and handed back, not looked into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a, 'k, I> {
    pub(super) seq: i64,
    pub(super) op: u8,
    /// Empty for NULL.
    pub(super) gtid: &'a [u8],
    pub(super) file: &'a [u8],
    pub(super) pos: u64,
    pub(super) row: u32,
    pub(super) key: &'k [u8],
    pub(super) image: I,
}

/// Bits of a sequence number below the era, which counts the starts of the engine.
const SEQUENCE_BITS: u32 = 44;

/// The changes of one table by transaction: the row's number and the operation.
pub(super) type Transactions<'a> = HashMap<&'a [u8], Vec<(u32, u8)>>;

/// A table's history so far.
#[derive(Debug)]
pub(super) struct History<'a, I> {
    /// The last image of each key ever seen; nothing when it is deleted.
    state: HashMap<Box<[u8]>, Option<I>>,
    transactions: Transactions<'a>,
    last_seq: Option<i64>,
    last: Option<Place<'a>>,
    reads: BTreeMap<u32, u64>,
    faults: Faults,
}

/// Where a change stands in the binlog.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    gtid: &'a [u8],
    file: &'a [u8],
    pos: u64,
    row: u32,
}

impl Place<'_> {
    /// Whether `self` is in the binlog before `next`.
    fn is_before(&self, next: &Self) -> bool {
        // A number that outgrew its six digits is longer.
        let (a, b) = ((self.file.len(), self.file, self.pos), (next.file.len(), next.file, next.pos));
        if self.gtid == next.gtid { a <= b && self.row < next.row } else { a < b }
    }
}

/// What [`History::finish`] hands back.
#[derive(Debug)]
pub(super) struct Finished<'a, I> {
    /// The rows that are there at the end.
    pub(super) rows: HashMap<Box<[u8]>, I>,
    pub(super) transactions: Transactions<'a>,
    /// Snapshot rows by era.
    pub(super) reads: BTreeMap<u32, u64>,
    pub(super) faults: Faults,
}

impl<I> Default for History<'_, I> {
    fn default() -> Self {
        Self {
            state: HashMap::new(),
            transactions: HashMap::new(),
            last_seq: None,
            last: None,
            reads: BTreeMap::new(),
            faults: Faults::default(),
        }
    }
}

impl<'a, I: Copy + PartialEq> History<'a, I> {
    /// Takes in the next row by `_ms_seq`.
    pub(super) fn push(&mut self, entry: &Entry<'a, '_, I>) {
        if self.last_seq.is_some_and(|last| last >= entry.seq) {
            self.faults.add(|| format!("_ms_seq {} is there twice", entry.seq));
        }
        self.last_seq = Some(entry.seq);
        if entry.op == b'r' {
            if !entry.gtid.is_empty() {
                self.faults.add(|| format!("_ms_seq {}: a row of the snapshot with a transaction", entry.seq));
            }
            *self.reads.entry(era(entry.seq)).or_default() += 1;
        } else {
            self.place(entry);
        }
        self.life(entry);
    }

    fn place(&mut self, entry: &Entry<'a, '_, I>) {
        let Entry { gtid, file, pos, row, .. } = *entry;
        if gtid.is_empty() {
            self.faults.add(|| format!("_ms_seq {}: a change without a transaction", entry.seq));
            return;
        }
        let place = Place { gtid, file, pos, row };
        if let Some(last) = self.last.replace(place)
            && !last.is_before(&place)
        {
            self.faults.add(|| {
                let text = |p: Place<'_>| {
                    let (gtid, file) = (String::from_utf8_lossy(p.gtid), String::from_utf8_lossy(p.file));
                    format!("{gtid} row {} at {file}:{}", p.row, p.pos)
                };
                format!("out of the binlog's order: {} after {}", text(place), text(last))
            });
        }
        let rows = self.transactions.entry(gtid).or_default();
        if rows.iter().any(|(number, _)| *number == row) {
            self.faults.add(|| format!("{} row {row} is there twice", String::from_utf8_lossy(gtid)));
        }
        rows.push((row, entry.op));
    }

    fn life(&mut self, entry: &Entry<'a, '_, I>) {
        let Entry { op, image, .. } = *entry;
        let was = self.state.get(entry.key).copied();
        let wrong = match (op, was) {
            (b'r', None) | (b'c', None | Some(None)) | (b'u', Some(Some(_))) => None,
            (b'd', Some(Some(before))) if before == image => None,
            (b'd', Some(Some(_))) => Some("is deleted with another row than was there"),
            (b'r', Some(_)) => Some("is read after it was seen"),
            (b'c', Some(Some(_))) => Some("is created while it is there"),
            (b'u', _) => Some("is updated and not there"),
            (b'd', _) => Some("is deleted and not there"),
            _ => Some("has an operation that is none of r, c, u and d"),
        };
        if let Some(wrong) = wrong {
            self.faults.add(|| format!("key {} {wrong} (_ms_seq {})", cells::show(entry.key), entry.seq));
        }
        let now = (op != b'd').then_some(image);
        match self.state.get_mut(entry.key) {
            Some(state) => *state = now,
            None => drop(self.state.insert(entry.key.into(), now)),
        }
    }

    /// Everything was taken in.
    pub(super) fn finish(self) -> Finished<'a, I> {
        Finished {
            rows: self.state.into_iter().filter_map(|(key, row)| Some((key, row?))).collect(),
            transactions: self.transactions,
            reads: self.reads,
            faults: self.faults,
        }
    }
}

/// The start of the engine that gave a sequence number.
pub(super) fn era(seq: i64) -> u32 {
    u32::try_from(seq >> SEQUENCE_BITS).unwrap_or(u32::MAX)
}

/// Compares what an append target holds of one transaction with what `mysqlbinlog` lists of it. `listed` are the
/// operations in order; `delivered` holds row numbers and operations. A transaction from before the table was live may
/// miss rows, whose ranges were not read yet.
pub(super) fn check_transaction(listed: &[u8], delivered: &[(u32, u8)], live: bool) -> Option<String> {
    for (row, op) in delivered {
        let logged = listed.get(*row as usize);
        if logged != Some(op) {
            let logged = logged.map_or_else(|| "nothing".to_owned(), |op| (*op as char).to_string());
            return Some(format!("row {row} is {}, the binlog lists {logged}", *op as char));
        }
    }
    let missing = (0..listed.len()).find(|row| !delivered.iter().any(|(number, _)| *number as usize == *row));
    let missing = missing.filter(|_| live)?;
    Some(format!("row {missing} ({}) of {} is missing", listed[missing] as char, listed.len()))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
