//! A table's schema and its visible rows: UNIQUE (merge-on-write) and DUPLICATE semantics of doris.md 6.1 and 6.2.

use super::partial::completed as completed_row;
use super::row::{Batch, Mark, Values};
use super::types::ColType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Hidden column that marks a row deleted.
pub const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";
/// Hidden column that orders the versions of a key.
pub const SEQUENCE_COL: &str = "__DORIS_SEQUENCE_COL__";
/// Hidden column that holds the commit version.
pub const VERSION_COL: &str = "__DORIS_VERSION_COL__";

/// The data model of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// UNIQUE KEY, merge-on-write.
    Unique,
    /// DUPLICATE KEY.
    Duplicate,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name as created.
    pub name: String,
    /// Its type.
    pub ty: ColType,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// Whether it belongs to the key.
    pub key: bool,
    /// Its default, if it has one: `Some(None)` is DEFAULT NULL.
    pub default: Option<Option<String>>,
    /// Its comment.
    pub comment: String,
    /// Whether it is one of the `__DORIS_…__` columns.
    pub hidden: bool,
}

/// A table's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The table's name.
    pub name: String,
    /// UNIQUE or DUPLICATE.
    pub model: Model,
    /// Visible columns in order, then the hidden ones that are stored.
    pub columns: Vec<Column>,
    /// How many leading columns are the key.
    pub keys: usize,
    /// Distribution columns.
    pub distribution: Vec<String>,
    /// Buckets; None is AUTO.
    pub buckets: Option<u32>,
    /// Properties as given, in order.
    pub properties: Vec<(String, String)>,
    /// The table's comment.
    pub comment: String,
    /// The index of the column that orders versions: the hidden one, or the one `sequence_col` maps.
    pub sequence: Option<usize>,
}

impl Schema {
    /// The index of a column, by its name in any case (doris.md 8).
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The columns a reader sees without `show_hidden_columns`.
    pub fn visible(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|c| !c.hidden)
    }

    /// The index of the delete sign of a UNIQUE table.
    pub(crate) fn delete_sign(&self) -> Option<usize> {
        self.columns.iter().position(|c| c.name == DELETE_SIGN)
    }

    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Appends the key bytes of an encoded row.
    pub(crate) fn key_of(&self, row: &[u8], out: &mut Vec<u8>) {
        for (column, value) in self.columns.iter().zip(Values(row)).take(self.keys) {
            match value {
                None => out.push(0),
                Some(v) => {
                    out.push(1);
                    column.ty.order_key(v, out);
                }
            }
        }
    }
}

/// The current version of a key in a UNIQUE table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    pub(crate) version: u32,
    pub(crate) row: Box<[u8]>,
}

/// The visible rows.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// By key bytes; deleted keys stay as tombstones, since a later row is judged by their sequence.
    Unique(Arc<BTreeMap<Box<[u8]>, Entry>>),
    /// The loads in commit-version order.
    Duplicate(Arc<Vec<(u32, Arc<Batch>)>>),
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: i64,
    pub(crate) schema: Arc<Schema>,
    pub(crate) data: Data,
    /// Live rows a reader counts.
    pub(crate) rows: u64,
    /// Loads made visible so far; also the version of the next one minus one.
    pub(crate) version: u32,
    /// Versions that compaction has not merged yet, and the time that is of.
    uncompacted: (u64, i64),
    /// Rows that came with the sequence of a live row of other content (conformance check T22).
    pub(crate) sequence_conflicts: u64,
}

impl Table {
    pub(crate) fn new(id: i64, schema: Schema) -> Self {
        let data = Self::empty(schema.model);
        Self { id, schema: Arc::new(schema), data, rows: 0, version: 1, uncompacted: (0, 0), sequence_conflicts: 0 }
    }

    fn empty(model: Model) -> Data {
        match model {
            Model::Unique => Data::Unique(Arc::default()),
            Model::Duplicate => Data::Duplicate(Arc::default()),
        }
    }

    /// Versions that are not merged yet, `per_second` of which compaction merges (doris.md 6.3).
    pub(crate) fn versions(&mut self, now: i64, per_second: u64) -> u64 {
        let (count, at) = self.uncompacted;
        let merged = u64::try_from((now - at).max(0)).unwrap_or(0).saturating_mul(per_second) / 1000;
        // The clock is taken only when it made a difference, so that parts of a version are not lost.
        if merged > 0 || count == 0 {
            self.uncompacted = (count.saturating_sub(merged), now);
        }
        self.uncompacted.0
    }

    pub(crate) fn truncate(&mut self) {
        self.data = Self::empty(self.schema.model);
        self.rows = 0;
    }

    /// Makes a committed load's rows visible. Called in commit-version order.
    pub(crate) fn apply(&mut self, batch: &Arc<Batch>) {
        self.version += 1;
        self.uncompacted.0 += 1;
        let version = self.version;
        self.rows += batch.counted;
        match &mut self.data {
            Data::Duplicate(loads) => {
                self.rows += batch.len() as u64;
                if batch.len() > 0 {
                    Arc::make_mut(loads).push((version, batch.clone()));
                }
            }
            Data::Unique(map) => {
                let map = Arc::make_mut(map);
                let has_sequence = self.schema.sequence.is_some();
                for i in 0..batch.len() {
                    let (key, mark) = batch.keyed(i);
                    let row = batch.row(i);
                    let Some(old) = map.get_mut(key) else {
                        self.rows += u64::from(!mark.deleted);
                        map.insert(key.into(), Entry { mark, version, row: row.into() });
                        continue;
                    };
                    if has_sequence && !wins(mark, old.mark) {
                        continue;
                    }
                    let completed = batch.stored.as_ref().filter(|_| !old.mark.deleted && !mark.deleted);
                    let completed = completed.map(|stored| completed_row(stored, row, &old.row));
                    let row = completed.as_deref().unwrap_or(row);
                    if has_sequence && mark == old.mark && *old.row != *row {
                        self.sequence_conflicts += 1;
                    }
                    self.rows += u64::from(!mark.deleted);
                    self.rows -= u64::from(!old.mark.deleted);
                    *old = Entry { mark, version, row: row.into() };
                }
            }
        }
    }
}

/// Whether a later row replaces the stored one, by sequence (doris.md 6.2): the larger sequence wins; among equals a
/// delete wins, an insert over a deleted row stays invisible (issue #17739), and of two live rows the later load's
/// stands.
fn wins(new: Mark, old: Mark) -> bool {
    match new.sequence.cmp(&old.sequence) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => new.deleted || !old.deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_decides() {
        let m = |sequence, deleted| Mark { sequence, deleted };
        for (new, old, want) in [
            (m(2, false), m(1, false), true),
            (m(1, false), m(2, false), false),
            (m(2, true), m(2, false), true),
            (m(1, true), m(2, false), false),
            (m(2, false), m(2, true), false),
            (m(3, false), m(2, true), true),
            (m(2, false), m(2, false), true),
            (m(1, false), m(2, true), false),
        ] {
            assert_eq!(wins(new, old), want, "{new:?} over {old:?}");
        }
    }
}
