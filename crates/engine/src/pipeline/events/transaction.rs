//! Where transactions begin and end, and the statements between rows.

use std::collections::HashMap;

use millstream_binlog::event::Query;

use super::{Core, TABLE_MAPS, Transaction};
use crate::config::NameCase;
use crate::delivery::TxnId;
use crate::merge::Xid;
use crate::pipeline::error::RunError;
use crate::schema::ddl::{self, Classified, SkipRule};

/// The captured tables by name.
pub(super) struct Names {
    pub(super) tables: HashMap<(String, String), usize>,
    pub(super) case: NameCase,
}

impl ddl::Captured for Names {
    fn table(&self, database: &str, table: &str) -> bool {
        self.tables.keys().any(|(d, t)| self.case.same(d, database) && self.case.same(t, table))
    }

    fn database(&self, database: &str) -> bool {
        self.tables.keys().any(|(d, _)| self.case.same(d, database))
    }
}

fn xid_of(xid: &ddl::Xid) -> Xid {
    Xid::new(i64::from(xid.format_id), &xid.gtrid, &xid.bqual)
}

impl Core {
    pub(super) fn begin(&mut self, id: TxnId, gtid: Option<String>, ts_micros: Option<u64>) -> Result<(), RunError> {
        if let Some(open) = &self.transaction {
            return Err(self.stop(format_args!("transaction {id} begins inside {}", open.id)));
        }
        let known = self.merge.judged().contains(&id);
        if let Some((lost, _)) = &self.again
            && *lost != id
            && !known
        {
            return Err(RunError::away(format!(
                "the source does not send transaction {lost} again, in which the connection was lost: going back to the \
                 last durable record"
            )));
        }
        if self.barrier.as_ref() == Some(&id) {
            return Err(self.stop(format_args!("transaction {id} cannot be followed")));
        }
        // Between transactions every table will be named again before its rows.
        if self.maps.len() >= TABLE_MAPS {
            self.maps.clear();
        }
        self.ordinals.fill(0);
        if !known {
            self.merge.begin(id.clone());
        }
        self.transaction = Some(Transaction { id, gtid, ts_micros, begun: false, known });
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), RunError> {
        let Some(transaction) = self.transaction.take() else {
            return Err(self.stop("a transaction ends that never began"));
        };
        if transaction.known {
            self.advance();
            return Ok(());
        }
        if let Some((_, judged)) = self.again.take()
            && judged.iter().zip(&self.ordinals).any(|(before, now)| before > now)
        {
            return Err(RunError::away(
                "a transaction came again with fewer rows: going back to the last durable record",
            ));
        }
        self.report.transactions = self.report.transactions.saturating_add(1);
        let was_ahead = self.merge.is_any_ahead();
        let position = self.position();
        self.xa.book.passed(&position);
        self.merge.commit(position);
        if was_ahead {
            for target in &mut self.outputs.targets {
                target.dirty |= target.last.ahead.is_some();
            }
            self.refresh_groups();
        }
        Ok(())
    }

    pub(super) fn advance(&mut self) {
        if self.transaction.is_none() {
            let position = self.position();
            self.xa.book.passed(&position);
            self.merge.advance(position);
        }
    }

    pub(super) fn query(&mut self, query: &Query<'_>) -> Result<(), RunError> {
        let statement = ddl::classify_query(query);
        match &statement {
            Classified::Begin | Classified::XaStart(_) => {
                if let Some(t) = &mut self.transaction {
                    t.begun = true;
                }
                if matches!(statement, Classified::XaStart(_)) {
                    self.xa.start();
                }
                return Ok(());
            }
            // A transaction is logged with ROLLBACK only if it touched what cannot be rolled back: its rows stand.
            Classified::Commit | Classified::Rollback | Classified::XaCommit { one_phase: true, .. } => {
                return self.end();
            }
            Classified::XaCommit { xid, one_phase: false } => return self.xa_commit(&xid_of(xid)),
            // Inside of an XA transaction: it is logged so only if it touched what cannot be rolled back.
            Classified::XaRollback(_) if self.xa.is_open() => return self.end(),
            Classified::XaRollback(xid) => return self.xa_rollback(&xid_of(xid)),
            Classified::Savepoint | Classified::XaEnd(_) => {
                self.report.skip("savepoint");
                return Ok(());
            }
            _ if self.transaction.as_ref().is_some_and(|t| t.known) => {
                self.report.skip("judged_before");
                return match &self.transaction {
                    Some(t) if !t.begun => self.commit(),
                    _ => Ok(()),
                };
            }
            _ => {}
        }
        let database = String::from_utf8_lossy(query.schema);
        self.notice(&statement, &database);
        match ddl::concerns(&statement, &database, &self.names) {
            ddl::Verdict::Skip(SkipRule::IndexOnly) if self.index_at_risk(query.sql).is_some() => {
                let (table, index) = self.index_at_risk(query.sql).unwrap_or_default();
                let sql: String = String::from_utf8_lossy(query.sql).chars().take(300).collect();
                return Err(self.stop(format_args!(
                    "rows of {table} are matched by its unique index {index}, which this may drop or rename: {sql:?}. Begin with \
                     a new state directory and on_existing = \"truncate\""
                )));
            }
            ddl::Verdict::Skip(rule) => self.report.skip(rule.name()),
            ddl::Verdict::Stop(reason) => {
                let sql: String = String::from_utf8_lossy(query.sql).chars().take(300).collect();
                return Err(self.stop(format_args!(
                    "{reason}: {sql:?}. Schema changes are not followed yet: bring the target into the new form, then \
                     begin with a new state directory and on_existing = \"truncate\""
                )));
            }
        }
        match &self.transaction {
            Some(t) if !t.begun => self.commit(),
            _ => Ok(()),
        }
    }

    /// A captured table whose key is a unique index that a statement about indexes may drop, rename or hide. Rather one
    /// too many: what is not sure is taken for it.
    fn index_at_risk(&self, sql: &[u8]) -> Option<(String, String)> {
        let sql = String::from_utf8_lossy(sql).to_lowercase().replace("``", "`");
        if !["drop", "rename", "invisible"].iter().any(|word| sql.contains(word)) {
            return None;
        }
        let mut tables = self.tables.iter().filter_map(|t| Some((t, t.index.as_ref()?)));
        let (table, index) = tables.find(|(_, index)| !index.is_ascii() || sql.contains(&index.to_lowercase()))?;
        Some((format!("{}.{}", table.schema.database, table.schema.table), index.clone()))
    }
}
