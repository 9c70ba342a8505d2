use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// QUERY: a statement (`Query_event`).
///
/// ```text
/// u32 thread | u32 seconds | u8 schema length | u16 error | u16 status length | status variables | schema NUL | SQL
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Session that ran it.
    pub thread_id: u32,
    /// Seconds it took.
    pub exec_time: u32,
    /// Not 0: the statement failed half way and left changes behind.
    pub error_code: u16,
    /// Default schema, UTF-8; may be empty.
    pub schema: &'a [u8],
    /// The statement, in the session's character set ([`StatusVars::client_charset`]), often but not always UTF-8.
    pub sql: &'a [u8],
    /// Session state, not parsed yet.
    pub status: StatusVars<'a>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(post_header: u8, extra: usize, mut r: Reader<'a>) -> Result<Self, ParseError> {
        let thread_id = r.u32_le("thread_id")?;
        let exec_time = r.u32_le("exec_time")?;
        let schema_length = usize::from(r.u8("schema length")?);
        let error_code = r.u16_le("error_code")?;
        let status_length = if post_header >= 13 { usize::from(r.u16_le("status variables length")?) } else { 0 };
        // EXECUTE_LOAD_QUERY has more post-header fields here.
        r.skip(extra, "load query fields")?;
        let status = StatusVars { bytes: r.bytes(status_length, "status variables")? };
        let schema = r.bytes(schema_length, "schema")?;
        let nul = r.u8("schema terminator")?;
        if nul != 0 {
            return Err(r.error("schema terminator", ParseErrorKind::BadTag(nul)));
        }
        Ok(Self { thread_id, exec_time, error_code, schema, sql: r.rest(), status })
    }
}

/// Session state beside a statement: looked up when asked for. Unknown codes end the search, as in the server.
#[derive(Clone, Copy, Debug)]
pub struct StatusVars<'a> {
    bytes: &'a [u8],
}

impl<'a> StatusVars<'a> {
    /// The raw variables.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// `character_set_client` as a collation id: what the SQL text is written in.
    #[must_use]
    pub fn client_charset(&self) -> Option<u16> {
        let [a, b, ..] = *self.find(4)?.first_chunk::<6>()?;
        Some(u16::from_le_bytes([a, b]))
    }

    /// `sql_mode` bits.
    #[must_use]
    pub fn sql_mode(&self) -> Option<u64> {
        self.find(1)?.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// The session's time zone name, when the statement depends on it.
    #[must_use]
    pub fn time_zone(&self) -> Option<&'a [u8]> {
        self.find(5)?.get(1..)
    }

    /// XID of a DDL statement (8.0): the statement is its own commit.
    #[must_use]
    pub fn ddl_xid(&self) -> Option<u64> {
        self.find(17)?.first_chunk().copied().map(u64::from_le_bytes)
    }

    fn find(&self, code: u8) -> Option<&'a [u8]> {
        let mut r = Reader::new(self.bytes);
        while let Ok(at) = r.u8("status code") {
            let start = r.peek();
            skip_value(at, &mut r)?;
            if at == code {
                return start.get(..start.len().checked_sub(r.left())?);
            }
        }
        None
    }
}

/// Passes over the value of one status variable; `None` ends the search.
fn skip_value(code: u8, r: &mut Reader<'_>) -> Option<()> {
    let short = |r: &mut Reader<'_>| {
        let n = r.u8("status string length")?;
        r.skip(usize::from(n), "status string")
    };
    let fixed = match code {
        // Q_FLAGS2, Q_AUTO_INCREMENT, Q_MASTER_DATA_WRITTEN
        0 | 3 | 10 => 4,
        // Q_SQL_MODE, Q_TABLE_MAP_FOR_UPDATE, commit timestamps, Q_DDL_LOGGED_WITH_XID; MariaDB Q_XID
        1 | 9 | 14 | 15 | 17 | 129 => 8,
        // Q_CATALOG (old, with NUL)
        2 => {
            short(r).ok()?;
            1
        }
        // Q_CHARSET
        4 => 6,
        // Q_TIME_ZONE, Q_CATALOG_NZ
        5 | 6 => {
            short(r).ok()?;
            0
        }
        // Q_LC_TIME_NAMES, Q_CHARSET_DATABASE, Q_DEFAULT_COLLATION_FOR_UTF8MB4
        7 | 8 | 18 => 2,
        // Q_INVOKER
        11 => {
            short(r).ok()?;
            short(r).ok()?;
            0
        }
        // Q_UPDATED_DB_NAMES; 254 says "too many" and lists none
        12 => {
            let n = r.u8("updated db count").ok()?;
            for _ in 0..if n == 254 { 0 } else { n } {
                r.nul_bytes("updated db").ok()?;
            }
            0
        }
        // Q_MICROSECONDS; MariaDB Q_HRNOW
        13 | 128 => 3,
        // Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP, Q_SQL_REQUIRE_PRIMARY_KEY, Q_DEFAULT_TABLE_ENCRYPTION, cascade triggers
        16 | 19 | 20 | 21 => 1,
        _ => return None,
    };
    r.skip(fixed, "status variable").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_variables_are_found_behind_others_and_unknown_ones_end_the_search() {
        let bytes = [0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 6, 3, b's', b't', b'd', 12, 254, 4, 255, 0, 8, 0, 8, 0];
        let vars = StatusVars { bytes: &bytes };
        assert_eq!(vars.sql_mode(), Some(0x0200_0000));
        assert_eq!(vars.client_charset(), Some(255));
        assert_eq!(vars.time_zone(), None);
        let unknown = [131, 1, 0, 4, 255, 0, 8, 0, 8, 0];
        assert_eq!(StatusVars { bytes: &unknown }.client_charset(), None);
        assert_eq!(StatusVars { bytes: &bytes[..24] }.client_charset(), None);
    }
}
