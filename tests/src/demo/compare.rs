//! Compares two tables row by row without holding either: rows of both are fed as they come, and only those that have
//! not met their counterpart are kept. It is quick when both come in one order, and right in any.

use std::collections::HashMap;

use super::cells::{self, Columns};
use super::faults::Faults;

/// Where a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Target,
}

/// A row without its counterpart.
type Waiting = (Side, Box<[u8]>);

/// A comparison under way.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    waiting: HashMap<Box<[u8]>, Waiting>,
    faults: Faults,
}

impl Comparison {
    /// Takes in a row of one side.
    pub(super) fn row(&mut self, columns: &Columns<'_>, side: Side, key: &[u8], row: &[u8]) {
        let Some((other, waiting)) = self.waiting.get(key) else {
            self.waiting.insert(key.into(), (side, row.into()));
            return;
        };
        if *other == side {
            self.faults.add(|| format!("key {} is there twice", cells::show(key)));
            return;
        }
        if **waiting != *row {
            let (source, target) = if side == Side::Source { (row, &**waiting) } else { (&**waiting, row) };
            self.faults
                .add(|| format!("key {}: {} in the target", cells::show(key), columns.difference(source, target)));
        }
        self.waiting.remove(key);
    }

    /// What is wrong, now that both sides are at their end.
    pub(super) fn finish(mut self) -> Faults {
        for (key, (side, _)) in self.waiting {
            self.faults.add(|| match side {
                Side::Source => format!("key {} is missing in the target", cells::show(&key)),
                Side::Target => format!("key {} is in the target and not in the source", cells::show(&key)),
            });
        }
        self.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceTable;

    const TABLE: SourceTable =
        SourceTable { database: String::new(), name: String::new(), columns: Vec::new(), key: Vec::new() };

    fn encoded(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        text.split(' ').for_each(|value| cells::put(&mut out, Some(value.as_bytes())));
        out
    }

    /// Rows are `key value`; both sides are fed in turn.
    fn faults(source: &[&str], target: &[&str]) -> Vec<String> {
        let table = TABLE;
        let columns = Columns::of(&table);
        let mut comparison = Comparison::default();
        for n in 0..source.len().max(target.len()) {
            for (side, rows) in [(Side::Source, source), (Side::Target, target)] {
                if let Some(row) = rows.get(n) {
                    let key = encoded(row.split(' ').next().unwrap());
                    comparison.row(&columns, side, &key, &encoded(row));
                }
            }
        }
        let faults = comparison.finish();
        assert_eq!(faults.count(), faults.first().len() as u64);
        faults.first().to_vec()
    }

    #[test]
    fn every_mutation_of_a_target_is_seen() {
        let good = ["1 a", "2 b", "3 c", "4 d"];
        assert_eq!(faults(&good, &good), [""; 0]);
        assert_eq!(faults(&good, &["4 d", "2 b", "1 a", "3 c"]), [""; 0], "order says nothing");
        for (target, want) in [
            (&["1 a", "2 b", "4 d"][..], "key 3 is missing in the target"),
            (&["1 a", "2 b", "3 c"], "key 4 is missing in the target"),
            (&["1 a", "2 b", "3 x", "4 d"], "key 3: column ?: \"c\" in the source, \"x\" in the target"),
            (&["1 a", "2 b", "3 c", "4 d", "4 d"], "key 4 is in the target and not in the source"),
            (&["1 a", "1 a", "2 b", "3 c", "4 d"], "key 1 is in the target and not in the source"),
            (&["0 z", "1 a", "2 b", "3 c", "4 d"], "key 0 is in the target and not in the source"),
            (&["3 c", "3 c", "1 a", "2 b", "4 d"], "key 3 is there twice"),
        ] {
            assert_eq!(faults(&good, target), [want], "{target:?}");
        }
        assert_eq!(faults(&good, &["1 b", "2 a", "3 c", "4 d"]).len(), 2, "values of two rows exchanged");
        assert_eq!(faults(&[], &[]), [""; 0]);
    }
}
