//! What must be true: at a transaction boundary, and at the end.

use millstream_engine::delivery::{TableMode, TargetNo};
use millstream_engine::merge::RangeState;

use crate::doris::{OutRow, State, fold, spelled};
use crate::driver::{Engine, Run};
use crate::server::{KEYS, Val, What};
use crate::world::World;

impl World {
    /// Rows of a target that are, or will be, visible.
    fn rows<'a>(&'a self, target: TargetNo, run: Option<&'a Run>) -> impl Iterator<Item = &'a OutRow> {
        let era = run.map(|r| r.era);
        let durable = self.doris.txns.iter().filter(move |t| {
            t.target == target
                && match t.state {
                    State::Visible | State::Committed => true,
                    State::Prepare | State::PreCommitted => Some(t.era) == era,
                    State::Aborted => false,
                }
        });
        let pending = run.into_iter().flat_map(move |r| r.pending(target));
        durable.flat_map(|t| t.rows.iter()).chain(pending)
    }

    /// The output so far is the true state of every Done range.
    pub(crate) fn check_boundary(&self, run: &Run) -> Result<(), String> {
        let truth = self.server.state_of(run.merge.judged());
        for group in &run.groups {
            if run.merge.ahead(group.table).is_some() {
                continue;
            }
            for target in &group.targets {
                let mode = self.target(*target).mode;
                let replayed = self.beyond.get(target).is_none_or(|b| run.merge.judged().is_superset(b));
                if mode == TableMode::Upsert && !replayed {
                    continue;
                }
                let table = fold(mode, self.rows(*target, Some(run)));
                let Some(ranges) = run.merge.ranges(group.table) else { continue };
                for key in 1..=KEYS {
                    let done = matches!(ranges.state(&[key as u8]), RangeState::Done(_));
                    let want = spelled(truth[group.source][key]);
                    if done && table[key] != want {
                        return Err(format!(
                            "at a transaction boundary key {key} of target {} ({mode:?}) is {:?}, not {want:?}",
                            target.0, table[key]
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The whole output is right.
    pub(crate) fn check_end(&self) -> Result<(), String> {
        let run = match &self.engine {
            Engine::Run(run) => Some(&**run),
            _ => None,
        };
        for (i, cfg) in self.cfg.targets.iter().enumerate() {
            let target = TargetNo(i as u32 + 1);
            let truth = &self.server.visible[cfg.source];
            let table = fold(cfg.mode, self.rows(target, run));
            for key in 1..=KEYS {
                let want = spelled(truth[key]);
                if table[key] != want {
                    return Err(format!(
                        "at the end key {key} of target {i} ({:?}) is {:?}, not {want:?}",
                        cfg.mode, table[key]
                    ));
                }
                if cfg.mode == TableMode::Append {
                    let mut rows: Vec<OutRow> =
                        self.rows(target, run).filter(|r| r.key as usize == key).copied().collect();
                    rows.sort_by_key(|r| r.seq);
                    self.check_history(cfg.source, key as u8, &rows)
                        .map_err(|e| format!("append target {}, key {key}: {e}: {rows:?}", target.0))?;
                }
            }
        }
        Ok(())
    }

    /// A snapshot row or none, then exactly the later changes, each once, in order.
    fn check_history(&self, table: usize, key: u8, rows: &[OutRow]) -> Result<(), String> {
        // The key's changes in the binlog: where from, and what the key is after each.
        let mut history: Vec<((usize, usize), Option<Val>)> = Vec::new();
        for event in &self.server.binlog {
            let What::Txn(t) = event.what else { continue };
            for (n, c) in self.server.txns[t].changes.iter().enumerate().filter(|(_, c)| c.table == table) {
                let of = |side: Option<(u8, Val)>| side.filter(|(k, _)| *k == key);
                if of(c.before).is_some() && !c.keeps_key() {
                    history.push(((t, n), None));
                }
                history.extend(of(c.after).map(|(_, v)| ((t, n), Some(v))));
            }
        }
        let (snapshot, changes) = match rows.first() {
            Some(first) if first.source.is_none() => (Some(first.val), &rows[1..]),
            _ => (None, rows),
        };
        if changes.len() > history.len() {
            return Err("more changes than there were".to_owned());
        }
        let (before, after) = history.split_at(history.len() - changes.len());
        for (row, (source, val)) in changes.iter().zip(after) {
            if row.source != Some(*source) || (row.op != b'd').then_some(row.val) != *val {
                return Err(format!("{row:?} is where the change {source:?} to {val:?} belongs"));
            }
        }
        if before.last().is_some_and(|(last, _)| after.first().is_some_and(|(first, _)| first == last)) {
            return Err("half a change was emitted".to_owned());
        }
        let start = before.last().map_or(self.server.base[table][key as usize], |(_, val)| *val);
        if snapshot != start {
            return Err(format!("the snapshot is {snapshot:?} where the key was {start:?}"));
        }
        Ok(())
    }
}
