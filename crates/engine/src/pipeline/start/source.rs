//! What the source says of itself, and whether it is the one this pipeline came from.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_binlog::{GtidSet, Position};
use millstream_wire::statements::{Ask, statement};
use millstream_wire::{ConnectOptions, Connection};

use crate::checkpoint::StoredState;
use crate::config::{Config, NameCase, SnapshotMode, Start};
use crate::delivery::{Coordinate, LogPlace, Passed, SourceKind, TargetNo, TargetState, smallest};
use crate::merge::XaPlace;
use crate::pipeline::error::RunError;
use crate::pipeline::xa_list::{is_refused, logs_prepare};
use crate::snapshot::fence::prepared_xa;
use crate::snapshot::{ReadError, reader};
use crate::stream::StreamPlan;

/// What the source says of itself.
pub(super) struct SourceFacts {
    /// Which server it is.
    pub(super) server_uuid: String,
    /// What its log shows it by, for a new pipeline.
    pub(super) kind: SourceKind,
    pub(super) executed: GtidSet,
    pub(super) purged: GtidSet,
    /// The end of its log.
    pub(super) end: Position,
    /// The log's files, oldest first; empty where nobody has to know them.
    pub(super) files: Vec<String>,
    pub(super) case: NameCase,
}

impl SourceFacts {
    /// S0 of a pipeline that begins now.
    pub(super) fn now(&self) -> Passed {
        match self.kind {
            SourceKind::Gtid => self.executed.clone().into(),
            SourceKind::Position => self.end.clone().into(),
        }
    }
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

/// Without a state (`stored` is none) a server with gtid_mode=ON is known by its GTIDs, and any other by positions.
pub(super) async fn source_facts(
    connection: &mut Connection,
    stored: Option<SourceKind>,
) -> Result<SourceFacts, RunError> {
    let server_uuid = reader::server_identity(connection).await.map_err(unread)?;
    // S0 is the set alone; the end of the log (P0) is read after it, never from the same row.
    let statement = if connection.version().is_mariadb() {
        "SELECT @@GLOBAL.lower_case_table_names AS name_case"
    } else {
        "SELECT @@GLOBAL.gtid_executed AS executed, @@GLOBAL.gtid_purged AS purged, @@GLOBAL.gtid_mode AS mode, \
         @@GLOBAL.lower_case_table_names AS name_case"
    };
    let row = connection.query_all(statement).await.map_err(away)?;
    let text = |name: &str| row.text(0, name).unwrap_or_default().to_owned();
    let set = |name: &str| {
        text(name)
            .parse::<GtidSet>()
            .map_err(|e| RunError::stopped(format!("the source's {name} set cannot be read: {e}")))
    };
    let has_gtids = text("mode").eq_ignore_ascii_case("ON");
    let kind = match stored {
        Some(SourceKind::Gtid) if !has_gtids => {
            return Err(RunError::stopped(
                "this pipeline began with gtid_mode=ON, which the source has not any more: set it back, or begin again with a \
                 new state directory",
            ));
        }
        Some(kind) => kind,
        None if has_gtids => SourceKind::Gtid,
        None => SourceKind::Position,
    };
    let (executed, purged) = match kind {
        SourceKind::Gtid => (set("executed")?, set("purged")?),
        SourceKind::Position => Default::default(),
    };
    let case = NameCase::from_lower_case_table_names(text("name_case").parse().unwrap_or(0));
    let end = reader::high_watermark(connection).await.map_err(unread)?;
    let files = match kind {
        SourceKind::Gtid => Vec::new(),
        SourceKind::Position => files(connection).await.map_err(away)?,
    };
    Ok(SourceFacts { server_uuid, kind, executed, purged, end, files, case })
}

async fn files(connection: &mut Connection) -> Result<Vec<String>, millstream_wire::Error> {
    let rows = connection.query_all(statement(Ask::BinlogFiles, connection.version())).await?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, "Log_name").map(str::to_owned)).collect())
}

/// What `judged` lacks and the source does not have any more, as text; `None` if the source cannot be asked.
pub(in crate::pipeline) async fn missing_set(plan: &StreamPlan, judged: &Passed) -> Option<String> {
    let judged = match judged {
        Passed::Gtids(set) => set,
        Passed::Position(place) => return Some(format!("what follows {}", place.position)),
    };
    let mut connection = Connection::connect(&plan.connect).await.ok()?;
    let answer = connection.query_all("SELECT @@GLOBAL.gtid_purged").await.ok()?;
    let mut purged: GtidSet = answer.scalar()?.parse().ok()?;
    purged.subtract(judged);
    Some(purged.to_string())
}

/// Without a snapshot nothing shows the rows of an XA transaction that is prepared now and commits later.
pub(super) async fn check_xa(control: &mut Connection) -> Result<(), RunError> {
    if !logs_prepare(control.version()) {
        return Ok(());
    }
    match prepared_xa(control).await {
        Ok(list) if list.is_empty() => Ok(()),
        Ok(list) => Err(RunError::refused(format!(
            "{} prepared XA transaction(s) on the source (XA RECOVER), such as {}: without a snapshot their rows would be \
             missing; commit them or roll them back first",
            list.len(),
            list.first().map(ToString::to_string).unwrap_or_default()
        ))),
        Err(e) if e.connection().is_some_and(is_refused) => {
            tracing::warn!(
                "prepared XA transactions cannot be seen, and one that commits later stops the run: GRANT XA_RECOVER_ADMIN ON \
                 *.* TO the user of source.url"
            );
            Ok(())
        }
        Err(e) => Err(unread(e)),
    }
}

/// Where a new pipeline begins.
pub(super) async fn first_position(
    config: &Config,
    connect: &ConnectOptions,
    facts: &SourceFacts,
) -> Result<Passed, RunError> {
    let server_id = config.source.server_id;
    let unreadable = |at: &Position, e| RunError::refused(format!("source.start: {at} cannot be read: {e}"));
    let start = if config.snapshot.mode == SnapshotMode::Never { &config.source.start } else { &Start::Current };
    let at = match (facts.kind, start) {
        (SourceKind::Gtid, Start::Current) => return Ok(facts.now()),
        (SourceKind::Gtid, Start::Earliest) => return Ok(facts.purged.clone().into()),
        (SourceKind::Gtid, Start::Gtids(set)) => {
            let mut missing = facts.purged.clone();
            missing.subtract(set);
            if !missing.is_empty() {
                return Err(RunError::refused(format!(
                    "source.start: the source has purged {missing}, which the set lacks"
                )));
            }
            return Ok(set.clone().into());
        }
        (SourceKind::Gtid, Start::Position(at)) => {
            let set = crate::stream::gtids_at(connect, server_id, at).await.map_err(|e| unreadable(at, e))?;
            return Ok(set.into());
        }
        (SourceKind::Position, Start::Gtids(_)) => {
            return Err(RunError::refused(
                "source.start: this source is followed by positions, as it is no MySQL with gtid_mode=ON: name a file and an \
                 offset, \"current\" or \"earliest\"",
            ));
        }
        (SourceKind::Position, Start::Current) => facts.end.clone(),
        (SourceKind::Position, Start::Earliest) => {
            Position::new(facts.files.first().map_or(&*facts.end.file, String::as_str), 4)
        }
        (SourceKind::Position, Start::Position(at)) => at.clone(),
    };
    let created = crate::stream::file_created(connect, server_id, &at.file).await.map_err(|e| unreadable(&at, e))?;
    Ok(Passed::Position(LogPlace { position: at, created: Some(created) }))
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
    if facts.kind == SourceKind::Position {
        return Ok(());
    }
    let tries = if same { LISTED_TRIES } else { APPLIED_TRIES };
    let mut lacks = lacking(state, recovered, facts);
    let mut left = tries;
    while !lacks.is_empty() && left > 0 {
        tokio::time::sleep(LISTED_PAUSE).await;
        *facts = source_facts(connection, Some(facts.kind)).await?;
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
    if facts.kind == SourceKind::Position {
        return is_the_same_log(state, recovered, facts).map_err(Unfit::Other);
    }
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

/// Without GTIDs a place means something on one server alone, and only while its log is the same.
fn is_the_same_log(
    state: &StoredState,
    recovered: &BTreeMap<TargetNo, TargetState>,
    facts: &SourceFacts,
) -> Result<(), RunError> {
    const ANEW: &str = "begin again with a new state directory and on_existing = \"truncate\"";
    let before = state.source.as_ref().map_or("", |s| s.server_uuid.as_str());
    if before != facts.server_uuid {
        return Err(RunError::stopped(format!(
            "the source is another server ({}) than the one this pipeline came from ({before}), and without GTIDs its log \
             cannot be compared: point source.url at the right server, or {ANEW}",
            facts.server_uuid
        )));
    }
    let mut greatest = Passed::from(Position::new("", 0));
    for place in places(state, recovered) {
        greatest.union(&place.passed);
    }
    if let Some(greatest) = greatest.place().filter(|place| place.position > facts.end) {
        return Err(RunError::stopped(format!(
            "the source's log ends at {}, and this pipeline has read up to {}: the log was reset, or the source lost its end \
             in a crash; {ANEW}",
            facts.end, greatest.position
        )));
    }
    let least = smallest(places(state, recovered)).unwrap_or_default();
    if let Some(least) = least.place().filter(|place| !facts.files.iter().any(|file| **file == *place.position.file)) {
        return Err(RunError::stopped(format!(
            "the source has purged binlogs that this pipeline still needs (missing: what follows {}); {ANEW}, and keep \
             binlogs longer",
            least.position
        )));
    }
    Ok(())
}

/// A RESET uses names again: the file at which the stream begins must be the one that was read before.
pub(super) async fn is_the_same_file(
    config: &Config,
    connect: &ConnectOptions,
    begin: &Passed,
) -> Result<(), RunError> {
    let Some((place, before)) = begin.place().and_then(|place| Some((place, place.created?))) else { return Ok(()) };
    let file = &place.position.file;
    let created = crate::stream::file_created(connect, config.source.server_id, file)
        .await
        .map_err(|e| RunError::away(format!("the source's {file} cannot be read: {e}")).because(e))?;
    if created == before {
        return Ok(());
    }
    Err(RunError::stopped(format!(
        "the source's {file} is another file than before (written since {created}, not {before}, in seconds of Unix time): the \
         source's log was reset, or this is another server. Begin again with a new state directory and on_existing = \
         \"truncate\""
    )))
}

/// The rows of XA transactions that are still prepared must come again.
pub(super) fn retains(xa: &XaPlace, facts: &SourceFacts) -> Result<(), RunError> {
    let missing = match &xa.read_from {
        None => return Ok(()),
        Some(Passed::Gtids(from)) => {
            let mut missing = facts.purged.clone();
            missing.subtract(from);
            if missing.is_empty() {
                return Ok(());
            }
            format!("transactions: {missing}")
        }
        Some(Passed::Position(from)) if facts.files.iter().any(|file| **file == *from.position.file) => return Ok(()),
        Some(Passed::Position(from)) => format!("what follows {}", from.position),
    };
    Err(RunError::stopped(format!(
        "the source has purged binlogs with rows of XA transactions that were still prepared (missing {missing}); begin again \
         with a new state directory and on_existing = \"truncate\", and keep binlogs longer than transactions stay prepared \
         (binlog_expire_logs_seconds)"
    )))
}
