use core::fmt;
use core::str::FromStr;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};
use nom::character::complete::{u32 as digits32, u64 as digits64};
use nom::combinator::{opt, verify};
use nom::sequence::terminated;

use super::GtidTextError;
use super::text::{run, symbol, whole};

/// One MariaDB transaction's identity (`rpl_gtid`): `domain-server-sequence`, e.g. `0-1-42`.
///
/// Sequence numbers rise within a domain, whichever server the transaction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MariaGtid {
    /// Replication domain: an order of transactions of its own.
    pub domain: u32,
    /// The server on which the transaction was first logged (`server_id`).
    pub server: u32,
    /// Number, at least 1.
    pub sequence: u64,
}

impl fmt::Display for MariaGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl FromStr for MariaGtid {
    type Err = GtidTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        whole(text, gtid)
    }
}

fn gtid(r: &mut Reader<'_>) -> Result<MariaGtid, ParseError> {
    let domain = r.parse("a domain and a dash", run(terminated(digits32, symbol("-"))))?;
    let server = r.parse("a server id and a dash", run(terminated(digits32, symbol("-"))))?;
    let sequence = r.parse("a number from 1", run(verify(digits64, |n| *n > 0)))?;
    Ok(MariaGtid { domain, server, sequence })
}

/// GTIDs between commas, or none. `add` says whether one may stand here.
pub(super) fn gtids(
    text: &str,
    what: &'static str,
    mut add: impl FnMut(MariaGtid) -> bool,
) -> Result<(), GtidTextError> {
    whole(text, |r| {
        if r.is_empty() {
            return Ok(());
        }
        loop {
            let left = r.left();
            if !add(gtid(r)?) {
                return Err(ParseError::new(what, ParseErrorKind::BadLength, left));
            }
            if r.parse("a comma", run(opt(symbol(","))))?.is_none() {
                return Ok(());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gtid_prints_as_it_is_read_and_bad_ones_are_refused() {
        for text in ["0-1-1", "4294967295-4294967295-18446744073709551615"] {
            assert_eq!(text.parse::<MariaGtid>().unwrap().to_string(), text);
        }
        assert_eq!(" 7 - 1 - 2\n".parse::<MariaGtid>().unwrap().to_string(), "7-1-2");
        for text in
            ["", "0-1", "0-1-0", "0-1-2-3", "4294967296-1-1", "0-1-18446744073709551616", "-1-1-1", "0-1-1,1-1-1"]
        {
            assert!(text.parse::<MariaGtid>().is_err(), "{text}");
        }
    }
}
