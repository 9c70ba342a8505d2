use std::borrow::Cow;

use crate::codec::{ParseError, Reader};

/// What an OK packet says has changed in the session
/// (`page_protocol_basic_ok_packet`, "session state information").
///
/// ```text
/// { u8 kind  lenenc length  data }*     data: texts with a lenenc length each, but for kind 2
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// Parsed once without an error.
    bytes: Vec<u8>,
}

/// One change. Texts are the server's, in the session's character set; bytes that are no UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionChange<'a> {
    /// A variable of `session_track_system_variables` was set.
    SystemVariable {
        /// Its name.
        name: Cow<'a, str>,
        /// Its new value.
        value: Cow<'a, str>,
    },
    /// The default database is now this one (`session_track_schema`).
    Schema(Cow<'a, str>),
    /// Something changed or not: the only thing `session_track_state_change` tells.
    StateChanged(bool),
    /// GTIDs as text (`session_track_gtids`): of this transaction, or all executed ones. MariaDB: `last_gtid` is a
    /// system variable instead.
    Gtids(Cow<'a, str>),
    /// Statements that would begin such a transaction elsewhere (`session_track_transaction_info = CHARACTERISTICS`).
    TransactionCharacteristics(Cow<'a, str>),
    /// How far the transaction is (`session_track_transaction_info`).
    TransactionState(TransactionState),
    /// A kind that this crate does not know.
    Other {
        /// Its number.
        kind: u8,
        /// What was said.
        data: &'a [u8],
    },
}

/// How a transaction came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionStart {
    /// There is none.
    #[default]
    None,
    /// By START TRANSACTION or BEGIN.
    Explicit,
    /// By the first statement without autocommit.
    Implicit,
}

/// What a transaction has done so far: eight characters on the wire, such as `T__R____`
/// (`Transaction_state_tracker` in `sql/session_tracker.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the wire has a character for each")]
pub struct TransactionState {
    /// Whether there is one, and by what.
    pub start: TransactionStart,
    /// Tables without transactions were read.
    pub read_unsafe: bool,
    /// Tables with transactions were read.
    pub read: bool,
    /// Tables without transactions were written.
    pub wrote_unsafe: bool,
    /// Tables with transactions were written.
    pub wrote: bool,
    /// A statement ran whose effect may differ elsewhere.
    pub unsafe_statement: bool,
    /// Rows were sent to the client.
    pub sent_rows: bool,
    /// LOCK TABLES is in force.
    pub locked_tables: bool,
}

impl TransactionState {
    fn parse(text: &[u8]) -> Self {
        let is = |at: usize, letter: u8| text.get(at) == Some(&letter);
        Self {
            start: match text.first() {
                Some(b'T') => TransactionStart::Explicit,
                Some(b'I') => TransactionStart::Implicit,
                _ => TransactionStart::None,
            },
            read_unsafe: is(1, b'r'),
            read: is(2, b'R'),
            wrote_unsafe: is(3, b'w'),
            wrote: is(4, b'W'),
            unsafe_statement: is(5, b's'),
            sent_rows: is(6, b'S'),
            locked_tables: is(7, b'L'),
        }
    }
}

impl SessionChanges {
    /// Takes the block of an OK packet.
    ///
    /// # Errors
    /// A length that goes beyond its bytes.
    pub(super) fn parse(block: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(block);
        while !r.is_empty() {
            entry(&mut r)?;
        }
        Ok(Self { bytes: block.to_vec() })
    }

    /// Whether nothing has changed, as far as it is tracked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The changes, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = SessionChange<'_>> + '_ {
        let mut r = Reader::new(&self.bytes);
        let mut variables = Reader::new(&[]);
        core::iter::from_fn(move || {
            loop {
                // One entry may hold several variables.
                if !variables.is_empty() {
                    return variable(&mut variables).ok();
                }
                if r.is_empty() {
                    return None;
                }
                match entry(&mut r).ok()? {
                    (0, data) => variables = Reader::new(data),
                    (kind, data) => return Some(change(kind, data)),
                }
            }
        })
    }

    /// GTIDs as text, if the server told any.
    #[must_use]
    pub fn gtids(&self) -> Option<Cow<'_, str>> {
        self.iter().find_map(|change| match change {
            SessionChange::Gtids(text) => Some(text),
            _ => None,
        })
    }
}

/// Kind and data of one entry, and that the texts in it end inside it.
fn entry<'a>(r: &mut Reader<'a>) -> Result<(u8, &'a [u8]), ParseError> {
    let kind = r.u8("session change")?;
    let data = r.lenenc_bytes("session change")?;
    let mut inner = Reader::new(data);
    match kind {
        0 => {
            while !inner.is_empty() {
                variable(&mut inner)?;
            }
        }
        1 | 4 | 5 => drop(inner.lenenc_bytes("session change")?),
        3 => {
            inner.skip(1, "encoding of GTIDs")?;
            inner.lenenc_bytes("GTIDs")?;
        }
        _ => {}
    }
    Ok((kind, data))
}

fn variable<'a>(r: &mut Reader<'a>) -> Result<SessionChange<'a>, ParseError> {
    let name = String::from_utf8_lossy(r.lenenc_bytes("variable")?);
    Ok(SessionChange::SystemVariable { name, value: String::from_utf8_lossy(r.lenenc_bytes("value")?) })
}

fn change(kind: u8, data: &[u8]) -> SessionChange<'_> {
    let text = |skip: usize| {
        let mut r = Reader::new(data.get(skip..).unwrap_or_default());
        r.lenenc_bytes("session change").unwrap_or_default()
    };
    let lossy = |skip| String::from_utf8_lossy(text(skip));
    match kind {
        1 => SessionChange::Schema(lossy(0)),
        // One digit, without a length of its own.
        2 => SessionChange::StateChanged(data == b"1"),
        3 => SessionChange::Gtids(lossy(1)),
        4 => SessionChange::TransactionCharacteristics(lossy(0)),
        5 => SessionChange::TransactionState(TransactionState::parse(text(0))),
        kind => SessionChange::Other { kind, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    fn block(entries: &[(u8, &[u8])]) -> Vec<u8> {
        let mut w = Writer::new();
        for (kind, data) in entries {
            w.u8(*kind).lenenc_bytes(data);
        }
        w.into_bytes()
    }

    /// Conformance: W10
    #[test]
    fn every_kind_of_change() {
        let bytes = block(&[
            (0, b"\x0aautocommit\x03OFF"),
            (1, b"\x04shop"),
            (2, b"1"),
            (3, b"\0\x03u:1"),
            (9, b"new"),
            (4, b"\x12START TRANSACTION;"),
            (5, b"\x08T_R_W_S_"),
            // MariaDB puts several variables into one entry.
            (0, b"\x01a\x011\x01b\x012"),
        ]);
        let changes = SessionChanges::parse(&bytes).unwrap();
        let variable = |name: &'static str, value: &'static str| SessionChange::SystemVariable {
            name: name.into(),
            value: value.into(),
        };
        let state = TransactionState {
            start: TransactionStart::Explicit,
            read: true,
            wrote: true,
            sent_rows: true,
            ..TransactionState::default()
        };
        let want = [
            variable("autocommit", "OFF"),
            SessionChange::Schema("shop".into()),
            SessionChange::StateChanged(true),
            SessionChange::Gtids("u:1".into()),
            SessionChange::Other { kind: 9, data: b"new" },
            SessionChange::TransactionCharacteristics("START TRANSACTION;".into()),
            SessionChange::TransactionState(state),
            variable("a", "1"),
            variable("b", "2"),
        ];
        assert_eq!(changes.iter().collect::<Vec<_>>(), want);
        assert_eq!(changes.gtids().as_deref(), Some("u:1"));
        // Every cut is an error or the front of the changes.
        for cut in 0..bytes.len() {
            if let Ok(part) = SessionChanges::parse(&bytes[..cut]) {
                assert!(want.starts_with(&part.iter().collect::<Vec<_>>()), "{cut}");
            }
        }
        assert!(SessionChanges::default().is_empty() && SessionChanges::default().gtids().is_none());
    }

    #[test]
    fn the_eight_letters() {
        assert_eq!(TransactionState::parse(b"________"), TransactionState::default());
        assert_eq!(TransactionState::parse(b"").start, TransactionStart::None);
        let all = TransactionState::parse(b"IrRwWsSL");
        assert_eq!(all.start, TransactionStart::Implicit);
        assert!(all.read_unsafe && all.read && all.wrote_unsafe && all.wrote);
        assert!(all.unsafe_statement && all.sent_rows && all.locked_tables);
    }

    #[test]
    fn texts_that_leave_their_entry_are_refused() {
        for bytes in [&b"\x01\x02\x05ab"[..], b"\x00\x02\x01a", b"\x03\x01\x00", b"\x01\xff", b"\x01"] {
            assert!(SessionChanges::parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
