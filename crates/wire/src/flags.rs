//! Capability, status and column flags (`group__group__cs__capabilities__flags`, `mysql_com.h`).

use bitflags::bitflags;

bitflags! {
    /// What both sides of a session may use. Unknown bits are kept and never sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CapabilityFlags: u32 {
        /// Always set by clients of MySQL; MariaDB servers clear it.
        const LONG_PASSWORD = 1;
        /// UPDATE reports matched instead of changed rows.
        const FOUND_ROWS = 1 << 1;
        /// Column flags have two bytes.
        const LONG_FLAG = 1 << 2;
        /// The login packet names a database.
        const CONNECT_WITH_DB = 1 << 3;
        /// Compressed protocol with zlib.
        const COMPRESS = 1 << 5;
        /// The client would read local files. Never set by this crate.
        const LOCAL_FILES = 1 << 7;
        /// The protocol since 4.1, the only one spoken here.
        const PROTOCOL_41 = 1 << 9;
        /// The connection changes to TLS after the greeting.
        const SSL = 1 << 11;
        /// OK and EOF packets carry status flags.
        const TRANSACTIONS = 1 << 13;
        /// Authentication since 4.1.
        const SECURE_CONNECTION = 1 << 15;
        /// Several statements in one COM_QUERY. Never set by this crate.
        const MULTI_STATEMENTS = 1 << 16;
        /// Several result sets from one COM_QUERY (CALL).
        const MULTI_RESULTS = 1 << 17;
        /// Several result sets from one COM_STMT_EXECUTE.
        const PS_MULTI_RESULTS = 1 << 18;
        /// Authentication plugins are named.
        const PLUGIN_AUTH = 1 << 19;
        /// The login packet carries attributes.
        const CONNECT_ATTRS = 1 << 20;
        /// The authentication answer has a length-encoded length.
        const PLUGIN_AUTH_LENENC = 1 << 21;
        /// OK packets carry session changes.
        const SESSION_TRACK = 1 << 23;
        /// Result sets end with an OK packet instead of EOF.
        const DEPRECATE_EOF = 1 << 24;
        /// Compressed protocol with zstd.
        const ZSTD_COMPRESSION = 1 << 26;
        /// COM_QUERY carries attributes. Never set by this crate: it changes the command's layout.
        const QUERY_ATTRIBUTES = 1 << 27;
        /// More than one authentication factor.
        const MULTI_FACTOR_AUTHENTICATION = 1 << 28;
        const _ = !0;
    }
}

bitflags! {
    /// The server's state after a command (`SERVER_STATUS_flags_enum`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct StatusFlags: u16 {
        /// A transaction is open.
        const IN_TRANS = 1;
        /// Autocommit is on.
        const AUTOCOMMIT = 2;
        /// Another result set follows.
        const MORE_RESULTS = 8;
        /// A cursor was opened.
        const CURSOR_EXISTS = 64;
        /// The cursor has no more rows.
        const LAST_ROW_SENT = 128;
        /// The rows are the OUT and INOUT parameters of a prepared CALL.
        const PS_OUT_PARAMS = 1 << 12;
        /// The OK packet carries session changes.
        const SESSION_STATE_CHANGED = 1 << 14;
        const _ = !0;
    }
}

bitflags! {
    /// Properties of a result column (`group__group__cs__column__definition__flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct ColumnFlags: u16 {
        /// NOT NULL.
        const NOT_NULL = 1;
        /// Part of the primary key.
        const PRI_KEY = 2;
        /// BLOB or TEXT.
        const BLOB = 16;
        /// UNSIGNED.
        const UNSIGNED = 32;
        /// ZEROFILL.
        const ZEROFILL = 64;
        /// Binary collation.
        const BINARY = 128;
        /// ENUM.
        const ENUM = 256;
        /// AUTO_INCREMENT.
        const AUTO_INCREMENT = 512;
        /// SET.
        const SET = 2048;
        const _ = !0;
    }
}
