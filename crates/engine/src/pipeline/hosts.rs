//! Which of the source's hosts is used: the next one when one cannot be reached, is lost for a while, or does not hold
//! what was judged. Another host is another attempt, from the last durable record: nothing of one server's positions
//! is used with another.

use core::fmt;
use std::time::Duration;

use millstream_wire::{ConnectOptions, Connection};

use super::error::{RunError, RunErrorKind};
use super::start::away;
use crate::config::{Address, Source};

/// How long the source is away before another host is tried, where there is one.
pub(super) const FAILOVER_AFTER: Duration = Duration::from_secs(5);

/// A peer that is gone without a word must not hold a reader for ever; the stream has its own rule.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

struct Host {
    address: Address,
    connect: ConnectOptions,
    /// Why it cannot be followed.
    refused: Option<RunError>,
}

/// The hosts of `source.url`, and the one that is used.
pub(super) struct Hosts {
    hosts: Vec<Host>,
    at: usize,
    /// The server of the first attempt.
    first_server: Option<String>,
}

impl Hosts {
    pub(super) fn new(source: &Source) -> Self {
        let host = |address: Address| Host {
            connect: source.connect_options_to(&address).read_timeout(Some(READ_TIMEOUT)),
            address,
            refused: None,
        };
        Self { hosts: source.addresses().map(host).collect(), at: 0, first_server: None }
    }

    /// Whether there is another host.
    pub(super) const fn are_several(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Connects to the current host, or else to the next one that can be reached. Hosts that were refused are passed over;
    /// when no other one can be reached, that refusal is the answer.
    pub(super) async fn connect(&mut self) -> Result<(Connection, ConnectOptions), RunError> {
        let mut last = None;
        for _ in 0..self.hosts.len() {
            let Some(host) = self.hosts.get(self.at).filter(|h| h.refused.is_none()) else {
                self.next();
                continue;
            };
            match Connection::connect(&host.connect).await {
                Ok(connection) => return Ok((connection, host.connect.clone())),
                Err(e) if !self.are_several() => return Err(away(e)),
                Err(e) => {
                    tracing::warn!(host = %host.address, reason = %e, "this host of the source cannot be used");
                    let e = away(e);
                    if e.kind() == RunErrorKind::Away {
                        last = Some(e);
                    } else if let Some(host) = self.hosts.get_mut(self.at) {
                        host.refused = Some(e);
                    }
                    self.next();
                }
            }
        }
        let refusal = self.hosts.iter_mut().find_map(|h| h.refused.take());
        Err(refusal.or(last).unwrap_or_else(|| RunError::stopped("no host of the source can be used")))
    }

    /// The next attempt begins with the next host.
    pub(super) fn next(&mut self) {
        self.at = self.at.saturating_add(1).checked_rem(self.hosts.len()).unwrap_or(0);
    }

    /// The current host holds what it must.
    pub(super) fn accept(&mut self) {
        for host in &mut self.hosts {
            host.refused = None;
        }
    }

    /// The current host cannot be followed, for `why`: worth another attempt while there is another host.
    pub(super) fn refuse(&mut self, why: RunError) -> RunError {
        let several = self.are_several();
        match self.hosts.get_mut(self.at) {
            Some(host) if several && why.kind() != RunErrorKind::Away => {
                let text = format!("{} cannot be followed: {why}", host.address);
                host.refused = Some(RunError::stopped(text.clone()));
                self.next();
                RunError::away(text)
            }
            _ => why,
        }
    }

    /// The current host is behind what was judged: others are tried, and it is tried again.
    pub(super) fn wait_for(&mut self, why: RunError) -> RunError {
        if !self.are_several() {
            return why;
        }
        self.next();
        RunError::away(why.to_string())
    }

    /// Whether `server_uuid` is the server of the first attempt, whose positions a caller may have named.
    pub(super) fn is_first_server(&mut self, server_uuid: &str) -> bool {
        self.first_server.get_or_insert_with(|| server_uuid.to_owned()) == server_uuid
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hosts.get(self.at) {
            Some(host) => host.address.fmt(f),
            None => f.write_str("the source"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: u16) -> Hosts {
        let host = |n| Host {
            address: Address::Socket(format!("h{n}").into()),
            connect: ConnectOptions::tcp("127.0.0.1", n),
            refused: None,
        };
        Hosts { hosts: (1..=count).map(host).collect(), at: 0, first_server: None }
    }

    #[test]
    fn a_refusal_ends_the_run_only_where_there_is_no_other_host() {
        let mut one = hosts(1);
        assert_eq!(one.refuse(RunError::stopped("it lacks x:1")).kind(), RunErrorKind::Stopped);
        assert_eq!(one.wait_for(RunError::stopped("it lacks x:1")).kind(), RunErrorKind::Stopped);
        let mut two = hosts(2);
        let e = two.refuse(RunError::stopped("it lacks x:1"));
        assert_eq!((e.kind(), e.to_string().as_str()), (RunErrorKind::Away, "h1 cannot be followed: it lacks x:1"));
        assert_eq!(two.to_string(), "h2");
        assert_eq!(two.wait_for(RunError::stopped("behind")).kind(), RunErrorKind::Away);
        assert_eq!(two.to_string(), "h1");
    }

    #[tokio::test]
    async fn when_no_other_host_can_be_reached_the_refusal_is_the_answer() {
        // Nothing listens on port 1 and 2.
        let mut two = hosts(2);
        let _: RunError = two.refuse(RunError::stopped("it lacks x:1"));
        let e = two.connect().await.err().unwrap();
        assert_eq!((e.kind(), e.to_string().as_str()), (RunErrorKind::Stopped, "h1 cannot be followed: it lacks x:1"));
        // Asked again, it is tried again.
        assert_eq!(two.connect().await.err().unwrap().kind(), RunErrorKind::Away);
        two.accept();
        assert_eq!(two.to_string(), "h2");
    }

    #[test]
    fn positions_are_of_one_server() {
        let mut hosts = hosts(1);
        assert!(hosts.is_first_server("a") && hosts.is_first_server("a") && !hosts.is_first_server("b"));
    }
}
