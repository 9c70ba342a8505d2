//! The start of an attempt: identity, recovery, tables, targets, and where the stream begins.

mod bounds;
mod poisoned;
mod recover;
mod source;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use millstream_doris_sink::client::DorisClient;
use tokio::sync::watch;

pub(super) use source::{away, missing_set};

use bounds::check_bounds;
pub(super) use poisoned::Poisoned;
use recover::recover;
use source::{
    SourceFacts, Unfit, check_xa, descends, first_position, is_the_same_file, retains, source_facts, unread,
    wait_until_listed,
};
use targets::{Tables, groups_and_outputs, tables, targets};
pub(super) use targets::{ToCapture, output, prepare_targets, targets_of};

use super::RunOptions;
use super::appear::Preparer;
use super::driver::{Driver, Goal, Limits, LoopState, chunk_bytes, stream_decoder};
use super::error::RunError;
use super::events::{Captured, Core, Group, Wanted, Xa};
use super::hooks::Hooks;
use super::hosts::{FAILOVER_AFTER, Hosts};
use super::pace::Paces;
use super::progress::Progress;
use super::report::{Quarantined, Report};
use super::resync;
use super::session::Session;
use super::sink::{self, DorisSink, JsonlSink, Promise, Sink};
use super::spill::Spill;
use super::weigher::Weigher;
use super::weights::Weights;
use super::workers::Workers;
use super::xa_list::{Lister, logs_prepare};
use super::xa_rows::Room;
use crate::checkpoint::{Backend, SourceState, Store, StoredState, StoredTable, StoredTarget};
use crate::config::{self, Config, NameCase, SnapshotMode, TablePatterns, Until};
use crate::delivery::{Coordinate, Delivery, LoadRecord, SourceKind, TargetNo, TargetState, resume};
use crate::key::Collations;
use crate::merge::{KeyRange, Merge, XaBook};
use crate::preflight;
use crate::snapshot::dialect::Dialect;
use crate::snapshot::fence::{Fence, dialect_facts};
use crate::snapshot::reader;
use crate::stream::StreamPlan;

struct Patterns {
    patterns: TablePatterns,
    case: NameCase,
}

impl Wanted for Patterns {
    fn wants(&self, database: &str, table: &str) -> bool {
        self.patterns.captures(database, table, self.case)
    }
}

fn random_bits<const N: usize>() -> Result<[u8; N], RunError> {
    let mut bits = [0u8; N];
    getrandom::fill(&mut bits).map_err(|e| RunError::refused(format!("no random numbers: {e}")))?;
    Ok(bits)
}

/// A random (version 4) UUID.
fn new_uuid() -> Result<String, RunError> {
    let bits = u128::from_be_bytes(random_bits()?);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |range: core::ops::Range<usize>| hex.get(range).unwrap_or_default().to_owned();
    Ok(format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)))
}

/// What one attempt leaves to the next.
pub(super) struct Carried {
    /// Which host of the source is used.
    pub(super) hosts: Hosts,
    /// Where the run ends, once that is known.
    goal: Option<Goal>,
    /// What was counted so far.
    pub(super) total: Report,
    /// How fast targets are loaded.
    paces: Paces,
}

impl Carried {
    pub(super) fn new(source: &config::Source) -> Self {
        Self { hosts: Hosts::new(source), goal: None, total: Report::default(), paces: Paces::default() }
    }
}

/// One attempt: from the last durable record to the goal, a stop, the session's barrier, or an error.
pub(super) async fn attempt<B: Backend>(
    config: &Config,
    options: &RunOptions,
    store: &mut Store<B>,
    session: &mut Session,
    carried: &mut Carried,
    stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let hosts = &mut carried.hosts;
    let (mut control, connect) = hosts.connect().await?;
    reader::session_setup(&mut control, Dialect::ExecutedSet).await.map_err(unread)?;
    let stored = store.read()?;
    let known = stored.as_ref().filter(|s| s.source.is_some()).map(|s| s.stream.passed.kind());
    let mut facts = source_facts(&mut control, known).await?;
    let fence = facts.end.clone();
    if stored.as_ref().is_none_or(|s| s.source.is_none()) {
        // Before anything is written: the next start would take the file for this pipeline's own.
        output_is_new(config)?;
    }
    let state = match stored {
        Some(state) => state,
        None => {
            let state = StoredState::new(u64::from_be_bytes(random_bits()?), new_uuid()?, config.name.clone());
            store.create(&state)?;
            state
        }
    };
    if state.name != config.name {
        return Err(RunError::refused(format!(
            "the state in {} belongs to pipeline \"{}\", the configuration names \"{}\": use another state.dir, or the old \
             name",
            config.state_dir.display(),
            state.name,
            config.name
        )));
    }
    if state.source.as_ref().is_some_and(|s| s.server_uuid != facts.server_uuid) {
        tracing::warn!(host = %hosts, server_uuid = facts.server_uuid, "the source is another server now");
        // A setting or a right that it lacks must not lose what the server before it would have sent.
        if let Err(problems) = preflight::another_server(config, &mut control).await.map_err(away)? {
            return Err(hosts.refuse(RunError::stopped(problems.to_string())));
        }
    }
    let doris = doris_client(config)?;
    let first = state.source.is_none();
    let Tables { captured: tables, appeared, forgotten } = tables(config, &mut control, &facts, &state, first).await?;
    let targets = targets(config, &tables, &facts, &state)?;
    let databases: BTreeSet<&str> = targets.iter().map(|t| t.sink.0.as_str()).collect();
    if doris.is_some() && databases.len() > 1 {
        tracing::info!(
            databases = databases.len(),
            "the targets lie in several Doris databases: commits are issued together, but Doris cannot make them atomic \
             across databases"
        );
    }

    let era = store.next_era()?;
    // Read again: until the era was raised, a predecessor could still write its record.
    let state = store.read()?.unwrap_or(state);
    let (state, targets) = take_back(store, era, state, targets)?;
    let mut poisoned = Poisoned::new(config.sink.on_poison(), &targets);
    let mut recovered = match &doris {
        Some(client) => recover(&state, client, &Spill::new(&config.state_dir), &mut poisoned).await?,
        None => state.targets.iter().map(|t| (t.target, t.state.clone())).collect(),
    };
    let gone: Vec<TargetNo> =
        state.targets.iter().filter(|t| forgotten.contains(&t.source)).map(|t| t.target).collect();
    recovered.retain(|target, _| !gone.contains(target));
    let floor = prepare_targets(config, doris.as_deref(), &tables, &targets, &recovered, &mut poisoned).await?;
    let era = if floor > era {
        store.raise_era(floor)?;
        floor
    } else {
        era
    };
    // What was left out before, and what has to be left out now.
    let targets = poisoned.leave_out(store, era, &state, targets, &mut recovered)?;
    let quarantined: Vec<Quarantined> = targets.iter().filter_map(Quarantined::of).collect();
    quarantined.iter().for_each(Quarantined::tell);

    let (begin, source) = if first {
        let begin = first_position(config, &connect, &facts).await?;
        (
            begin,
            SourceState { server_uuid: facts.server_uuid.clone(), fence: Some((fence.file.to_string(), fence.offset)) },
        )
    } else {
        wait_until_listed(&mut control, &state, &recovered, &mut facts).await?;
        match descends(&state, &recovered, &facts) {
            Ok(()) => hosts.accept(),
            Err(Unfit::Behind(e)) => return Err(hosts.wait_for(e)),
            Err(Unfit::Other(e)) => return Err(hosts.refuse(e)),
        }
        let known = state.source.clone().filter(|s| s.server_uuid == facts.server_uuid);
        let source = known.unwrap_or_else(|| SourceState {
            server_uuid: facts.server_uuid.clone(),
            fence: Some((fence.file.to_string(), fence.offset)),
        });
        let begin = resume(&state.stream, &mut recovered).passed;
        is_the_same_file(config, &connect, &begin).await?;
        (begin, source)
    };
    let stream = Coordinate::boundary(begin.clone());
    let xa_place = state.xa_at(&begin).clone();
    retains(&xa_place, &facts)?;

    // New tables and targets are durable before their first chunk is marked.
    let whole = || vec![KeyRange::default()];
    let mut new_targets = Vec::new();
    for target in &targets {
        if recovered.contains_key(&target.target) || target.quarantine.is_some() {
            continue;
        }
        let done = if config.snapshot.mode == SnapshotMode::Never { whole() } else { Vec::new() };
        let state = TargetState { ahead: None, done, may_hold_more: false };
        recovered.insert(target.target, state.clone());
        new_targets.push(StoredTarget { state, ..target.clone() });
    }
    if matches!(&config.sink, config::Sink::Doris(doris) if doris.delivery == config::Delivery::AtLeastOnce) {
        // Loads are visible before anything is written down, so the tables may hold more than the state says.
        recovered.values_mut().for_each(|state| state.may_hold_more = true);
    }
    let new_tables: Vec<StoredTable> = tables
        .iter()
        .map(|table| StoredTable {
            schema: (*table.schema).clone(),
            index: table.index.clone(),
            defaults: table.defaults.to_vec(),
        })
        .filter(|t| {
            !state.tables.iter().any(|s| s.schema.database == t.schema.database && s.schema.table == t.schema.table)
        })
        .collect();
    let dialect = Dialect::choose(&dialect_facts(&mut control, facts.kind).await.map_err(unread)?);
    let fencing = options.fence(Fence::new(dialect, facts.kind));
    if config.snapshot.mode == SnapshotMode::Never && (first || !new_targets.is_empty()) {
        check_xa(&mut control).await?;
    }
    store.add_tables(era, &new_tables, &new_targets)?;
    let settled: Vec<(TargetNo, TargetState)> = recovered.iter().map(|(no, s)| (*no, s.clone())).collect();
    store.settle(era, &stream, &settled)?;
    // Whatever was written ahead is in the tables, or of an epoch that never was.
    Spill::new(&config.state_dir)
        .clear()
        .map_err(|e| RunError::stopped(format!("{} cannot be cleared: {e}", config.state_dir.display())).because(e))?;
    store.set_source(era, &source, &stream)?;
    for (database, table) in &forgotten {
        tracing::info!(
            table = format!("{database}.{table}"),
            "source.tables names it no more: forgotten; its targets stay"
        );
    }
    store.forget(era, &forgotten, &gone)?;
    begin_again(store, era, doris.as_deref(), &state, &targets, &mut recovered).await?;

    let row_image = control.query_all("SELECT @@GLOBAL.binlog_row_image").await.map_err(away)?;
    let parts_are_logged = row_image.scalar().is_some_and(|image| !image.eq_ignore_ascii_case("FULL"));
    let goal = goal_of(config, options, &mut carried.goal, &facts)?;
    if matches!(goal, Goal::Position(_)) && !hosts.is_first_server(&facts.server_uuid) {
        return Err(RunError::stopped(format!(
            "the source is {hosts} now, where the position given by --until means nothing: name a GTID set"
        )));
    }
    let collations = Collations::read(&mut control, tables.iter().map(|t| &*t.schema)).await.map_err(away)?;
    check_bounds(&mut control, &tables, &targets, &recovered, &collations).await?;
    let mut xa = XaBook::new(xa_place.clone(), fence, logs_prepare(control.version()));
    control.close().await;

    let epoch = state.record.as_ref().map_or(1, |r| r.epoch.saturating_add(1));
    let (groups, mut outputs) = groups_and_outputs(config, era, &state, &tables, &targets, &recovered)?;
    for target in &mut outputs.targets {
        target.pace = carried.paces.remove(&target.no).unwrap_or_default();
    }
    let mut merge = Merge::new(begin.clone(), source.fence(), options.rules());
    if !fencing.dialect.covers_xa() {
        merge.lw_lacks_xa();
    }
    let mut captured: Vec<Captured> = Vec::new();
    for (table, groups) in tables.iter().zip(groups) {
        let access = table.access(config, facts.case, &collations).map_err(|e| RunError::refused(e.to_string()))?;
        let mut of_table = Vec::new();
        for (id, state, targets) in groups {
            merge.add_table(id, &state.done, state.may_hold_more, state.ahead.clone());
            if state.done.is_empty() {
                xa.fence(id);
            }
            of_table.push(Group::new(id, targets));
        }
        captured.push(Captured {
            schema: Arc::clone(&table.schema),
            index: table.index.clone(),
            defaults: Arc::clone(&table.defaults),
            access: Arc::new(access),
            groups: of_table,
            snapshot_rows: 0,
        });
    }
    if parts_are_logged || carried.total.restarts > 0 {
        outputs.expect_parts();
    }
    let wanted = Box::new(Patterns { patterns: config.source.tables.clone(), case: facts.case });
    let delivery = Delivery::new(era, epoch);
    let limits = Limits { away: hosts.are_several().then_some(FAILOVER_AFTER), ..limits(config, session.workers) };
    let weights = Weights::new(limits.weights);
    let room = Room::new(&config.state_dir, limits.xa)
        .map_err(|e| RunError::stopped(format!("{} cannot be read: {e}", config.state_dir.display())))?;
    let xa = Xa::new(xa, room, begin, xa_place, !fencing.dialect.covers_xa());
    let mut core =
        Core::new(stream_decoder(), captured, merge, delivery, outputs, xa, stream, wanted, facts.case, weights);
    core.report = core::mem::take(&mut carried.total);
    core.report.quarantined = quarantined;
    if let config::Sink::Doris(doris) = &config.sink {
        core.report.delivery = Some(doris.delivery.describe());
    }
    core.barrier = session.barrier.clone();
    let client = doris.clone();
    let sink = sink(config, &options.hooks, doris, &state, &targets, era).await?;
    let plan = StreamPlan {
        connect: connect.clone(),
        server_id: config.source.server_id,
        replica_uuid: state.replica_uuid.clone(),
        server_uuid: facts.server_uuid.clone(),
    };
    let preparer = Preparer {
        config: config.clone(),
        client,
        connect: connect.clone(),
        server_uuid: facts.server_uuid.clone(),
        case: facts.case,
        dialect: fencing.dialect,
    };
    let now = Instant::now();
    let mut driver = Driver {
        core,
        sink,
        store,
        era,
        workers: Workers::start(
            session.workers,
            &connect,
            &plan.server_uuid,
            (fencing, config.snapshot.backfill),
            &options.hooks,
            options.rules(),
        ),
        preparer: Arc::new(preparer),
        session,
        lister: Lister::start(connect.clone(), plan.server_uuid.clone()),
        weigher: Weigher::start(connect, plan.server_uuid.clone(), collations, options.hooks.clone(), limits.away),
        hooks: options.hooks.clone(),
        plan,
        limits,
        goal,
        stop,
        progress: Progress::new(now),
        loop_state: LoopState::new(now),
    };
    for key in appeared {
        driver.loop_state.change.appear(key);
    }
    let live = driver.core.live_tables();
    tracing::info!(
        era,
        tables = driver.core.tables.len(),
        live,
        begins_at = %driver.core.merge.judged(),
        chunks = fencing.dialect.describe(),
        "running"
    );
    driver.session.control.set_phase("runs, and is busy");
    let result = driver.run().await;
    driver.core.finish_report();
    carried.total = core::mem::take(&mut driver.core.report);
    carried.paces = driver.core.outputs.targets.iter().map(|t| (t.no, t.pace.carried())).collect();
    result
}

/// Takes targets back that were left out, where their table is to be read again: as targets of which nothing is Done.
fn take_back<B: Backend>(
    store: &mut Store<B>,
    era: u32,
    state: StoredState,
    mut targets: Vec<StoredTarget>,
) -> Result<(StoredState, Vec<StoredTarget>), RunError> {
    let mut back = Vec::new();
    for target in targets.iter_mut().filter(|t| t.quarantine.is_some()) {
        let request = state.resync.iter().find(|r| r.database == target.source.0 && r.table == target.source.1);
        let Some(request) = request else { continue };
        // Where it stood is far behind, and means nothing without its ranges.
        target.state = resync::restarted(target.mode, &TargetState::default(), request.truncate);
        target.quarantine = None;
        target.emptying = request.truncate;
        back.push((target.target, target.state.clone(), target.emptying));
        tracing::info!(table = format!("{}.{}", target.sink.0, target.sink.1), "taken back from quarantine");
    }
    if back.is_empty() {
        return Ok((state, targets));
    }
    // The request stays until every target of the table is read again.
    store.begin_again(era, &back, &[])?;
    Ok((store.read()?.unwrap_or(state), targets))
}

/// Carries out what was asked for while no engine ran, and what an engine had begun: tables that are read again, targets that
/// are emptied first. The last record is settled: nothing of these targets is on its way.
async fn begin_again<B: Backend>(
    store: &mut Store<B>,
    era: u32,
    client: Option<&DorisClient>,
    state: &StoredState,
    targets: &[StoredTarget],
    recovered: &mut BTreeMap<TargetNo, TargetState>,
) -> Result<(), RunError> {
    let mut changes: Vec<(TargetNo, TargetState, bool)> = Vec::new();
    let mut emptied: Vec<&StoredTarget> = Vec::new();
    for target in targets {
        let request = state.resync.iter().find(|r| r.database == target.source.0 && r.table == target.source.1);
        if target.quarantine.is_some() {
            continue;
        }
        if target.emptying || request.is_some_and(|r| r.truncate) {
            emptied.push(target);
        }
        let Some(at) = recovered.get_mut(&target.target) else { continue };
        if let Some(request) = request {
            // An intent to empty is never taken back.
            *at = resync::restarted(target.mode, at, request.truncate || target.emptying);
            changes.push((target.target, at.clone(), request.truncate || target.emptying));
            tracing::info!(table = format!("{}.{}", request.database, request.table), "reading the table again");
        }
    }
    store.begin_again(era, &changes, &state.resync)?;
    if let Some(client) = client {
        for target in &emptied {
            sink::truncate(client, &target.sink.0, &target.sink.1).await?;
            tracing::info!(table = format!("{}.{}", target.sink.0, target.sink.1), "emptied");
        }
    }
    store.emptied(era, &emptied.iter().map(|t| t.target).collect::<Vec<_>>())?;
    Ok(())
}

/// Shares of the memory budget: an eighth for packets, a quarter for held changes, an eighth for chunk rows, and three
/// eighths for batches and bodies; an eighth is left for weights of key text, rows of prepared XA
/// transactions, and what buffers cost beyond their content.
fn limits(config: &Config, workers: usize) -> Limits {
    let memory = usize::try_from(config.memory).unwrap_or(usize::MAX);
    let eighth = memory / 8;
    Limits {
        packets: eighth,
        held: eighth.saturating_mul(2),
        chunks: eighth,
        output: eighth.saturating_mul(3),
        weights: (memory / 64).min(16 << 20),
        xa: memory / 32,
        chunk_rows: config.snapshot.chunk_rows,
        chunk_bytes: chunk_bytes(eighth, workers),
        interval: config.sink.flush().interval,
        away: None,
    }
}

fn goal_of(
    config: &Config,
    options: &RunOptions,
    goal: &mut Option<Goal>,
    facts: &SourceFacts,
) -> Result<Goal, RunError> {
    if let Some(goal) = goal {
        return Ok(goal.clone());
    }
    let found = match (&options.until, facts.kind) {
        (None, _) if config.snapshot.mode == SnapshotMode::Only => Goal::Live,
        (None, _) => Goal::None,
        (Some(Until::Current), SourceKind::Gtid) => Goal::Passed(facts.now()),
        (Some(Until::Current), SourceKind::Position) => Goal::Position(facts.end.clone()),
        (Some(Until::Gtids(set)), SourceKind::Gtid) => Goal::Passed(set.clone().into()),
        (Some(Until::Gtids(_)), SourceKind::Position) => {
            return Err(RunError::refused(
                "--until: this source is followed by positions, as it is no MySQL with gtid_mode=ON: name a file and an offset",
            ));
        }
        (Some(Until::Position(at)), _) => Goal::Position(at.clone()),
    };
    *goal = Some(found.clone());
    Ok(found)
}

/// jsonl: a file that a new pipeline writes to must be empty, as what it holds is not this pipeline's.
fn output_is_new(config: &Config) -> Result<(), RunError> {
    let config::Sink::Jsonl(config::Jsonl { path: Some(path), .. }) = &config.sink else { return Ok(()) };
    if std::fs::metadata(path).is_ok_and(|m| m.len() > 0) {
        return Err(RunError::refused(format!(
            "{} is not empty: name another file in sink.path, or remove it",
            path.display()
        )));
    }
    Ok(())
}

fn doris_client(config: &Config) -> Result<Option<Arc<DorisClient>>, RunError> {
    match &config.sink {
        config::Sink::Jsonl(_) => Ok(None),
        config::Sink::Doris(doris) => {
            let client = DorisClient::new(doris.client_options()).map_err(|e| RunError::refused(e.to_string()))?;
            Ok(Some(Arc::new(client)))
        }
    }
}

async fn sink(
    config: &Config,
    hooks: &Hooks,
    doris: Option<Arc<DorisClient>>,
    state: &StoredState,
    targets: &[StoredTarget],
    era: u32,
) -> Result<Sink, RunError> {
    let keep = state.record.as_ref().and_then(|r| r.output_bytes).unwrap_or(0);
    match (&config.sink, doris) {
        (config::Sink::Jsonl(jsonl), _) => match &jsonl.path {
            None => Ok(Sink::Jsonl(JsonlSink::stdout())),
            Some(path) => {
                let length = std::fs::metadata(path).map_or(0, |m| m.len());
                if length < keep {
                    return Err(RunError::stopped(format!(
                        "{} has {length} bytes, {keep} were written: begin with a new file and a new state directory",
                        path.display()
                    )));
                }
                let file = JsonlSink::file(path, keep)
                    .map_err(|e| RunError::refused(format!("{} cannot be written: {e}", path.display())))?;
                Ok(Sink::Jsonl(file))
            }
        },
        (config::Sink::Doris(_), Some(client)) => {
            let databases: BTreeSet<String> = targets.iter().map(|t| t.sink.0.clone()).collect();
            let databases: Vec<String> = databases.into_iter().collect();
            sink::sweep(&client, &databases, state.pipeline, era, &[]).await?;
            let mut last = BTreeMap::new();
            for load in state.record.iter().flat_map(|r| &r.loads).filter(|l| l.txn != LoadRecord::AHEAD) {
                if let Some(target) = targets.iter().find(|t| t.target == load.id.target) {
                    last.insert(target.target, (target.sink.0.clone(), load.txn));
                }
            }
            let promise = Promise::of(config);
            if let config::Sink::Doris(doris) = &config.sink {
                tracing::info!(delivery = doris.delivery.describe(), "loading into Doris");
            }
            Ok(Sink::Doris(DorisSink::new(promise, client, state.pipeline, databases, last, hooks.clone())))
        }
        (config::Sink::Doris(_), None) => Err(RunError::stopped("no client for Doris")),
    }
}
