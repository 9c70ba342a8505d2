//! A chunk that is being read: what the stream held for it, and how the two become one.

use std::collections::BTreeMap;

use millstream_binlog::Position;

use super::{Key, KeyRange, TableId, Watermark};
use crate::delivery::{Passed, TxnId};

/// What a change does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The key has this row from now on (insert, or update in place).
    Put,
    /// The key is gone.
    Delete,
}

/// The last change of a key that the chunk's SELECT may not have seen.
#[derive(Clone, Debug)]
struct Held<R> {
    txn: TxnId,
    /// LW may say whether the SELECT saw it.
    by_lw: bool,
    /// `None` is a delete.
    row: Option<R>,
    /// The row has some of its columns: how it goes onto the row that was there, which the SELECT saw.
    onto: Option<Onto<R>>,
    bytes: usize,
}

/// Puts a change of some columns (second) onto the row that was there.
pub type Onto<R> = fn(R, R) -> R;

/// Where a chunk stands. The steps are in the order in which they must happen.
#[derive(Clone, Debug)]
enum Stage<R> {
    /// Marked; D is known, LW is not.
    Opened { covers: Passed },
    /// LW is known; the SELECT may run.
    Fenced { lw: Passed },
    /// Rows are known; waits for the stream to reach HW, or (`None`) for the end of the open transaction.
    Read { lw: Passed, hw: Option<Position>, rows: Vec<(Key, R)> },
}

/// A chunk between its mark and its entry into the output.
#[derive(Clone, Debug)]
pub(super) struct Chunk<R> {
    pub(super) table: TableId,
    pub(super) range: KeyRange,
    stage: Stage<R>,
    // Only the last change of a key matters: if it is in LW the SELECT saw past all earlier ones, and if it is not,
    // it decides what the key is.
    held: BTreeMap<Key, Held<R>>,
    pub(super) held_bytes: usize,
}

/// What a change belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of<'a> {
    pub(super) txn: &'a TxnId,
    /// LW may say whether the SELECT saw it.
    pub(super) by_lw: bool,
    /// If LW says so, older held changes of its key are forgotten.
    pub(super) forget_older: bool,
}

/// What `Chunk::judge` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    InLowWatermark,
    Held,
    /// What the key is cannot be told from what is here: the chunk must be read again.
    Unknown,
}

impl<R> Chunk<R> {
    pub(super) const fn new(table: TableId, range: KeyRange, covers: Passed) -> Self {
        Self { table, range, stage: Stage::Opened { covers }, held: BTreeMap::new(), held_bytes: 0 }
    }

    /// Whether LW is known.
    pub(super) const fn is_fenced(&self) -> bool {
        !matches!(self.stage, Stage::Opened { .. })
    }

    fn lw(&self) -> Option<&Passed> {
        match &self.stage {
            Stage::Opened { .. } => None,
            Stage::Fenced { lw } | Stage::Read { lw, .. } => Some(lw),
        }
    }

    /// One change of the stream in this chunk's range.
    pub(super) fn judge(&mut self, key: &[u8], of: Of<'_>, row: impl FnOnce() -> Option<(R, usize)>) -> Judged {
        let Of { txn, by_lw, forget_older } = of;
        if by_lw && self.lw().is_some_and(|lw| lw.contains(txn)) {
            if forget_older {
                self.forget(key);
            }
            return Judged::InLowWatermark;
        }
        let (row, size) = row().map_or((None, 0), |(row, size)| (Some(row), size));
        let bytes = size.saturating_add(key.len()).saturating_add(128);
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        if let Some(old) = self.held.insert(key.into(), Held { txn: txn.clone(), by_lw, row, onto: None, bytes }) {
            self.held_bytes = self.held_bytes.saturating_sub(old.bytes);
        }
        Judged::Held
    }

    /// One change of some columns of a row in this chunk's range. `based`: the row was there before, under the same key.
    pub(super) fn judge_patch(
        &mut self,
        key: &[u8],
        of: Of<'_>,
        based: bool,
        row: impl FnOnce() -> (R, usize),
        onto: Onto<R>,
    ) -> Judged {
        let Of { txn, by_lw, forget_older } = of;
        if by_lw && self.lw().is_some_and(|lw| lw.contains(txn)) {
            if forget_older {
                self.forget(key);
            }
            return Judged::InLowWatermark;
        }
        if !based {
            return Judged::Unknown;
        }
        let (row, size) = row();
        let bytes = size.saturating_add(key.len()).saturating_add(128);
        let held = match self.held.remove(key) {
            None => Held { txn: txn.clone(), by_lw, row: Some(row), onto: Some(onto), bytes },
            // A row that is gone is not changed.
            Some(Held { row: None, bytes, .. }) => {
                self.held_bytes = self.held_bytes.saturating_sub(bytes);
                return Judged::Unknown;
            }
            Some(Held { row: Some(old), onto: still, bytes: before, .. }) => {
                self.held_bytes = self.held_bytes.saturating_sub(before);
                let bytes = bytes.saturating_add(before);
                Held { txn: txn.clone(), by_lw, row: Some(onto(old, row)), onto: still, bytes }
            }
        };
        self.held_bytes = self.held_bytes.saturating_add(held.bytes);
        self.held.insert(key.into(), held);
        Judged::Held
    }

    /// Whether every held change of some columns finds the row it goes onto.
    pub(super) fn is_complete(&self) -> bool {
        let Stage::Read { rows, .. } = &self.stage else { return false };
        let seen = |key: &Key| rows.binary_search_by(|(k, _)| k.cmp(key)).is_ok();
        self.held.iter().filter(|(_, held)| held.onto.is_some()).all(|(key, _)| seen(key))
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(old) = self.held.remove(key) {
            self.held_bytes = self.held_bytes.saturating_sub(old.bytes);
        }
    }

    fn retain_held(&mut self, keep: impl Fn(&Key, &Held<R>) -> bool) {
        let mut bytes = 0usize;
        self.held.retain(|key, held| {
            let keep = keep(key, held);
            if keep {
                bytes = bytes.saturating_add(held.bytes);
            }
            keep
        });
        self.held_bytes = bytes;
    }

    /// LW is known. `Err` gives it back when it does not cover D, or when it was known already.
    pub(super) fn fence(&mut self, lw: Passed, must_cover: bool) -> Result<(), Passed> {
        match &self.stage {
            Stage::Opened { covers } if !must_cover || lw.is_superset(covers) => {
                self.retain_held(|_, held| !held.by_lw || !lw.contains(&held.txn));
                self.stage = Stage::Fenced { lw };
                Ok(())
            }
            _ => Err(lw),
        }
    }

    /// Rows are known, and HW if the chunk waits for one. `range` is what the SELECT covered; held changes outside are
    /// forgotten.
    pub(super) fn read(&mut self, range: KeyRange, rows: Vec<(Key, R)>, hw: Option<Position>) -> bool {
        let Stage::Fenced { lw } = &self.stage else { return false };
        self.stage = Stage::Read { lw: lw.clone(), hw, rows };
        self.retain_held(|key, _| range.contains(key));
        self.range = range;
        true
    }

    /// Whether rows are known.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self.stage, Stage::Read { .. })
    }

    /// Whether it enters now that the stream is at `at`.
    pub(super) fn is_due(&self, at: Option<&Position>) -> bool {
        match &self.stage {
            Stage::Read { hw: Some(hw), .. } => at.is_some_and(|at| hw <= at),
            Stage::Read { hw: None, .. } => true,
            _ => false,
        }
    }

    /// What its rows have of the stream that is still to come: of a chunk that waited for HW nothing is. Its own LW counts
    /// only while no change outside of it was put over what the SELECT saw. Not where transactions are places in a log:
    /// there a decision about a prepared one can be below LW and not visible.
    pub(super) fn watermark(&self, must_be_unspent: bool) -> Option<Watermark> {
        match &self.stage {
            Stage::Read { lw: lw @ Passed::Gtids(_), hw: None, .. } if self.held.is_empty() || !must_be_unspent => {
                Some(Watermark::Set(lw.clone()))
            }
            _ => None,
        }
    }

    /// The rows as they are at the entry: what was selected, with every held change applied, in key order.
    pub(super) fn normalize(self) -> Vec<(Key, R)> {
        let Stage::Read { rows, .. } = self.stage else { return Vec::new() };
        if self.held.is_empty() {
            return rows;
        }
        let mut all: BTreeMap<Key, R> = rows.into_iter().collect();
        for (key, held) in self.held {
            match held.row {
                Some(row) => {
                    let whole = match held.onto.zip(all.remove(&key)) {
                        Some((onto, base)) => onto(base, row),
                        None => row,
                    };
                    all.insert(key, whole);
                }
                None => {
                    all.remove(&key);
                }
            }
        }
        all.into_iter().collect()
    }
}
