use crate::codec::{ParseError, ParseErrorKind};
use crate::flags::CapabilityFlags;
use crate::packet::MAX_FRAME;

/// What the client is waiting for: the same first byte means different things at different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// An answer during the login.
    Login,
    /// OK or ERR: ping, SET, register.
    Simple,
    /// First packet after COM_QUERY or COM_STMT_EXECUTE.
    Query,
    /// First packet after COM_STMT_PREPARE.
    Prepare,
    /// A column definition, or the EOF after the last.
    Column,
    /// A row of the text protocol, or the end.
    TextRow,
    /// A row of the binary protocol, or the end.
    BinaryRow,
    /// An event of a dump, or the end.
    Dump,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// `OkPacket`; also the end of rows under DEPRECATE_EOF.
    Ok,
    /// `ErrPacket`.
    Err,
    /// `EofPacket`.
    Eof,
    /// AuthSwitchRequest.
    AuthSwitch,
    /// The one-byte request for the password hash of 4.0.
    OldAuthSwitch,
    /// AuthMoreData.
    AuthMore,
    /// AuthNextFactor.
    AuthNextFactor,
    /// The server asks for a local file.
    LocalInfile,
    /// What the phase is about: a column count, a prepare answer, a column definition, a row, an event.
    Data,
}

/// The one place that decides what a packet is, from its first byte, its length, the capabilities and the phase.
///
/// 0xfe is the hard one: it starts an EOF (fewer than 9 bytes), an OK that ends rows (DEPRECATE_EOF, less than one full
/// frame), an AuthSwitchRequest, or a row whose first column has 16 MiB or more. 0xff is ERR in every phase, because no
/// length-encoded integer starts with it.
///
/// # Errors
/// An empty packet, or a first byte that has no place in the phase.
pub fn classify(payload: &[u8], capabilities: CapabilityFlags, phase: Phase) -> Result<Reply, ParseError> {
    let Some(first) = payload.first().copied() else {
        return Err(ParseError::new("first byte", ParseErrorKind::Short { need: 1 }, 0));
    };
    let short = payload.len() < 9;
    let deprecate_eof = capabilities.contains(CapabilityFlags::DEPRECATE_EOF);
    Ok(match (phase, first) {
        (_, 0xff) => Reply::Err,
        (Phase::Login | Phase::Simple | Phase::Query, 0) => Reply::Ok,
        (Phase::Login, 1) => Reply::AuthMore,
        (Phase::Login, 2) => Reply::AuthNextFactor,
        (Phase::Login, 0xfe) if payload.len() == 1 => Reply::OldAuthSwitch,
        (Phase::Login, 0xfe) => Reply::AuthSwitch,
        (Phase::Simple, 0xfe) if short => Reply::Eof,
        (Phase::Query, 0xfb) => Reply::LocalInfile,
        (Phase::Query, 1..=0xfa | 0xfc | 0xfd) => Reply::Data,
        (Phase::Prepare, 0) => Reply::Data,
        (Phase::Column, 0xfe) if short => Reply::Eof,
        (Phase::Column, _) => Reply::Data,
        (Phase::TextRow | Phase::BinaryRow, 0xfe) if deprecate_eof && payload.len() < MAX_FRAME => Reply::Ok,
        (Phase::TextRow | Phase::BinaryRow, 0xfe) if !deprecate_eof && short => Reply::Eof,
        (Phase::TextRow, _) | (Phase::BinaryRow | Phase::Dump, 0) => Reply::Data,
        // The end of a dump is the classic EOF whatever was agreed.
        (Phase::Dump, 0xfe) if short => Reply::Eof,
        _ => return Err(ParseError::new("first byte", ParseErrorKind::BadTag(first), payload.len())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: W10
    #[test]
    fn the_first_byte_alone_decides_nothing() {
        let (new, old) = (CapabilityFlags::DEPRECATE_EOF, CapabilityFlags::empty());
        let long = vec![0xfe; 9];
        let huge = vec![0xfe; MAX_FRAME];
        for (payload, caps, phase, want) in [
            (&[0u8, 0][..], new, Phase::Query, Reply::Ok),
            (&[0, 0], new, Phase::TextRow, Reply::Data),
            (&[0, 0], new, Phase::BinaryRow, Reply::Data),
            (&[0, 0], new, Phase::Dump, Reply::Data),
            (&[0, 0], new, Phase::Prepare, Reply::Data),
            (&[0xfe, 0, 0, 2, 0], old, Phase::TextRow, Reply::Eof),
            (&[0xfe, 0, 0, 2, 0], old, Phase::Column, Reply::Eof),
            (&[0xfe, 0, 0, 2, 0], new, Phase::Dump, Reply::Eof),
            (&[0xfe, 0, 0, 2, 0, 0, 0], new, Phase::TextRow, Reply::Ok),
            (&[0xfe], new, Phase::Login, Reply::OldAuthSwitch),
            (&[0xfe, b'x', 0], new, Phase::Login, Reply::AuthSwitch),
            (&long, new, Phase::TextRow, Reply::Ok),
            (&long, old, Phase::TextRow, Reply::Data),
            (&huge, new, Phase::TextRow, Reply::Data),
            (&huge, old, Phase::TextRow, Reply::Data),
            (&[0xfb], new, Phase::TextRow, Reply::Data),
            (&[0xfb, b'f'], new, Phase::Query, Reply::LocalInfile),
            (&[0xff, 0x15, 0x04], new, Phase::TextRow, Reply::Err),
            (&[0xff, 0x15, 0x04], new, Phase::Dump, Reply::Err),
        ] {
            assert_eq!(
                classify(payload, caps, phase).unwrap(),
                want,
                "{:02x?} {phase:?}",
                &payload[..payload.len().min(9)]
            );
        }
        assert!(classify(&[], new, Phase::TextRow).is_err());
        assert!(classify(&[7], new, Phase::BinaryRow).is_err());
        assert!(classify(&[7], new, Phase::Dump).is_err());
        assert!(classify(&long, new, Phase::Dump).is_err());
        assert!(classify(&[7], new, Phase::Login).is_err());
    }
}
