//! Targets that a start finds unfit, and those that were left out before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::checkpoint::{Backend, Quarantine, Store, StoredState, StoredTarget};
use crate::config::OnPoison;
use crate::delivery::{TargetNo, TargetState};
use crate::pipeline::error::RunError;

/// Which targets this start goes without.
pub(in crate::pipeline) struct Poisoned {
    policy: OnPoison,
    all: usize,
    /// Those of the state.
    before: BTreeSet<TargetNo>,
    /// Those of this start, each with the reason.
    now: BTreeMap<TargetNo, String>,
}

impl Poisoned {
    pub(in crate::pipeline) fn new(policy: OnPoison, targets: &[StoredTarget]) -> Self {
        let before = targets.iter().filter(|t| t.quarantine.is_some()).map(|t| t.target).collect();
        Self { policy, all: targets.len(), before, now: BTreeMap::new() }
    }

    pub(super) fn is_out(&self, target: TargetNo) -> bool {
        self.before.contains(&target) || self.now.contains_key(&target)
    }

    /// Leaves a target out; refused where the run is to stop for it, or where it is the last one.
    pub(super) fn add(&mut self, target: TargetNo, reason: String) -> Result<(), RunError> {
        let left = self.all.saturating_sub(self.before.len()).saturating_sub(self.now.len());
        if self.policy == OnPoison::Stop || left <= 1 {
            return Err(RunError::stopped(format!("{reason}: begin again with a new state directory")));
        }
        self.now.insert(target, reason);
        Ok(())
    }

    /// Makes it durable, and takes all that are left out from `recovered`.
    pub(super) fn leave_out<B: Backend>(
        self,
        store: &mut Store<B>,
        era: u32,
        state: &StoredState,
        mut targets: Vec<StoredTarget>,
        recovered: &mut BTreeMap<TargetNo, TargetState>,
    ) -> Result<Vec<StoredTarget>, RunError> {
        if !targets.is_empty() && self.before.len() == targets.len() {
            return Err(RunError::refused(
                "every target is quarantined: heal one with `millstream resync`, or begin again with a new state directory",
            ));
        }
        for target in &mut targets {
            let Some(reason) = self.now.get(&target.target) else { continue };
            let mut stands = recovered.get(&target.target).cloned().unwrap_or_else(|| target.state.clone());
            let at = stands.ahead.get_or_insert_with(|| state.stream.clone()).clone();
            let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
            let why = Quarantine { at, reason: reason.clone(), since };
            target.quarantine = Some(why.clone());
            store.quarantine(era, target.target, stands, why)?;
        }
        recovered.retain(|target, _| !self.before.contains(target) && !self.now.contains_key(target));
        Ok(targets)
    }
}
