use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use super::maria::gtids;
use super::{GtidTextError, MariaGtid};

/// A place in MariaDB's streams of transactions: the last GTID of each domain (`gtid_slave_pos`, `gtid_binlog_pos`,
/// `gtid_current_pos`, `@slave_connect_state`).
///
/// It stands for all transactions of a domain up to that one: within a domain sequences rise, whichever server a
/// transaction comes from (`gtid_strict_mode` refuses others; [`is_followed_by`](Self::is_followed_by) tells). A domain
/// that is missing was not read at all: a dump begins at its first transaction.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MariaGtidPos {
    domains: BTreeMap<u32, MariaGtid>,
}

impl MariaGtidPos {
    /// The place before everything.
    #[must_use]
    pub const fn new() -> Self {
        Self { domains: BTreeMap::new() }
    }

    /// Whether this is the place before everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// The last GTID of each domain, by domain.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = MariaGtid> + '_ {
        self.domains.values().copied()
    }

    /// The last GTID of a domain.
    #[must_use]
    pub fn domain(&self, domain: u32) -> Option<MariaGtid> {
        self.domains.get(&domain).copied()
    }

    /// Takes a transaction whose end was reached as the last of its domain, as a replica does, also if its sequence is
    /// not above the one before, which is returned.
    pub fn advance(&mut self, gtid: MariaGtid) -> Option<MariaGtid> {
        self.domains.insert(gtid.domain, gtid)
    }

    /// Whether a transaction may come next under `gtid_strict_mode`: its sequence is above the last of its domain.
    #[must_use]
    pub fn is_followed_by(&self, gtid: MariaGtid) -> bool {
        !self.contains(gtid)
    }

    /// Whether the place is at or behind a transaction: what comes again after a reconnect.
    #[must_use]
    pub fn contains(&self, gtid: MariaGtid) -> bool {
        self.domain(gtid.domain).is_some_and(|last| gtid.sequence <= last.sequence)
    }

    /// Whether the place is at or behind `other` in every domain.
    #[must_use]
    pub fn is_superset(&self, other: &Self) -> bool {
        other.iter().all(|gtid| self.contains(gtid))
    }

    /// The later of both places in every domain. At the same sequence this one's server stays.
    pub fn union(&mut self, other: &Self) {
        for gtid in other.iter().filter(|gtid| !self.contains(*gtid)).collect::<Vec<_>>() {
            self.advance(gtid);
        }
    }
}

impl Extend<MariaGtid> for MariaGtidPos {
    fn extend<T: IntoIterator<Item = MariaGtid>>(&mut self, iter: T) {
        iter.into_iter().for_each(|gtid| {
            self.advance(gtid);
        });
    }
}

impl FromIterator<MariaGtid> for MariaGtidPos {
    /// The last of each domain counts.
    fn from_iter<T: IntoIterator<Item = MariaGtid>>(iter: T) -> Self {
        let mut pos = Self::new();
        pos.extend(iter);
        pos
    }
}

impl FromStr for MariaGtidPos {
    type Err = GtidTextError;

    /// Reads `domain-server-sequence,…`. A domain twice is an error, as it is to the server.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut pos = Self::new();
        gtids(text, "one GTID for each domain", |gtid| pos.advance(gtid).is_none())?;
        Ok(pos)
    }
}

impl fmt::Display for MariaGtidPos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_gtids(f, self.iter())
    }
}

/// As the server prints them: commas and no white space.
pub(super) fn write_gtids(f: &mut fmt::Formatter<'_>, gtids: impl Iterator<Item = MariaGtid>) -> fmt::Result {
    for (i, gtid) in gtids.enumerate() {
        f.write_str(if i == 0 { "" } else { "," })?;
        fmt::Display::fmt(&gtid, f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pos(text: &str) -> MariaGtidPos {
        text.parse().unwrap()
    }

    fn gtid(text: &str) -> MariaGtid {
        text.parse().unwrap()
    }

    /// Conformance: D3
    /// Bug: 68
    #[test]
    fn each_domain_goes_its_own_way() {
        let mut p = pos(" 1-7-9, 0-1-5 ");
        assert_eq!(p.to_string(), "0-1-5,1-7-9");
        assert!(p.contains(gtid("0-9-5")) && !p.contains(gtid("0-1-6")) && !p.contains(gtid("2-1-1")));
        assert!(p.is_followed_by(gtid("0-2-6")) && !p.is_followed_by(gtid("0-2-5")));
        assert_eq!(p.advance(gtid("0-2-6")), Some(gtid("0-1-5")));
        assert_eq!(p.advance(gtid("2-2-1")), None);
        // Not in order, and yet where the replica stands.
        p.advance(gtid("1-3-2"));
        assert_eq!((p.to_string(), p.domain(1)), ("0-2-6,1-3-2,2-2-1".into(), Some(gtid("1-3-2"))));
        assert!(MariaGtidPos::new().is_empty() && pos("") == MariaGtidPos::new() && pos(" ").to_string().is_empty());
        for bad in ["0-1-1,0-2-2", "0-1-1,", ",0-1-1", "0-1-1 1-1-1", "0-1"] {
            assert!(bad.parse::<MariaGtidPos>().is_err(), "{bad}");
        }
        let e = "1-1-1,0-1-1,1-2-2".parse::<MariaGtidPos>().unwrap_err();
        assert_eq!(e.to_string(), "not a GTID text at byte 12: expected one GTID for each domain");
    }

    fn some() -> impl Strategy<Value = MariaGtidPos> {
        let gtid = (0u32..4, 1u32..4, 1u64..9);
        proptest::collection::vec(gtid, 0..6).prop_map(|list| {
            list.into_iter().map(|(domain, server, sequence)| MariaGtid { domain, server, sequence }).collect()
        })
    }

    proptest! {
        #[test]
        fn places_are_ordered_domain_by_domain(a in some(), b in some()) {
            let up_to = |p: &MariaGtidPos, domain| p.domain(domain).map_or(0, |gtid| gtid.sequence);
            let covers = |x: &MariaGtidPos, y: &MariaGtidPos| (0..4).all(|d| up_to(x, d) >= up_to(y, d));
            prop_assert_eq!(a.is_superset(&b), covers(&a, &b));
            let mut both = a.clone();
            both.union(&b);
            for domain in 0..4 {
                prop_assert_eq!(up_to(&both, domain), up_to(&a, domain).max(up_to(&b, domain)));
            }
            prop_assert!(both.is_superset(&a) && both.is_superset(&b));
            prop_assert_eq!(&both.to_string().parse::<MariaGtidPos>().unwrap(), &both);
        }
    }
}
