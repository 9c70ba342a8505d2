//! The thin side of the snapshot: sessions, watermarks and chunks over a connection.

use millstream_binlog::{ColumnValue, GtidSet, Position, TableSchema};
use millstream_wire::statements::{self, Ask};
use millstream_wire::{Connection, Row, Value};

use super::ReadError;
use super::dialect::Dialect;
use super::sql::TableSql;
use super::values::{Mismatch, convert, select_values};
use crate::key::KeyCodec;
use crate::merge::{Covered, Key};

/// Makes a connection a chunk session ([`Dialect::setup`]).
///
/// # Errors
/// The server refuses, or the connection breaks.
pub async fn session_setup(connection: &mut Connection, dialect: Dialect) -> Result<(), ReadError> {
    for statement in dialect.setup(connection.version()) {
        connection.execute(&statement).await.map_err(|e| ReadError::wire("setting up a snapshot session", e))?;
    }
    Ok(())
}

/// Transactions that are surely visible to statements that begin after this: `@@GLOBAL.gtid_executed` (design 3.2).
///
/// # Errors
/// The connection breaks, or the answer is no GTID set.
pub async fn low_watermark(connection: &mut Connection) -> Result<GtidSet, ReadError> {
    const STATEMENT: &str = "SELECT @@GLOBAL.gtid_executed";
    let text = scalar(connection, STATEMENT, "reading the low watermark").await?;
    text.parse().map_err(|_| ReadError::answer(STATEMENT, "did not answer with a GTID set"))
}

/// The end of the log: above everything that statements before this could have seen.
///
/// # Errors
/// The connection breaks, a missing REPLICATION CLIENT grant, or a server without a log.
pub async fn high_watermark(connection: &mut Connection) -> Result<Position, ReadError> {
    let statement = statements::statement(Ask::BinlogStatus, connection.version());
    let status = connection.query_all(statement).await.map_err(|e| ReadError::wire("reading the end of the log", e))?;
    let file = status.text(0, "File").filter(|file| !file.is_empty());
    let offset = status.text(0, "Position").and_then(|offset| offset.parse().ok());
    match (file, offset) {
        (Some(file), Some(offset)) => Ok(Position::new(file, offset)),
        _ => Err(ReadError::answer(statement, "names no position; is log_bin on?")),
    }
}

/// Which server this is: `@@server_uuid`, and of a MariaDB, which has none, its `server_id` with its host and port.
///
/// # Errors
/// The connection breaks, or there is no answer.
pub async fn server_identity(connection: &mut Connection) -> Result<String, ReadError> {
    let statement = if connection.version().is_mariadb() {
        "SELECT CONCAT(@@GLOBAL.server_id, '@', @@GLOBAL.hostname, ':', @@GLOBAL.port)"
    } else {
        "SELECT @@GLOBAL.server_uuid"
    };
    scalar(connection, statement, "asking which server this is").await
}

async fn scalar(
    connection: &mut Connection,
    statement: &'static str,
    during: &'static str,
) -> Result<String, ReadError> {
    let answer = connection.query_all(statement).await.map_err(|e| ReadError::wire(during, e))?;
    answer.scalar().map(str::to_owned).ok_or_else(|| ReadError::answer(statement, "gave no answer"))
}

/// The rows of a chunk.
#[derive(Debug)]
pub struct ChunkRows {
    /// Encoded key and row, in key order.
    pub rows: Vec<(Key, Row)>,
    /// How far the range is covered.
    pub covered: Covered,
    /// Bytes of all rows and keys.
    pub bytes: usize,
    /// The SELECT was left before its end: drop the connection instead of reading the rest.
    pub abandon_connection: bool,
}

/// Bytes that a kept row takes beside its packet and key: handles, not content.
const ROW_OVERHEAD: usize = 96;

/// What a chunk is read from.
#[derive(Clone, Copy, Debug)]
pub struct ChunkTable<'t> {
    /// The table.
    pub schema: &'t TableSchema,
    /// Its key.
    pub codec: &'t KeyCodec,
    /// Its statements.
    pub sql: &'t TableSql,
    /// How chunks are read.
    pub dialect: Dialect,
}

/// Reads the rows of (low, high] in key order: at most `limit_rows`, and no further row once they take `limit_bytes`. At
/// least one row is read if there is one.
///
/// # Errors
/// The connection breaks, a row is not what the catalog says, or keys do not come in order.
pub async fn read_chunk(
    connection: &mut Connection,
    table: ChunkTable<'_>,
    low: Option<&Key>,
    high: Option<&Key>,
    limit_rows: u64,
    limit_bytes: usize,
) -> Result<ChunkRows, ReadError> {
    const DURING: &str = "reading a chunk";
    let ChunkTable { schema, codec, sql, dialect } = table;
    let name = || format!("{}.{}", schema.database, schema.table);
    let mut text = sql.chunk(low, high, limit_rows).map_err(|e| ReadError::key(name(), e))?;
    text.push_str(dialect.suffix(connection.version()));
    let statement = connection.prepare(&text).await.map_err(|e| ReadError::wire(DURING, e))?;
    let mut result = connection.execute_statement(&statement, &[]).await.map_err(|e| ReadError::wire(DURING, e))?;
    let mut rows: Vec<(Key, Row)> = Vec::new();
    let mut bytes = 0_usize;
    let mut key = Vec::new();
    let mut cut_by_bytes = false;
    while let Some(row) = result.next().await.map_err(|e| ReadError::wire(DURING, e))? {
        key.clear();
        encode_key(schema, codec, &row, &mut key)?;
        let above = rows.last().map_or(low, |(last, _)| Some(last));
        if above.is_some_and(|above| above.order() >= key.as_slice())
            || high.is_some_and(|high| high.order() < key.as_slice())
        {
            return Err(ReadError::order(name()));
        }
        bytes = bytes.saturating_add(row.packet().len()).saturating_add(key.len()).saturating_add(ROW_OVERHEAD);
        rows.push((key.as_slice().into(), row));
        if bytes >= limit_bytes {
            cut_by_bytes = true;
            break;
        }
    }
    let full = u64::try_from(rows.len()).unwrap_or(u64::MAX) >= limit_rows;
    let covered = match rows.last() {
        Some((last, row)) if full || cut_by_bytes => {
            let parts = KeyParts::of(schema, row).ok();
            Covered::UpTo(codec.bound(last, |ordinal| parts.as_ref().and_then(|p| p.get(ordinal))))
        }
        _ => Covered::ToEnd,
    };
    // After the last row that was asked for only the end of the result is left.
    let abandon_connection = cut_by_bytes && !full;
    if !abandon_connection {
        connection.close_statement(statement).await.map_err(|e| ReadError::wire(DURING, e))?;
    }
    Ok(ChunkRows { rows, covered, bytes, abandon_connection })
}

/// MySQL's limit of columns in a key.
const MAX_KEY_COLUMNS: usize = 16;

/// Encodes the key of a row, and checks every value against the catalog: after this, [`select_values`] of the row gives no
/// error.
fn encode_key(schema: &TableSchema, codec: &KeyCodec, row: &Row, key: &mut Vec<u8>) -> Result<(), ReadError> {
    let name = || format!("{}.{}", schema.database, schema.table);
    let parts = KeyParts::of(schema, row).map_err(|Mismatch { ordinal, what }| {
        ReadError::value(name(), schema.columns.get(ordinal).map_or("", |c| c.name.as_str()), what)
    })?;
    let mut weights = row.values().skip(schema.columns.len());
    let weight = |_, _: &[u8]| match weights.next() {
        Some(Ok(Value::Bytes(weight))) => Some(weight),
        _ => None,
    };
    codec.encode(|ordinal| parts.get(ordinal), weight, key).map_err(|e| ReadError::key(name(), e))
}

/// The values of a row's key columns.
struct KeyParts<'r> {
    key: &'r [usize],
    values: [Option<ColumnValue<'r>>; MAX_KEY_COLUMNS],
}

impl<'r> KeyParts<'r> {
    fn of(schema: &'r TableSchema, row: &'r Row) -> Result<Self, Mismatch> {
        let mut parts = Self { key: &schema.key, values: [None; MAX_KEY_COLUMNS] };
        for (ordinal, value) in select_values(schema, row).enumerate() {
            let value = value?;
            for (slot, part) in parts.values.iter_mut().zip(parts.key) {
                if *part == ordinal {
                    *slot = Some(value);
                }
            }
        }
        Ok(parts)
    }

    fn get(&self, ordinal: usize) -> Option<ColumnValue<'r>> {
        self.values.iter().zip(self.key).find(|(_, k)| **k == ordinal).and_then(|(v, _)| *v)
    }
}

/// The key that a statement of [`TableSql::first`], [`TableSql::last`] or a dive selects, as a bound; `None` without a row.
///
/// # Errors
/// As [`read_chunk`].
pub async fn read_key(
    connection: &mut Connection,
    table: ChunkTable<'_>,
    statement: &str,
) -> Result<Option<Key>, ReadError> {
    const DURING: &str = "looking for a key";
    let ChunkTable { schema, codec, .. } = table;
    let name = || format!("{}.{}", schema.database, schema.table);
    let statement = connection.prepare(statement).await.map_err(|e| ReadError::wire(DURING, e))?;
    let mut rows = connection.execute_statement(&statement, &[]).await.map_err(|e| ReadError::wire(DURING, e))?;
    let mut found = None;
    while let Some(row) = rows.next().await.map_err(|e| ReadError::wire(DURING, e))? {
        let mut parts: Vec<(usize, ColumnValue<'_>)> = Vec::new();
        for (ordinal, value) in codec.ordinals().zip(row.values()) {
            let column = schema.columns.get(ordinal);
            let part = column.zip(value.ok()).and_then(|(column, value)| convert(column, value));
            let part = part.ok_or_else(|| {
                ReadError::value(name(), column.map_or("", |c| c.name.as_str()), "its value does not have its type")
            })?;
            parts.push((ordinal, part));
        }
        let mut weights = row.values().skip(codec.ordinals().len());
        let weight = |_, _: &[u8]| match weights.next() {
            Some(Ok(Value::Bytes(weight))) => Some(weight),
            _ => None,
        };
        let value = |ordinal: usize| parts.iter().find(|(i, _)| *i == ordinal).map(|(_, v)| *v);
        let mut order = Vec::new();
        codec.encode(value, weight, &mut order).map_err(|e| ReadError::key(name(), e))?;
        found = Some(codec.bound(&order, value));
    }
    connection.close_statement(statement).await.map_err(|e| ReadError::wire(DURING, e))?;
    Ok(found)
}
