//! What the source says of itself, and whether it is the one this pipeline came from.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_binlog::GtidSet;
use millstream_wire::{ConnectOptions, Connection};

use crate::checkpoint::StoredState;
use crate::config::{Config, NameCase, SnapshotMode, Start};
use crate::delivery::{Coordinate, Passed, TargetNo, TargetState, smallest};
use crate::pipeline::error::RunError;
use crate::snapshot::ReadError;
use crate::stream::StreamPlan;

/// What the source says of itself.
pub(super) struct SourceFacts {
    pub(super) server_uuid: String,
    pub(super) executed: GtidSet,
    pub(super) purged: GtidSet,
    pub(super) case: NameCase,
}

pub(super) fn unread(e: ReadError) -> RunError {
    if e.is_retryable() || e.connection().is_some_and(millstream_wire::Error::is_transport) {
        return RunError::away(format!("the source is away: {e}")).because(e);
    }
    RunError::stopped(format!("the source refuses: {e}")).because(e)
}

pub(in crate::pipeline) fn away(e: millstream_wire::Error) -> RunError {
    if e.is_retryable() || e.is_transport() {
        return RunError::away(format!("the source is away: {e}")).because(e);
    }
    RunError::stopped(format!("the source refuses: {e}")).because(e)
}

pub(super) async fn source_facts(connection: &mut Connection) -> Result<SourceFacts, RunError> {
    // S0 is this set alone; the end of the log (P0) is read after it, never from the same row.
    let row = connection
        .query_all(
            "SELECT @@GLOBAL.gtid_executed AS executed, @@GLOBAL.gtid_purged AS purged, @@GLOBAL.server_uuid AS uuid, \
             @@GLOBAL.lower_case_table_names AS name_case",
        )
        .await
        .map_err(away)?;
    let text = |name: &str| row.text(0, name).unwrap_or_default().to_owned();
    let set = |name: &str| {
        text(name)
            .parse::<GtidSet>()
            .map_err(|e| RunError::stopped(format!("the source's {name} set cannot be read: {e}")))
    };
    Ok(SourceFacts {
        server_uuid: text("uuid"),
        executed: set("executed")?,
        purged: set("purged")?,
        case: NameCase::from_lower_case_table_names(text("name_case").parse().unwrap_or(0)),
    })
}

/// The purged transactions that `judged` lacks, as text; `None` if the source cannot be asked.
pub(in crate::pipeline) async fn missing_set(plan: &StreamPlan, judged: &Passed) -> Option<String> {
    let judged = judged.gtids()?;
    let mut connection = Connection::connect(&plan.connect).await.ok()?;
    let answer = connection.query_all("SELECT @@GLOBAL.gtid_purged").await.ok()?;
    let mut purged: GtidSet = answer.scalar()?.parse().ok()?;
    purged.subtract(judged);
    Some(purged.to_string())
}

/// The server's answer to XA RECOVER without the privilege (ER_XAER_RMERR).
const XA_RECOVER_REFUSED: u16 = 1401;

/// An XA transaction that is prepared now and was not seen preparing may bring rows that nothing shows.
pub(super) async fn check_xa(control: &mut Connection) -> Result<(), RunError> {
    match control.query_all("XA RECOVER CONVERT XID").await {
        Ok(list) if list.is_empty() => Ok(()),
        Ok(list) => Err(RunError::refused(format!(
            "{} prepared XA transaction(s) on the source (XA RECOVER): their rows would be missing; commit or roll them back \
             first",
            list.len()
        ))),
        Err(e) if e.is_access_denied() || e.server_error().is_some_and(|s| s.code == XA_RECOVER_REFUSED) => {
            tracing::warn!(
                "without XA_RECOVER_ADMIN prepared XA transactions cannot be seen; one that commits later stops the run"
            );
            Ok(())
        }
        Err(e) => Err(away(e)),
    }
}

/// Where a new pipeline begins.
pub(super) async fn first_position(
    config: &Config,
    connect: &ConnectOptions,
    facts: &SourceFacts,
) -> Result<GtidSet, RunError> {
    if config.snapshot.mode != SnapshotMode::Never {
        return Ok(facts.executed.clone());
    }
    match &config.source.start {
        Start::Current => Ok(facts.executed.clone()),
        Start::Earliest => Ok(facts.purged.clone()),
        Start::Gtids(set) => {
            let mut missing = facts.purged.clone();
            missing.subtract(set);
            if !missing.is_empty() {
                return Err(RunError::refused(format!(
                    "source.start: the source has purged {missing}, which the set lacks"
                )));
            }
            Ok(set.clone())
        }
        Start::Position(at) => crate::stream::gtids_at(connect, config.source.server_id, at)
            .await
            .map_err(|e| RunError::refused(format!("source.start: {at} cannot be read: {e}"))),
    }
}

/// How often, and after which pause, the source is asked again whether it lists what was judged.
const LISTED_TRIES: u32 = 100;
const LISTED_PAUSE: Duration = Duration::from_millis(100);

/// The same for another server, as long as nothing comes.
const APPLIED_TRIES: u32 = 30;

/// A transaction is sent before it is listed: what was judged just before a crash may not be listed yet. Another server may
/// still be applying what it got from the one before it.
pub(super) async fn wait_until_listed(
    connection: &mut Connection,
    state: &StoredState,
    recovered: &BTreeMap<TargetNo, TargetState>,
    facts: &mut SourceFacts,
) -> Result<(), RunError> {
    let same = state.source.as_ref().is_some_and(|s| s.server_uuid == facts.server_uuid);
    let tries = if same { LISTED_TRIES } else { APPLIED_TRIES };
    let mut lacks = lacking(state, recovered, facts);
    let mut left = tries;
    while !lacks.is_empty() && left > 0 {
        tokio::time::sleep(LISTED_PAUSE).await;
        *facts = source_facts(connection).await?;
        let now = lacking(state, recovered, facts);
        left = if now == lacks || same { left.saturating_sub(1) } else { tries };
        lacks = now;
    }
    Ok(())
}

/// Where the targets and the stream stand.
fn places<'a>(
    state: &'a StoredState,
    recovered: &'a BTreeMap<TargetNo, TargetState>,
) -> impl Iterator<Item = &'a Coordinate> {
    recovered.values().filter_map(|t| t.ahead.as_ref()).chain([&state.stream])
}

/// Everything that was judged, by any target.
fn judged(state: &StoredState, recovered: &BTreeMap<TargetNo, TargetState>) -> GtidSet {
    let mut judged = GtidSet::new();
    for place in places(state, recovered) {
        judged.union(place.passed.gtids().unwrap_or(&GtidSet::new()));
    }
    judged
}

/// What was judged and the source does not list.
fn lacking(state: &StoredState, recovered: &BTreeMap<TargetNo, TargetState>, facts: &SourceFacts) -> GtidSet {
    let mut judged = judged(state, recovered);
    judged.subtract(&facts.executed);
    judged
}

/// Why a server cannot be followed.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It has nothing that was not judged, and lacks some that was: it may still get it.
    Behind(RunError),
    /// It has another history, or has purged what is needed.
    Other(RunError),
}

/// The source must hold what was judged, and must not have purged what was not.
pub(super) fn descends(
    state: &StoredState,
    recovered: &BTreeMap<TargetNo, TargetState>,
    facts: &SourceFacts,
) -> Result<(), Unfit> {
    let ahead = lacking(state, recovered, facts);
    if !ahead.is_empty() {
        let e = RunError::stopped(format!(
            "the source lacks transactions that were replicated already ({ahead}): it is not the server this pipeline came \
             from, or it lost them. Point source.url at the right server, or begin again with a new state directory"
        ));
        let behind = judged(state, recovered).is_superset(&facts.executed);
        return Err(if behind { Unfit::Behind(e) } else { Unfit::Other(e) });
    }
    let least = smallest(places(state, recovered)).unwrap_or_default();
    let mut missing = facts.purged.clone();
    missing.subtract(least.gtids().unwrap_or(&GtidSet::new()));
    if !missing.is_empty() {
        return Err(Unfit::Other(RunError::stopped(format!(
            "the source has purged binlogs that this pipeline still needs (missing transactions: {missing}); begin again with \
             a new state directory and on_existing = \"truncate\", and keep binlogs longer (binlog_expire_logs_seconds)"
        ))));
    }
    Ok(())
}
