use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use super::maria::gtids;
use super::maria_pos::write_gtids;
use super::{GtidTextError, MariaGtid, MariaGtidPos};

/// What a MariaDB's binlog holds: the last GTID of each domain and server, and which of them came last in its domain
/// (`gtid_binlog_state`, and GTID_LIST at the head of each file).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MariaGtidList {
    domains: BTreeMap<u32, Domain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Domain {
    last: MariaGtid,
    /// Sequence by server id, with the last one's.
    servers: BTreeMap<u32, u64>,
}

impl MariaGtidList {
    /// The state of an empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { domains: BTreeMap::new() }
    }

    /// Whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// The last GTID of each domain and server; in each domain, the one that came last is at the end.
    pub fn iter(&self) -> impl Iterator<Item = MariaGtid> + '_ {
        self.domains.iter().flat_map(|(&domain, state)| {
            let gtid = move |(&server, &sequence)| MariaGtid { domain, server, sequence };
            let others = state.servers.iter().filter(|&(&server, _)| server != state.last.server).map(gtid);
            others.chain([state.last])
        })
    }

    /// Adds a transaction to the log: it is then the last of its domain and of its server.
    pub fn insert(&mut self, gtid: MariaGtid) {
        let state = self.domains.entry(gtid.domain).or_insert_with(|| Domain { last: gtid, servers: BTreeMap::new() });
        state.last = gtid;
        state.servers.insert(gtid.server, gtid.sequence);
    }

    /// The last sequence of a server in a domain.
    #[must_use]
    pub fn last_of(&self, domain: u32, server: u32) -> Option<u64> {
        self.domains.get(&domain)?.servers.get(&server).copied()
    }

    /// Whether the log has a transaction in its past, by its server's sequences.
    #[must_use]
    pub fn contains(&self, gtid: MariaGtid) -> bool {
        self.last_of(gtid.domain, gtid.server).is_some_and(|last| gtid.sequence <= last)
    }

    /// The place at the log's end (`gtid_binlog_pos`): the last GTID of each domain.
    #[must_use]
    pub fn pos(&self) -> MariaGtidPos {
        self.domains.values().map(|state| state.last).collect()
    }
}

impl Extend<MariaGtid> for MariaGtidList {
    fn extend<T: IntoIterator<Item = MariaGtid>>(&mut self, iter: T) {
        iter.into_iter().for_each(|gtid| self.insert(gtid));
    }
}

impl FromIterator<MariaGtid> for MariaGtidList {
    /// In the order of a log, or of a GTID_LIST.
    fn from_iter<T: IntoIterator<Item = MariaGtid>>(iter: T) -> Self {
        let mut list = Self::new();
        list.extend(iter);
        list
    }
}

impl FromStr for MariaGtidList {
    type Err = GtidTextError;

    /// Reads what `@@gtid_binlog_state` prints. A server twice in one domain is an error.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut list = Self::new();
        gtids(text, "one GTID for each domain and server", |gtid| {
            let new = list.last_of(gtid.domain, gtid.server).is_none();
            list.insert(gtid);
            new
        })?;
        Ok(list)
    }
}

impl fmt::Display for MariaGtidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_gtids(f, self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Conformance: E4
    /// Bug: 68
    #[test]
    fn a_log_knows_every_server_and_who_came_last() {
        let mut list: MariaGtidList = "0-2-9,0-1-7,5-1-1".parse().unwrap();
        assert_eq!((list.to_string(), list.pos().to_string()), ("0-2-9,0-1-7,5-1-1".into(), "0-1-7,5-1-1".into()));
        list.insert("0-3-10".parse().unwrap());
        list.insert("0-2-11".parse().unwrap());
        assert_eq!(list.to_string(), "0-1-7,0-3-10,0-2-11,5-1-1");
        for (gtid, is_in) in [("0-1-7", true), ("0-1-8", false), ("0-2-8", true), ("1-1-1", false), ("5-2-1", false)] {
            assert_eq!(list.contains(gtid.parse().unwrap()), is_in, "{gtid}");
        }
        assert!("0-1-1,0-2-2,0-1-3".parse::<MariaGtidList>().is_err());
        assert!(MariaGtidList::new().is_empty() && "".parse::<MariaGtidList>().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_the_whole_log(log in proptest::collection::vec((0u32..3, 1u32..4, 1u64..99), 0..40)) {
            let log: Vec<_> =
                log.into_iter().map(|(domain, server, sequence)| MariaGtid { domain, server, sequence }).collect();
            let list: MariaGtidList = log.iter().copied().collect();
            for (domain, server) in (0..3).flat_map(|d| (1..4).map(move |s| (d, s))) {
                let last = log.iter().rfind(|g| g.domain == domain && g.server == server).map(|g| g.sequence);
                prop_assert_eq!(list.last_of(domain, server), last);
            }
            for domain in 0..3 {
                let last = log.iter().rfind(|g| g.domain == domain).copied();
                prop_assert_eq!(list.pos().domain(domain), last);
            }
            prop_assert_eq!(&list.to_string().parse::<MariaGtidList>().unwrap(), &list);
            prop_assert_eq!(list.pos(), log.iter().copied().collect::<MariaGtidPos>());
        }
    }
}
