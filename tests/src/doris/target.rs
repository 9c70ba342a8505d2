//! The cluster an end-to-end suite runs against: a real one when the environment names it, else the simulator.

use super::{DorisSim, SimOptions};
use std::net::ToSocketAddrs;

/// A cluster with its addresses and its login.
#[derive(Debug)]
pub struct DorisTarget {
    /// `http://host:port` of the front end.
    pub fe_url: String,
    /// `host:port` of the SQL port.
    pub sql_addr: String,
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
    sim: Option<DorisSim>,
}

impl DorisTarget {
    /// `MILLSTREAM_DORIS_FE` (a URL), with `MILLSTREAM_DORIS_SQL` (host:port, default port 9030 of the same host),
    /// `MILLSTREAM_DORIS_USER` (default root) and `MILLSTREAM_DORIS_PASSWORD` (default empty), names a real cluster;
    /// without it a simulator with default options starts.
    pub async fn from_env_or_sim() -> std::io::Result<Self> {
        Self::from_env_or_sim_with(SimOptions::default()).await
    }

    /// The same with options for the simulator.
    pub async fn from_env_or_sim_with(opts: SimOptions) -> std::io::Result<Self> {
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        match var("MILLSTREAM_DORIS_FE") {
            Some(fe_url) => {
                let host = host_of(&fe_url);
                let sql_addr = var("MILLSTREAM_DORIS_SQL").unwrap_or_else(|| format!("{host}:9030"));
                Ok(Self {
                    fe_url: fe_url.trim_end_matches('/').to_owned(),
                    sql_addr,
                    user: var("MILLSTREAM_DORIS_USER").unwrap_or_else(|| "root".into()),
                    password: var("MILLSTREAM_DORIS_PASSWORD").unwrap_or_default(),
                    sim: None,
                })
            }
            None => {
                let sim = DorisSim::start(opts).await?;
                Ok(Self {
                    fe_url: sim.fe_url(),
                    sql_addr: sim.sql_addr().to_string(),
                    user: sim.user().to_owned(),
                    password: sim.password().to_owned(),
                    sim: Some(sim),
                })
            }
        }
    }

    /// The simulator, for tests that need its faults or its clock. On a real cluster this says that `test` is skipped
    /// and returns None.
    pub fn sim_or_skip(&self, test: &str) -> Option<&DorisSim> {
        if self.sim.is_none() {
            eprintln!("skipped on a real Doris: {test} needs the simulator's faults");
        }
        self.sim.as_ref()
    }

    /// Whether this is a real cluster.
    pub fn is_real(&self) -> bool {
        self.sim.is_none()
    }

    /// The first socket address of the SQL port.
    pub fn sql_socket(&self) -> std::io::Result<std::net::SocketAddr> {
        self.sql_addr.to_socket_addrs()?.next().ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
    }
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, r)| r);
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hosts_of_urls() {
        for (url, host) in [("http://h:8030", "h"), ("https://h/", "h"), ("http://[::1]:8030", "[::1]"), ("h", "h")] {
            assert_eq!(super::host_of(url), host);
        }
    }
}
