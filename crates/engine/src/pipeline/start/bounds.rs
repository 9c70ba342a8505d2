//! Bounds of text keys in the state, weighed again: the order that they were stored in must be the source's of today.

use std::collections::{BTreeMap, BTreeSet};

use millstream_binlog::ColumnValue;
use millstream_wire::Connection;

use super::targets::ToCapture;
use crate::checkpoint::StoredTarget;
use crate::delivery::{TargetNo, TargetState};
use crate::key::{Collations, KeyCodec};
use crate::merge::Key;
use crate::pipeline::error::RunError;
use crate::pipeline::weigher::{batch, weigh};
use crate::pipeline::weights::Question;

/// Compares the stored bounds of tables that are still being read with what the source says of their texts. A server whose
/// collation has other weights than the one that the snapshot began with would route changes to the wrong side of a bound.
pub(super) async fn check_bounds(
    control: &mut Connection,
    tables: &[ToCapture],
    targets: &[StoredTarget],
    states: &BTreeMap<TargetNo, TargetState>,
    collations: &Collations,
) -> Result<(), RunError> {
    for table in tables.iter().map(|t| &t.schema) {
        let codec = KeyCodec::new(table, collations).map_err(|e| RunError::refused(e.to_string()))?;
        if codec.weighed().next().is_none() {
            continue;
        }
        let of_table = targets.iter().filter(|t| t.source.0 == table.database && t.source.1 == table.table);
        let done = of_table.filter_map(|t| states.get(&t.target)).flat_map(|state| &state.done);
        let bounds: BTreeSet<&Key> = done.flat_map(|range| [&range.lo, &range.hi]).flatten().collect();
        let mut texts = Vec::new();
        let mut keys = Vec::new();
        for bound in bounds {
            let values = codec.decode(bound).map_err(|e| {
                RunError::stopped(format!(
                    "the state's ranges of {}.{} cannot be read ({e}): begin with a new state directory and on_existing = \
                     \"truncate\"",
                    table.database, table.table
                ))
            })?;
            for part in codec.weighed() {
                let value = codec.ordinals().zip(&values).find(|(ordinal, _)| *ordinal == part.ordinal);
                if let Some(ColumnValue::Text { bytes, .. }) = value.map(|(_, value)| value.as_value()) {
                    texts.push(Question { part, text: bytes.into() });
                }
            }
            keys.push((bound, values));
        }
        let mut weights: Vec<Box<[u8]>> = Vec::with_capacity(texts.len());
        while let Some(rest) = texts.get(weights.len()..).filter(|rest| !rest.is_empty()) {
            let some = weigh(control, collations, batch(rest)).await.map_err(|e| {
                let text = format!("the weights of keys, by which text is ordered, cannot be had: {e}");
                if e.may_pass() { RunError::away(text) } else { RunError::stopped(text) }
            })?;
            weights.extend(some);
        }
        let mut weights = weights.iter();
        for (bound, values) in &keys {
            let value = |at: usize| codec.ordinals().zip(values).find(|(i, _)| *i == at).map(|(_, v)| v.as_value());
            let mut order = Vec::new();
            let encoded = codec.encode(value, |_, _| weights.next().map(|weight| &**weight), &mut order);
            if encoded.is_err() || order != bound.order() {
                return Err(RunError::stopped(format!(
                    "the source orders the key of {}.{} otherwise than when its snapshot began, so what was read cannot be \
                     told from the rest (another version of a collation, after an upgrade or on another server?): begin with \
                     a new state directory and on_existing = \"truncate\"",
                    table.database, table.table
                )));
            }
        }
    }
    Ok(())
}
