//! From the greeting to an open session, without a socket.
//!
//! ```text
//! greeting -> [StartTls -> tls_ready] -> login -> { AuthSwitchRequest | AuthMoreData }* -> OK | ERR
//! ```
//!
//! The caller hands every packet to [`Connect::handle`] and carries out the [`Action`] it gets: send bytes and wait for
//! the next packet, change to TLS and call [`Connect::tls_ready`], or encrypt and call [`Connect::encrypted`].

mod types;

use zeroize::Zeroizing;

pub use types::{Action, Certificate, Identity, Login, Session, TlsUse};

use crate::auth::{Context, Exchange, Plugin, Step, claimed_proof, expected_proof, refusal};
use crate::codec::Reader;
use crate::compress::Compression;
use crate::error::{CONNECT, Error, Kind, LOGIN as DURING};
use crate::flags::CapabilityFlags;
use crate::handshake::{HandshakeResponse41, HandshakeV10, SslRequest, UTF8MB4_GENERAL_CI};
use crate::response::{OkPacket, Phase, Reply, classify, parse_err};
use crate::version::{Flavor, ServerVersion};

/// How many packets an authentication may take: an honest one takes four.
const MAX_ROUNDS: u8 = 8;

#[derive(Debug)]
enum State {
    Greeting,
    Tls(HandshakeV10),
    Auth { greeting: HandshakeV10, exchange: Exchange, rounds: u8 },
    Finished,
}

/// The login as a state machine. After an error it is of no more use.
#[derive(Debug)]
pub struct Connect {
    login: Login,
    state: State,
    /// What TLS found out; nothing without TLS.
    certificate: Option<Certificate>,
    capabilities: CapabilityFlags,
}

impl Connect {
    /// A login that has not begun.
    ///
    /// # Errors
    /// A user, database or attribute that cannot be sent (a NUL inside, or more than 32 KiB of attributes), or a
    /// compression that this build does not have.
    pub fn new(login: Login) -> Result<Self, Error> {
        login.compression.check()?;
        let nul = |s: &str| s.bytes().any(|b| b == 0);
        if nul(&login.user) || login.database.as_deref().is_some_and(nul) {
            return Err(Error::usage("the user and the database must not contain a NUL byte"));
        }
        let attributes = login.attributes.iter().map(|(k, v)| k.len().saturating_add(v.len()).saturating_add(18));
        if attributes.fold(0, usize::saturating_add) > 32 * 1024 {
            return Err(Error::usage("connection attributes take more than 32 KiB"));
        }
        Ok(Self { login, state: State::Greeting, certificate: None, capabilities: CapabilityFlags::empty() })
    }

    fn context(&self) -> Context<'_> {
        let unproven = matches!(self.certificate, Some(Certificate::ToBeProven { .. }));
        let local = self.login.local && !unproven;
        let encrypted = self.certificate.is_some() && !unproven;
        Context {
            password: &self.login.password,
            encrypted,
            secure: encrypted || local,
            // Where nobody can stand in between, the key is the server's.
            allow_public_key_retrieval: (self.login.allow_public_key_retrieval || local) && !unproven,
            public_key: self.login.server_public_key.as_deref(),
            allow_cleartext: self.login.allow_cleartext_password,
            client_nonce: self.login.client_nonce.as_ref(),
        }
    }

    /// Takes the next packet of the server.
    ///
    /// # Errors
    /// The server refused, broke the protocol, or asked for something that is not given to it on this channel.
    pub fn handle(&mut self, packet: &[u8]) -> Result<Action, Error> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Greeting => self.greeting(packet),
            State::Auth { greeting, exchange, rounds } => self.answer(packet, greeting, exchange, rounds),
            State::Tls(_) => Err(Error::unexpected(DURING, "a packet between the TLS request and the TLS handshake")),
            State::Finished => Err(Error::usage("the login is over")),
        }
    }

    fn greeting(&mut self, packet: &[u8]) -> Result<Action, Error> {
        if packet.first() == Some(&0xff) {
            let error = parse_err(packet).map_err(|e| Error::malformed(DURING, e))?;
            return Err(Error::server(CONNECT, error));
        }
        let greeting = HandshakeV10::parse(packet).map_err(|e| Error::malformed("reading the greeting", e))?;
        let offered = greeting.capabilities;
        let wanted = CapabilityFlags::LONG_PASSWORD
            | CapabilityFlags::LONG_FLAG
            | CapabilityFlags::PROTOCOL_41
            | CapabilityFlags::TRANSACTIONS
            | CapabilityFlags::SECURE_CONNECTION
            | CapabilityFlags::MULTI_RESULTS
            | CapabilityFlags::PS_MULTI_RESULTS
            | CapabilityFlags::PLUGIN_AUTH
            | CapabilityFlags::PLUGIN_AUTH_LENENC
            | CapabilityFlags::DEPRECATE_EOF
            // Without it an account with more factors is refused without a word of why.
            | CapabilityFlags::MULTI_FACTOR_AUTHENTICATION;
        // A cleared LONG_PASSWORD in the answer would announce MariaDB's extended capabilities.
        self.capabilities = (wanted & offered) | CapabilityFlags::LONG_PASSWORD;
        if offered.contains(CapabilityFlags::CONNECT_ATTRS) && !self.login.attributes.is_empty() {
            self.capabilities |= CapabilityFlags::CONNECT_ATTRS;
        }
        if self.login.database.is_some() {
            self.capabilities |= CapabilityFlags::CONNECT_WITH_DB;
        }
        if self.login.session_track {
            self.capabilities |= CapabilityFlags::SESSION_TRACK & offered;
        }
        self.capabilities |= match self.login.compression {
            Compression::None => CapabilityFlags::empty(),
            Compression::Zlib if offered.contains(CapabilityFlags::COMPRESS) => CapabilityFlags::COMPRESS,
            Compression::Zstd { .. } if offered.contains(CapabilityFlags::ZSTD_COMPRESSION) => {
                CapabilityFlags::ZSTD_COMPRESSION
            }
            Compression::Zlib => return Err(Error::usage("the server offers no zlib compression: ask for none")),
            Compression::Zstd { .. } => {
                return Err(Error::usage("the server offers no zstd compression: ask for zlib or none"));
            }
        };
        let use_tls = match self.login.tls {
            TlsUse::Never => false,
            TlsUse::IfOffered => offered.contains(CapabilityFlags::SSL),
            TlsUse::Always if offered.contains(CapabilityFlags::SSL) => true,
            TlsUse::Always => {
                return Err(Error::new(Kind::Tls {
                    what: "the server offers none and ssl_mode asks for it",
                    source: None,
                }));
            }
        };
        if use_tls {
            self.capabilities |= CapabilityFlags::SSL;
            let request = SslRequest { capabilities: self.capabilities, max_packet: self.login.max_packet };
            self.state = State::Tls(greeting);
            return Ok(Action::StartTls(request.encode()));
        }
        self.send_login(greeting)
    }

    /// The TLS handshake is done: what to send next.
    ///
    /// # Errors
    /// Misuse: TLS was not asked for. A server that has to prove itself and cannot: no MariaDB 11.4 or later, or an
    /// account without a password.
    pub fn tls_ready(&mut self, certificate: Certificate) -> Result<Action, Error> {
        let State::Tls(greeting) = core::mem::replace(&mut self.state, State::Finished) else {
            return Err(Error::usage("TLS was not asked for"));
        };
        if matches!(certificate, Certificate::ToBeProven { .. }) {
            let version = ServerVersion::from_greeting(&greeting.server_version, greeting.capabilities);
            let what = if !version.is_at_least(Flavor::MariaDb, (11, 4, 0)) {
                "the certificate cannot be verified without ssl_ca, the file with the CA's certificate: only MariaDB 11.4 \
                 and later prove by the password that a certificate is their own"
            } else if self.login.password.is_empty() {
                "an account without a password cannot prove that the server's certificate is its own: give ssl_ca, the \
                 file with the CA's certificate"
            } else {
                ""
            };
            if !what.is_empty() {
                return Err(Error::new(Kind::Tls { what, source: None }));
            }
        }
        self.certificate = Some(certificate);
        self.send_login(greeting)
    }

    fn send_login(&mut self, greeting: HandshakeV10) -> Result<Action, Error> {
        // A default plugin this crate does not speak need not be the account's: start with one it speaks, and the
        // server switches. sha256_password is never the opening, since on a plain connection it needs a key first.
        let plugin = match Plugin::by_name(greeting.auth_plugin.as_bytes()) {
            Some(plugin) if plugin.can_open() => plugin,
            Some(Plugin::Sha256) => Plugin::CachingSha2,
            _ => Plugin::NativePassword,
        };
        let mut exchange = Exchange::opening(plugin, greeting.nonce);
        let Step::Send(auth) = exchange.start(&self.context())? else {
            return Err(Error::usage("a plugin that cannot open a login"));
        };
        let has = |flag| self.capabilities.contains(flag);
        let attributes = if has(CapabilityFlags::CONNECT_ATTRS) { &self.login.attributes[..] } else { &[] };
        let packet = HandshakeResponse41 {
            capabilities: self.capabilities,
            max_packet: self.login.max_packet,
            charset: UTF8MB4_GENERAL_CI,
            user: self.login.user.as_bytes(),
            auth: &auth,
            database: self.login.database.as_deref().map(str::as_bytes),
            plugin: has(CapabilityFlags::PLUGIN_AUTH).then(|| plugin.name().as_bytes()),
            attributes: attributes.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())).collect(),
            zstd_level: match self.login.compression {
                Compression::Zstd { level } => Some(level),
                _ => None,
            },
        }
        .encode();
        self.state = State::Auth { greeting, exchange, rounds: 0 };
        Ok(Action::Send(packet))
    }

    fn answer(
        &mut self,
        packet: &[u8],
        greeting: HandshakeV10,
        mut exchange: Exchange,
        rounds: u8,
    ) -> Result<Action, Error> {
        let malformed = |e| Error::malformed(DURING, e);
        let rounds = rounds.saturating_add(1);
        if rounds > MAX_ROUNDS {
            return Err(Error::auth("the server goes on asking without end", None));
        }
        let action = match classify(packet, self.capabilities, Phase::Login).map_err(malformed)? {
            Reply::Ok => {
                let ok = OkPacket::parse(packet, self.capabilities).map_err(malformed)?;
                let info = OkPacket::info_bytes(packet, self.capabilities).map_err(malformed)?;
                return Ok(Action::Done(Session {
                    identity: self.identity(info, &greeting, &exchange)?,
                    version: ServerVersion::from_greeting(&greeting.server_version, greeting.capabilities),
                    server_version: greeting.server_version,
                    connection_id: greeting.connection_id,
                    capabilities: self.capabilities,
                    status: ok.status,
                    tls: self.certificate.is_some(),
                    compression: self.login.compression,
                }));
            }
            Reply::Err => return Err(Error::server(DURING, parse_err(packet).map_err(malformed)?)),
            Reply::AuthSwitch => {
                exchange = switch(packet)?;
                exchange.start(&self.context())?.into()
            }
            Reply::AuthMore => exchange.more(packet.get(1..).unwrap_or_default(), &self.context())?.into(),
            Reply::OldAuthSwitch => return Err(refusal(b"mysql_old_password")),
            Reply::AuthNextFactor => {
                // 02, plugin NUL, data (`page_protocol_connection_phase_packets_protocol_auth_next_factor_request`).
                let plugin = Reader::new(packet.get(1..).unwrap_or_default()).nul_bytes("plugin").map_err(malformed)?;
                return Err(Error::auth(
                    "the account needs a second authentication factor, and multi-factor logins are not supported: give \
                     it one factor",
                    Some(plugin),
                ));
            }
            _ => return Err(Error::unexpected(DURING, "a packet that has no place there")),
        };
        self.state = State::Auth { greeting, exchange, rounds };
        Ok(action)
    }

    /// Who says that the server is the right one, now that it has accepted the login.
    fn identity(&self, info: &[u8], greeting: &HandshakeV10, exchange: &Exchange) -> Result<Identity, Error> {
        let (sha256, needed) = match self.certificate {
            None => return Ok(Identity::Unknown),
            Some(Certificate::Verified) => return Ok(Identity::Certificate),
            Some(Certificate::Unchecked { sha256 }) => (sha256, false),
            Some(Certificate::ToBeProven { sha256 }) => (sha256, true),
        };
        let expected = exchange
            .proof_parts(&self.login.password, &greeting.nonce)
            .map(|(stored, nonce)| expected_proof(&stored, &nonce, &sha256));
        let what = match (claimed_proof(info), expected) {
            (Some(claimed), Some(expected)) if claimed == expected => return Ok(Identity::Password),
            (Some(_), Some(_)) => {
                "the server's proof is for another certificate than the one that came: somebody stands in between"
            }
            _ if needed => {
                "the server did not prove by the password that the certificate is its own: give ssl_ca, the file with the \
                 CA's certificate"
            }
            _ => return Ok(Identity::Unknown),
        };
        Err(Error::new(Kind::Tls { what, source: None }))
    }

    /// The result of [`Action::Encrypt`]: what to send next.
    ///
    /// # Errors
    /// Misuse: nothing was to be encrypted.
    pub fn encrypted(&mut self, ciphertext: Vec<u8>) -> Result<Action, Error> {
        match &self.state {
            State::Auth { .. } => Ok(Action::Send(Zeroizing::new(ciphertext))),
            _ => Err(Error::usage("nothing was to be encrypted")),
        }
    }

    /// The plugin in use, for logs.
    #[must_use]
    pub fn plugin(&self) -> Option<&'static str> {
        match &self.state {
            State::Auth { exchange, .. } => Some(exchange.plugin().name()),
            _ => None,
        }
    }
}

impl From<Step> for Action {
    fn from(step: Step) -> Self {
        match step {
            Step::Send(bytes) => Self::Send(bytes),
            Step::Encrypt { public_key_pem, plaintext } => Self::Encrypt { public_key_pem, plaintext },
            Step::Wait => Self::Wait,
        }
    }
}

/// AuthSwitchRequest: `fe`, plugin NUL, the plugin's data
/// (`page_protocol_connection_phase_packets_protocol_auth_switch_request`).
fn switch(packet: &[u8]) -> Result<Exchange, Error> {
    let mut r = Reader::new(packet);
    let malformed = |e| Error::malformed(DURING, e);
    r.skip(1, "header").map_err(malformed)?;
    let name = r.nul_bytes("plugin").map_err(malformed)?;
    let Some(plugin) = Plugin::by_name(name) else {
        return Err(refusal(name));
    };
    Exchange::switched(plugin, r.rest()).map_err(malformed)
}

#[cfg(test)]
mod tests;
