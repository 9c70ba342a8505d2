//! From the greeting to an open session, without a socket.
//!
//! ```text
//! greeting -> [StartTls -> tls_ready] -> login -> { AuthSwitchRequest | AuthMoreData }* -> OK | ERR
//! ```
//!
//! The caller hands every packet to [`Connect::handle`] and carries out the [`Action`] it gets: send bytes and wait for
//! the next packet, change to TLS and call [`Connect::tls_ready`], or encrypt and call [`Connect::encrypted`].

use zeroize::Zeroizing;

use crate::auth::{Channel, Exchange, Plugin, Step};
use crate::codec::Reader;
use crate::compress::Compression;
use crate::error::{CONNECT, Error, Kind, LOGIN as DURING};
use crate::flags::{CapabilityFlags, StatusFlags};
use crate::handshake::{HandshakeResponse41, HandshakeV10, NONCE_LEN, SslRequest, UTF8MB4_GENERAL_CI};
use crate::password::Password;
use crate::response::{OkPacket, Phase, Reply, classify, parse_err};
use crate::version::ServerVersion;

/// How many packets an authentication may take: an honest one takes four.
const MAX_ROUNDS: u8 = 8;

/// When to change to TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsUse {
    /// Never.
    Never,
    /// If the server offers it.
    #[default]
    IfOffered,
    /// Always; a server without TLS is refused.
    Always,
}

/// Who logs in, and how.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// Account name.
    pub user: String,
    /// Its password.
    pub password: Password,
    /// Default database.
    pub database: Option<String>,
    /// When to change to TLS.
    pub tls: TlsUse,
    /// The transport cannot be listened to even without TLS (a unix socket).
    pub local: bool,
    /// Believe the RSA key that the server sends on a connection without TLS. Whoever can stand in between can then
    /// read the password.
    pub allow_public_key_retrieval: bool,
    /// The largest packet the client takes, in bytes.
    pub max_packet: u32,
    /// What the session is compressed with; a server that does not offer it is refused.
    pub compression: Compression,
    /// Have OK packets tell what changed in the session.
    pub session_track: bool,
    /// Shown in `performance_schema.session_connect_attrs`.
    pub attributes: Vec<(String, String)>,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server's version text.
    pub server_version: String,
    /// The same as numbers, with its flavor.
    pub version: ServerVersion,
    /// The session's id on the server.
    pub connection_id: u32,
    /// What both sides use.
    pub capabilities: CapabilityFlags,
    /// The session's state after the login.
    pub status: StatusFlags,
    /// Whether the session is inside TLS.
    pub tls: bool,
    /// What all bytes from here on are compressed with, inside TLS if there is TLS.
    pub compression: Compression,
}

/// What the caller has to do next.
#[must_use]
#[non_exhaustive]
pub enum Action {
    /// Send this payload as one packet, then hand over the next packet. It may hold the password: wipe copies of it.
    Send(Zeroizing<Vec<u8>>),
    /// Send this payload, run the TLS handshake, then call [`Connect::tls_ready`]. Bytes that came before the TLS
    /// handshake belong to nobody: refuse them.
    StartTls(Vec<u8>),
    /// Encrypt `plaintext` by RSA-OAEP with SHA-1 under the key, then call [`Connect::encrypted`].
    Encrypt {
        /// The server's public key, `SubjectPublicKeyInfo` in PEM, not checked.
        public_key_pem: Vec<u8>,
        /// The password, obfuscated but not secret without the encryption.
        plaintext: Zeroizing<Vec<u8>>,
    },
    /// Hand over the next packet.
    Wait,
    /// Logged in.
    Done(Session),
}

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
    tls: bool,
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
        Ok(Self { login, state: State::Greeting, tls: false, capabilities: CapabilityFlags::empty() })
    }

    fn channel(&self) -> Channel {
        Channel {
            secure: self.tls || self.login.local,
            allow_public_key_retrieval: self.login.allow_public_key_retrieval,
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
            | CapabilityFlags::DEPRECATE_EOF;
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
    /// Misuse: TLS was not asked for.
    pub fn tls_ready(&mut self) -> Result<Action, Error> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Tls(greeting) => {
                self.tls = true;
                self.send_login(greeting)
            }
            _ => Err(Error::usage("TLS was not asked for")),
        }
    }

    fn send_login(&mut self, greeting: HandshakeV10) -> Result<Action, Error> {
        // A default plugin this crate does not speak need not be the account's: start with one it speaks, and the
        // server switches. sha256_password is never the opening, since on a plain connection it needs a key first.
        let plugin = match Plugin::by_name(greeting.auth_plugin.as_bytes()) {
            Some(plugin @ (Plugin::CachingSha2 | Plugin::NativePassword)) => plugin,
            Some(Plugin::Sha256) => Plugin::CachingSha2,
            None => Plugin::NativePassword,
        };
        let mut exchange = Exchange::new(plugin, greeting.nonce, self.channel());
        let auth = exchange.start(&self.login.password)?;
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
                return Ok(Action::Done(Session {
                    version: ServerVersion::from_greeting(&greeting.server_version, greeting.capabilities),
                    server_version: greeting.server_version,
                    connection_id: greeting.connection_id,
                    capabilities: self.capabilities,
                    status: ok.status,
                    tls: self.tls,
                    compression: self.login.compression,
                }));
            }
            Reply::Err => return Err(Error::server(DURING, parse_err(packet).map_err(malformed)?)),
            Reply::AuthSwitch => {
                exchange = self.switch(packet)?;
                Action::Send(exchange.start(&self.login.password)?)
            }
            Reply::AuthMore => match exchange.more(packet.get(1..).unwrap_or_default(), &self.login.password)? {
                Step::Send(bytes) => Action::Send(bytes),
                Step::Encrypt { public_key_pem, plaintext } => Action::Encrypt { public_key_pem, plaintext },
                Step::Wait => Action::Wait,
            },
            Reply::OldAuthSwitch => return Err(Error::auth("not supported", Some(b"mysql_old_password"))),
            Reply::AuthNextFactor => {
                return Err(Error::auth(
                    "the account needs a second authentication factor, which is not supported",
                    None,
                ));
            }
            _ => return Err(Error::unexpected(DURING, "a packet that has no place there")),
        };
        self.state = State::Auth { greeting, exchange, rounds };
        Ok(action)
    }

    /// AuthSwitchRequest: `fe`, plugin NUL, 20 bytes of nonce with or without a NUL
    /// (`page_protocol_connection_phase_packets_protocol_auth_switch_request`).
    fn switch(&self, packet: &[u8]) -> Result<Exchange, Error> {
        let mut r = Reader::new(packet);
        let malformed = |e| Error::malformed(DURING, e);
        r.skip(1, "header").map_err(malformed)?;
        let name = r.nul_bytes("plugin").map_err(malformed)?;
        let Some(plugin) = Plugin::by_name(name) else {
            return Err(Error::auth(
                "the account's authentication plugin is not supported: use caching_sha2_password, sha256_password or \
                 mysql_native_password for it",
                Some(name),
            ));
        };
        let nonce = r.array::<NONCE_LEN>("nonce").map_err(malformed)?;
        Ok(Exchange::new(plugin, nonce, self.channel()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{check_native_password, native_password};
    use crate::response::encode_err;

    fn login(tls: TlsUse) -> Login {
        Login {
            user: "repl".into(),
            password: "secret".into(),
            database: None,
            tls,
            local: false,
            allow_public_key_retrieval: false,
            max_packet: 1 << 30,
            compression: Compression::None,
            session_track: false,
            attributes: vec![("program_name".into(), "millstream".into())],
        }
    }

    fn greeting(plugin: &str, remove: CapabilityFlags) -> Vec<u8> {
        HandshakeV10 {
            server_version: "9.7.4".into(),
            connection_id: 5,
            nonce: *b"01234567890123456789",
            capabilities: CapabilityFlags::from_bits_retain(0xdfff_ffff).difference(remove),
            charset: 255,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: plugin.into(),
        }
        .encode()
    }

    fn switch(plugin: &str, nonce: &[u8]) -> Vec<u8> {
        [&[0xfe], plugin.as_bytes(), &[0], nonce].concat()
    }

    fn sent(action: Action) -> Vec<u8> {
        match action {
            Action::Send(bytes) => bytes.to_vec(),
            _ => panic!("not a send"),
        }
    }

    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn native_password_and_done() {
        let mut c = Connect::new(login(TlsUse::Never)).unwrap();
        let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
        let parsed = HandshakeResponse41::parse(&packet).unwrap();
        assert!(check_native_password(b"secret", b"01234567890123456789", parsed.auth));
        assert_eq!(parsed.attributes, [(&b"program_name"[..], &b"millstream"[..])]);
        assert!(!parsed.capabilities.intersects(
            CapabilityFlags::LOCAL_FILES | CapabilityFlags::MULTI_STATEMENTS | CapabilityFlags::QUERY_ATTRIBUTES
        ));
        let Action::Done(session) = c.handle(OK).unwrap() else { panic!() };
        assert_eq!((session.connection_id, session.tls), (5, false));
        assert!(c.handle(OK).is_err());
    }

    #[test]
    fn tls_is_never_given_up() {
        let no_tls = greeting("caching_sha2_password", CapabilityFlags::SSL);
        let e = Connect::new(login(TlsUse::Always)).unwrap().handle(&no_tls).err().unwrap();
        assert!(e.is_tls() && !e.is_retryable());
        assert!(matches!(Connect::new(login(TlsUse::IfOffered)).unwrap().handle(&no_tls), Ok(Action::Send(_))));

        let mut c = Connect::new(login(TlsUse::IfOffered)).unwrap();
        let tls = greeting("caching_sha2_password", CapabilityFlags::empty());
        let Action::StartTls(request) = c.handle(&tls).unwrap() else { panic!() };
        assert_eq!(request.len(), 32);
        let packet = sent(c.tls_ready().unwrap());
        assert_eq!(packet[..32], request[..]);
        assert_eq!(sent(c.handle(&[1, 4]).unwrap()), b"secret\0");
        assert!(matches!(c.handle(OK).unwrap(), Action::Done(s) if s.tls));

        // A packet in place of the TLS handshake.
        let mut c = Connect::new(login(TlsUse::Always)).unwrap();
        assert!(matches!(c.handle(&tls).unwrap(), Action::StartTls(_)));
        assert!(c.handle(OK).is_err());
    }

    #[test]
    fn switches_are_followed_with_the_new_nonce() {
        let mut c = Connect::new(login(TlsUse::Never)).unwrap();
        sent(c.handle(&greeting("unknown_default", CapabilityFlags::empty())).unwrap());
        let nonce = *b"abcdefghijklmnopqrst";
        let with_nul = [&nonce[..], &[0]].concat();
        let answer = sent(c.handle(&switch("mysql_native_password", &with_nul)).unwrap());
        assert_eq!(answer, native_password(b"secret", &nonce));
        assert_eq!(c.plugin(), Some("mysql_native_password"));
        assert!(matches!(c.handle(OK).unwrap(), Action::Done(_)));
    }

    #[test]
    fn hostile_servers_get_an_error_and_no_password() {
        let start = || {
            let mut c = Connect::new(login(TlsUse::Never)).unwrap();
            sent(c.handle(&greeting("caching_sha2_password", CapabilityFlags::empty())).unwrap());
            c
        };
        let e = start().handle(&switch("mysql_clear_password", b"")).err().unwrap();
        assert!(e.is_auth() && e.to_string().contains("mysql_clear_password"));
        assert!(start().handle(&[0xfe]).err().unwrap().to_string().contains("mysql_old_password"));
        // Bug 104: a nonce of four bytes.
        assert!(start().handle(&switch("mysql_native_password", b"abcd")).is_err());
        assert!(start().handle(&[1, 4]).err().unwrap().is_auth());
        assert!(start().handle(&[2]).is_err());
        assert!(start().handle(&[]).is_err());
        assert!(start().handle(&[0xfb, b'x']).is_err());
        let e = start().handle(&encode_err(1045, *b"28000", "Access denied for user")).err().unwrap();
        assert!(e.is_auth());
        // Ping-pong ends.
        let mut c = start();
        let mut rounds = 0;
        while c.handle(&switch("mysql_native_password", b"abcdefghijklmnopqrst")).is_ok() {
            rounds += 1;
        }
        assert_eq!(rounds, MAX_ROUNDS);
    }

    #[test]
    fn an_error_instead_of_the_greeting() {
        let e = Connect::new(login(TlsUse::Never)).unwrap().handle(b"\xff\x10\x04Too many connections").err().unwrap();
        assert!(e.is_retryable());
        assert_eq!(e.to_string(), "connecting: server error 1040 (HY000): Too many connections");
    }

    /// Conformance: W9
    #[test]
    fn compression_and_tracking_are_used_where_both_want_them() {
        let all = CapabilityFlags::COMPRESS | CapabilityFlags::ZSTD_COMPRESSION | CapabilityFlags::SESSION_TRACK;
        let mut wanted = vec![(Compression::None, CapabilityFlags::empty())];
        if cfg!(feature = "zlib") {
            wanted.push((Compression::Zlib, CapabilityFlags::COMPRESS));
        }
        if cfg!(feature = "zstd") {
            wanted.push((Compression::Zstd { level: 7 }, CapabilityFlags::ZSTD_COMPRESSION));
        }
        for (compression, flag) in wanted {
            let login = Login { compression, ..login(TlsUse::Never) };
            let mut c = Connect::new(login.clone()).unwrap();
            let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
            let parsed = HandshakeResponse41::parse(&packet).unwrap();
            assert_eq!(parsed.capabilities & all, flag);
            assert_eq!(parsed.zstd_level, matches!(compression, Compression::Zstd { .. }).then_some(7));
            assert!(matches!(c.handle(OK).unwrap(), Action::Done(s) if s.compression == compression));

            // A server without it.
            let refused = Connect::new(login.clone()).unwrap().handle(&greeting("mysql_native_password", all));
            assert_eq!(refused.is_err(), compression != Compression::None);

            let mut c = Connect::new(Login { session_track: true, ..login }).unwrap();
            let packet = sent(c.handle(&greeting("mysql_native_password", CapabilityFlags::empty())).unwrap());
            let capabilities = HandshakeResponse41::parse(&packet).unwrap().capabilities;
            assert_eq!(capabilities & all, flag | CapabilityFlags::SESSION_TRACK);
        }
        let bad = Login { compression: Compression::Zstd { level: 0 }, ..login(TlsUse::Never) };
        assert!(Connect::new(bad).is_err());
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let mut l = login(TlsUse::Never);
        l.user = "a\0b".into();
        assert!(Connect::new(l).is_err());
        let mut l = login(TlsUse::Never);
        l.attributes = vec![("k".into(), "v".repeat(40_000))];
        assert!(Connect::new(l).is_err());
    }
}
