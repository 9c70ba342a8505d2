use core::fmt;

use millstream_wire::codec::{ParseError, Reader};

/// The 19 bytes before every event's body (`libs/mysql/binlog/event/binlog_event.h`, `Log_event_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since 1970 UTC when the statement began; 0 in artificial events.
    pub timestamp: u32,
    /// Type of the body.
    pub event_type: EventType,
    /// The server on which the event was first logged.
    pub server_id: u32,
    /// Bytes of the whole event: header, body, checksum.
    pub length: u32,
    /// Offset of the event's end in its file, low 32 bits. 0 in artificial events and in MariaDB's transactions, meaningless
    /// inside a [`TransactionPayload`](crate::event::TransactionPayload): see
    /// [`PositionTracker`](crate::PositionTracker).
    pub log_pos: u32,
    /// Bits: see the constants.
    pub flags: u16,
}

impl EventHeader {
    /// Bytes of a header.
    pub const LEN: usize = 19;
    /// FORMAT_DESCRIPTION of a log that is open or was not closed.
    pub const IN_USE: u16 = 0x1;
    /// The statement depends on the session (temporary tables).
    pub const THREAD_SPECIFIC: u16 = 0x4;
    /// Made for the stream, not in the file.
    pub const ARTIFICIAL: u16 = 0x20;
    /// May be skipped by who does not know its type.
    pub const IGNORABLE: u16 = 0x80;

    /// Whether the event's `log_pos` must never become a position: the event was made for the stream, or it does not say
    /// where it ends.
    #[must_use]
    pub const fn is_artificial(&self) -> bool {
        self.is_made_for_stream() || self.log_pos == 0
    }

    /// Whether the event was made for the stream, so that it lies in no file.
    #[must_use]
    pub const fn is_made_for_stream(&self) -> bool {
        self.flags & Self::ARTIFICIAL != 0
    }

    #[inline]
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Self, ParseError> {
        let [t0, t1, t2, t3, ty, s0, s1, s2, s3, l0, l1, l2, l3, p0, p1, p2, p3, f0, f1] =
            r.array::<{ Self::LEN }>("event header")?;
        Ok(Self {
            timestamp: u32::from_le_bytes([t0, t1, t2, t3]),
            event_type: EventType(ty),
            server_id: u32::from_le_bytes([s0, s1, s2, s3]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            log_pos: u32::from_le_bytes([p0, p1, p2, p3]),
            flags: u16::from_le_bytes([f0, f1]),
        })
    }
}

/// An event's type code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub u8);

macro_rules! event_types {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        impl EventType {
            $(#[doc = $doc] pub const $name: Self = Self($code);)*

            /// The server's name of the type, `UNKNOWN` for codes that neither MySQL nor MariaDB uses.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}

event_types! {
    START_V3 = 1, "Start of a log before MySQL 5.0.";
    QUERY = 2, "A statement.";
    STOP = 3, "Server shutdown.";
    ROTATE = 4, "The next file.";
    INTVAR = 5, "Insert id of the next statement.";
    LOAD = 6, "LOAD DATA before 5.0.";
    SLAVE = 7, "Never written.";
    CREATE_FILE = 8, "LOAD DATA before 5.0.3.";
    APPEND_BLOCK = 9, "Data of LOAD DATA.";
    EXEC_LOAD = 10, "LOAD DATA before 5.0.3.";
    DELETE_FILE = 11, "End of a failed LOAD DATA.";
    NEW_LOAD = 12, "LOAD DATA before 5.0.3.";
    RAND = 13, "Seeds of RAND() of the next statement.";
    USER_VAR = 14, "A user variable of the next statement.";
    FORMAT_DESCRIPTION = 15, "First event of a file.";
    XID = 16, "Commit.";
    BEGIN_LOAD_QUERY = 17, "Data of LOAD DATA.";
    EXECUTE_LOAD_QUERY = 18, "LOAD DATA as a statement.";
    TABLE_MAP = 19, "A table that row events name by id.";
    PRE_GA_WRITE_ROWS = 20, "Rows of 5.1 pre-releases.";
    PRE_GA_UPDATE_ROWS = 21, "Rows of 5.1 pre-releases.";
    PRE_GA_DELETE_ROWS = 22, "Rows of 5.1 pre-releases.";
    WRITE_ROWS_V1 = 23, "Inserted rows.";
    UPDATE_ROWS_V1 = 24, "Updated rows.";
    DELETE_ROWS_V1 = 25, "Deleted rows.";
    INCIDENT = 26, "The log may lack events.";
    HEARTBEAT = 27, "Sign of life with the low 32 bits of the position.";
    IGNORABLE = 28, "To be skipped.";
    ROWS_QUERY = 29, "The statement that made the rows.";
    WRITE_ROWS = 30, "Inserted rows.";
    UPDATE_ROWS = 31, "Updated rows.";
    DELETE_ROWS = 32, "Deleted rows.";
    GTID = 33, "Start of a transaction.";
    ANONYMOUS_GTID = 34, "Start of a transaction without GTID.";
    PREVIOUS_GTIDS = 35, "GTIDs of all earlier files.";
    TRANSACTION_CONTEXT = 36, "Group replication.";
    VIEW_CHANGE = 37, "Group replication.";
    XA_PREPARE = 38, "End of a prepared XA transaction.";
    PARTIAL_UPDATE_ROWS = 39, "Updated rows with JSON differences.";
    TRANSACTION_PAYLOAD = 40, "A compressed transaction.";
    HEARTBEAT_V2 = 41, "Sign of life with the whole position.";
    GTID_TAGGED = 42, "Start of a transaction, with a tag.";
    AURORA_99 = 99, "Amazon Aurora's own.";
    AURORA_PADDING = 100, "Amazon Aurora: padding.";
    ANNOTATE_ROWS = 160, "MariaDB: the statement that made the rows.";
    BINLOG_CHECKPOINT = 161, "MariaDB: oldest file needed for recovery.";
    MARIADB_GTID = 162, "MariaDB: start of a transaction.";
    GTID_LIST = 163, "MariaDB: GTIDs of all earlier files.";
    START_ENCRYPTION = 164, "MariaDB: the rest of the file is encrypted.";
    QUERY_COMPRESSED = 165, "MariaDB: a compressed statement.";
    WRITE_ROWS_COMPRESSED_V1 = 166, "MariaDB: compressed rows.";
    UPDATE_ROWS_COMPRESSED_V1 = 167, "MariaDB: compressed rows.";
    DELETE_ROWS_COMPRESSED_V1 = 168, "MariaDB: compressed rows.";
    WRITE_ROWS_COMPRESSED = 169, "MariaDB: compressed rows.";
    UPDATE_ROWS_COMPRESSED = 170, "MariaDB: compressed rows.";
    DELETE_ROWS_COMPRESSED = 171, "MariaDB: compressed rows.";
    PARTIAL_ROW_DATA = 172, "MariaDB: a part of a large row event.";
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
