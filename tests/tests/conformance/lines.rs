//! The lines of the conformance matrix: what a client of MySQL and MariaDB must do, and on which servers.

/// One line of the matrix.
pub(crate) struct Line {
    /// W: sessions and queries. D: dumps. E: events. V: values. P: the whole.
    pub(crate) id: &'static str,
    /// What must work.
    pub(crate) requirement: &'static str,
    /// Where the feature exists: MySQL 5.6, 5.7, 8.0, 8.4, 9.x, MariaDB 10.5, 10.11, 11.8; `-` where it does not.
    pub(crate) servers: [&'static str; 8],
}

/// Why something has no test.
pub(crate) struct Reason {
    /// The line's id, or the bug's number.
    pub(crate) id: &'static str,
    /// What a user is told.
    pub(crate) why: &'static str,
}

/// Lines that are not done.
pub(crate) const NOT_DONE: &[Reason] = &[
    Reason {
        id: "W7",
        why: "further factors that need an answer of the client are refused by name (MySQL's own ones are plugins that ask for a \
              device or a directory service)",
    },
    Reason { id: "D6", why: "semi-sync with MySQL 5.6 was not tried live: its package has no such plugin" },
    Reason { id: "E15", why: "encrypted files and PARTIAL_ROW_DATA (172, MariaDB 12.3) are refused by name" },
    Reason { id: "E6", why: "rows events of version 0 (MySQL 5.1.5 and before) are refused by name" },
    Reason {
        id: "P2",
        why: "a schema change of a captured table stops the stream at it, by name: it is not carried over",
    },
];

/// The matrix.
#[rustfmt::skip]
pub(crate) const LINES: &[Line] = &[
    Line { id: "W1", requirement: "greeting, login, error, quit", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W2", requirement: "TLS by SSLRequest, VERIFY_CA without SAN, fingerprint OK info", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W3", requirement: "native password", servers: ["x", "x", "x", "(off)", "-", "x", "x", "x"] },
    Line { id: "W4", requirement: "sha256_password RSA and TLS", servers: ["x", "x", "x", "x", "x", "-", "-", "-"] },
    Line { id: "W5", requirement: "caching_sha2 fast, full RSA, full TLS, wrong scramble", servers: ["-", "-", "x", "x", "x", "-", "-", "(client plugin)"] },
    Line { id: "W6", requirement: "ed25519, parsec (11.6+)", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "W7", requirement: "auth switch, more data, multi-factor", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W8", requirement: "16 MiB splitting both ways", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W9", requirement: "zlib; zstd", servers: ["zlib", "zlib", "both", "both", "both", "zlib", "zlib", "zlib"] },
    Line { id: "W10", requirement: "EOF and DEPRECATE_EOF, OK, session track", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W11", requirement: "text rows of every type", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W12", requirement: "binary rows of every type", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W13", requirement: "LOCAL INFILE refused", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "W14", requirement: "statements per version", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D1", requirement: "dump by file/position, flags, register", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D2", requirement: "dump by GTID, tagged set", servers: ["x", "x", "x", "x", "x", "-", "-", "-"] },
    Line { id: "D3", requirement: "MariaDB slave_connect_state, capability, annotate", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "D4", requirement: "checksum CRC32/NONE/undeclared, fake ROTATE rule", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D5", requirement: "heartbeat v1/v2, timeout", servers: ["v1", "v1", "both", "both", "both", "v1", "v1", "v1"] },
    Line { id: "D6", requirement: "semi-sync framing and ack", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D7", requirement: "non-blocking end EOF", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D8", requirement: "duplicate id/uuid errors, purged, bad position", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "D9", requirement: "positions above 4 GiB, log_pos 0", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E1", requirement: "FDE, ROTATE, STOP, fake events", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E2", requirement: "QUERY with every status variable", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E3", requirement: "GTID / anonymous / tagged / MariaDB", servers: ["33/34", "33/34", "33/34", "+42", "+42", "162", "162", "162"] },
    Line { id: "E4", requirement: "PREVIOUS_GTIDS plain and tagged; GTID_LIST", servers: ["x", "x", "x", "x", "x", "163", "163", "163"] },
    Line { id: "E5", requirement: "TABLE_MAP, 13 TLVs, skip unknown", servers: ["-", "-", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E6", requirement: "rows v0/v1/v2, extra info", servers: ["v2", "v2", "v2", "v2", "v2", "v1", "v1", "v1"] },
    Line { id: "E7", requirement: "images FULL, MINIMAL, NOBLOB", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E8", requirement: "PARTIAL_UPDATE_ROWS applied", servers: ["-", "-", "x", "x", "x", "-", "-", "-"] },
    Line { id: "E9", requirement: "TRANSACTION_PAYLOAD zstd/none", servers: ["-", "-", "x", "x", "x", "-", "-", "-"] },
    Line { id: "E10", requirement: "MariaDB compressed events and columns", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "E11", requirement: "XA_PREPARE, XA across groups", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E12", requirement: "INTVAR, RAND, USER_VAR, LOAD, INCIDENT named and skipped or fatal", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E13", requirement: "ROWS_QUERY / ANNOTATE", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "E14", requirement: "VIEW_CHANGE, TRX_CONTEXT, Aurora 100, IGNORABLE unknown", servers: ["-", "x", "x", "x", "x", "-", "-", "-"] },
    Line { id: "E15", requirement: "START_ENCRYPTION as ignorable, 172", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "E16", requirement: "cascades logged or warned", servers: ["warn", "warn", "warn", "warn", "9.6+: rows (start version unverified)", "warn", "warn", "warn"] },
    Line { id: "V1", requirement: "integers, signedness, BOOL, YEAR", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V2", requirement: "DECIMAL, FLOAT, DOUBLE", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V3", requirement: "DATE/TIME/DATETIME/TIMESTAMP with fsp, zero, negative", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V4", requirement: "old temporal formats", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "V5", requirement: "CHAR/VARCHAR/TEXT in 38 charsets, padding, > 255", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V6", requirement: "BINARY, BLOB, GEOMETRY, BIT", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V7", requirement: "ENUM, SET, invalid values", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "V8", requirement: "JSON (JSONB grammar, opaque, big)", servers: ["-", "x", "x", "x", "x", "text", "text", "text"] },
    Line { id: "V9", requirement: "VECTOR, TYPED_ARRAY skip", servers: ["-", "-", "-", "-", "x", "-", "-", "x"] },
    Line { id: "V10", requirement: "UUID, INET4/6, MariaDB JSON", servers: ["-", "-", "-", "-", "-", "x", "x", "x"] },
    Line { id: "V11", requirement: "hidden, invisible, generated, versioned columns, sequences", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "P1", requirement: "resume only at group ends; mid-group kill", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "P2", requirement: "DDL between snapshot and stream, instant DDL, CTAS, TRUNCATE, RENAME", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
    Line { id: "P3", requirement: "hardening limits of section 4", servers: ["x", "x", "x", "x", "x", "x", "x", "x"] },
];
