use crate::codec::{ParseError, Reader, Writer};
use crate::error::escape;
use crate::flags::ColumnFlags;

/// A column's type on the wire (`enum_field_types`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnType(pub u8);

macro_rules! column_types {
    ($($name:ident = $code:literal,)*) => {
        #[allow(missing_docs, reason = "the names are MySQL's own, MYSQL_TYPE_ left out")]
        impl ColumnType {
            $(pub const $name: Self = Self($code);)*
        }
        impl core::fmt::Debug for ColumnType {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Self::$name => f.write_str(stringify!($name)),)*
                    Self(code) => write!(f, "ColumnType({code})"),
                }
            }
        }
    };
}

column_types! {
    DECIMAL = 0, TINY = 1, SHORT = 2, LONG = 3, FLOAT = 4, DOUBLE = 5, NULL = 6, TIMESTAMP = 7, LONGLONG = 8,
    INT24 = 9, DATE = 10, TIME = 11, DATETIME = 12, YEAR = 13, NEWDATE = 14, VARCHAR = 15, BIT = 16, VECTOR = 242,
    JSON = 245, NEWDECIMAL = 246, ENUM = 247, SET = 248, TINY_BLOB = 249, MEDIUM_BLOB = 250, LONG_BLOB = 251,
    BLOB = 252, VAR_STRING = 253, STRING = 254, GEOMETRY = 255,
}

/// A result column (`page_protocol_com_query_response_text_resultset_column_definition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Database of the base table.
    pub schema: String,
    /// Alias of the table.
    pub table: String,
    /// The base table.
    pub org_table: String,
    /// Alias of the column.
    pub name: String,
    /// The base column.
    pub org_name: String,
    /// Collation id; 63 is binary.
    pub charset: u16,
    /// Display length in bytes.
    pub length: u32,
    /// Wire type.
    pub column_type: ColumnType,
    /// Properties.
    pub flags: ColumnFlags,
    /// Digits after the point; 31 where it says nothing.
    pub decimals: u8,
}

impl ColumnDefinition {
    /// Reads a column definition.
    ///
    /// # Errors
    /// A packet that ends early.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(payload);
        let mut name = |field| r.lenenc_bytes(field).map(|b| escape(b, 1024));
        name("catalog")?;
        let (schema, table, org_table) = (name("schema")?, name("table")?, name("org table")?);
        let (column, org_name) = (name("name")?, name("org name")?);
        let n = r.lenenc_len("fixed length")?;
        let mut fixed = r.sub(n, "fixed part")?;
        Ok(Self {
            schema,
            table,
            org_table,
            name: column,
            org_name,
            charset: fixed.u16_le("charset")?,
            length: fixed.u32_le("length")?,
            column_type: ColumnType(fixed.u8("type")?),
            flags: ColumnFlags::from_bits_retain(fixed.u16_le("flags")?),
            decimals: fixed.u8("decimals")?,
        })
    }

    /// A text column in utf8mb4, for servers in tests.
    #[must_use]
    pub fn text(name: &str) -> Self {
        Self {
            schema: String::new(),
            table: String::new(),
            org_table: String::new(),
            name: name.into(),
            org_name: name.into(),
            charset: 45,
            length: 1024,
            column_type: ColumnType::VAR_STRING,
            flags: ColumnFlags::empty(),
            decimals: 31,
        }
    }

    /// Writes a column definition.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.lenenc_bytes(b"def");
        for name in [&self.schema, &self.table, &self.org_table, &self.name, &self.org_name] {
            w.lenenc_bytes(name.as_bytes());
        }
        w.u8(12).u16_le(self.charset).u32_le(self.length).u8(self.column_type.0).u16_le(self.flags.bits());
        w.u8(self.decimals).zeros(2);
        w.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let c = ColumnDefinition { flags: ColumnFlags::UNSIGNED, ..ColumnDefinition::text("id") };
        let bytes = c.encode();
        assert_eq!(ColumnDefinition::parse(&bytes).unwrap(), c);
        for cut in 0..bytes.len() {
            assert!(ColumnDefinition::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        assert_eq!(format!("{:?} {:?}", ColumnType::INT24, ColumnType(99)), "INT24 ColumnType(99)");
    }
}
