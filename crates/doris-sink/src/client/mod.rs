//! The driver: does what the state machine and the classifiers say, over real sockets.

mod catalog;
mod endpoint;
mod http;
mod load;
mod options;
mod sql;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use catalog::Probe;
pub use endpoint::Endpoint;
pub use load::{Load, LoadStyle, Loaded};
pub use options::ClientOptions;

use crate::error::SinkError;
use crate::request::Credentials;

/// A client of one Doris cluster. Calls may run beside each other; a call that is dropped leaves nothing but perhaps a load
/// in an unknown state, which the same call with the same label clears up.
#[derive(Debug)]
pub struct DorisClient {
    options: ClientOptions,
    credentials: Credentials,
    frontends: Vec<Endpoint>,
    backends: Vec<Endpoint>,
    transport: http::Transport,
    sql: sql::SqlPort,
    rng: Mutex<fastrand::Rng>,
    frontend: AtomicUsize,
    backend: AtomicUsize,
}

/// HTTP port of an FE.
const FE_PORT: u16 = 8030;
/// HTTP port of a BE.
const BE_PORT: u16 = 8040;
/// SQL port of an FE.
const SQL_PORT: u16 = 9030;

fn endpoints(urls: &[String], default_port: u16, key: &str) -> Result<Vec<Endpoint>, SinkError> {
    let one = |(i, url): (usize, &String)| {
        Endpoint::parse(url, default_port).ok_or_else(|| {
            // The text may hold credentials, so it is not repeated.
            let place = i.saturating_add(1);
            SinkError::config(format!(
                "sink.{key}: entry {place} must be like \"http://host:{default_port}\", without credentials or a path"
            ))
        })
    };
    urls.iter().enumerate().map(one).collect()
}

impl DorisClient {
    /// A client; nothing is connected yet.
    ///
    /// # Errors
    /// When an address or the CA file cannot be read.
    pub fn new(options: ClientOptions) -> Result<Self, SinkError> {
        let frontends = endpoints(&options.fe, FE_PORT, "fe")?;
        if frontends.is_empty() {
            return Err(SinkError::config("sink.fe: at least one FE is needed"));
        }
        let backends = endpoints(&options.be, BE_PORT, "be")?;
        let ca = match &options.ca_file {
            Some(path) => Some(
                std::fs::read(path)
                    .map_err(|e| SinkError::config(format!("sink.tls_ca: {} cannot be read: {e}", path.display())))?,
            ),
            None => None,
        };
        let sql = sql::SqlPort::new(&options)?;
        let transport = http::Transport::new(options.connect_timeout, ca.as_deref())?;
        let rng = options.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Ok(Self {
            credentials: Credentials::new(&options.user, &options.password),
            frontends,
            backends,
            transport,
            sql,
            rng: Mutex::new(rng),
            frontend: AtomicUsize::new(0),
            backend: AtomicUsize::new(0),
            options,
        })
    }

    fn rng(&self) -> fastrand::Rng {
        // The lock is never held across anything that can panic.
        self.rng.lock().map_or_else(|poisoned| poisoned.into_inner().fork(), |mut rng| rng.fork())
    }

    /// The FE to ask now; the next one after [`next_frontend`](Self::next_frontend).
    fn frontend(&self) -> Result<&Endpoint, SinkError> {
        pick(&self.frontends, self.frontend.load(Ordering::Relaxed)).ok_or_else(|| SinkError::config("no FE"))
    }

    fn next_frontend(&self) {
        self.frontend.fetch_add(1, Ordering::Relaxed);
    }

    /// The next of the BEs that are configured, if any.
    fn configured_backend(&self) -> Option<&Endpoint> {
        pick(&self.backends, self.backend.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether a redirect from `from` to `to` may be followed with credentials.
    fn allows(&self, from: &Endpoint, to: &Endpoint) -> Result<(), String> {
        if from.tls && !to.tls && !self.options.allow_plain_be {
            return Err(format!("{from} redirects to {to} without TLS; allow it, or name the BEs with sink.be"));
        }
        let known = self.options.allow_hosts.is_empty() || self.options.allow_hosts.contains(&to.host);
        if known { Ok(()) } else { Err(format!("{from} redirects to {to}, which is not an allowed host")) }
    }
}

fn pick<T>(list: &[T], n: usize) -> Option<&T> {
    list.get(n.checked_rem(list.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(change: impl FnOnce(&mut ClientOptions)) -> DorisClient {
        let mut options = ClientOptions::new(vec!["http://fe:8030".into()], "fe:9030", "root", "");
        change(&mut options);
        DorisClient::new(options).unwrap()
    }

    #[test]
    fn redirects_keep_tls_and_the_list_of_hosts() {
        let at = |tls, host: &str| Endpoint { tls, host: host.into(), port: 8040 };
        let (plain, secret) = (at(false, "fe"), at(true, "fe"));
        let strict = client(|_| {});
        assert!(strict.allows(&plain, &at(false, "be")).is_ok());
        assert!(strict.allows(&plain, &at(true, "be")).is_ok());
        assert!(strict.allows(&secret, &at(true, "be")).is_ok());
        assert!(strict.allows(&secret, &at(false, "be")).unwrap_err().contains("without TLS"));
        assert!(client(|o| o.allow_plain_be = true).allows(&secret, &at(false, "be")).is_ok());
        let listed = client(|o| o.allow_hosts = vec!["be1".into()]);
        assert!(listed.allows(&plain, &at(false, "be1")).is_ok());
        assert!(listed.allows(&plain, &at(false, "be")).is_err());
    }

    #[test]
    fn addresses_are_checked_at_once() {
        let error = |change: fn(&mut ClientOptions)| {
            let mut options = ClientOptions::new(vec!["http://fe:8030".into()], "fe:9030", "root", "");
            change(&mut options);
            DorisClient::new(options).unwrap_err().to_string()
        };
        assert!(error(|o| o.fe.clear()).contains("sink.fe"));
        assert!(error(|o| o.be = vec!["http://a".into(), "x y".into()]).contains("sink.be: entry 2"));
        assert!(error(|o| o.sql = "fe:port".into()).contains("sink.sql"));
        assert!(error(|o| o.ca_file = Some("/nonexistent/ca.pem".into())).contains("sink.tls_ca"));
    }
}
