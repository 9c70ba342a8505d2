use core::fmt;
use core::time::Duration;

use crate::codec::ParseError;

/// What went wrong on a MySQL connection.
///
/// Opaque: callers branch on the predicates. Texts name what was being done and what to do about it; they never carry
/// a password, and control bytes of the server's texts are escaped.
pub struct Error(Box<Kind>);

/// An ERR packet (`page_protocol_basic_err_packet`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerError {
    /// The server's error number, such as 1045.
    pub code: u16,
    /// Five characters; `HY000` where the server sent none (before login).
    pub sqlstate: [u8; 5],
    /// The server's text, control bytes escaped.
    pub message: String,
}

impl ServerError {
    /// SQLSTATE as text.
    #[must_use]
    pub fn sqlstate(&self) -> &str {
        core::str::from_utf8(&self.sqlstate).unwrap_or("HY000")
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server error {} ({}): {}", self.code, self.sqlstate(), self.message)
    }
}

impl core::error::Error for ServerError {}

/// Blame: who is at fault is the variant.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The server answered with an ERR packet.
    Server { during: &'static str, error: ServerError },
    /// The server sent bytes that do not parse.
    Malformed { during: &'static str, source: ParseError },
    /// The server sent a packet that has no place here.
    Unexpected { during: &'static str, what: &'static str },
    /// The server asked for a local file and was given nothing.
    LocalFile { name: String },
    /// Frames came out of order.
    OutOfOrder { expected: u8, got: u8 },
    /// Something is larger than its limit.
    Limit { what: &'static str, limit: usize },
    /// An authentication step that cannot or may not be taken.
    Auth { what: &'static str, plugin: Option<String> },
    /// TLS was asked for and cannot be had.
    #[cfg_attr(not(feature = "client"), allow(dead_code, reason = "only the driver has a TLS stack that can fail"))]
    Tls { what: &'static str, source: Option<Box<dyn core::error::Error + Send + Sync>> },
    /// The network.
    #[cfg_attr(not(feature = "client"), allow(dead_code, reason = "only the driver has sockets"))]
    Transport { during: &'static str, target: Option<String>, source: std::io::Error },
    /// Nothing came in time.
    #[cfg_attr(not(feature = "client"), allow(dead_code, reason = "only the driver has a clock"))]
    Timeout { during: &'static str, after: Duration },
    /// The caller asked for something that cannot be.
    Usage(&'static str),
    /// An earlier error or a cancelled write left the connection in an unknown state.
    #[cfg_attr(not(feature = "client"), allow(dead_code, reason = "only the driver keeps a connection"))]
    Broken,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    #[cold]
    pub(crate) fn malformed(during: &'static str, source: ParseError) -> Self {
        Self::new(Kind::Malformed { during, source })
    }

    #[cold]
    pub(crate) fn unexpected(during: &'static str, what: &'static str) -> Self {
        Self::new(Kind::Unexpected { during, what })
    }

    #[cold]
    pub(crate) fn auth(what: &'static str, plugin: Option<&[u8]>) -> Self {
        Self::new(Kind::Auth { what, plugin: plugin.map(|p| escape(p, 64)) })
    }

    #[cold]
    pub(crate) fn server(during: &'static str, error: ServerError) -> Self {
        Self::new(Kind::Server { during, error })
    }

    /// The same error, said to have happened during something else.
    #[cfg(feature = "client")]
    #[cold]
    pub(crate) fn while_doing(mut self, what: &'static str) -> Self {
        if let Kind::Server { during, .. } = &mut *self.0 {
            *during = what;
        }
        self
    }

    #[cold]
    pub(crate) fn usage(what: &'static str) -> Self {
        Self::new(Kind::Usage(what))
    }

    /// The ERR packet, if that is what this is.
    #[must_use]
    pub fn server_error(&self) -> Option<&ServerError> {
        match &*self.0 {
            Kind::Server { error, .. } => Some(error),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.server_error().map(|e| e.code)
    }

    /// The login was refused, or no permitted way to log in is left. Trying again does not help.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        match &*self.0 {
            Kind::Auth { .. } => true,
            Kind::Server { during: CONNECT | LOGIN, error } => {
                matches!(error.code, 1045 | 1130 | 1251 | 1275 | 1524 | 1698 | 1820 | 1862 | 3118 | 3955 | 4151)
            }
            _ => false,
        }
    }

    /// The session lacks a privilege for what it asked. The server's text may name it; for a dump, which is refused with
    /// the text of a failed login, it is REPLICATION SLAVE.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        !self.is_auth() && matches!(self.code(), Some(1044 | 1045 | 1142 | 1143 | 1227 | 1370))
    }

    /// The network failed, closed or stayed silent: a new connection may work.
    #[must_use]
    pub fn is_transport(&self) -> bool {
        matches!(&*self.0, Kind::Transport { .. } | Kind::Timeout { .. })
    }

    /// No connection could be made at all (refused, unreachable, unknown host, no answer in time).
    #[must_use]
    pub fn is_connect(&self) -> bool {
        matches!(
            &*self.0,
            Kind::Transport { during: CONNECT, .. } | Kind::Timeout { during: CONNECT | CONNECT_ALL, .. }
        )
    }

    /// TLS was asked for and the server has none, or its certificate was refused. Never answered by plain text.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(&*self.0, Kind::Tls { .. })
    }

    /// Another client replicates with the same server id or replica uuid; the server ended this dump for it. Each of them
    /// needs an id and a uuid of its own, or they end each other's dumps for ever: back off.
    #[must_use]
    pub fn is_duplicate_replica(&self) -> bool {
        // "… with the same server_uuid/server_id as this replica has connected …"; newer MariaDBs: "… with the same
        // server_id is already connected".
        const SAME_ID: &str = "with the same server_";
        self.dump_error(|m| m.contains(SAME_ID))
            // ER_SLAVE_SAME_ID of MariaDB; the number is another error of MySQL.
            || self.server_error().is_some_and(|e| e.code == 4052 && e.message.contains(SAME_ID))
    }

    /// The server no longer has, or never had, what the dump asked for: [`is_purged`](Self::is_purged),
    /// [`is_bad_position`](Self::is_bad_position) or [`is_diverged`](Self::is_diverged). Only a new snapshot or another
    /// position helps.
    #[must_use]
    pub fn is_position_lost(&self) -> bool {
        self.is_purged() || self.is_bad_position() || self.is_diverged()
    }

    /// The log that the dump asked for, or transactions that it lacks, are no longer there: purged, or a file that never
    /// was.
    #[must_use]
    pub fn is_purged(&self) -> bool {
        // ER_MASTER_HAS_PURGED_REQUIRED_GTIDS.
        self.code() == Some(1789)
            || self.dump_error(says(&[
                "purged",
                "Could not find first log file name",
                "Could not open log file",
                "could not find next log",
            ]))
    }

    /// The position is outside its file, or no event begins there.
    #[must_use]
    pub fn is_bad_position(&self) -> bool {
        self.dump_error(says(&[
            "impossible position",
            "position > file size",
            "position < 4",
            "bogus data in log event",
            "binlog truncated in the middle of event",
            // What the bytes inside an event look like when they are read as a header. A dump takes events of up
            // to 1 GiB whatever max_allowed_packet says.
            "log event entry exceeded max_allowed_packet",
        ]))
    }

    /// The replica has transactions that the server lacks: the server lost the end of its log, is another one, or was
    /// reset.
    #[must_use]
    pub fn is_diverged(&self) -> bool {
        self.dump_error(says(&[
            "more GTIDs than",
            // MariaDB.
            "which is not in the master's binlog",
            "The binlog on the master is missing the GTID",
        ]))
    }

    /// The log has checksums, and the replica did not declare that it reads them.
    #[must_use]
    pub fn is_checksum_undeclared(&self) -> bool {
        self.dump_error(says(&["can not handle replication events with the checksum"]))
    }

    /// 1236 is one number for many causes; they differ by text alone. Behind the cause the text names files, which are
    /// not to be taken for one.
    fn dump_error(&self, text: impl Fn(&str) -> bool) -> bool {
        let cause = |message: &str| text(message.split("; the first event '").next().unwrap_or_default());
        self.server_error().is_some_and(|e| e.code == 1236 && cause(&e.message))
    }

    /// The server asked for a file of this machine. It was given nothing, which it takes for an empty file. No honest server
    /// asks, since the capability is never agreed on.
    #[must_use]
    pub fn is_file_request(&self) -> bool {
        matches!(&*self.0, Kind::LocalFile { .. })
    }

    /// Connecting again later may succeed: the network, a server that is full, going down or starting, a killed
    /// session, a duplicate replica (back off for that one).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.is_transport()
            || self.is_duplicate_replica()
            || matches!(
                self.code(),
                Some(
                    1040 | 1053 | 1077 | 1079 | 1152 | 1158
                        ..=1161 | 1184 | 1203 | 1226 | 1317 | 1927 | 3032 | 3168 | 3169 | 4031
                )
            )
    }

    /// Whether the connection can still be used: true for errors that the server reported in good order and for
    /// misuse that was noticed before anything was sent.
    #[must_use]
    pub fn is_connection_usable(&self) -> bool {
        match &*self.0 {
            Kind::Server { error, .. } => {
                !(matches!(error.code, 1053 | 1152..=1161 | 1236 | 1927 | 3169 | 4031) || self.is_duplicate_replica())
            }
            Kind::Usage(_) | Kind::LocalFile { .. } => true,
            _ => false,
        }
    }
}

/// Whether a text has one of these in it.
fn says(texts: &'static [&'static str]) -> impl Fn(&str) -> bool {
    |message| texts.iter().any(|text| message.contains(text))
}

/// `during` of the errors that [`Error::is_connect`] reports.
pub(crate) const CONNECT: &str = "connecting";
/// `during` of a refused login, which [`Error::is_auth`] reports.
pub(crate) const LOGIN: &str = "logging in";
/// `during` of a connect timeout, which covers the socket, TLS and the login.
pub(crate) const CONNECT_ALL: &str = "connecting and logging in";

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Server { during, error } if self.is_duplicate_replica() => {
                write!(f, "{during}: {error}; give every replica a server id and a UUID of its own")
            }
            Kind::Server { during, error } => write!(f, "{during}: {error}"),
            Kind::Malformed { during, source } => write!(f, "{during}: the server sent a malformed packet: {source}"),
            Kind::Unexpected { during, what } => write!(f, "{during}: the server sent {what}"),
            Kind::LocalFile { name } => {
                write!(f, "the server asked for the local file \"{name}\" and was given nothing")
            }
            Kind::OutOfOrder { expected, got } => {
                write!(f, "packets out of order: sequence id {got} where {expected} was due")
            }
            Kind::Limit { what, limit } => write!(f, "{what} is over its limit of {limit} bytes"),
            Kind::Auth { what, plugin: Some(plugin) } => write!(f, "logging in with {plugin}: {what}"),
            Kind::Auth { what, plugin: None } => write!(f, "logging in: {what}"),
            Kind::Tls { what, source: Some(source) } => write!(f, "TLS: {what}: {source}"),
            Kind::Tls { what, source: None } => write!(f, "TLS: {what}"),
            Kind::Transport { during, target: Some(target), source } => write!(f, "{during} {target}: {source}"),
            Kind::Transport { during, target: None, source } => write!(f, "{during}: {source}"),
            Kind::Timeout { during, after } => {
                write!(f, "{during}: nothing came for {}.{:03} s", after.as_secs(), after.subsec_millis())
            }
            Kind::Usage(what) => f.write_str(what),
            Kind::Broken => f.write_str("the connection broke earlier or a command was cancelled: open a new one"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &*self.0 {
            Kind::Server { error, .. } => Some(error),
            Kind::Malformed { source, .. } => Some(source),
            Kind::Transport { source, .. } => Some(source),
            Kind::Tls { source: Some(source), .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<ParseError> for Error {
    fn from(source: ParseError) -> Self {
        Self::malformed("reading a row", source)
    }
}

/// Text of a peer made safe for logs: lossy UTF-8, control characters escaped, at most about `max` bytes.
pub(crate) fn escape(bytes: &[u8], max: usize) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        if out.len() >= max {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16, message: &str) -> Error {
        Error::server("opening a dump", ServerError { code, sqlstate: *b"HY000", message: message.into() })
    }

    /// Conformance: D4, D8
    #[test]
    fn texts_of_1236_are_told_apart() {
        const BEHIND: &str =
            "; the first event 'purged.000038' at 5000, the last event read from 'purged.000038' at 5000";
        // Texts as servers sent them (recordings, live tests) or as their sources have them.
        for (kind, text) in [
            ("purged", "Could not find first log file name in binary log index file"),
            ("purged", "Cannot replicate because the source purged required binary logs. Replicate the missing …"),
            ("purged", "could not find next log"),
            (
                "purged",
                "The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the master has purged \
                 binary logs containing GTIDs that the slave requires.",
            ),
            (
                "purged",
                "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old \
                 and required binlog files have been purged.",
            ),
            ("position", "Client requested source to start replication from position > file size"),
            ("position", "Client requested master to start replication from impossible position"),
            ("position", "Client requested source to start replication from position < 4"),
            ("position", "bogus data in log event"),
            ("position", "binlog truncated in the middle of event; consider out of disk space on master"),
            ("position", "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source"),
            ("diverged", "Replica has more GTIDs than the source has, using the source's SERVER_UUID. …"),
            ("diverged", "Slave has more GTIDs than the master has, using the master's SERVER_UUID. …"),
            (
                "diverged",
                "Error: connecting slave requested to start from GTID 0-1-99, which is not in the master's binlog",
            ),
            (
                "diverged",
                "The binlog on the master is missing the GTID 0-1-7 requested by the slave (even though both a prior \
                 and a subsequent sequence number does exist), and GTID strict mode is enabled",
            ),
            ("duplicate", "A replica with the same server_uuid/server_id as this replica has connected to the source"),
            ("duplicate", "A slave with the same server_uuid/server_id as this slave has connected to the master"),
            (
                "checksum",
                "Replica can not handle replication events with the checksum that source is configured to log",
            ),
            ("checksum", "Slave can not handle replication events with the checksum that master is configured to log"),
            ("other", "event read from binlog did not pass crc check"),
            ("other", "Binary log is not open"),
        ] {
            for text in [text.to_owned(), format!("{text}{BEHIND}")] {
                let e = server(1236, &text);
                let is = |k: &str| kind == k;
                assert_eq!(e.is_purged(), is("purged"), "{text}");
                assert_eq!(e.is_bad_position(), is("position"), "{text}");
                assert_eq!(e.is_diverged(), is("diverged"), "{text}");
                assert_eq!(e.is_checksum_undeclared(), is("checksum"), "{text}");
                assert_eq!(e.is_duplicate_replica(), is("duplicate"), "{text}");
                assert_eq!(e.is_position_lost(), is("purged") || is("position") || is("diverged"), "{text}");
                assert_eq!(e.is_retryable(), is("duplicate"), "{text}");
                assert!(!e.is_connection_usable());
                assert_eq!(e.to_string().contains("of its own"), is("duplicate"), "{e}");
            }
        }
        assert!(!server(1064, "purged").is_position_lost());
        for same in [
            "A slave with the same server_uuid/server_id as this slave has connected to the master",
            "A slave with the same server_id is already connected; the first event '.' at 4, …",
        ] {
            let e = server(4052, same);
            assert!(e.is_duplicate_replica() && e.is_retryable() && !e.is_connection_usable(), "{e}");
        }
        assert!(!server(4052, "another error").is_duplicate_replica());
    }

    #[test]
    fn predicates_follow_the_code() {
        let denied = ServerError { code: 1045, sqlstate: *b"28000", message: "Access denied".into() };
        let login = Error::server(LOGIN, denied);
        assert!(login.is_auth() && !login.is_access_denied());
        // A dump without the privilege is refused by the same number.
        assert!(!server(1045, "Access denied").is_auth() && server(1045, "Access denied").is_access_denied());
        assert!(server(1227, "Access denied; you need REPLICATION SLAVE").is_access_denied());
        assert!(server(1040, "Too many connections").is_retryable());
        assert!(!server(1064, "syntax").is_retryable());
        assert!(server(1064, "syntax").is_connection_usable());
        assert_eq!(server(1064, "syntax").to_string(), "opening a dump: server error 1064 (HY000): syntax");
    }

    /// Whoever embeds the crate sends errors between threads and boxes them.
    #[test]
    fn errors_are_one_word_and_cross_threads() {
        const fn crosses<E: core::error::Error + Send + Sync + 'static>() {}
        crosses::<Error>();
        crosses::<ServerError>();
        crosses::<ParseError>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn control_bytes_do_not_reach_a_log() {
        assert_eq!(escape(b"a\n\x1b[31mred\xff", 100), "a\\n\\u{1b}[31mred\u{fffd}");
        assert_eq!(escape(b"abcdef", 3), "abc…");
    }
}
