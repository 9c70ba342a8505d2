//! Captured tables and their targets: numbers, tables in Doris, groups, encoders.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_binlog::TableSchema;
use millstream_doris_sink::client::DorisClient;
use millstream_doris_sink::jsonl::EventEncoder;
use millstream_doris_sink::{Batch, EncodeOptions, Format, InvalidDate, RowEncoder, SinkError, TargetTable};
use millstream_wire::Connection;

use super::poisoned::Poisoned;
use super::source::SourceFacts;
use crate::checkpoint::{StoredState, StoredTarget};
use crate::config::{self, Config, NameCase};
use crate::delivery::{TableMode, TargetNo, TargetState};
use crate::key::{Collations, KeyCodec, UnsupportedKey};
use crate::merge::TableId;
use crate::pipeline::error::RunError;
use crate::pipeline::output::{Outputs, Sequence, Shown, Target, Writer, era_above, sink_mode};
use crate::pipeline::pace::Pace;
use crate::pipeline::workers::Access;
use crate::schema::catalog::{self, Catalog, CatalogTable};
use crate::schema::default::ColumnDefault;
use crate::snapshot::sql::TableSql;

/// A table to capture.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct ToCapture {
    /// As the log has it.
    pub(in crate::pipeline) schema: Arc<TableSchema>,
    /// The unique index that is its key, if that is not the primary key.
    pub(in crate::pipeline) index: Option<String>,
    /// Each column's default.
    pub(in crate::pipeline) defaults: Arc<[ColumnDefault]>,
    /// Ordinals of columns that no target gets, ascending.
    pub(in crate::pipeline) excluded: Vec<usize>,
}

impl ToCapture {
    pub(in crate::pipeline) fn new(
        config: &Config,
        case: NameCase,
        schema: TableSchema,
        index: Option<String>,
        defaults: Vec<ColumnDefault>,
    ) -> Result<Self, RunError> {
        let excluded = config.table_rules.excluded(&schema, case).map_err(|e| RunError::refused(e.join("\n")))?;
        Ok(Self { schema: Arc::new(schema), index, defaults: defaults.into(), excluded })
    }

    /// As its targets know it.
    pub(super) fn shown(&self) -> Shown {
        Shown::new(&self.schema, &self.excluded)
    }

    /// What chunks of it are read by.
    pub(in crate::pipeline) fn access(
        &self,
        config: &Config,
        case: NameCase,
        collations: &Collations,
    ) -> Result<Access, UnsupportedKey> {
        let codec = KeyCodec::new(&self.schema, collations)?;
        let filter = config.table_rules.filter(&self.schema.database, &self.schema.table, case);
        let sql = TableSql::new(&self.schema, &codec, self.index.as_deref()).without(&self.excluded).filtered(filter);
        Ok(Access { schema: Arc::clone(&self.schema), sql, codec })
    }
}

/// The tables of the configuration.
pub(super) struct Tables {
    /// Those that are captured from the first event on: those of the state as they were stored, and at the first start all.
    pub(super) captured: Vec<ToCapture>,
    /// Those that are added while the stream goes on, each for itself: new ones of a pipeline that has run before.
    pub(super) appeared: Vec<(String, String)>,
    /// Those of the state that the configuration does not name any more.
    pub(super) forgotten: Vec<(String, String)>,
}

/// Finds the tables of the configuration in the state and in the catalog.
pub(super) async fn tables(
    config: &Config,
    control: &mut Connection,
    facts: &SourceFacts,
    state: &StoredState,
    first: bool,
) -> Result<Tables, RunError> {
    let stored = |database: &str, table: &str| {
        state.tables.iter().any(|t| t.schema.database == database && t.schema.table == table)
    };
    let known = |database: &str, table: &str| first || stored(database, table);
    let read = catalog::read_known(control, &config.source.tables, &config.table_rules, known);
    let catalog = read.await.map_err(|e| {
        if e.connection().is_some() { RunError::away(e.to_string()) } else { RunError::refused(e.to_string()) }
    })?;
    let mut tables = Tables { captured: Vec::new(), appeared: Vec::new(), forgotten: Vec::new() };
    for stored in &state.tables {
        let schema = &stored.schema;
        if !config.source.tables.captures(&schema.database, &schema.table, facts.case) {
            tables.forgotten.push((schema.database.clone(), schema.table.clone()));
            continue;
        }
        if let Some(index) = &stored.index {
            has_index(&catalog, schema, index)?;
        }
        config.table_rules.has_key(schema, facts.case).map_err(RunError::refused)?;
        tables.captured.push(ToCapture::new(
            config,
            facts.case,
            schema.clone(),
            stored.index.clone(),
            stored.defaults.clone(),
        )?);
    }
    for (database, table, _) in catalog.left_out {
        tables.appeared.push((database, table));
    }
    for CatalogTable { schema, index, defaults, .. } in catalog.tables {
        if stored(&schema.database, &schema.table) {
            continue;
        }
        if first {
            tables.captured.push(ToCapture::new(config, facts.case, schema, index, defaults)?);
        } else {
            tables.appeared.push((schema.database, schema.table));
        }
    }
    Ok(tables)
}

/// The unique index by which rows were matched so far must still be what it was.
fn has_index(catalog: &Catalog, schema: &TableSchema, index: &str) -> Result<(), RunError> {
    let names = |of: &TableSchema, ordinals: &[usize]| -> Vec<String> {
        ordinals.iter().filter_map(|i| of.columns.get(*i)).map(|c| c.name.clone()).collect()
    };
    let wanted = names(schema, &schema.key);
    let now = catalog.tables.iter().find(|t| t.schema.database == schema.database && t.schema.table == schema.table);
    // A table that is gone says so in the stream.
    let Some(now) = now else { return Ok(()) };
    if now.unique.iter().any(|u| u.name == index && names(&now.schema, &u.columns) == wanted) {
        return Ok(());
    }
    Err(RunError::stopped(format!(
        "{}.{}: rows are matched by the unique index {index} ({}), which is not there any more or is another: create it again \
         as it was, or begin with a new state directory and on_existing = \"truncate\"",
        schema.database,
        schema.table,
        wanted.join(", ")
    )))
}

/// The targets of one table: where, and how rows are kept there.
pub(in crate::pipeline) fn targets_of(
    config: &Config,
    database: &str,
    table: &str,
    case: NameCase,
) -> Vec<((String, String), TableMode)> {
    let mode = |target: &config::Target| match &config.sink {
        config::Sink::Jsonl(_) => TableMode::Append,
        config::Sink::Doris(_) => target.mode,
    };
    let targets = config.routes.targets(database, table, case);
    targets.into_iter().map(|target| (mode(&target), target)).map(|(mode, t)| ((t.database, t.table), mode)).collect()
}

/// Every target of every table, with its number: old ones keep theirs.
pub(super) fn targets(
    config: &Config,
    tables: &[ToCapture],
    facts: &SourceFacts,
    state: &StoredState,
) -> Result<Vec<StoredTarget>, RunError> {
    let mut next = state.targets.iter().map(|t| t.target.0).max().map_or(1, |n| n.saturating_add(1));
    let mut targets: Vec<StoredTarget> = Vec::new();
    for ToCapture { schema: table, .. } in tables {
        for (sink, mode) in targets_of(config, &table.database, &table.table, facts.case) {
            let source = (table.database.clone(), table.table.clone());
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
            targets.push(StoredTarget {
                target: TargetNo(next),
                source,
                sink,
                mode,
                state: TargetState::default(),
                quarantine: None,
                emptying: false,
            });
            next = next.saturating_add(1);
        }
    }
    let captured =
        |t: &&StoredTarget| tables.iter().any(|c| c.schema.database == t.source.0 && c.schema.table == t.source.1);
    for known in state.targets.iter().filter(captured) {
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

/// Creates, compares, empties or keeps the target tables. Returns the least era allowed.
pub(in crate::pipeline) async fn prepare_targets(
    config: &Config,
    client: Option<&DorisClient>,
    tables: &[ToCapture],
    targets: &[StoredTarget],
    recovered: &BTreeMap<TargetNo, TargetState>,
    poisoned: &mut Poisoned,
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
        if poisoned.is_out(target.target) {
            continue;
        }
        let known = recovered.contains_key(&target.target);
        let (database, table) = (&target.sink.0, &target.sink.1);
        let plan = planned(tables, target)?;
        if !known {
            client.ensure_database(database).await.map_err(away)?;
        }
        let Some(existing) = client.describe_table(database, table).await.map_err(away)? else {
            if known {
                poisoned.add(target.target, format!("{database}.{table} is gone from Doris"))?;
                continue;
            }
            client.create_table(&plan, Some(replicas), doris.buckets.map(u32::from)).await.map_err(away)?;
            tracing::info!(table = format!("{database}.{table}"), "created");
            continue;
        };
        let differences = plan.compare(&existing);
        if known && !differences.is_empty() {
            let differences = differences.join("; ");
            poisoned.add(target.target, format!("{database}.{table} is not what it was: {differences}"))?;
            continue;
        }
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

pub(super) fn planned(tables: &[ToCapture], target: &StoredTarget) -> Result<TargetTable, RunError> {
    let table = tables
        .iter()
        .find(|t| t.schema.database == target.source.0 && t.schema.table == target.source.1)
        .ok_or_else(|| RunError::stopped(format!("{}.{} has no schema", target.source.0, target.source.1)))?;
    TargetTable::plan(&table.shown().schema, &target.sink.0, &target.sink.1, sink_mode(target.mode))
        .map_err(|e| RunError::refused(e.to_string()))
}

pub(super) type GroupOf = (TableId, TargetState, Vec<usize>);

/// Targets of one table that stand at the same place form a group: they share chunks and verdicts.
pub(super) fn groups_and_outputs(
    config: &Config,
    era: u32,
    state: &StoredState,
    tables: &[ToCapture],
    targets: &[StoredTarget],
    recovered: &BTreeMap<TargetNo, TargetState>,
) -> Result<(Vec<Vec<GroupOf>>, Outputs), RunError> {
    let mut groups: Vec<Vec<GroupOf>> = tables.iter().map(|_| Vec::new()).collect();
    let mut outputs = Vec::new();
    let mut next = 0u32;
    for target in targets {
        let Some(source) =
            tables.iter().position(|t| t.schema.database == target.source.0 && t.schema.table == target.source.1)
        else {
            continue;
        };
        let (Some(table), Some(of_table)) = (tables.get(source), groups.get_mut(source)) else { continue };
        // Left out.
        let Some(at) = recovered.get(&target.target).cloned() else { continue };
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
        outputs.push(output(config, table, target, source, group, at, tables)?);
    }
    let outputs = Outputs {
        pipeline: state.pipeline,
        era,
        targets: outputs,
        sequence: Sequence::new(era),
        flush_bytes: usize::try_from(config.sink.flush().bytes).unwrap_or(usize::MAX),
        on_poison: config.sink.on_poison(),
        poisoned: Vec::new(),
        turn: 0,
        uploads: Vec::new(),
        lines: Vec::new(),
        emitted: false,
        close_soon: false,
        rows_sent: 0,
        rows_collapsed: 0,
    };
    Ok((groups, outputs))
}

pub(in crate::pipeline) fn output(
    config: &Config,
    table: &ToCapture,
    target: &StoredTarget,
    source: usize,
    group: TableId,
    at: TargetState,
    tables: &[ToCapture],
) -> Result<Target, RunError> {
    let shown = table.shown();
    let schema = &shown.schema;
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
            let options = EncodeOptions {
                invalid_date,
                format: doris.format,
                binary: doris.binary,
                string_limit: doris.string_limit,
            };
            let encoder = Box::new(RowEncoder::new(schema, &plan, &options));
            let columns = encoder.columns_header(&plan);
            (Writer::Doris { encoder, batch: Batch::new(sink_mode(target.mode)), plan: Box::new(plan) }, columns)
        }
    };
    Ok(Target {
        no: target.target,
        mode: target.mode,
        database: target.sink.0.clone(),
        table: target.sink.1.clone(),
        format: match &config.sink {
            config::Sink::Doris(doris) => doris.format,
            config::Sink::Jsonl(_) => Format::Json,
        },
        columns,
        source,
        group,
        writer,
        shown,
        last: at,
        dirty: false,
        loaded: false,
        pace: Pace::default(),
        held: false,
        out: false,
        patched: false,
        created: false,
    })
}
