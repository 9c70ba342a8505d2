//! One writer: what it knows of its rows, and its random transactions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::tables::TABLES;
use crate::server::{Endpoint, Session, SessionError};

/// What a workload has committed. Row changes are what a row-based binlog holds: an update, with
/// or without a change of key, is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions committed.
    pub transactions: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Transactions that ended with an error, such as a server that went away: their outcome is
    /// unknown, and their changes are not in the other counts.
    pub unknown: u64,
    /// Rows inserted.
    pub inserts: u64,
    /// Rows updated under the same key.
    pub updates: u64,
    /// Rows whose key was changed.
    pub key_changes: u64,
    /// Rows deleted.
    pub deletes: u64,
}

impl Counts {
    /// All row changes.
    pub fn changes(&self) -> u64 {
        self.inserts + self.updates + self.key_changes + self.deletes
    }
}

#[derive(Debug, Default)]
pub(super) struct SharedCounts([AtomicU64; 7]);

impl SharedCounts {
    fn add(&self, counts: &Counts) {
        let Counts { transactions, rollbacks, unknown, inserts, updates, key_changes, deletes } = *counts;
        let values = [transactions, rollbacks, unknown, inserts, updates, key_changes, deletes];
        for (sum, value) in self.0.iter().zip(values) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Counts {
        let [transactions, rollbacks, unknown, inserts, updates, key_changes, deletes] =
            [0, 1, 2, 3, 4, 5, 6].map(|n| self.0[n].load(Ordering::Relaxed));
        Counts { transactions, rollbacks, unknown, inserts, updates, key_changes, deletes }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    rng: Rng,
    lane: u64,
    lanes: u64,
    tables: [Rows; TABLES.len()],
}

/// The ids of one table in one lane.
#[derive(Debug, Default)]
struct Rows {
    live: Vec<u64>,
    /// Free to be inserted (again).
    dead: Vec<u64>,
    next: u64,
}

/// An id that a transaction holds: in neither list of [`Rows`] meanwhile.
#[derive(Clone, Copy, Debug)]
struct Touched {
    table: usize,
    id: u64,
    was_live: bool,
    live: bool,
}

#[derive(Debug, Default)]
struct Transaction {
    sql: String,
    touched: Vec<Touched>,
    counts: Counts,
}

impl Writer {
    pub(super) fn new(seed: u64, lane: u64, lanes: u64) -> Self {
        let tables = std::array::from_fn(|_| Rows { next: lane + lanes, ..Rows::default() });
        Self { rng: Rng::with_seed(seed.wrapping_add(lane << 32)), lane, lanes, tables }
    }

    /// The ids 1 to `per_table` are there now.
    pub(super) fn loaded(&mut self, per_table: &[u64]) {
        for (rows, &count) in self.tables.iter_mut().zip(per_table) {
            let first = if self.lane == 0 { self.lanes } else { self.lane };
            rows.live = (first..=count).step_by(usize::try_from(self.lanes).expect("few writers")).collect();
            rows.next = rows.live.last().map_or(first, |last| last + self.lanes);
        }
    }

    pub(super) fn run_until(
        &mut self,
        stop: &AtomicBool,
        endpoint: &Endpoint,
        database: &str,
        counts: &SharedCounts,
        pause: Option<Duration>,
    ) {
        let mut session = None;
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let Some(open) = &mut session else {
                session = connect(endpoint, database).ok();
                if session.is_none() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                continue;
            };
            if self.transaction(open, counts).is_err() {
                session = None;
            }
            if let Some(pause) = pause {
                // Behind its time it does not catch up in a burst.
                due = (due + pause).max(Instant::now());
                while Instant::now() < due && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep((due - Instant::now().min(due)).min(Duration::from_millis(20)));
                }
            }
        }
    }

    /// One transaction. After an error its rows are left alone for ever: nobody knows their state.
    pub(super) fn transaction(&mut self, session: &mut Session, counts: &SharedCounts) -> Result<(), SessionError> {
        let mut transaction = Transaction::default();
        transaction.sql.push_str("BEGIN;");
        for _ in 0..self.rng.usize(1..=6) {
            self.step(&mut transaction);
        }
        if self.rng.u8(..) < 16 {
            self.undone_part(&mut transaction);
            self.step(&mut transaction);
        }
        let rollback = self.rng.u8(..) < 12;
        transaction.sql.push_str(if rollback { "ROLLBACK" } else { "COMMIT" });
        if let Err(error) = session.sql(&transaction.sql) {
            counts.add(&Counts { unknown: 1, ..Counts::default() });
            return Err(error);
        }
        for touched in transaction.touched {
            self.give_back(touched, rollback);
        }
        if rollback {
            counts.add(&Counts { rollbacks: 1, ..Counts::default() });
        } else {
            counts.add(&Counts { transactions: 1, ..transaction.counts });
        }
        Ok(())
    }

    fn give_back(&mut self, touched: Touched, undo: bool) {
        let rows = &mut self.tables[touched.table];
        let live = if undo { touched.was_live } else { touched.live };
        if live { &mut rows.live } else { &mut rows.dead }.push(touched.id);
    }

    /// Statements between a savepoint and the return to it.
    fn undone_part(&mut self, transaction: &mut Transaction) {
        let (before, counts) = (transaction.touched.clone(), transaction.counts);
        transaction.sql.push_str("SAVEPOINT here;");
        for _ in 0..self.rng.usize(1..=2) {
            self.step(transaction);
        }
        transaction.sql.push_str("ROLLBACK TO SAVEPOINT here;");
        for touched in transaction.touched.split_off(before.len()) {
            self.give_back(touched, true);
        }
        transaction.touched = before;
        transaction.counts = counts;
    }

    /// One or two statements on one table.
    fn step(&mut self, transaction: &mut Transaction) {
        let index = self.rng.usize(..TABLES.len());
        let table = &TABLES[index];
        match self.rng.u8(..100) {
            0..35 => {
                let ids = self.take_live(index, 5, transaction);
                if !ids.is_empty() {
                    table.update(&mut self.rng, &ids, &mut transaction.sql);
                    transaction.counts.updates += ids.len() as u64;
                }
            }
            35..60 => {
                let ids: Vec<u64> = (0..self.rng.usize(1..=4)).map(|_| self.take_new(index, transaction)).collect();
                self.insert(index, &ids, transaction);
            }
            60..75 => {
                let ids = self.take_live(index, 2, transaction);
                if !ids.is_empty() {
                    table.delete(&ids, &mut transaction.sql);
                    transaction.set_live(index, &ids, false);
                    transaction.counts.deletes += ids.len() as u64;
                }
            }
            75..85 => {
                if let Some(&from) = self.take_live(index, 1, transaction).first() {
                    let to = self.take_dead_or_new(index, transaction);
                    table.change_key(from, to, &mut transaction.sql);
                    transaction.set_live(index, &[from], false);
                    transaction.set_live(index, &[to], true);
                    transaction.counts.key_changes += 1;
                }
            }
            85..95 => {
                let id = self.take_dead_or_new(index, transaction);
                self.insert(index, &[id], transaction);
            }
            _ => {
                let ids = self.take_live(index, 2, transaction);
                if !ids.is_empty() {
                    table.delete(&ids, &mut transaction.sql);
                    transaction.counts.deletes += ids.len() as u64;
                    transaction.sql.push(';');
                    self.insert(index, &ids, transaction);
                }
            }
        }
        transaction.sql.push(';');
    }

    fn insert(&mut self, table: usize, ids: &[u64], transaction: &mut Transaction) {
        TABLES[table].insert(&mut self.rng, ids.iter().copied(), &mut transaction.sql);
        transaction.set_live(table, ids, true);
        transaction.counts.inserts += ids.len() as u64;
    }

    /// Up to `most` rows that are there, now and then ones this transaction has written already.
    fn take_live(&mut self, table: usize, most: usize, transaction: &mut Transaction) -> Vec<u64> {
        if self.rng.u8(..) < 64 {
            let written = |touched: &&Touched| touched.table == table && touched.live;
            let ids: Vec<u64> = transaction.touched.iter().filter(written).map(|touched| touched.id).collect();
            if !ids.is_empty() {
                return vec![ids[self.rng.usize(..ids.len())]];
            }
        }
        let rows = &mut self.tables[table];
        let count = self.rng.usize(1..=most).min(rows.live.len());
        (0..count)
            .map(|_| {
                let id = rows.live.swap_remove(self.rng.usize(..rows.live.len()));
                transaction.touched.push(Touched { table, id, was_live: true, live: true });
                id
            })
            .collect()
    }

    fn take_dead_or_new(&mut self, table: usize, transaction: &mut Transaction) -> u64 {
        let dead = &mut self.tables[table].dead;
        if dead.is_empty() || self.rng.u8(..) < 64 {
            return self.take_new(table, transaction);
        }
        let id = dead.swap_remove(self.rng.usize(..dead.len()));
        transaction.touched.push(Touched { table, id, was_live: false, live: false });
        id
    }

    fn take_new(&mut self, table: usize, transaction: &mut Transaction) -> u64 {
        let rows = &mut self.tables[table];
        let id = rows.next;
        rows.next += self.lanes;
        transaction.touched.push(Touched { table, id, was_live: false, live: false });
        id
    }
}

impl Transaction {
    fn set_live(&mut self, table: usize, ids: &[u64], live: bool) {
        for touched in &mut self.touched {
            if touched.table == table && ids.contains(&touched.id) {
                touched.live = live;
            }
        }
    }
}

fn connect(endpoint: &Endpoint, database: &str) -> Result<Session, SessionError> {
    let mut session = endpoint.session()?;
    session.sql(&format!("USE `{database}`"))?;
    Ok(session)
}
