//! A table that the configuration wants and that is not captured yet: what has to be known and made before it is added.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_binlog::Position;
use millstream_doris_sink::client::DorisClient;
use millstream_wire::{ConnectOptions, Connection};

use super::error::{RunError, RunErrorKind};
use super::start::{Poisoned, ToCapture, prepare_targets, targets_of};
use super::workers::Access;
use crate::checkpoint::StoredTarget;
use crate::config::{Config, NameCase, OnPoison, TablePatterns};
use crate::delivery::{TargetNo, TargetState};
use crate::key::Collations;
use crate::schema::catalog::{self, Catalog, CatalogTable};
use crate::snapshot::ReadError;
use crate::snapshot::dialect::Dialect;
use crate::snapshot::reader;

/// A source table by database and name.
pub(super) type TableKey = (String, String);

/// A table that can be added once the stream has passed `fence` without a statement about it.
pub(super) struct Prepared {
    pub(super) table: ToCapture,
    pub(super) access: Access,
    pub(super) collations: Collations,
    /// The end of the log at a moment when the table was what it is here.
    pub(super) fence: Position,
    /// Its targets, without numbers; [`Preparer::make_targets`] makes them.
    pub(super) targets: Vec<StoredTarget>,
}

/// Why a table is not prepared.
#[derive(Debug)]
pub(super) enum Unprepared {
    /// It is not there any more.
    Gone,
    /// It cannot be captured, and why.
    Refused(String),
    /// Not now: the source or the sink is away, or the table changes.
    Later(String),
}

impl From<RunError> for Unprepared {
    fn from(e: RunError) -> Self {
        if e.kind() == RunErrorKind::Away { Self::Later(e.to_string()) } else { Self::Refused(e.to_string()) }
    }
}

impl From<millstream_wire::Error> for Unprepared {
    fn from(e: millstream_wire::Error) -> Self {
        let may_pass = e.is_retryable() || e.is_transport() || e.is_connect();
        if may_pass { Self::Later(e.to_string()) } else { Self::Refused(e.to_string()) }
    }
}

impl From<ReadError> for Unprepared {
    fn from(e: ReadError) -> Self {
        let may_pass = e.is_retryable() || e.connection().is_some_and(millstream_wire::Error::is_transport);
        if may_pass { Self::Later(e.to_string()) } else { Self::Refused(e.to_string()) }
    }
}

/// Prepares tables, each on a connection of its own.
pub(super) struct Preparer {
    pub(super) config: Config,
    pub(super) client: Option<Arc<DorisClient>>,
    pub(super) connect: ConnectOptions,
    pub(super) server_uuid: String,
    pub(super) case: NameCase,
    pub(super) dialect: Dialect,
}

impl Preparer {
    /// Reads the table's schema and finds its targets. `taken` are target tables of other tables.
    pub(super) async fn prepare(&self, key: &TableKey, taken: &[TableKey]) -> Result<Prepared, Unprepared> {
        let mut connection = Connection::connect(&self.connect).await?;
        reader::session_setup(&mut connection, self.dialect).await?;
        let uuid = reader::server_identity(&mut connection).await?;
        if uuid != self.server_uuid {
            return Err(Unprepared::Later(format!("the source answered as another server ({uuid})")));
        }
        let (before, _) = self.look(&mut connection, key).await?;
        let fence = reader::high_watermark(&mut connection).await?;
        let (table, collations) = self.look(&mut connection, key).await?;
        if before != table {
            return Err(Unprepared::Later("it changes while it is looked at".to_owned()));
        }
        let (database, name) = (&table.schema.database, &table.schema.table);
        if !table.engine.eq_ignore_ascii_case("InnoDB") {
            return Err(Unprepared::Refused(format!("its engine {} has no consistent reads", table.engine)));
        }
        table.key_codec(&collations).map_err(|e| Unprepared::Refused(e.to_string()))?;
        let targets: Vec<StoredTarget> = targets_of(&self.config, database, name, self.case)
            .into_iter()
            .map(|(sink, mode)| StoredTarget {
                target: TargetNo(0),
                source: (database.clone(), name.clone()),
                sink,
                mode,
                state: TargetState::default(),
                quarantine: None,
                emptying: false,
            })
            .collect();
        for (i, target) in targets.iter().enumerate() {
            let same = |other: &TableKey| {
                other.0.to_lowercase() == target.sink.0.to_lowercase()
                    && other.1.to_lowercase() == target.sink.1.to_lowercase()
            };
            if taken.iter().chain(targets.iter().take(i).map(|t| &t.sink)).any(same) {
                let (database, table) = &target.sink;
                return Err(Unprepared::Refused(format!("its target {database}.{table} belongs to another table")));
            }
        }
        let CatalogTable { schema, index, defaults, .. } = table;
        let table = ToCapture::new(&self.config, self.case, schema, index, defaults)?;
        let access =
            table.access(&self.config, self.case, &collations).map_err(|e| Unprepared::Refused(e.to_string()))?;
        // A right that is missing, or a condition that does not fit, must not stop the run later.
        if let Ok(tried) = access.sql.chunk(None, None, 0) {
            connection.execute(&tried).await?;
        }
        connection.close().await;
        Ok(Prepared { table, access, collations, fence, targets })
    }

    /// Creates, compares, empties or keeps the targets of a table that is about to be added: not before, as it may change until
    /// then. The least era whose sequence numbers are above those that the targets hold.
    pub(super) async fn make_targets(&self, prepared: &Prepared) -> Result<u32, Unprepared> {
        let Prepared { table, targets, .. } = prepared;
        let tables = core::slice::from_ref(table);
        let (none, mut poisoned) = (BTreeMap::new(), Poisoned::new(OnPoison::Stop, targets));
        Ok(prepare_targets(&self.config, self.client.as_deref(), tables, targets, &none, &mut poisoned).await?)
    }

    async fn look(
        &self,
        connection: &mut Connection,
        key: &TableKey,
    ) -> Result<(CatalogTable, Collations), Unprepared> {
        let pattern = format!("{}.{}", key.0, key.1);
        let patterns = TablePatterns::parse(&[&pattern])
            .map_err(|e| Unprepared::Refused(e.into_iter().map(|(_, message)| message).collect()))?;
        if !catalog::exists(connection, &key.0, &key.1, self.case).await? {
            return Err(Unprepared::Gone);
        }
        let read = catalog::read_with(connection, &patterns, &self.config.table_rules).await;
        let Catalog { tables, collations, .. } = match read {
            Ok(catalog) => catalog,
            Err(e) => {
                return Err(match e.connection() {
                    Some(wire) if wire.is_retryable() || wire.is_transport() => Unprepared::Later(wire.to_string()),
                    _ => Unprepared::Refused(e.to_string()),
                });
            }
        };
        // A name may hold a `*`, which is a pattern then.
        let same =
            |t: &CatalogTable| self.case.same(&t.schema.database, &key.0) && self.case.same(&t.schema.table, &key.1);
        tables.into_iter().find(same).map(|table| (table, collations)).ok_or(Unprepared::Gone)
    }
}
