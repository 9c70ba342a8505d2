use core::time::Duration;
use std::path::PathBuf;

use crate::compress::Compression;
use crate::connect::{Login, TlsUse};
use crate::packet::MAX_PACKET;
use crate::password::Password;

/// How a connection is protected, named as in MySQL's own clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SslMode {
    /// Plain text.
    Disabled,
    /// TLS if the server offers it, plain text if not. The server's certificate is not looked at: it protects against
    /// listening, not against somebody in between. Over a unix socket: plain.
    #[default]
    Preferred,
    /// TLS or nothing. The certificate is not looked at.
    Required,
    /// TLS or nothing, and the certificate must come from the CA of [`ConnectOptions::ssl_ca`]. Its name is not
    /// compared: the certificates that MySQL makes for itself carry none. Without `ssl_ca` the server has to prove by the
    /// password that the certificate is its own, as MariaDB does since 11.4.
    VerifyCa,
    /// As [`VerifyCa`](Self::VerifyCa), and the certificate must be for the host that is connected to (`localhost` over a
    /// unix socket), by its subjectAltName. Without `ssl_ca` the server's proof by the password stands for both.
    VerifyIdentity,
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Where and how to connect. Built by chaining: `ConnectOptions::tcp("db", 3306).user("repl").password("…")`.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: String,
    pub(crate) password: Password,
    pub(crate) database: Option<String>,
    pub(crate) ssl_mode: SslMode,
    pub(crate) ssl_ca: Option<PathBuf>,
    pub(crate) allow_public_key_retrieval: bool,
    pub(crate) server_public_key: Option<PathBuf>,
    pub(crate) allow_cleartext_password: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) max_packet: usize,
    pub(crate) compression: Compression,
    pub(crate) session_tracking: bool,
    pub(crate) attributes: Vec<(String, String)>,
}

impl ConnectOptions {
    fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            user: String::new(),
            password: Password::default(),
            database: None,
            ssl_mode: SslMode::default(),
            ssl_ca: None,
            allow_public_key_retrieval: false,
            server_public_key: None,
            allow_cleartext_password: false,
            connect_timeout: Duration::from_secs(10),
            read_timeout: None,
            max_packet: MAX_PACKET,
            compression: Compression::None,
            session_tracking: false,
            attributes: vec![
                ("_client_name".into(), "millstream".into()),
                ("_client_version".into(), env!("CARGO_PKG_VERSION").into()),
                ("_pid".into(), std::process::id().to_string()),
            ],
        }
    }

    /// A server at a TCP address: a name or an address without brackets.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::new(Endpoint::Tcp { host: host.into(), port })
    }

    /// A server at a unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Endpoint::Unix(path.into()))
    }

    /// Account name.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// The account's password; none by default.
    #[must_use]
    pub fn password(mut self, password: impl Into<Password>) -> Self {
        self.password = password.into();
        self
    }

    /// Default database; none by default.
    #[must_use]
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// Protection; [`SslMode::Preferred`] by default.
    #[must_use]
    pub fn ssl_mode(mut self, mode: SslMode) -> Self {
        self.ssl_mode = mode;
        self
    }

    /// A PEM file with the certificates of the CAs to believe, for [`SslMode::VerifyCa`] and
    /// [`SslMode::VerifyIdentity`].
    #[must_use]
    pub fn ssl_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.ssl_ca = Some(path.into());
        self
    }

    /// Believe an RSA key that the server sends on a connection without TLS; off by default, since whoever stands in
    /// between could send his own and read the password.
    #[must_use]
    pub fn allow_public_key_retrieval(mut self, allow: bool) -> Self {
        self.allow_public_key_retrieval = allow;
        self
    }

    /// A PEM file with the server's RSA public key (`public_key.pem` of its data directory): the password is encrypted with
    /// it on connections without TLS, and no other key is believed. For `caching_sha2_password` and `sha256_password`.
    #[must_use]
    pub fn server_public_key(mut self, path: impl Into<PathBuf>) -> Self {
        self.server_public_key = Some(path.into());
        self
    }

    /// Give the password as it is to a server that asks for it (`mysql_clear_password`, for PAM and LDAP), inside TLS or
    /// over a unix socket; off by default. Use it with [`SslMode::VerifyIdentity`]: whoever can stand in between could ask
    /// for it too.
    #[must_use]
    pub fn allow_cleartext_password(mut self, allow: bool) -> Self {
        self.allow_cleartext_password = allow;
        self
    }

    /// The longest that connecting, TLS and the login may take together; 10 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The longest wait for the server's next bytes, and for room to send; `None` (the default) waits for ever. A
    /// statement that takes longer than this before its first row fails. A dump has its own rule.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// The largest packet (a row, an event) taken, in bytes; 1 GiB by default and at most.
    #[must_use]
    pub fn max_packet(mut self, bytes: usize) -> Self {
        self.max_packet = bytes.clamp(1024, MAX_PACKET);
        self
    }

    /// Compress what travels after the login, inside TLS if there is TLS; [`Compression::None`] by default. Worth it where
    /// the network is slower than about 100 MB/s. Connecting fails if the server does not offer it.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Have the server tell what a statement changed in the session ([`OkPacket::changes`](crate::OkPacket::changes)): its
    /// `session_track_…` variables say what of. Off by default; a server that cannot is not refused.
    #[must_use]
    pub fn session_tracking(mut self, on: bool) -> Self {
        self.session_tracking = on;
        self
    }

    /// Shown in `performance_schema.session_connect_attrs`, such as `program_name`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    pub(crate) fn login(&self, local: bool) -> Login {
        Login {
            user: self.user.clone(),
            password: self.password.clone(),
            database: self.database.clone(),
            tls: match self.ssl_mode {
                SslMode::Disabled => TlsUse::Never,
                SslMode::Preferred if local => TlsUse::Never,
                SslMode::Preferred => TlsUse::IfOffered,
                SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => TlsUse::Always,
            },
            local,
            allow_public_key_retrieval: self.allow_public_key_retrieval,
            // Read and drawn by the driver.
            server_public_key: None,
            client_nonce: None,
            allow_cleartext_password: self.allow_cleartext_password,
            max_packet: u32::try_from(self.max_packet).unwrap_or(u32::MAX),
            compression: self.compression,
            session_track: self.session_tracking,
            attributes: self.attributes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_password() {
        let o = ConnectOptions::tcp("db", 3306).user("repl").password("hunter2");
        assert!(!format!("{o:?}").contains("hunter2"));
        assert!(!format!("{:?}", o.login(false)).contains("hunter2"));
    }

    #[test]
    fn a_socket_needs_no_tls_but_can_have_it() {
        let o = ConnectOptions::unix("/tmp/s");
        assert_eq!(o.login(true).tls, TlsUse::Never);
        assert_eq!(o.ssl_mode(SslMode::Required).login(true).tls, TlsUse::Always);
        assert_eq!(ConnectOptions::tcp("db", 1).login(false).tls, TlsUse::IfOffered);
    }
}
