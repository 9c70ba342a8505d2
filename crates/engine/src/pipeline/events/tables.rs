//! The set of captured tables while the stream goes on.

use std::sync::Arc;

use super::{Captured, Core};
use crate::merge::TableId;
use crate::pipeline::output::Target;
use crate::schema::ddl::{Captured as _, Classified, TableName};

impl Core {
    /// Notes tables that a statement makes, changes or drops, which the configuration wants and which are not captured.
    pub(super) fn notice(&mut self, statement: &Classified, default_database: &str) {
        let tables: &[TableName] = match statement {
            Classified::Create(table) => core::slice::from_ref(table),
            Classified::Ddl { tables, .. } => tables,
            Classified::DropDatabase(database) => {
                let case = self.names.case;
                self.appeared.extend(self.late.iter().filter(|(d, _)| case.same(d, database)).cloned());
                return;
            }
            _ => return,
        };
        for TableName { database, table } in tables {
            self.appear(database.as_deref().unwrap_or(default_database), table);
        }
    }

    /// Notes a table of a statement or of rows, if the configuration wants it and it is not captured.
    pub(super) fn appear(&mut self, database: &str, table: &str) {
        if self.wanted.wants(database, table) && !self.names.table(database, table) {
            let key = (database.to_owned(), table.to_owned());
            // Of a table whose targets are all left out, only a resync makes anything.
            if !self.asleep.contains(&key) {
                self.late.insert(key.clone());
                self.appeared.push(key);
            }
        }
    }

    /// Tables that appeared, or were the subject of another statement, since the last call.
    pub(in crate::pipeline) fn take_appeared(&mut self) -> Vec<(String, String)> {
        core::mem::take(&mut self.appeared)
    }

    /// The place of a captured table.
    pub(in crate::pipeline) fn find(&self, database: &str, table: &str) -> Option<usize> {
        let case = self.names.case;
        let is = |t: &Captured| case.same(&t.schema.database, database) && case.same(&t.schema.table, table);
        self.tables.iter().position(is)
    }

    /// Whether a table may be added here: between transactions. One that is not read (`live`), only while nothing is prepared
    /// whose rows have passed by; others wait for it themselves.
    pub(in crate::pipeline) fn may_add_table(&self, live: bool) -> bool {
        !self.is_inside() && (!live || self.xa.book.undecided().next().is_none())
    }

    /// XA transactions that are prepared and not decided.
    pub(in crate::pipeline) fn undecided(&self) -> Vec<String> {
        self.xa.book.undecided().map(ToString::to_string).collect()
    }

    /// Adds a table between transactions. Its rows are Unread, or (`live`) followed from here on without being read. That it is
    /// captured must be durable.
    pub(in crate::pipeline) fn add_table(
        &mut self,
        mut table: Captured,
        id: TableId,
        targets: Vec<Target>,
        live: bool,
    ) {
        let done = if live { vec![crate::merge::KeyRange::default()] } else { Vec::new() };
        self.merge.add_table(id, &done, false, None);
        if !live {
            self.xa.book.fence(id);
        }
        let source = self.tables.len();
        let first = self.outputs.targets.len();
        let count = targets.len();
        self.outputs.targets.extend(targets.into_iter().map(|target| Target { source, group: id, ..target }));
        table.groups = vec![super::Group::new(id, (first..first.saturating_add(count)).collect())];
        let key = (table.schema.database.clone(), table.schema.table.clone());
        let case = self.names.case;
        self.late.retain(|(d, t)| !(case.same(d, &key.0) && case.same(t, &key.1)));
        self.names.tables.insert(key, source);
        self.tables.push(table);
        self.ordinals.push(0);
        // Every table is named again before its rows.
        self.maps.clear();
        self.refresh_groups();
    }

    /// Everything of a table's groups is Unread again, between transactions. That this is so must be durable, and no epoch may
    /// be on its way. `keep_emitting`: its targets keep what they hold.
    pub(in crate::pipeline) fn restart_table(&mut self, table: usize, keep_emitting: bool) {
        let Some(captured) = self.tables.get(table) else { return };
        for group in &captured.groups {
            self.merge.restart(group.id, keep_emitting);
            for target in &group.targets {
                let state = self.merge.checkpoint(group.id);
                if let Some(target) = self.outputs.targets.get_mut(*target) {
                    target.last = state;
                    target.dirty = false;
                }
            }
        }
        self.refresh_groups();
    }

    /// The id of the next group.
    pub(in crate::pipeline) fn next_group(&self) -> TableId {
        let greatest = self.tables.iter().flat_map(|t| &t.groups).map(|g| g.id.0).max();
        TableId(greatest.map_or(0, |n| n.saturating_add(1)))
    }

    /// The name of a captured table.
    pub(in crate::pipeline) fn table_name(&self, table: usize) -> String {
        self.tables.get(table).map_or_else(String::new, |t| {
            let schema = Arc::clone(&t.schema);
            format!("{}.{}", schema.database, schema.table)
        })
    }
}
