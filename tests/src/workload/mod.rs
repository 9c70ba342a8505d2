//! Seeded writers for a real server: three tables, a fast bulk load, and then random transactions
//! that insert, update, delete, re-insert, change keys, span tables and roll back.
//!
//! Each writer owns the rows of its lane (id modulo the number of writers), so writers never wait
//! for each other's locks, and what a seed does to one lane does not depend on the others.

mod tables;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;

pub use writer::Counts;

use crate::server::{Endpoint, SessionError};
use tables::TABLES;
use writer::{SharedCounts, Writer};

/// Rows per INSERT of the bulk load.
const BATCH: u64 = 1000;

/// A workload over the tables `orders` (BIGINT key), `stock` (INT UNSIGNED, DATE and VARCHAR key)
/// and `events` (BINARY(16) key) of one database.
#[derive(Debug)]
pub struct Workload {
    database: String,
    seed: u64,
    writers: Vec<Writer>,
}

impl Workload {
    /// The names of the tables.
    pub const TABLES: [&'static str; 3] = [TABLES[0].name, TABLES[1].name, TABLES[2].name];

    /// A workload that does nothing yet. The same seed and number of writers do the same again.
    pub fn new(database: &str, seed: u64, writers: usize) -> Self {
        let lanes = writers.max(1) as u64;
        let writers = (0..lanes).map(|lane| Writer::new(seed, lane, lanes)).collect();
        Self { database: database.to_owned(), seed, writers }
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Creates the database and its tables; they must not exist.
    pub fn create(&self, endpoint: &Endpoint) -> Result<(), SessionError> {
        let mut session = endpoint.session()?;
        session.sql(&format!("CREATE DATABASE `{}`", self.database))?;
        // MySQL 5.6 has no JSON.
        let old = session.sql("SELECT VERSION()")?.into_iter().flatten().any(|version| version.starts_with("5.6."));
        for table in &TABLES {
            let create = table.create(&self.database);
            session.sql(&if old { create.replace(" JSON", " MEDIUMTEXT") } else { create })?;
        }
        Ok(())
    }

    /// Loads `rows` rows, a third into each table, over as many connections as there are writers.
    /// Once, before any transaction. `progress` counts the rows loaded so far.
    pub fn load(&mut self, endpoint: &Endpoint, rows: u64, progress: &AtomicU64) -> Result<(), SessionError> {
        let tables = TABLES.len() as u64;
        let per_table: Vec<u64> = (0..tables).map(|n| rows / tables + u64::from(n < rows % tables)).collect();
        let next = AtomicU64::new(0);
        let this = &*self;
        std::thread::scope(|scope| {
            let loaders: Vec<_> = (0..self.writers.len())
                .map(|_| scope.spawn(|| this.load_batches(endpoint, &per_table, &next, progress)))
                .collect();
            loaders.into_iter().try_for_each(|loader| match loader.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        for writer in &mut self.writers {
            writer.loaded(&per_table);
        }
        Ok(())
    }

    /// Takes batches off the common list; tables are loaded beside each other.
    fn load_batches(
        &self,
        endpoint: &Endpoint,
        per_table: &[u64],
        next: &AtomicU64,
        progress: &AtomicU64,
    ) -> Result<(), SessionError> {
        let mut session = endpoint.session()?;
        session.sql(&format!("USE `{}`", self.database))?;
        let batches = per_table.iter().max().copied().unwrap_or(0).div_ceil(BATCH);
        let mut sql = String::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let (batch, table) = (n / TABLES.len() as u64, n % TABLES.len() as u64);
            if batch >= batches {
                return Ok(());
            }
            let table = usize::try_from(table).expect("one of three tables");
            let first = batch * BATCH + 1;
            let last = (first + BATCH - 1).min(per_table[table]);
            if first > last {
                continue;
            }
            // Of the batch alone, so that it does not matter who loads it.
            let mut rng = Rng::with_seed(self.seed ^ (n << 20));
            sql.clear();
            TABLES[table].insert(&mut rng, first..=last, &mut sql);
            session.sql(&sql)?;
            progress.fetch_add(last - first + 1, Ordering::Relaxed);
        }
    }

    /// Runs so many transactions one after the other, the writers in turn: the same every time.
    pub fn run(&mut self, endpoint: &Endpoint, transactions: u64) -> Result<Counts, SessionError> {
        let mut session = endpoint.session()?;
        session.sql(&format!("USE `{}`", self.database))?;
        let counts = SharedCounts::default();
        let lanes = self.writers.len() as u64;
        for n in 0..transactions {
            let lane = usize::try_from(n % lanes).expect("one of the writers");
            self.writers[lane].transaction(&mut session, &counts)?;
        }
        Ok(counts.read())
    }

    /// Starts all writers, each with a connection of its own. `rate` is a limit in transactions a
    /// second over all of them. They survive a restart of the server.
    pub fn start(self, endpoint: &Endpoint, rate: Option<f64>) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(SharedCounts::default());
        let lanes = self.writers.len() as f64;
        let pause = rate.map(|rate| Duration::from_secs_f64(lanes / rate));
        let threads = self
            .writers
            .into_iter()
            .map(|mut writer| {
                let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
                let (endpoint, database) = (endpoint.clone(), self.database.clone());
                std::thread::spawn(move || {
                    writer.run_until(&stop, &endpoint, &database, &counts, pause);
                    writer
                })
            })
            .collect();
        Running { database: self.database, seed: self.seed, stop, counts, threads }
    }
}

/// A workload whose writers are at work. Dropping it stops them.
#[derive(Debug)]
pub struct Running {
    database: String,
    seed: u64,
    stop: Arc<AtomicBool>,
    counts: Arc<SharedCounts>,
    threads: Vec<JoinHandle<Writer>>,
}

impl Running {
    /// What has been committed since the start.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// Lets each writer finish its transaction, and returns the workload, to be started again, and
    /// what was committed.
    pub fn stop(mut self) -> (Workload, Counts) {
        self.stop.store(true, Ordering::Relaxed);
        let writers = std::mem::take(&mut self.threads)
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(writer) => writer,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        let workload = Workload { database: std::mem::take(&mut self.database), seed: self.seed, writers };
        (workload, self.counts.read())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
