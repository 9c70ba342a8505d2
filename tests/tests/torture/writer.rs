//! Writers that get into each other's way: whatever a statement says, the log has what the server made of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;
use millstream_tests::server::{Endpoint, Session, SessionError};

use crate::tables::TABLES;

/// Writers at work; dropping them stops them.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

impl Writers {
    pub(crate) fn start(endpoint: &Endpoint, database: &str, seed: u64, count: u64) -> Self {
        let (stop, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..count).map(|lane| {
            let (stop, commits, endpoint) = (Arc::clone(&stop), Arc::clone(&commits), endpoint.clone());
            let mut writer = Writer::new(database, seed, lane);
            std::thread::spawn(move || {
                let mut session = None;
                while !stop.load(Ordering::Relaxed) {
                    writer.step(&endpoint, &mut session, &commits);
                    std::thread::sleep(Duration::from_millis(writer.rng.u64(0..12)));
                }
            })
        });
        let threads = threads.collect();
        Self { stop, threads, commits }
    }

    /// Lets each finish its transaction; how many were committed.
    pub(crate) fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.commits.load(Ordering::Relaxed)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One writer.
pub(crate) struct Writer {
    database: String,
    rng: Rng,
    next: u64,
}

impl Writer {
    pub(crate) fn new(database: &str, seed: u64, lane: u64) -> Self {
        // Every change gets a number of its own, whatever writer and round it is of.
        let next = (Rng::with_seed(seed).u64(..1 << 20) << 40) | (lane << 36);
        Self { database: database.to_owned(), rng: Rng::with_seed(seed ^ (lane << 32)), next }
    }

    /// One transaction, over a session that is opened where there is none.
    pub(crate) fn step(&mut self, endpoint: &Endpoint, session: &mut Option<Session>, commits: &AtomicU64) {
        let sql = self.transaction();
        let Ok(open) = (match session.take() {
            Some(session) => Ok(session),
            None => self.connect(endpoint),
        }) else {
            return std::thread::sleep(Duration::from_millis(20));
        };
        let open = session.insert(open);
        match open.sql(&sql) {
            Ok(_) => {
                commits.fetch_add(1, Ordering::Relaxed);
            }
            // A deadlock, or a wait that took too long: the others go on.
            Err(error) if is_conflict(&error) && open.sql("ROLLBACK").is_ok() => {}
            Err(error) if is_conflict(&error) => *session = None,
            Err(error) => panic!("{error}\nin: {sql}"),
        }
    }

    fn connect(&self, endpoint: &Endpoint) -> Result<Session, SessionError> {
        let mut session = endpoint.session()?;
        session.sql(&format!("USE `{}`; SET innodb_lock_wait_timeout = 1, NAMES utf8mb4", self.database))?;
        Ok(session)
    }

    fn statements(&mut self, count: usize, sql: &mut String) {
        for _ in 0..count {
            self.next += 1;
            let table = &TABLES[self.rng.usize(..TABLES.len())];
            sql.push_str(&table.statement(&mut self.rng, self.next));
            sql.push(';');
        }
    }

    fn transaction(&mut self) -> String {
        let mut sql = String::new();
        if self.rng.u8(..) < 50 {
            // Each statement for itself.
            self.statements(1, &mut sql);
            return sql;
        }
        sql.push_str("BEGIN;");
        let statements = self.rng.usize(1..6);
        self.statements(statements, &mut sql);
        if self.rng.u8(..) < 40 {
            sql.push_str("SAVEPOINT here;");
            self.statements(2, &mut sql);
            sql.push_str("ROLLBACK TO SAVEPOINT here;");
            self.statements(1, &mut sql);
        }
        sql.push_str(if self.rng.u8(..) < 20 { "ROLLBACK" } else { "COMMIT" });
        sql
    }
}

fn is_conflict(error: &SessionError) -> bool {
    let text = error.to_string();
    ["ERROR 1213", "ERROR 1205", "ERROR 1062"].iter().any(|code| text.contains(code))
}
