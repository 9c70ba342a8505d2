//! The configuration as the options of the two clients.

use millstream_doris_sink::ClientOptions;
use millstream_wire::ConnectOptions;

use super::{Address, Doris, Source, SslMode};

const fn ssl_mode(mode: SslMode) -> millstream_wire::SslMode {
    match mode {
        SslMode::Disabled => millstream_wire::SslMode::Disabled,
        SslMode::Preferred => millstream_wire::SslMode::Preferred,
        SslMode::Required => millstream_wire::SslMode::Required,
        SslMode::VerifyCa => millstream_wire::SslMode::VerifyCa,
        SslMode::VerifyIdentity => millstream_wire::SslMode::VerifyIdentity,
    }
}

impl Source {
    /// Where the source may be, in the order in which hosts are tried.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        [self.address.clone()].into_iter().chain(self.others.iter().cloned().map(Address::Tcp))
    }

    /// How to connect to the first host.
    #[must_use]
    pub fn connect_options(&self) -> ConnectOptions {
        self.connect_options_to(&self.address)
    }

    /// How to connect to one of [`Self::addresses`].
    #[must_use]
    pub fn connect_options_to(&self, address: &Address) -> ConnectOptions {
        let options = match address {
            Address::Tcp(at) => ConnectOptions::tcp(at.host.as_str(), at.port),
            Address::Socket(path) => ConnectOptions::unix(path.as_path()),
        };
        let options = options
            .user(self.user.as_str())
            .password(self.password.reveal())
            .ssl_mode(ssl_mode(self.ssl_mode))
            .allow_public_key_retrieval(self.allow_public_key_retrieval)
            .compression(self.compression)
            .attribute("program_name", "millstream");
        let options = match &self.server_public_key {
            Some(path) => options.server_public_key(path.as_path()),
            None => options,
        };
        match &self.ssl_ca {
            Some(path) => options.ssl_ca(path.as_path()),
            None => options,
        }
    }
}

impl Doris {
    /// How to reach the cluster.
    #[must_use]
    pub fn client_options(&self) -> ClientOptions {
        let texts = |list: &[super::HttpEndpoint]| list.iter().map(ToString::to_string).collect();
        let sql: Vec<String> = self.sql.iter().map(ToString::to_string).collect();
        ClientOptions {
            be: texts(&self.be),
            sql_ssl_mode: ssl_mode(self.sql_ssl_mode),
            ca_file: self.tls_ca.clone(),
            allow_plain_be: self.allow_plain_be,
            allow_hosts: self.allow_hosts.clone(),
            ..ClientOptions::new(texts(&self.fe), sql.join(","), self.user.as_str(), self.password.reveal())
        }
    }
}
