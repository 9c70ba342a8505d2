use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use millstream_wire::SslMode;

/// How to reach a Doris cluster. [`ClientOptions::new`] sets everything but the addresses and the account.
#[derive(Clone)]
pub struct ClientOptions {
    /// HTTP addresses of the FEs, `http://host:8030`. At least one.
    pub fe: Vec<String>,
    /// HTTP addresses of BEs, `http://host:8040`, that loads go to instead of those the FE names. Mostly empty.
    pub be: Vec<String>,
    /// SQL ports of FEs, `host:9030`, comma-separated: when one cannot be reached the next is asked.
    pub sql: String,
    /// Whether and how TLS is used on the SQL port. (An FE offers it with `enable_ssl`.)
    pub sql_ssl_mode: SslMode,
    /// Account.
    pub user: String,
    /// Its password. Never printed.
    pub password: String,
    /// A file of certificates (PEM) to believe for https, instead of the public CAs, and on the SQL port by the modes that
    /// verify.
    pub ca_file: Option<PathBuf>,
    /// Follow redirects from https to http. The FE sends loads to BEs over plain http even when it speaks https itself.
    pub allow_plain_be: bool,
    /// Hosts that redirects may name; empty for any.
    pub allow_hosts: Vec<String>,
    /// Longest time for a connection, TLS included.
    pub connect_timeout: Duration,
    /// Longest time an FE may take to answer, or either server to commit.
    pub reply_timeout: Duration,
    /// Longest time a load may take until it is PRECOMMITTED; also sent to the server.
    pub load_timeout: Duration,
    /// After so long a call gives up trying and reports a retryable error.
    pub give_up: Duration,
    /// How long an earlier try of the same label may go on before it is aborted.
    pub running_wait: Duration,
    /// First wait after a failure; waits double.
    pub retry_base: Duration,
    /// Longest wait between two tries.
    pub retry_cap: Duration,
    /// Seed of the jitter, for tests.
    pub seed: Option<u64>,
}

impl ClientOptions {
    /// Options with the defaults of a cluster on good terms with its network.
    #[must_use]
    pub fn new(fe: Vec<String>, sql: impl Into<String>, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            fe,
            be: Vec::new(),
            sql: sql.into(),
            user: user.into(),
            password: password.into(),
            sql_ssl_mode: SslMode::Preferred,
            ca_file: None,
            allow_plain_be: false,
            allow_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(60),
            load_timeout: Duration::from_secs(600),
            give_up: Duration::from_secs(900),
            running_wait: Duration::from_secs(15),
            retry_base: Duration::from_millis(100),
            retry_cap: Duration::from_secs(10),
            seed: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("fe", &self.fe)
            .field("be", &self.be)
            .field("sql", &self.sql)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
