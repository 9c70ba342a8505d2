//! What the simulated cluster holds: databases, tables and their transactions, behind one lock, and the steps that
//! change several of them together.

use super::row::Batch;
use super::table::{Data, Schema, Table};
use super::txn::{Begin, BeginError, Limits, Selector, Txn, TxnManager, TxnState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A database.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) id: i64,
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) txns: TxnManager,
    /// Bytes loads may hold; a load begins only below it.
    pub(crate) quota_full: bool,
}

impl Db {
    fn table_by_id(&mut self, id: i64) -> Option<&mut Table> {
        self.tables.values_mut().find(|t| t.id == id)
    }

    /// Publishes what is due.
    pub(crate) fn tick(&mut self, now: i64) {
        while let Some((table_id, data)) = self.txns.take_due(now) {
            // A dropped table's load has nowhere to go.
            if let (Some(table), Some(data)) = (self.table_by_id(table_id), data) {
                table.apply(&data);
            }
        }
    }
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) dbs: BTreeMap<String, Db>,
    next_id: i64,
    limits: Limits,
}

/// What a load says of itself when it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewLoad<'a> {
    pub(crate) label: &'a str,
    pub(crate) two_phase: bool,
    pub(crate) coordinator: &'a str,
    pub(crate) timeout_ms: i64,
    /// F14: a quota that counts as used up.
    pub(crate) full: Option<Quota>,
}

/// What a database has only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quota {
    Data,
    Running,
}

/// Why a load could not begin, in the order of doris.md 12.2.
#[derive(Debug)]
pub(crate) enum LoadRefused {
    UnknownDb,
    UnknownTable,
    DataQuota { db: String },
    LabelFormat,
    Begin(BeginError, i64),
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { dbs: BTreeMap::new(), next_id: 10_000, limits }
    }

    pub(crate) fn next_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    /// False if it exists.
    pub(crate) fn create_db(&mut self, name: &str) -> bool {
        if self.dbs.contains_key(name) {
            return false;
        }
        let id = self.next_id();
        let mut txns = TxnManager::default();
        txns.limits = self.limits;
        self.dbs.insert(name.to_owned(), Db { id, tables: BTreeMap::new(), txns, quota_full: false });
        true
    }

    pub(crate) fn table(&self, db: &str, table: &str) -> Option<&Table> {
        self.dbs.get(db)?.tables.get(table)
    }

    /// Begins a load: database, table, data quota, label rule, duplicate label, running limit.
    pub(crate) fn begin(
        &mut self,
        db: &str,
        table: &str,
        load: NewLoad<'_>,
        now: i64,
    ) -> Result<(i64, Arc<Schema>), LoadRefused> {
        let id = self.next_id + 1;
        let entry = self.dbs.get_mut(db).ok_or(LoadRefused::UnknownDb)?;
        let found = entry.tables.get(table).ok_or(LoadRefused::UnknownTable)?;
        if entry.quota_full || load.full == Some(Quota::Data) {
            return Err(LoadRefused::DataQuota { db: db.to_owned() });
        }
        if !label_is_valid(load.label) {
            return Err(LoadRefused::LabelFormat);
        }
        let schema = found.schema.clone();
        let begin = Begin {
            id,
            label: load.label.to_owned(),
            table: table.to_owned(),
            table_id: found.id,
            two_phase: load.two_phase,
            coordinator: load.coordinator.to_owned(),
            timeout_ms: load.timeout_ms,
        };
        let db_id = entry.id;
        let limits = entry.txns.limits;
        if load.full == Some(Quota::Running) {
            entry.txns.limits.running = entry.txns.running();
        }
        let begun = entry.txns.begin(begin, now);
        entry.txns.limits = limits;
        begun.map_err(|e| LoadRefused::Begin(e, db_id))?;
        self.next_id = id;
        Ok((id, schema))
    }

    /// Whether a table has as many versions as it may have.
    pub(crate) fn too_many_versions(&mut self, db: &str, table: &str, now: i64) -> bool {
        let Limits { max_versions, compaction_per_second, .. } = self.limits;
        let found = self.dbs.get_mut(db).and_then(|d| d.tables.get_mut(table));
        found.is_some_and(|t| t.versions(now, compaction_per_second) >= max_versions)
    }

    fn db_of(&mut self, db: &str) -> Result<&mut Db, String> {
        self.dbs.get_mut(db).ok_or_else(|| unknown_db(db))
    }

    /// A load of somebody else, into a table that does not matter here, comes and is visible.
    pub(crate) fn finish_foreign(&mut self, db: &str, label: &str, now: i64) {
        let id = self.next_id();
        let Some(db) = self.dbs.get_mut(db) else { return };
        let begin = Begin {
            id,
            label: label.to_owned(),
            table: "others".into(),
            table_id: -1,
            two_phase: false,
            coordinator: String::new(),
            timeout_ms: 600_000,
        };
        if db.txns.begin(begin, now).is_ok() && db.txns.finish_body(id, Arc::default(), now).is_ok() {
            db.txns.publish_at(id, now);
            db.tick(now);
        }
    }

    /// The body of a load arrived.
    pub(crate) fn finish_body(&mut self, db: &str, id: i64, data: Batch, now: i64) -> Result<TxnState, String> {
        let db = self.db_of(db)?;
        if let Some(txn) = db.txns.txn(id) {
            let table_id = txn.table_id;
            if txn.state == TxnState::Prepare && db.table_by_id(table_id).is_none() {
                return Err(format!("unknown table, tableId={table_id}"));
            }
        }
        db.txns.finish_body(id, Arc::new(data), now)
    }

    /// The second phase. The table must still be there (4.3, "table dropped").
    pub(crate) fn commit(&mut self, db: &str, selector: &Selector, now: i64) -> Result<i64, String> {
        let db = self.db_of(db)?;
        let target = db.txns.commit_target(selector)?;
        let (table_id, state) = (target.table_id, target.state);
        if state == TxnState::PreCommitted && db.table_by_id(table_id).is_none() {
            return Err(format!("unknown table, tableId={table_id}"));
        }
        db.txns.commit(selector, now)
    }

    pub(crate) fn abort(&mut self, db: &str, selector: &Selector, reason: &str, now: i64) -> Result<i64, String> {
        self.db_of(db)?.txns.abort(selector, reason, now)
    }

    pub(crate) fn txn(&self, db: &str, id: i64) -> Option<&Txn> {
        self.dbs.get(db)?.txns.txn(id)
    }

    /// Publishes what is due, everywhere.
    pub(crate) fn tick(&mut self, now: i64) {
        for db in self.dbs.values_mut().filter(|d| d.txns.has_committed()) {
            db.tick(now);
        }
    }

    /// Timeouts and retention, everywhere.
    pub(crate) fn clean(&mut self, now: i64) {
        self.tick(now);
        for db in self.dbs.values_mut() {
            db.txns.clean(now);
        }
    }

    /// What a reader of a table sees now, and goes on seeing.
    pub(crate) fn snapshot(&self, db: &str, table: &str) -> Option<(Arc<Schema>, Data, u64)> {
        self.table(db, table).map(|t| (t.schema.clone(), t.data.clone(), t.rows))
    }
}

pub(crate) fn unknown_db(db: &str) -> String {
    format!("unknown database, database={db}")
}

/// The label rule of doris.md 3: `^[-_A-Za-z0-9:]{1,128}$`.
pub(crate) fn label_is_valid(label: &str) -> bool {
    (1..=128).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'))
}
