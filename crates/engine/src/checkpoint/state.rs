use std::collections::BTreeMap;

use millstream_binlog::{Position, TableSchema};
use serde::{Deserialize, Serialize};

use super::{RECORD, StoreError, decode, encode, schema};
use crate::delivery::{Coordinate, EpochRecord, Passed, TableMode, TargetNo, TargetState};
use crate::merge::XaPlace;
use crate::schema::default::ColumnDefault;

pub(super) const FORMAT: &str = "format";
pub(super) const PIPELINE: &str = "pipeline";
pub(super) const REPLICA_UUID: &str = "replica_uuid";
pub(super) const NAME: &str = "name";
pub(super) const SOURCE: &str = "source";
pub(super) const STREAM: &str = "stream";
pub(super) const XA: &str = "xa";
const TARGET: &str = "target/";
const TABLE: &str = "table/";
const RESYNC: &str = "resync/";

/// The format this version reads and writes.
const CURRENT: u32 = 1;

/// The server that the stream comes from, and where it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// `@@server_uuid`.
    pub server_uuid: String,
    /// P0 as (file, offset): no chunk is opened before the stream has passed it. Only meaningful on that server.
    pub fence: Option<(String, u64)>,
}

impl SourceState {
    /// P0.
    #[must_use]
    pub fn fence(&self) -> Option<Position> {
        self.fence.as_ref().map(|(file, offset)| Position::new(file.as_str(), *offset))
    }
}

/// A captured table as it was when it was added: rows are decoded by this, never by what the server says later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTable {
    /// The schema; its key is that of the primary key, or of `index`.
    pub schema: TableSchema,
    /// The unique index by which rows are matched, for a table without a primary key.
    pub index: Option<String>,
    /// Each column's default; empty in the state of an earlier version.
    pub defaults: Vec<ColumnDefault>,
}

/// One target table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTarget {
    /// Its number.
    pub target: TargetNo,
    /// Source database and table.
    pub source: (String, String),
    /// Target database and table.
    pub sink: (String, String),
    /// How it keeps rows.
    pub mode: TableMode,
    /// Where it stands.
    pub state: TargetState,
    /// Set while it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// Its rows are to be removed before anything is loaded into it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub emptying: bool,
}

/// Why a target is left out, and since where. Its rows are true up to there; what came after is only had by reading its
/// source table again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// The last place that is committed.
    pub at: Coordinate,
    /// What is wrong: Doris' words with the first lines of its error page, or the value that cannot be stored.
    pub reason: String,
    /// When, in seconds since 1970.
    pub since: u64,
}

/// Someone asked for a table to be read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResyncRequest {
    /// The source table's database.
    pub database: String,
    /// The source table.
    pub table: String,
    /// Its targets are emptied first.
    pub truncate: bool,
}

impl ResyncRequest {
    pub(super) fn key(&self) -> String {
        resync_key(&self.database, &self.table)
    }
}

/// Everything that is durable.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredState {
    /// 64 random bits, made once: part of every label.
    pub pipeline: u64,
    /// The UUID under which the source knows this pipeline.
    pub replica_uuid: String,
    /// The pipeline's configured name.
    pub name: String,
    /// The era of the last start.
    pub era: u32,
    /// The source, once connected.
    pub source: Option<SourceState>,
    /// Where the stream stands.
    pub stream: Coordinate,
    /// What a restart there has to know of XA transactions.
    pub xa: XaPlace,
    /// Captured tables.
    pub tables: Vec<StoredTable>,
    /// Targets.
    pub targets: Vec<StoredTarget>,
    /// The last epoch's record.
    pub record: Option<EpochRecord>,
    /// Tables that are to be read again.
    pub resync: Vec<ResyncRequest>,
}

impl StoredState {
    /// What a stream that goes on at `begin` has to know of XA transactions.
    #[must_use]
    pub fn xa_at(&self, begin: &Passed) -> &XaPlace {
        match &self.record {
            Some(record) if !begin.is_superset(&record.next.passed) => &record.xa.previous,
            _ => &self.xa,
        }
    }

    /// The state of a new pipeline.
    #[must_use]
    pub fn new(pipeline: u64, replica_uuid: String, name: String) -> Self {
        Self {
            pipeline,
            replica_uuid,
            name,
            era: 0,
            source: None,
            stream: Coordinate::default(),
            xa: XaPlace::default(),
            tables: Vec::new(),
            targets: Vec::new(),
            record: None,
            resync: Vec::new(),
        }
    }
}

pub(super) fn target_key(target: TargetNo) -> String {
    format!("{TARGET}{:010}", target.0)
}

// A NUL cannot be part of a name, so two tables never share a key.
pub(super) fn table_key(database: &str, table: &str) -> String {
    format!("{TABLE}{database}\0{table}")
}

pub(super) fn resync_key(database: &str, table: &str) -> String {
    format!("{RESYNC}{database}\0{table}")
}

pub(super) fn write(state: &StoredState) -> Result<Vec<(String, String)>, StoreError> {
    let mut batch = vec![
        encode(FORMAT, &CURRENT)?,
        encode(PIPELINE, &format!("{:016x}", state.pipeline))?,
        encode(REPLICA_UUID, &state.replica_uuid)?,
        encode(NAME, &state.name)?,
        encode(super::ERA, &state.era)?,
        encode(STREAM, &state.stream)?,
        encode(XA, &state.xa)?,
    ];
    if let Some(source) = &state.source {
        batch.push(encode(SOURCE, source)?);
    }
    for table in &state.tables {
        let key = table_key(&table.schema.database, &table.schema.table);
        batch.push(encode(&key, &schema::to_stored(table))?);
    }
    for target in &state.targets {
        batch.push(encode(&target_key(target.target), target)?);
    }
    if let Some(record) = &state.record {
        batch.push(encode(RECORD, record)?);
    }
    Ok(batch)
}

pub(super) fn read(values: &BTreeMap<String, String>) -> Result<StoredState, StoreError> {
    let need = |key: &str| {
        values.get(key).ok_or_else(|| StoreError::Corrupt { key: key.to_owned(), reason: "it is missing".to_owned() })
    };
    let found: u32 = decode(FORMAT, need(FORMAT)?)?;
    if found != CURRENT {
        return Err(StoreError::Format { found, known: CURRENT });
    }
    let pipeline: String = decode(PIPELINE, need(PIPELINE)?)?;
    let pipeline = u64::from_str_radix(&pipeline, 16)
        .map_err(|e| StoreError::Corrupt { key: PIPELINE.to_owned(), reason: e.to_string() })?;
    let mut tables = Vec::new();
    let mut targets = Vec::new();
    let mut resync = Vec::new();
    for (key, text) in values {
        if key.starts_with(TABLE) {
            tables.push(schema::from_stored(decode(key, text)?, key)?);
        } else if key.starts_with(TARGET) {
            targets.push(decode(key, text)?);
        } else if key.starts_with(RESYNC) {
            resync.push(decode(key, text)?);
        }
    }
    Ok(StoredState {
        pipeline,
        replica_uuid: decode(REPLICA_UUID, need(REPLICA_UUID)?)?,
        name: decode(NAME, need(NAME)?)?,
        era: decode(super::ERA, need(super::ERA)?)?,
        source: values.get(SOURCE).map(|t| decode(SOURCE, t)).transpose()?,
        stream: decode(STREAM, need(STREAM)?)?,
        xa: values.get(XA).map_or_else(|| Ok(XaPlace::default()), |t| decode(XA, t))?,
        tables,
        targets,
        record: values.get(RECORD).map(|t| decode(RECORD, t)).transpose()?,
        resync,
    })
}
