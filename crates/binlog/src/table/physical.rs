//! How columns lie in a row, and the types that follow from it.

use std::sync::Arc;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::{Column, ColumnType};

/// `enum_field_types`, as far as a TABLE_MAP can hold it.
pub(super) mod code {
    pub(crate) const TINY: u8 = 1;
    pub(crate) const SHORT: u8 = 2;
    pub(crate) const LONG: u8 = 3;
    pub(crate) const FLOAT: u8 = 4;
    pub(crate) const DOUBLE: u8 = 5;
    pub(crate) const LONGLONG: u8 = 8;
    pub(crate) const OLD_TIMESTAMP: u8 = 7;
    pub(crate) const INT24: u8 = 9;
    pub(crate) const DATE: u8 = 10;
    pub(crate) const OLD_TIME: u8 = 11;
    pub(crate) const OLD_DATETIME: u8 = 12;
    pub(crate) const YEAR: u8 = 13;
    pub(crate) const NEWDATE: u8 = 14;
    pub(crate) const VARCHAR: u8 = 15;
    pub(crate) const BIT: u8 = 16;
    pub(crate) const TIMESTAMP2: u8 = 17;
    pub(crate) const DATETIME2: u8 = 18;
    pub(crate) const TIME2: u8 = 19;
    pub(crate) const BLOB_COMPRESSED: u8 = 140;
    pub(crate) const VARCHAR_COMPRESSED: u8 = 141;
    pub(crate) const VECTOR: u8 = 242;
    pub(crate) const JSON: u8 = 245;
    pub(crate) const NEWDECIMAL: u8 = 246;
    pub(crate) const ENUM: u8 = 247;
    pub(crate) const SET: u8 = 248;
    pub(crate) const TINY_BLOB: u8 = 249;
    pub(crate) const MEDIUM_BLOB: u8 = 250;
    pub(crate) const LONG_BLOB: u8 = 251;
    pub(crate) const BLOB: u8 = 252;
    pub(crate) const VAR_STRING: u8 = 253;
    pub(crate) const STRING: u8 = 254;
    pub(crate) const GEOMETRY: u8 = 255;
}

/// A column's physical type: how it lies in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Physical {
    /// With ENUM and SET dug out of STRING.
    pub(super) code: u8,
    /// Length, precision and scale, or fsp, as the type has it.
    pub(super) meta: [u8; 2],
}

impl Physical {
    pub(super) fn is_numeric(self) -> bool {
        use code::{DOUBLE, FLOAT, INT24, LONG, LONGLONG, NEWDECIMAL, SHORT, TINY, YEAR};
        // DECIMAL of 4.1 (0) counts too.
        matches!(self.code, 0 | TINY | SHORT | INT24 | LONG | LONGLONG | YEAR | FLOAT | DOUBLE | NEWDECIMAL)
    }

    pub(super) fn is_character(self) -> bool {
        use code::{BLOB, LONG_BLOB, MEDIUM_BLOB, STRING, TINY_BLOB, VAR_STRING, VARCHAR, VECTOR};
        matches!(self.code, STRING | VAR_STRING | VARCHAR | TINY_BLOB | MEDIUM_BLOB | LONG_BLOB | BLOB | VECTOR)
    }

    /// MariaDB counts every type that has a collation inside the server, spatial ones too.
    pub(super) fn is_mariadb_character(self) -> bool {
        use code::{BLOB_COMPRESSED, GEOMETRY, VARCHAR_COMPRESSED};
        self.is_character() || matches!(self.code, GEOMETRY | BLOB_COMPRESSED | VARCHAR_COMPRESSED)
    }

    pub(super) fn is_enum_or_set(self) -> bool {
        matches!(self.code, code::ENUM | code::SET)
    }
}

pub(super) fn read_physical(ty: u8, meta: &mut Reader<'_>) -> Result<Physical, ParseError> {
    use code::*;
    let (code, meta) = match ty {
        TINY | SHORT | LONG | LONGLONG | INT24 | DATE | YEAR | NEWDATE | OLD_TIMESTAMP | OLD_TIME | OLD_DATETIME => {
            (ty, [0, 0])
        }
        FLOAT | DOUBLE | TIMESTAMP2 | DATETIME2 | TIME2 | VECTOR | JSON | TINY_BLOB | MEDIUM_BLOB | LONG_BLOB
        | BLOB | BLOB_COMPRESSED | GEOMETRY => (ty, [meta.u8("column metadata")?, 0]),
        VARCHAR | VARCHAR_COMPRESSED | VAR_STRING | BIT | NEWDECIMAL => (ty, meta.array("column metadata")?),
        ENUM | SET => {
            let [size, _] = meta.array("column metadata")?;
            (ty, [size, 0])
        }
        STRING => {
            // The real type and, for long CHARs, two more bits of the length share the first byte.
            let [first, second] = meta.array("column metadata")?;
            match first | 0x30 {
                real @ (ENUM | SET) => (real, [second, 0]),
                STRING => (STRING, [second, ((first & 0x30) ^ 0x30) >> 4]),
                other => return Err(meta.error("STRING metadata", ParseErrorKind::BadTag(other))),
            }
        }
        _ => {
            let what = match ty {
                0 => "DECIMAL column of before MySQL 5.0",
                20 => "TYPED_ARRAY column",
                _ => "column type",
            };
            return Err(meta.error(what, ParseErrorKind::Unsupported));
        }
    };
    Ok(Physical { code, meta })
}

pub(super) fn logical(
    p: Physical,
    unsigned: bool,
    binary: bool,
    labels: Arc<[String]>,
) -> Result<ColumnType, ParseError> {
    let bad = || Reader::new(&[]).error("column metadata", ParseErrorKind::BadLength);
    let [low, high] = p.meta;
    let size = u32::from(u16::from_le_bytes(p.meta));
    let checked = |ok: bool, ty: ColumnType| if ok { Ok(ty) } else { Err(bad()) };
    let prefix = |bytes: u8| {
        checked(
            (1..=4).contains(&bytes),
            if binary { ColumnType::Blob { length_bytes: bytes } } else { ColumnType::Text { length_bytes: bytes } },
        )
    };
    match p.code {
        code::TINY => Ok(ColumnType::TinyInt { unsigned }),
        code::SHORT => Ok(ColumnType::SmallInt { unsigned }),
        code::INT24 => Ok(ColumnType::MediumInt { unsigned }),
        code::LONG => Ok(ColumnType::Int { unsigned }),
        code::LONGLONG => Ok(ColumnType::BigInt { unsigned }),
        code::FLOAT => checked(low == 4, ColumnType::Float),
        code::DOUBLE => checked(low == 8, ColumnType::Double),
        code::NEWDECIMAL => checked(
            (1..=65).contains(&low) && high <= 30 && high <= low,
            ColumnType::Decimal { precision: low, scale: high },
        ),
        code::YEAR => Ok(ColumnType::Year),
        code::DATE | code::NEWDATE => Ok(ColumnType::Date),
        code::TIME2 => checked(low <= 6, ColumnType::Time { fsp: low }),
        code::DATETIME2 => checked(low <= 6, ColumnType::DateTime { fsp: low }),
        code::TIMESTAMP2 => checked(low <= 6, ColumnType::Timestamp { fsp: low }),
        code::BIT => {
            // Bits beyond whole bytes, then whole bytes.
            let bits = u16::from(high).saturating_mul(8).saturating_add(u16::from(low));
            let ok = low < 8 && (1..=64).contains(&bits);
            checked(ok, ColumnType::Bit { bits: u8::try_from(bits).unwrap_or(0) })
        }
        code::VARCHAR | code::VAR_STRING if binary => Ok(ColumnType::VarBinary { max_bytes: size }),
        code::VARCHAR | code::VAR_STRING => Ok(ColumnType::VarChar { max_bytes: size }),
        code::STRING if binary => Ok(ColumnType::Binary { bytes: size }),
        code::STRING => Ok(ColumnType::Char { max_bytes: size }),
        code::TINY_BLOB | code::BLOB | code::MEDIUM_BLOB | code::LONG_BLOB => prefix(low),
        code::ENUM => checked((1..=2).contains(&low), ColumnType::Enum { labels, bytes: low }),
        code::SET => checked((1..=8).contains(&low), ColumnType::Set { labels, bytes: low }),
        code::JSON => checked(low == 4, ColumnType::Json),
        code::GEOMETRY => checked(low == 4, ColumnType::Geometry),
        code::VECTOR => checked(low == 4, ColumnType::Vector),
        code::BLOB_COMPRESSED => checked((1..=4).contains(&low), ColumnType::Compressed { length_bytes: low }),
        code::VARCHAR_COMPRESSED => Ok(ColumnType::Compressed { length_bytes: if size < 256 { 1 } else { 2 } }),
        _ => Err(bad()),
    }
}

/// The log does not say how many digits of a fraction there are. MySQL has none in this format; MariaDB may, and a wrong
/// guess would shift every value behind it.
pub(super) fn old_temporal(p: Physical, hint: Option<&Column>, mariadb: bool) -> Result<ColumnType, ParseError> {
    use ColumnType::{DateTime, OldDateTime, OldTime, OldTimestamp, Time, Timestamp};
    let fsp = match (hint.map(|c| &c.ty), p.code) {
        (Some(Time { fsp } | OldTime { fsp }), code::OLD_TIME)
        | (Some(DateTime { fsp } | OldDateTime { fsp }), code::OLD_DATETIME)
        | (Some(Timestamp { fsp } | OldTimestamp { fsp }), code::OLD_TIMESTAMP) => *fsp,
        _ if !mariadb => 0,
        _ => {
            let what = "TIME, DATETIME or TIMESTAMP column of MariaDB's old format without the catalog's word on its \
                        fraction (ALTER TABLE ... FORCE with mysql56_temporal_format=ON converts it)";
            return Err(Reader::new(&[]).error(what, ParseErrorKind::Unsupported));
        }
    };
    Ok(match p.code {
        code::OLD_TIME => OldTime { fsp },
        code::OLD_DATETIME => OldDateTime { fsp },
        _ => OldTimestamp { fsp },
    })
}

/// MariaDB's types that the log calls BINARY and VARBINARY.
pub(super) fn known_from_catalog(ty: ColumnType, hint: Option<&Column>) -> ColumnType {
    use ColumnType::{Binary, Inet4, Inet6, Uuid, VarBinary, VarVector, Vector};
    match (ty, hint.map(|c| &c.ty)) {
        (Binary { bytes: 16 }, Some(Uuid)) => Uuid,
        (Binary { bytes: 16 }, Some(Inet6)) => Inet6,
        (Binary { bytes: 4 }, Some(Inet4)) => Inet4,
        (VarBinary { max_bytes }, Some(Vector | VarVector { .. })) => VarVector { max_bytes },
        (ty, _) => ty,
    }
}

/// Whether a column of the log is the catalog's: the catalog says nothing of formats and compression.
pub(super) fn is_same_type(log: &ColumnType, catalog: &ColumnType) -> bool {
    use ColumnType::{
        Blob, Compressed, DateTime, OldDateTime, OldTime, OldTimestamp, Text, Time, Timestamp, VarBinary, VarChar,
        VarVector, Vector,
    };
    match (log, catalog) {
        (OldTime { fsp: a }, Time { fsp: b })
        | (OldDateTime { fsp: a }, DateTime { fsp: b })
        | (OldTimestamp { fsp: a }, Timestamp { fsp: b })
        | (Compressed { length_bytes: a }, Text { length_bytes: b } | Blob { length_bytes: b }) => a == b,
        // One byte more than the value has, for the header.
        (Compressed { length_bytes }, VarChar { max_bytes } | VarBinary { max_bytes }) => {
            *length_bytes == if *max_bytes < 255 { 1 } else { 2 }
        }
        (VarVector { .. }, Vector) => true,
        (log, catalog) => log == catalog,
    }
}
