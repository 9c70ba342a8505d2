//! Doris as delivery sees it: loads of one table, in two phases, and a memory that forgets.

use millstream_engine::delivery::{TableMode, TargetNo, TxnFact};

use crate::server::{KEYS, Val, spelling};

/// A row of an append table; upsert tables get the same, collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutRow {
    pub seq: i64,
    /// r, c, u or d.
    pub op: u8,
    pub key: u8,
    /// The after image; the before image of a delete.
    pub val: Val,
    /// The transaction and the number of the change in it; none for a snapshot row.
    pub source: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Prepare,
    PreCommitted,
    Committed,
    Visible,
    Aborted,
}

#[derive(Clone, Debug)]
pub(crate) struct LoadTxn {
    pub label: String,
    pub target: TargetNo,
    pub era: u32,
    pub rows: Vec<OutRow>,
    pub state: State,
    pub forgotten: bool,
}

/// A commit or an abort was refused.
#[derive(Debug)]
pub(crate) struct Refused;

#[derive(Debug, Default)]
pub(crate) struct Doris {
    /// By transaction id.
    pub txns: Vec<LoadTxn>,
    /// Committed, not yet published; versions of a table are published in the order of their commits.
    queue: Vec<usize>,
}

impl Doris {
    pub(crate) fn begin(&mut self, label: &str, target: TargetNo, era: u32, rows: &[OutRow]) -> Result<u64, Refused> {
        if self.txns.iter().any(|t| t.label == label && t.state != State::Aborted && !t.forgotten) {
            return Err(Refused);
        }
        self.txns.push(LoadTxn {
            label: label.to_owned(),
            target,
            era,
            rows: rows.to_vec(),
            state: State::Prepare,
            forgotten: false,
        });
        Ok(self.txns.len() as u64 - 1)
    }

    pub(crate) fn upload(&mut self, txn: u64) -> Result<(), Refused> {
        let txn = &mut self.txns[txn as usize];
        if txn.state != State::Prepare {
            return Err(Refused);
        }
        txn.state = State::PreCommitted;
        Ok(())
    }

    pub(crate) fn commit(&mut self, txn: u64) -> Result<(), Refused> {
        let t = &mut self.txns[txn as usize];
        match t.state {
            State::PreCommitted => {
                t.state = State::Committed;
                self.queue.push(txn as usize);
                Ok(())
            }
            State::Committed | State::Visible if !t.forgotten => Ok(()),
            _ => Err(Refused),
        }
    }

    pub(crate) fn abort(&mut self, txn: u64) -> Result<(), Refused> {
        let t = &mut self.txns[txn as usize];
        match t.state {
            State::Prepare | State::PreCommitted | State::Aborted => {
                t.state = State::Aborted;
                Ok(())
            }
            _ => Err(Refused),
        }
    }

    /// Publishes one committed transaction.
    pub(crate) fn publish(&mut self, pick: usize) {
        if self.queue.is_empty() {
            return;
        }
        let target = self.txns[self.queue[pick % self.queue.len()]].target;
        let first = self.queue.iter().position(|t| self.txns[*t].target == target).unwrap();
        let txn = self.queue.remove(first);
        self.txns[txn].state = State::Visible;
    }

    pub(crate) fn is_published(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn fact(&self, txn: u64) -> TxnFact {
        let t = &self.txns[txn as usize];
        match t.state {
            State::Aborted | State::Visible if t.forgotten => TxnFact::Gone,
            State::Prepare => TxnFact::Prepare,
            State::PreCommitted => TxnFact::PreCommitted,
            State::Committed => TxnFact::Committed,
            State::Visible => TxnFact::Visible,
            State::Aborted => TxnFact::Aborted,
        }
    }

    /// Whether readers see a row with a sequence number in the range.
    pub(crate) fn sees(&self, target: TargetNo, seq: (i64, i64)) -> bool {
        self.txns
            .iter()
            .filter(|t| t.target == target && t.state == State::Visible)
            .any(|t| t.rows.iter().any(|r| (seq.0..=seq.1).contains(&r.seq)))
    }
}

impl OutRow {
    /// The key's bytes: what the sink knows a row by.
    pub(crate) const fn identity(&self) -> (u8, usize) {
        (self.key, spelling(self.val))
    }
}

/// The table that `rows` make, by key and spelling.
pub(crate) fn fold<'a>(mode: TableMode, rows: impl Iterator<Item = &'a OutRow>) -> [[Option<Val>; 2]; KEYS + 1] {
    // Both modes: the greatest sequence number of a key says what it is. In an upsert table a change replaces what has
    // a sequence number not above its own; in an append table the history is read in the order of the numbers.
    let _ = mode;
    let mut last = [[(i64::MIN, None); 2]; KEYS + 1];
    for row in rows {
        let (key, spelling) = row.identity();
        let at = &mut last[key as usize][spelling];
        if row.seq >= at.0 {
            *at = (row.seq, (row.op != b'd').then_some(row.val));
        }
    }
    last.map(|spellings| spellings.map(|(_, val)| val))
}

/// What [`fold`] gives for a key that the source has as `row`.
pub(crate) fn spelled(row: Option<Val>) -> [Option<Val>; 2] {
    let mut spellings = [None; 2];
    if let Some(val) = row {
        spellings[spelling(val)] = row;
    }
    spellings
}
