//! Reading tables again: what may be asked for, and where a target stands then. Pure.

use crate::checkpoint::{ResyncRequest, StoredState};
use crate::config::NameCase;
use crate::delivery::{TableMode, TargetState};
use crate::pipeline::control::protocol::Resync;

/// A captured table, as far as a request is about it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) database: String,
    pub(super) table: String,
    /// Its append targets, `db.table`.
    pub(super) append: Vec<String>,
}

/// The captured tables of a stored state.
pub(super) fn known(state: &StoredState) -> Vec<Known> {
    let of_table = |database: &String, table: &String| {
        let appends = state.targets.iter().filter(|t| t.mode == TableMode::Append);
        appends
            .filter(|t| t.source.0 == *database && t.source.1 == *table)
            .map(|t| format!("{}.{}", t.sink.0, t.sink.1))
            .collect()
    };
    let schemas = state.tables.iter().map(|t| &t.schema);
    schemas
        .map(|s| Known {
            database: s.database.clone(),
            table: s.table.clone(),
            append: of_table(&s.database, &s.table),
        })
        .collect()
}

/// The tables of a request, checked.
pub(super) fn requests(
    resync: &Resync,
    known: &[Known],
    case: NameCase,
    jsonl: bool,
) -> Result<Vec<ResyncRequest>, String> {
    if jsonl {
        return Err(
            "the jsonl sink cannot be emptied, and its events would come twice: begin with a new file and a new state \
                    directory"
                .to_owned(),
        );
    }
    let mut requests: Vec<ResyncRequest> = Vec::new();
    let mut problems = Vec::new();
    for name in &resync.tables {
        let found = known.iter().find(|k| {
            // A database's name may hold points too.
            name.match_indices('.').any(|(at, _)| {
                let table = name.get(at.saturating_add(1)..).unwrap_or_default();
                name.get(..at).is_some_and(|d| case.same(d, &k.database)) && case.same(table, &k.table)
            })
        });
        let Some(k) = found else {
            let names: Vec<String> = known.iter().take(20).map(|k| format!("{}.{}", k.database, k.table)).collect();
            problems.push(format!("{name} is not captured; captured are: {}", names.join(", ")));
            continue;
        };
        if !resync.truncate && !k.append.is_empty() {
            problems.push(format!(
                "{}.{}: its append target {} would hold every row twice: give --truncate to empty all targets of the table \
                 first",
                k.database,
                k.table,
                k.append.join(", ")
            ));
            continue;
        }
        if !requests.iter().any(|r| r.database == k.database && r.table == k.table) {
            let (database, table) = (k.database.clone(), k.table.clone());
            requests.push(ResyncRequest { database, table, truncate: resync.truncate });
        }
    }
    if problems.is_empty() { Ok(requests) } else { Err(problems.join("\n")) }
}

/// What is answered to a request that is kept.
pub(super) fn accepted(requests: &[ResyncRequest], running: bool) -> String {
    let names: Vec<String> = requests.iter().map(|r| format!("{}.{}", r.database, r.table)).collect();
    let emptied = if requests.iter().any(|r| r.truncate) { ", its targets are emptied first" } else { "" };
    let when = if running { "now, beside the stream" } else { "when an engine starts (none runs now)" };
    format!("{} will be read again {when}{emptied}", names.join(", "))
}

/// Where a target stands that is read again: nothing of it is Done, and unless it is emptied it may hold anything.
pub(super) fn restarted(mode: TableMode, before: &TargetState, truncate: bool) -> TargetState {
    TargetState { ahead: before.ahead.clone(), done: Vec::new(), may_hold_more: !truncate && mode == TableMode::Upsert }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::KeyRange;

    fn known(database: &str, table: &str, append: &[&str]) -> Known {
        Known {
            database: database.to_owned(),
            table: table.to_owned(),
            append: append.iter().map(ToString::to_string).collect(),
        }
    }

    fn asked(tables: &[&str], truncate: bool, case: NameCase) -> Result<Vec<String>, String> {
        let captured = [known("shop", "orders", &[]), known("shop", "log", &["ods.log"]), known("a.b", "c", &[])];
        let resync = Resync { tables: tables.iter().map(ToString::to_string).collect(), truncate };
        let requests = requests(&resync, &captured, case, false)?;
        assert!(requests.iter().all(|r| r.truncate == truncate));
        Ok(requests.into_iter().map(|r| format!("{}.{}", r.database, r.table)).collect())
    }

    #[test]
    fn a_request_names_captured_tables_and_no_history_twice() {
        let case = NameCase::Sensitive;
        assert_eq!(asked(&["shop.orders", "shop.orders"], false, case).unwrap(), ["shop.orders"]);
        assert_eq!(asked(&["a.b.c"], false, case).unwrap(), ["a.b.c"]);
        assert_eq!(asked(&["Shop.Orders"], false, NameCase::Insensitive).unwrap(), ["shop.orders"]);
        let message = asked(&["Shop.Orders", "shop.log", "orders"], false, case).unwrap_err();
        for want in ["Shop.Orders is not captured", "shop.log: its append target ods.log", "orders is not captured"] {
            assert!(message.contains(want), "{message}");
        }
        assert_eq!(asked(&["shop.log"], true, case).unwrap(), ["shop.log"]);
        let resync = Resync { tables: vec!["shop.orders".to_owned()], truncate: true };
        assert!(requests(&resync, &[], case, true).unwrap_err().contains("jsonl"));
    }

    #[test]
    fn a_target_that_is_read_again_keeps_its_place_and_loses_its_ranges() {
        let before = TargetState { done: vec![KeyRange::default()], ..TargetState::default() };
        for (mode, truncate, more) in
            [(TableMode::Upsert, false, true), (TableMode::Upsert, true, false), (TableMode::Append, true, false)]
        {
            let state = restarted(mode, &before, truncate);
            assert_eq!((state.done.len(), state.may_hold_more), (0, more), "{mode} {truncate}");
        }
    }
}
