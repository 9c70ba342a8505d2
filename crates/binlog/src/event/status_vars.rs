use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// Session state beside a statement (`Query_event_status_vars`), not parsed until it is asked for.
///
/// Variables have no length of their own, so an unknown code hides all that follow it. The statement itself is found by
/// the length of them all.
#[derive(Clone, Copy, Debug)]
pub struct StatusVars<'a> {
    bytes: &'a [u8],
}

/// One variable. The numbers are the codes on the wire; from 128 on they are MariaDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusVar<'a> {
    /// 0: option bits such as `foreign_key_checks` and `autocommit`.
    Flags(u32),
    /// 1: `sql_mode` bits.
    SqlMode(u64),
    /// 2 (before 5.0.4) and 6: the catalog, always `std`.
    Catalog(&'a [u8]),
    /// 3: `auto_increment_increment` and `auto_increment_offset`.
    AutoIncrement {
        /// Step.
        increment: u16,
        /// First value.
        offset: u16,
    },
    /// 4: collation ids of the session.
    Charset {
        /// `character_set_client`: what the SQL text is written in.
        client: u16,
        /// `collation_connection`.
        connection: u16,
        /// `collation_server`.
        server: u16,
    },
    /// 5: the session's time zone, when the statement depends on it.
    TimeZone(&'a [u8]),
    /// 7: `lc_time_names`.
    TimeNames(u16),
    /// 8: `collation_database`.
    DatabaseCollation(u16),
    /// 9: bits of the tables that a multi-table UPDATE changes.
    TablesUpdated(u64),
    /// 10: size of the event on the server where it was made.
    SourceDataWritten(u32),
    /// 11: the account in whose name the statement runs.
    Invoker {
        /// User.
        user: &'a [u8],
        /// Host.
        host: &'a [u8],
    },
    /// 12: the databases that the statement changes.
    Databases(Databases<'a>),
    /// 13, and MariaDB's 128: microseconds of the event's timestamp.
    Microseconds(u32),
    /// 14 and 15: commit times, never written by a release.
    CommitTimestamp(u64),
    /// 16: `explicit_defaults_for_timestamp`.
    ExplicitDefaults(bool),
    /// 17: the transaction number of a DDL statement (8.0): the statement is its own commit.
    DdlXid(u64),
    /// 18: `default_collation_for_utf8mb4`.
    DefaultUtf8mb4Collation(u16),
    /// 19: `sql_require_primary_key`.
    RequirePrimaryKey(u8),
    /// 20: `default_table_encryption`.
    DefaultTableEncryption(u8),
    /// 21: whether foreign-key cascades fire triggers (9.7).
    CascadeTriggers(u8),
    /// 129: MariaDB's transaction number of a DDL statement.
    MariaXid(u64),
    /// 130: MariaDB's extra GTID flags of a two-phase ALTER TABLE.
    MariaGtidFlags {
        /// As in [`MariaGtidEvent`](super::MariaGtidEvent)'s extra flags.
        flags: u8,
        /// Sequence number of the ALTER's start, when the statement is its end.
        start: Option<u64>,
    },
    /// 131: MariaDB's `character_set_collations`.
    CharsetCollations(CharsetCollations<'a>),
}

/// The databases that a statement changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Databases<'a> {
    /// NUL-ended names; `None` when there were more than the server lists (16).
    names: Option<&'a [u8]>,
}

impl<'a> Databases<'a> {
    /// The server's mark for "too many to list".
    const OVER_MAX: u8 = 254;

    fn parse(r: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = r.u8("updated db count")?;
        if count == Self::OVER_MAX {
            return Ok(Self { names: None });
        }
        let start = *r;
        for _ in 0..count {
            r.nul_bytes("updated db")?;
        }
        Ok(Self { names: start.peek().get(..start.left().saturating_sub(r.left())) })
    }

    /// The names; `None` when there were too many to list.
    pub fn names(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        Some(self.names?.split(|b| *b == 0).filter(|n| !n.is_empty()))
    }
}

/// Pairs of a character set's default collation id and the one that the session uses in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharsetCollations<'a> {
    pairs: &'a [u8],
}

impl<'a> CharsetCollations<'a> {
    fn parse(r: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = r.u8("character set count")?;
        Ok(Self { pairs: r.bytes(usize::from(count).saturating_mul(4), "character set collations")? })
    }

    /// The pairs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + use<'a> {
        let (pairs, _) = self.pairs.as_chunks::<4>();
        pairs.iter().map(|[a, b, c, d]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])))
    }
}

impl<'a> StatusVars<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The raw variables.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The variables in their order.
    ///
    /// # Errors
    /// One that is cut off, and a code that this crate does not know; then nothing more comes.
    pub fn iter(&self) -> impl Iterator<Item = Result<StatusVar<'a>, ParseError>> + use<'a> {
        let mut r = Reader::new(self.bytes);
        core::iter::from_fn(move || {
            if r.is_empty() {
                return None;
            }
            let var = StatusVar::parse(&mut r);
            if var.is_err() {
                r.rest();
            }
            Some(var)
        })
    }

    /// `character_set_client` as a collation id: what the SQL text is written in.
    #[must_use]
    pub fn client_charset(&self) -> Option<u16> {
        self.find(|var| if let StatusVar::Charset { client, .. } = var { Some(client) } else { None })
    }

    /// `sql_mode` bits.
    #[must_use]
    pub fn sql_mode(&self) -> Option<u64> {
        self.find(|var| if let StatusVar::SqlMode(bits) = var { Some(bits) } else { None })
    }

    /// The session's time zone name, when the statement depends on it.
    #[must_use]
    pub fn time_zone(&self) -> Option<&'a [u8]> {
        self.find(|var| if let StatusVar::TimeZone(name) = var { Some(name) } else { None })
    }

    /// Transaction number of a DDL statement (MySQL 8.0, MariaDB 10.6): the statement is its own commit.
    #[must_use]
    pub fn ddl_xid(&self) -> Option<u64> {
        self.find(|var| match var {
            StatusVar::DdlXid(xid) => Some(xid),
            // Zero is no number: MariaDB writes the variable whenever the statement may have one.
            StatusVar::MariaXid(xid) => (xid != 0).then_some(xid),
            _ => None,
        })
    }

    fn find<T>(&self, mut which: impl FnMut(StatusVar<'a>) -> Option<T>) -> Option<T> {
        self.iter().map_while(Result::ok).find_map(&mut which)
    }
}

impl<'a> StatusVar<'a> {
    fn parse(r: &mut Reader<'a>) -> Result<Self, ParseError> {
        let left = r.left();
        let short = |r: &mut Reader<'a>, field| {
            let n = r.u8(field)?;
            r.bytes(usize::from(n), field)
        };
        Ok(match r.u8("status code")? {
            0 => Self::Flags(r.u32_le("flags2")?),
            1 => Self::SqlMode(r.u64_le("sql_mode")?),
            2 => {
                let name = short(r, "catalog")?;
                r.skip(1, "catalog terminator")?;
                Self::Catalog(name)
            }
            3 => Self::AutoIncrement {
                increment: r.u16_le("auto_increment_increment")?,
                offset: r.u16_le("auto_increment_offset")?,
            },
            4 => Self::Charset {
                client: r.u16_le("character_set_client")?,
                connection: r.u16_le("collation_connection")?,
                server: r.u16_le("collation_server")?,
            },
            5 => Self::TimeZone(short(r, "time_zone")?),
            6 => Self::Catalog(short(r, "catalog")?),
            7 => Self::TimeNames(r.u16_le("lc_time_names")?),
            8 => Self::DatabaseCollation(r.u16_le("collation_database")?),
            9 => Self::TablesUpdated(r.u64_le("table_map_for_update")?),
            10 => Self::SourceDataWritten(r.u32_le("source data written")?),
            11 => Self::Invoker { user: short(r, "invoker user")?, host: short(r, "invoker host")? },
            12 => Self::Databases(Databases::parse(r)?),
            13 | 128 => Self::Microseconds(r.u24_le("microseconds")?),
            14 | 15 => Self::CommitTimestamp(r.u64_le("commit timestamp")?),
            16 => Self::ExplicitDefaults(r.u8("explicit_defaults_for_timestamp")? != 0),
            17 => Self::DdlXid(r.u64_le("ddl xid")?),
            18 => Self::DefaultUtf8mb4Collation(r.u16_le("default_collation_for_utf8mb4")?),
            19 => Self::RequirePrimaryKey(r.u8("sql_require_primary_key")?),
            20 => Self::DefaultTableEncryption(r.u8("default_table_encryption")?),
            21 => Self::CascadeTriggers(r.u8("cascade triggers")?),
            129 => Self::MariaXid(r.u64_le("xid")?),
            130 => {
                const COMMIT_OR_ROLLBACK_ALTER: u8 = 4 | 8;
                let flags = r.u8("gtid extra flags")?;
                let has_start = flags & COMMIT_OR_ROLLBACK_ALTER != 0;
                let start = if has_start { Some(r.u64_le("start alter sequence")?) } else { None };
                Self::MariaGtidFlags { flags, start }
            }
            131 => Self::CharsetCollations(CharsetCollations::parse(r)?),
            _ => return Err(ParseError::new("status code", ParseErrorKind::Unsupported, left)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every variable of every server, as its bytes and as it reads.
    ///
    /// Conformance: E2
    /// Bug: 63, 64
    #[test]
    fn every_variable_reads_and_is_found_behind_all_others() {
        let databases = |names: &'static [u8]| StatusVar::Databases(Databases { names: Some(names) });
        let eight = [1, 2, 3, 4, 5, 6, 7, 8];
        let number = u64::from_le_bytes(eight);
        let table: &[(&[u8], StatusVar<'_>)] = &[
            (&[0, 1, 2, 3, 4], StatusVar::Flags(0x0403_0201)),
            (&[1, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::SqlMode(number)),
            (&[2, 3, b's', b't', b'd', 0], StatusVar::Catalog(b"std")),
            (&[3, 2, 0, 1, 0], StatusVar::AutoIncrement { increment: 2, offset: 1 }),
            (&[4, 28, 0, 45, 0, 255, 0], StatusVar::Charset { client: 28, connection: 45, server: 255 }),
            (&[5, 6, b'+', b'0', b'2', b':', b'0', b'0'], StatusVar::TimeZone(b"+02:00")),
            (&[6, 3, b's', b't', b'd'], StatusVar::Catalog(b"std")),
            (&[7, 5, 0], StatusVar::TimeNames(5)),
            (&[8, 8, 0], StatusVar::DatabaseCollation(8)),
            (&[9, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::TablesUpdated(number)),
            (&[10, 1, 0, 0, 0], StatusVar::SourceDataWritten(1)),
            (&[11, 1, b'u', 2, b'h', b'i'], StatusVar::Invoker { user: b"u", host: b"hi" }),
            (&[12, 2, b'a', 0, b'b', b'c', 0], databases(b"a\0bc\0")),
            (&[12, 0], databases(b"")),
            (&[12, 254], StatusVar::Databases(Databases { names: None })),
            (&[13, 0x3f, 0x42, 0x0f], StatusVar::Microseconds(999_999)),
            (&[14, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::CommitTimestamp(number)),
            (&[15, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::CommitTimestamp(number)),
            (&[16, 1], StatusVar::ExplicitDefaults(true)),
            (&[17, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::DdlXid(number)),
            (&[18, 255, 0], StatusVar::DefaultUtf8mb4Collation(255)),
            (&[19, 1], StatusVar::RequirePrimaryKey(1)),
            (&[20, 1], StatusVar::DefaultTableEncryption(1)),
            (&[21, 1], StatusVar::CascadeTriggers(1)),
            (&[128, 1, 0, 0], StatusVar::Microseconds(1)),
            (&[129, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::MariaXid(number)),
            (&[130, 2], StatusVar::MariaGtidFlags { flags: 2, start: None }),
            (&[130, 4, 1, 2, 3, 4, 5, 6, 7, 8], StatusVar::MariaGtidFlags { flags: 4, start: Some(number) }),
            (&[131, 1, 45, 0, 0, 8], StatusVar::CharsetCollations(CharsetCollations { pairs: &[45, 0, 0, 8] })),
        ];
        for (bytes, var) in table {
            assert_eq!(StatusVars::new(bytes).iter().collect::<Vec<_>>(), [Ok(*var)]);
            // Cut anywhere, it is an error and nothing else.
            for end in 1..bytes.len() {
                let cut = StatusVars::new(&bytes[..end]).iter().collect::<Vec<_>>();
                assert!(matches!(cut[..], [Err(_)]), "{var:?} cut at {end}: {cut:?}");
            }
        }
        let all: Vec<u8> = table.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        let read: Vec<_> = StatusVars::new(&all).iter().map(Result::unwrap).collect();
        assert_eq!(read, table.iter().map(|(_, var)| *var).collect::<Vec<_>>());
    }

    #[test]
    fn an_unknown_code_ends_the_variables_and_what_came_before_stays() {
        let vars = [4, 28, 0, 45, 0, 255, 0, 22, 1, 5, 1, b'x'];
        let vars = StatusVars::new(&vars);
        assert_eq!(vars.client_charset(), Some(28));
        assert_eq!(vars.time_zone(), None);
        let read: Vec<_> = vars.iter().collect();
        assert!(matches!(read[..], [Ok(_), Err(ParseError { kind: ParseErrorKind::Unsupported, .. })]), "{read:?}");
    }

    #[test]
    fn lists_of_databases_and_collations() {
        let vars = [12, 2, b'a', 0, b'b', b'c', 0, 131, 2, 45, 0, 0, 8, 33, 0, 1, 8];
        let mut vars = StatusVars::new(&vars).iter();
        let Some(Ok(StatusVar::Databases(databases))) = vars.next() else { panic!() };
        assert_eq!(databases.names().unwrap().collect::<Vec<_>>(), [&b"a"[..], b"bc"]);
        let Some(Ok(StatusVar::CharsetCollations(pairs))) = vars.next() else { panic!() };
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [(45, 2048), (33, 2049)]);
        let many = [12, 254];
        let Some(Ok(StatusVar::Databases(databases))) = StatusVars::new(&many).iter().next() else { panic!() };
        assert!(databases.names().is_none());
    }
}
