//! Table schemas as they are stored.

use millstream_binlog::{Charset, Column, ColumnType, TableSchema};
use serde::{Deserialize, Serialize};

use super::{StoreError, StoredTable};
use crate::schema::default::ColumnDefault;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSchema {
    database: String,
    table: String,
    columns: Vec<StoredColumn>,
    key: Vec<usize>,
    /// The unique index that is the key; missing: the primary key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    defaults: Vec<ColumnDefault>,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    #[serde(flatten)]
    ty: StoredType,
    nullable: bool,
    collation: u16,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum StoredType {
    TinyInt { unsigned: bool },
    SmallInt { unsigned: bool },
    MediumInt { unsigned: bool },
    Int { unsigned: bool },
    BigInt { unsigned: bool },
    Float,
    Double,
    Decimal { precision: u8, scale: u8 },
    Bit { bits: u8 },
    Year,
    Date,
    Time { fsp: u8 },
    DateTime { fsp: u8 },
    Timestamp { fsp: u8 },
    Char { max_bytes: u32 },
    VarChar { max_bytes: u32 },
    Text { length_bytes: u8 },
    Binary { bytes: u32 },
    VarBinary { max_bytes: u32 },
    Blob { length_bytes: u8 },
    Enum { labels: Vec<String>, bytes: u8 },
    Set { labels: Vec<String>, bytes: u8 },
    Json,
    Geometry,
    Vector,
    VarVector { max_bytes: u32 },
    OldTime { fsp: u8 },
    OldDateTime { fsp: u8 },
    OldTimestamp { fsp: u8 },
    Compressed { length_bytes: u8 },
    Uuid,
    Inet4,
    Inet6,
}

/// Writes both directions from one list, so that they cannot differ.
macro_rules! mirror {
    ($($plain:ident { $($field:ident),* }),* $(,)?) => {
        fn type_to_stored(ty: &ColumnType) -> StoredType {
            match ty {
                $(ColumnType::$plain { $($field),* } => StoredType::$plain { $($field: *$field),* },)*
                ColumnType::Enum { labels, bytes } => StoredType::Enum { labels: labels.to_vec(), bytes: *bytes },
                ColumnType::Set { labels, bytes } => StoredType::Set { labels: labels.to_vec(), bytes: *bytes },
            }
        }

        fn type_from_stored(ty: StoredType) -> ColumnType {
            match ty {
                $(StoredType::$plain { $($field),* } => ColumnType::$plain { $($field),* },)*
                StoredType::Enum { labels, bytes } => ColumnType::Enum { labels: labels.into(), bytes },
                StoredType::Set { labels, bytes } => ColumnType::Set { labels: labels.into(), bytes },
            }
        }
    };
}

mirror! {
    TinyInt { unsigned }, SmallInt { unsigned }, MediumInt { unsigned }, Int { unsigned }, BigInt { unsigned },
    Float {}, Double {}, Decimal { precision, scale }, Bit { bits }, Year {}, Date {}, Time { fsp }, DateTime { fsp },
    Timestamp { fsp }, Char { max_bytes }, VarChar { max_bytes }, Text { length_bytes }, Binary { bytes },
    VarBinary { max_bytes }, Blob { length_bytes }, Json {}, Geometry {}, Vector {}, VarVector { max_bytes },
    OldTime { fsp }, OldDateTime { fsp }, OldTimestamp { fsp }, Compressed { length_bytes }, Uuid {}, Inet4 {}, Inet6 {},
}

pub(super) fn to_stored(StoredTable { schema, index, defaults }: &StoredTable) -> StoredSchema {
    let column = |c: &Column| StoredColumn {
        name: c.name.clone(),
        ty: type_to_stored(&c.ty),
        nullable: c.nullable,
        collation: c.collation,
    };
    StoredSchema {
        database: schema.database.clone(),
        table: schema.table.clone(),
        columns: schema.columns.iter().map(column).collect(),
        key: schema.key.clone(),
        index: index.clone(),
        defaults: defaults.clone(),
    }
}

pub(super) fn from_stored(stored: StoredSchema, key: &str) -> Result<StoredTable, StoreError> {
    let column = |c: StoredColumn| {
        let charset = Charset::from_collation(c.collation).ok_or_else(|| StoreError::Corrupt {
            key: key.to_owned(),
            reason: format!("column {} has collation {}, which is not known", c.name, c.collation),
        })?;
        Ok(Column { name: c.name, ty: type_from_stored(c.ty), nullable: c.nullable, charset, collation: c.collation })
    };
    let schema = TableSchema {
        database: stored.database,
        table: stored.table,
        columns: stored.columns.into_iter().map(column).collect::<Result<_, _>>()?,
        key: stored.key,
    };
    Ok(StoredTable { schema, index: stored.index, defaults: stored.defaults })
}
