//! The start of an attempt: identity, recovery, tables, targets, and where the stream begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use millstream_binlog::{GtidSet, TableSchema};
use millstream_doris_sink::client::{ClientOptions, DorisClient};
use millstream_doris_sink::jsonl::EventEncoder;
use millstream_doris_sink::{Batch, EncodeOptions, InvalidDate, RowEncoder, SinkError, TargetTable};
use millstream_wire::{ConnectOptions, Connection};
use tokio::sync::watch;

use super::RunOptions;
use super::driver::{Driver, Goal, Limits, LoopState, stream_decoder};
use super::error::RunError;
use super::events::{Captured, Core, Group, Wanted};
use super::output::{Outputs, Sequence, Target, Writer, era_above, sink_mode};
use super::progress::Progress;
use super::report::Report;
use super::sink::{self, DorisSink, JsonlSink, Sink};
use super::workers::{Access, Workers};
use crate::checkpoint::{Backend, SourceState, Store, StoredState, StoredTable, StoredTarget};
use crate::config::{self, Config, NameCase, SnapshotMode, Start, TablePatterns, Until};
use crate::delivery::{
    Coordinate, Delivery, EpochRecord, LoadAction, LoadFate, TableMode, TargetNo, TargetState, fate, plan, resume,
    smallest,
};
use crate::key::KeyCodec;
use crate::merge::{KeyRange, Merge, Rules, TableId};
use crate::schema::catalog;
use crate::snapshot::sql::TableSql;
use crate::snapshot::{ReadError, reader};
use crate::stream::StreamPlan;

/// What the source says of itself.
struct SourceFacts {
    server_uuid: String,
    executed: GtidSet,
    purged: GtidSet,
    case: NameCase,
}

fn unread(e: ReadError) -> RunError {
    match e.connection() {
        Some(cause) if cause.is_auth() || cause.is_access_denied() => {
            RunError::stopped(format!("the source refuses: {e}")).because(e)
        }
        _ => RunError::away(format!("the source is away: {e}")).because(e),
    }
}

fn away(e: millstream_wire::Error) -> RunError {
    if e.is_auth() || e.is_access_denied() {
        return RunError::stopped(format!("the source refuses: {e}")).because(e);
    }
    RunError::away(format!("the source is away: {e}")).because(e)
}

/// How the source is reached.
pub(crate) fn connect_options(source: &config::Source) -> ConnectOptions {
    let options = match &source.address {
        config::Address::Tcp(at) => ConnectOptions::tcp(at.host.as_str(), at.port),
        config::Address::Socket(path) => ConnectOptions::unix(path.as_path()),
    };
    let mode = match source.ssl_mode {
        config::SslMode::Disabled => millstream_wire::SslMode::Disabled,
        config::SslMode::Preferred => millstream_wire::SslMode::Preferred,
        config::SslMode::Required => millstream_wire::SslMode::Required,
        config::SslMode::VerifyCa => millstream_wire::SslMode::VerifyCa,
    };
    let options = options
        .user(source.user.as_str())
        .password(source.password.reveal())
        .ssl_mode(mode)
        .allow_public_key_retrieval(source.allow_public_key_retrieval)
        .attribute("program_name", "millstream");
    match &source.ssl_ca {
        Some(ca) => options.ssl_ca(ca.as_path()),
        None => options,
    }
}

async fn source_facts(connection: &mut Connection) -> Result<SourceFacts, RunError> {
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
pub(super) async fn missing_set(plan: &StreamPlan, judged: &GtidSet) -> Option<String> {
    let mut connection = Connection::connect(&plan.connect).await.ok()?;
    let answer = connection.query_all("SELECT @@GLOBAL.gtid_purged").await.ok()?;
    let mut purged: GtidSet = answer.scalar()?.parse().ok()?;
    purged.subtract(judged);
    Some(purged.to_string())
}

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

/// One attempt: from the last durable record to the goal, a stop, or an error.
pub(super) async fn attempt<B: Backend>(
    config: &Config,
    options: &RunOptions,
    store: &mut Store<B>,
    goal: &mut Option<Goal>,
    total: &mut Report,
    stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let connect = connect_options(&config.source);
    let mut control = Connection::connect(&connect).await.map_err(away)?;
    reader::session_setup(&mut control).await.map_err(unread)?;
    let facts = source_facts(&mut control).await?;
    let fence = reader::high_watermark(&mut control).await.map_err(unread)?;

    let state = match store.read()? {
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
    let doris = doris_client(config)?;
    let tables = tables(config, &mut control, &facts, &state).await?;
    let targets = targets(config, &tables, &facts, &state)?;

    let era = store.next_era()?;
    let mut recovered = match &doris {
        Some(client) => recover(&state, client).await?,
        None => state.targets.iter().map(|t| (t.target, t.state.clone())).collect(),
    };
    let floor = prepare_targets(config, doris.as_deref(), &tables, &targets, &recovered).await?;
    let era = if floor > era {
        store.raise_era(floor)?;
        floor
    } else {
        era
    };

    let first = state.source.is_none();
    let (begin, source) = if first {
        let begin = first_position(config, &connect, &facts).await?;
        (
            begin,
            SourceState { server_uuid: facts.server_uuid.clone(), fence: Some((fence.file.to_string(), fence.offset)) },
        )
    } else {
        descends(&state, &recovered, &facts)?;
        let known = state.source.clone().filter(|s| s.server_uuid == facts.server_uuid);
        let source = known.unwrap_or_else(|| SourceState {
            server_uuid: facts.server_uuid.clone(),
            fence: Some((fence.file.to_string(), fence.offset)),
        });
        (resume(&state.stream, &mut recovered).gtids, source)
    };
    let stream = Coordinate::boundary(begin.clone());

    // New tables and targets are durable before their first chunk is marked.
    let whole = || vec![KeyRange::default()];
    let mut new_targets = Vec::new();
    for target in &targets {
        if recovered.contains_key(&target.target) {
            continue;
        }
        let done = if config.snapshot.mode == SnapshotMode::Never { whole() } else { Vec::new() };
        let state = TargetState { ahead: None, done, may_hold_more: false };
        recovered.insert(target.target, state.clone());
        new_targets.push(StoredTarget { state, ..target.clone() });
    }
    let new_tables: Vec<StoredTable> = tables
        .iter()
        .filter(|t| !state.tables.iter().any(|s| s.schema.database == t.database && s.schema.table == t.table))
        .map(|t| StoredTable { schema: (**t).clone() })
        .collect();
    store.add_tables(era, &new_tables, &new_targets)?;
    let settled: Vec<(TargetNo, TargetState)> = recovered.iter().map(|(no, s)| (*no, s.clone())).collect();
    store.settle(era, &stream, &settled)?;
    store.set_source(era, &source, &stream)?;

    let goal = goal_of(config, options, goal, &facts);
    let prepared = state.record.as_ref().map_or_else(BTreeSet::new, |r| r.prepared.clone());
    if first {
        check_xa(&mut control).await?;
    }
    control.close().await;

    let epoch = state.record.as_ref().map_or(1, |r| r.epoch.saturating_add(1));
    let (groups, outputs) = groups_and_outputs(config, era, &state, &tables, &targets, &recovered)?;
    let mut merge = Merge::new(begin, source.fence(), Rules::default());
    let mut captured: Vec<Captured> = Vec::new();
    for (table, groups) in tables.iter().zip(groups) {
        let codec = KeyCodec::new(table).map_err(|e| RunError::refused(e.to_string()))?;
        let mut of_table = Vec::new();
        for (id, state, targets) in groups {
            merge.add_table(id, &state.done, state.may_hold_more, state.ahead.clone());
            of_table.push(Group::new(id, targets));
        }
        let access = Access { schema: Arc::clone(table), sql: TableSql::new(table, &codec), codec };
        captured.push(Captured { schema: Arc::clone(table), access: Arc::new(access), groups: of_table });
    }
    let wanted = Box::new(Patterns { patterns: config.source.tables.clone(), case: facts.case });
    let delivery = Delivery::new(era, epoch);
    let mut core =
        Core::new(stream_decoder(), captured, merge, delivery, outputs, prepared, stream, wanted, facts.case);
    core.report = core::mem::take(total);
    let sink = sink(config, doris, &state, &targets, era).await?;
    let plan = StreamPlan {
        connect: connect.clone(),
        server_id: config.source.server_id,
        replica_uuid: state.replica_uuid.clone(),
        server_uuid: facts.server_uuid.clone(),
    };
    let workers = if core.is_live() { 0 } else { config.snapshot.workers };
    let now = Instant::now();
    let mut driver = Driver {
        core,
        sink,
        store,
        era,
        workers: Workers::start(workers, &connect, &plan.server_uuid),
        plan,
        limits: limits(config),
        goal,
        stop,
        progress: Progress::new(now),
        loop_state: LoopState::new(now),
    };
    let live = driver.core.live_tables();
    tracing::info!(era, tables = driver.core.tables.len(), live, "running");
    let result = driver.run().await;
    driver.core.finish_report();
    *total = core::mem::take(&mut driver.core.report);
    result
}

/// Shares of the memory budget: an eighth for packets, a quarter for held changes, an eighth for chunk rows, and three
/// eighths for batches and bodies; an eighth is left for what buffers cost beyond their content.
fn limits(config: &Config) -> Limits {
    let memory = usize::try_from(config.memory).unwrap_or(usize::MAX);
    let eighth = memory / 8;
    let workers = config.snapshot.workers.max(1);
    let chunk = eighth.checked_div(workers.saturating_mul(2)).unwrap_or(0).max(64 * 1024);
    Limits {
        packets: eighth,
        held: eighth.saturating_mul(2),
        chunks: eighth,
        output: eighth.saturating_mul(3),
        chunk_rows: config.snapshot.chunk_rows,
        chunk_bytes: chunk,
        interval: config.sink.flush().interval,
    }
}

fn goal_of(config: &Config, options: &RunOptions, goal: &mut Option<Goal>, facts: &SourceFacts) -> Goal {
    goal.get_or_insert_with(|| match &options.until {
        None if config.snapshot.mode == SnapshotMode::Only => Goal::Live,
        None => Goal::None,
        Some(Until::Current) => Goal::Gtids(facts.executed.clone()),
        Some(Until::Gtids(set)) => Goal::Gtids(set.clone()),
        Some(Until::Position(at)) => Goal::Position(at.clone()),
    })
    .clone()
}

/// An XA transaction that is prepared now and was not seen preparing may bring rows that nothing shows.
async fn check_xa(control: &mut Connection) -> Result<(), RunError> {
    match control.query_all("XA RECOVER CONVERT XID").await {
        Ok(list) if list.is_empty() => Ok(()),
        Ok(list) => Err(RunError::refused(format!(
            "{} prepared XA transaction(s) on the source (XA RECOVER): their rows would be missing; commit or roll them back \
             first",
            list.len()
        ))),
        Err(e) if e.is_access_denied() => {
            tracing::warn!(
                "without XA_RECOVER_ADMIN prepared XA transactions cannot be seen; one that commits later stops the run"
            );
            Ok(())
        }
        Err(e) => Err(away(e)),
    }
}

/// Where a new pipeline begins.
async fn first_position(config: &Config, connect: &ConnectOptions, facts: &SourceFacts) -> Result<GtidSet, RunError> {
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

/// The source must hold what was judged, and must not have purged what was not.
fn descends(
    state: &StoredState,
    recovered: &BTreeMap<TargetNo, TargetState>,
    facts: &SourceFacts,
) -> Result<(), RunError> {
    let places: Vec<&Coordinate> = recovered.values().filter_map(|t| t.ahead.as_ref()).chain([&state.stream]).collect();
    let mut ahead = GtidSet::new();
    for place in &places {
        ahead.union(&place.gtids);
    }
    ahead.subtract(&facts.executed);
    if !ahead.is_empty() {
        return Err(RunError::stopped(format!(
            "the source lacks transactions that were replicated already ({ahead}): it is not the server this pipeline came \
             from, or it lost them. Point source.url at the right server, or begin again with a new state directory"
        )));
    }
    let least = smallest(places).unwrap_or_default();
    let mut missing = facts.purged.clone();
    missing.subtract(&least);
    if !missing.is_empty() {
        return Err(RunError::stopped(format!(
            "the source has purged binlogs that this pipeline still needs (missing transactions: {missing}); begin again with \
             a new state directory and on_existing = \"truncate\", and keep binlogs longer (binlog_expire_logs_seconds)"
        )));
    }
    Ok(())
}

/// The captured tables: those of the state as they were stored, and new ones as the catalog shows them.
async fn tables(
    config: &Config,
    control: &mut Connection,
    facts: &SourceFacts,
    state: &StoredState,
) -> Result<Vec<Arc<TableSchema>>, RunError> {
    let catalog = catalog::read(control, &config.source.tables).await.map_err(|e| {
        if e.connection().is_some() { RunError::away(e.to_string()) } else { RunError::refused(e.to_string()) }
    })?;
    let mut tables: Vec<Arc<TableSchema>> = Vec::new();
    for stored in &state.tables {
        let schema = &stored.schema;
        if !config.source.tables.captures(&schema.database, &schema.table, facts.case) {
            return Err(RunError::refused(format!(
                "{}.{} is in the state but source.tables no longer names it: taking a table out of a running pipeline is not \
                 built yet; put it back, or begin with a new state directory",
                schema.database, schema.table
            )));
        }
        tables.push(Arc::new(schema.clone()));
    }
    for table in catalog.tables {
        let schema = table.schema;
        if !tables.iter().any(|t| t.database == schema.database && t.table == schema.table) {
            tables.push(Arc::new(schema));
        }
    }
    Ok(tables)
}

/// Every target of every table, with its number: old ones keep theirs.
fn targets(
    config: &Config,
    tables: &[Arc<TableSchema>],
    facts: &SourceFacts,
    state: &StoredState,
) -> Result<Vec<StoredTarget>, RunError> {
    let mut next = state.targets.iter().map(|t| t.target.0).max().map_or(1, |n| n.saturating_add(1));
    let mut targets: Vec<StoredTarget> = Vec::new();
    for table in tables {
        for target in config.routes.targets(&table.database, &table.table, facts.case) {
            let source = (table.database.clone(), table.table.clone());
            let sink = (target.database, target.table);
            let mode = match &config.sink {
                config::Sink::Jsonl(_) => TableMode::Append,
                config::Sink::Doris(_) => target.mode,
            };
            if let Some(known) = state.targets.iter().find(|t| t.source == source && t.sink == sink) {
                if known.mode != mode {
                    return Err(RunError::refused(format!(
                        "{}.{} was filled in another mode before; route to another table, or begin with a new state directory",
                        sink.0, sink.1
                    )));
                }
                targets.push(known.clone());
                continue;
            }
            targets.push(StoredTarget { target: TargetNo(next), source, sink, mode, state: TargetState::default() });
            next = next.saturating_add(1);
        }
    }
    for known in &state.targets {
        if !targets.iter().any(|t| t.target == known.target) {
            return Err(RunError::refused(format!(
                "{}.{} is in the state but no route leads to it any more: put the route back, or begin with a new state \
                 directory",
                known.sink.0, known.sink.1
            )));
        }
    }
    Ok(targets)
}

fn doris_client(config: &Config) -> Result<Option<Arc<DorisClient>>, RunError> {
    match &config.sink {
        config::Sink::Jsonl(_) => Ok(None),
        config::Sink::Doris(doris) => {
            let client = DorisClient::new(client_options(doris)).map_err(|e| RunError::refused(e.to_string()))?;
            Ok(Some(Arc::new(client)))
        }
    }
}

/// How Doris is reached.
pub(crate) fn client_options(doris: &config::Doris) -> ClientOptions {
    let fe = doris.fe.iter().map(ToString::to_string).collect();
    let sql = format!("{}:{}", doris.sql.host, doris.sql.port);
    let be = doris.be.iter().map(ToString::to_string).collect();
    ClientOptions { be, ..ClientOptions::new(fe, sql, doris.user.as_str(), doris.password.reveal()) }
}

async fn sink(
    config: &Config,
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
                if state.source.is_none() && length > 0 {
                    return Err(RunError::refused(format!(
                        "{} is not empty: name another file in sink.path, or remove it",
                        path.display()
                    )));
                }
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
            Ok(Sink::Doris(DorisSink::new(client, state.pipeline, databases)))
        }
        (config::Sink::Doris(_), None) => Err(RunError::stopped("no client for Doris")),
    }
}

/// Finds out what became of the last record's loads, finishes what can be finished, and says where every target stands.
async fn recover(state: &StoredState, client: &DorisClient) -> Result<BTreeMap<TargetNo, TargetState>, RunError> {
    let mut targets: BTreeMap<TargetNo, TargetState> =
        state.targets.iter().map(|t| (t.target, t.state.clone())).collect();
    let Some(record) = state.record.as_ref().filter(|r| !r.committed) else { return Ok(targets) };
    tracing::info!(epoch = record.epoch, loads = record.loads.len(), "finishing the last epoch");
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

async fn fates(
    record: &EpochRecord,
    state: &StoredState,
    client: &DorisClient,
) -> Result<BTreeMap<u64, LoadFate>, RunError> {
    let mut fates = BTreeMap::new();
    for load in &record.loads {
        let Some(target) = state.targets.iter().find(|t| t.target == load.id.target) else { continue };
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

/// Creates, compares, empties or keeps the target tables. Returns the least era allowed.
async fn prepare_targets(
    config: &Config,
    client: Option<&DorisClient>,
    tables: &[Arc<TableSchema>],
    targets: &[StoredTarget],
    recovered: &BTreeMap<TargetNo, TargetState>,
) -> Result<u32, RunError> {
    let (config::Sink::Doris(doris), Some(client)) = (&config.sink, client) else { return Ok(0) };
    let away = |e: SinkError| {
        if e.is_retryable() { RunError::away(e.to_string()) } else { RunError::refused(e.to_string()) }.because(e)
    };
    let replicas = match doris.replication_num {
        Some(n) => n,
        None => u16::try_from(client.backends().await.map_err(away)?.len().clamp(1, 3)).unwrap_or(1),
    };
    let mut floor = 0;
    for target in targets {
        let known = recovered.contains_key(&target.target);
        let (database, table) = (&target.sink.0, &target.sink.1);
        let plan = planned(tables, target)?;
        if !known {
            client.ensure_database(database).await.map_err(away)?;
        }
        let Some(existing) = client.describe_table(database, table).await.map_err(away)? else {
            if known {
                return Err(RunError::stopped(format!(
                    "{database}.{table} is gone from Doris: begin again with a new state directory"
                )));
            }
            client.create_table(&plan, Some(replicas), doris.buckets.map(u32::from)).await.map_err(away)?;
            tracing::info!(table = format!("{database}.{table}"), "created");
            continue;
        };
        let differences = plan.compare(&existing);
        if !differences.is_empty() {
            return Err(RunError::refused(format!(
                "{database}.{table} exists and is not what it must be: {}. Drop it, or route to another table",
                differences.join("; ")
            )));
        }
        if known || client.count(database, table).await.map_err(away)? == 0 {
            continue;
        }
        match doris.on_existing {
            config::OnExisting::Fail => {
                return Err(RunError::refused(format!(
                    "{database}.{table} has rows and this pipeline has no state: set sink.on_existing = \"truncate\" to empty \
                     it or \"keep\" to write on top of it"
                )));
            }
            config::OnExisting::Truncate => client.truncate(database, table).await.map_err(away)?,
            config::OnExisting::Keep => {
                let greatest = client.max_sequence(database, table, sink_mode(target.mode)).await.map_err(away)?;
                floor = floor.max(greatest.map_or(0, era_above));
                tracing::warn!(
                    table = format!("{database}.{table}"),
                    "keeping what is there: rows that the source no longer has stay"
                );
            }
        }
    }
    Ok(floor)
}

fn planned(tables: &[Arc<TableSchema>], target: &StoredTarget) -> Result<TargetTable, RunError> {
    let schema = tables
        .iter()
        .find(|t| t.database == target.source.0 && t.table == target.source.1)
        .ok_or_else(|| RunError::stopped(format!("{}.{} has no schema", target.source.0, target.source.1)))?;
    TargetTable::plan(schema, &target.sink.0, &target.sink.1, sink_mode(target.mode))
        .map_err(|e| RunError::refused(e.to_string()))
}

type GroupOf = (TableId, TargetState, Vec<usize>);

/// Targets of one table that stand at the same place form a group: they share chunks and verdicts.
fn groups_and_outputs(
    config: &Config,
    era: u32,
    state: &StoredState,
    tables: &[Arc<TableSchema>],
    targets: &[StoredTarget],
    recovered: &BTreeMap<TargetNo, TargetState>,
) -> Result<(Vec<Vec<GroupOf>>, Outputs), RunError> {
    let mut groups: Vec<Vec<GroupOf>> = tables.iter().map(|_| Vec::new()).collect();
    let mut outputs = Vec::new();
    let mut next = 0u32;
    for target in targets {
        let Some(source) = tables.iter().position(|t| t.database == target.source.0 && t.table == target.source.1)
        else {
            continue;
        };
        let (Some(schema), Some(of_table)) = (tables.get(source), groups.get_mut(source)) else { continue };
        let at = recovered.get(&target.target).cloned().unwrap_or_default();
        let index = outputs.len();
        let group = match of_table.iter_mut().find(|(_, state, _)| *state == at) {
            Some((id, _, members)) => {
                members.push(index);
                *id
            }
            None => {
                let id = TableId(next);
                next = next.saturating_add(1);
                of_table.push((id, at.clone(), vec![index]));
                id
            }
        };
        outputs.push(output(config, schema, target, source, group, at, tables)?);
    }
    let outputs = Outputs {
        pipeline: state.pipeline,
        era,
        targets: outputs,
        sequence: Sequence::new(era),
        flush_bytes: usize::try_from(config.sink.flush().bytes).unwrap_or(usize::MAX),
        uploads: Vec::new(),
        lines: Vec::new(),
        emitted: false,
        rows_sent: 0,
        rows_collapsed: 0,
    };
    Ok((groups, outputs))
}

fn output(
    config: &Config,
    schema: &Arc<TableSchema>,
    target: &StoredTarget,
    source: usize,
    group: TableId,
    at: TargetState,
    tables: &[Arc<TableSchema>],
) -> Result<Target, RunError> {
    let (writer, columns) = match &config.sink {
        config::Sink::Jsonl(_) => {
            let encoder = Box::new(EventEncoder::new(schema, &EncodeOptions::default()));
            (Writer::Jsonl { encoder }, String::new())
        }
        config::Sink::Doris(doris) => {
            let invalid_date = match doris.on_invalid_date {
                config::OnInvalidDate::Fail => InvalidDate::Fail,
                config::OnInvalidDate::Null => InvalidDate::Null,
                config::OnInvalidDate::Epoch => InvalidDate::Epoch,
            };
            let plan = planned(tables, target)?;
            let options = EncodeOptions { invalid_date, ..EncodeOptions::default() };
            let encoder = Box::new(RowEncoder::new(schema, &plan, &options));
            (Writer::Doris { encoder, batch: Batch::new(sink_mode(target.mode)) }, plan.columns_header())
        }
    };
    Ok(Target {
        no: target.target,
        mode: target.mode,
        database: target.sink.0.clone(),
        table: target.sink.1.clone(),
        columns,
        source,
        group,
        writer,
        last: at,
        dirty: false,
        loaded: false,
    })
}
