//! The last record's loads: what became of them, and what is done about it.

use std::collections::BTreeMap;

use millstream_doris_sink::client::DorisClient;
use millstream_doris_sink::{Label, SinkError, TxnFact as Seen, TxnRef};

use super::poisoned::Poisoned;
use crate::checkpoint::{StoredState, StoredTarget};
use crate::delivery::{EpochRecord, LoadAction, LoadFate, LoadRecord, TableMode, TargetNo, TargetState, fate, plan};
use crate::pipeline::error::RunError;
use crate::pipeline::sink::{self, Ahead, Failed};
use crate::pipeline::spill::Spill;

/// Finds out what became of the last record's loads, finishes what can be finished, and says where every target stands.
pub(super) async fn recover(
    state: &StoredState,
    client: &DorisClient,
    spill: &Spill,
    poisoned: &mut Poisoned,
) -> Result<BTreeMap<TargetNo, TargetState>, RunError> {
    let included = state.targets.iter().filter(|t| t.quarantine.is_none());
    let mut targets: BTreeMap<TargetNo, TargetState> = included.map(|t| (t.target, t.state.clone())).collect();
    let Some(record) = state.record.as_ref().filter(|r| !r.committed) else { return Ok(targets) };
    // A table that is gone can tell nothing of its loads, and is left out.
    for change in &record.targets {
        let Some(target) = state.targets.iter().find(|t| t.target == change.target) else { continue };
        let (database, table) = &target.sink;
        let away = |e: SinkError| RunError::away(format!("Doris is away: {e}")).because(e);
        if !poisoned.is_out(target.target) && client.describe_table(database, table).await.map_err(away)?.is_none() {
            poisoned.add(target.target, format!("{database}.{table} is gone from Doris"))?;
        }
    }
    let record = &without(record, poisoned);
    tracing::info!(epoch = record.epoch, loads = record.loads.len(), "finishing the last epoch");
    let mut last: BTreeMap<TargetNo, (String, u64)> = BTreeMap::new();
    for load in record.loads.iter().filter(|l| l.txn == LoadRecord::AHEAD) {
        let Some(target) = state.targets.iter().find(|t| t.target == load.id.target) else { continue };
        if poisoned.is_out(target.target) {
            continue;
        }
        match finish_ahead(load, target, client, spill, last.get(&target.target)).await {
            Ok(txn) => last.extend(txn.map(|txn| (target.target, (target.sink.0.clone(), txn)))),
            Err(Failed::Run(e)) => return Err(e),
            Err(Failed::TooLarge(reason) | Failed::OfTable(reason)) => poisoned.add(target.target, reason)?,
        }
    }
    let record = &without(record, poisoned);
    // A commit can fail between the look and the act; then everything is looked at again.
    for _ in 0..5 {
        let fates = fates(record, state, client).await?;
        let plan = plan(record, &fates).map_err(|e| {
            RunError::stopped(format!(
                "load {} is visible in Doris although the earlier load {} of the same table is not: someone changed Doris' \
                 transactions by hand; begin again with a new state directory and on_existing = \"truncate\"",
                e.visible, e.lost
            ))
        })?;
        let mut again = false;
        for target in &plan.targets {
            let Some(stored) = state.targets.iter().find(|t| t.target == target.target) else { continue };
            for (txn, action) in &target.actions {
                match action {
                    LoadAction::Keep => {}
                    LoadAction::Commit => {
                        if let Err(e) = sink::commit(client, &stored.sink.0, &stored.sink.1, *txn).await {
                            tracing::warn!(reason = %e, "a commit did not work: looking again");
                            again = true;
                        }
                    }
                    LoadAction::Abort => {
                        client
                            .abort(&stored.sink.0, *txn)
                            .await
                            .map_err(|e| RunError::away(format!("Doris is away: {e}")).because(e))?;
                    }
                }
            }
            targets.insert(target.target, target.resume.clone());
        }
        if !again {
            return Ok(targets);
        }
    }
    Err(RunError::away("the last epoch could not be finished"))
}

/// The record as far as it is about targets that are not left out.
fn without(record: &EpochRecord, poisoned: &Poisoned) -> EpochRecord {
    EpochRecord {
        targets: record.targets.iter().filter(|c| !poisoned.is_out(c.target)).cloned().collect(),
        loads: record.loads.iter().filter(|l| !poisoned.is_out(l.id.target)).cloned().collect(),
        ..record.clone()
    }
}

/// A load that was written ahead: unless it is in the table, its bytes are sent again under its label.
async fn finish_ahead(
    load: &LoadRecord,
    target: &StoredTarget,
    client: &DorisClient,
    spill: &Spill,
    before: Option<&(String, u64)>,
) -> Result<Option<u64>, Failed> {
    let (database, table) = &target.sink;
    let away = |e: SinkError| RunError::away(format!("Doris is away: {e}")).because(e);
    let label = load.label.parse::<Label>().map_err(|e| RunError::stopped(format!("{}: {e:?}", load.label)))?;
    let fact = client.transaction(database, TxnRef::Label(label)).await.map_err(away)?;
    let seen = fact.is_committed()
        || load.mode == TableMode::Append
            && client.any_row_in_seq_range(database, table, load.seq.0, load.seq.1).await.map_err(away)?;
    tracing::info!(label = load.label, ?fact, seen, "load of the last epoch, written ahead");
    if seen {
        return Ok(match fact {
            Seen::Visible(txn) | Seen::Committed(txn) => Some(txn),
            _ => None,
        });
    }
    Ahead { database: database.clone(), table: table.clone(), label: load.label.clone() }
        .send(client, spill, before)
        .await
}

pub(super) async fn fates(
    record: &EpochRecord,
    state: &StoredState,
    client: &DorisClient,
) -> Result<BTreeMap<u64, LoadFate>, RunError> {
    let mut fates = BTreeMap::new();
    for load in &record.loads {
        let Some(target) = state.targets.iter().find(|t| t.target == load.id.target) else { continue };
        // Sent again where it was missing.
        if load.txn == LoadRecord::AHEAD {
            fates.insert(load.txn, LoadFate::Done);
            continue;
        }
        let (database, table) = &target.sink;
        let fact = sink::fact(client, database, load.txn).await?;
        let mut found = fate(load.mode, fact, None);
        if found == LoadFate::AskData {
            let seen = client
                .any_row_in_seq_range(database, table, load.seq.0, load.seq.1)
                .await
                .map_err(|e| RunError::away(format!("Doris is away: {e}")).because(e))?;
            found = fate(load.mode, fact, Some(seen));
        }
        tracing::info!(label = load.label, txn = load.txn, ?fact, fate = ?found, "load of the last epoch");
        fates.insert(load.txn, found);
    }
    Ok(fates)
}
