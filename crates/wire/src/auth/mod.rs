//! Authentication plugins as pure exchanges: the server's bytes in, the client's answer out.
//!
//! Spoken: `caching_sha2_password`, `sha256_password`, `mysql_native_password`, MariaDB's `client_ed25519` and `parsec`,
//! and `mysql_clear_password` where it is allowed and nobody can listen. Any other plugin is named in the error, with what
//! to do.

mod caching_sha2;
mod ed25519;
mod native_password;
mod parsec;
mod proof;
mod rsa;
mod unspoken;

pub use caching_sha2::scramble as caching_sha2;
pub use ed25519::{CHALLENGE_LEN, sign as ed25519};
pub use native_password::{check as check_native_password, scramble as native_password};
pub use parsec::{CLIENT_NONCE_LEN, Parameters as ParsecParameters, answer as parsec};

pub(crate) use native_password::stored as stored_native_password;
pub(crate) use proof::{claimed as claimed_proof, expected as expected_proof};
#[cfg(feature = "client")]
pub(crate) use rsa::encrypt;
use rsa::obfuscate;
pub(crate) use unspoken::refusal;

use zeroize::Zeroizing;

use crate::codec::{ParseError, Reader};
use crate::error::{Error, LOGIN as DURING};
use crate::handshake::NONCE_LEN;
use crate::password::Password;

/// A plugin this crate can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    NativePassword,
    CachingSha2,
    Sha256,
    Clear,
    Ed25519,
    Parsec,
}

impl Plugin {
    const ALL: [Self; 6] =
        [Self::NativePassword, Self::CachingSha2, Self::Sha256, Self::Clear, Self::Ed25519, Self::Parsec];

    pub(crate) fn by_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name().as_bytes() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NativePassword => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Sha256 => "sha256_password",
            Self::Clear => "mysql_clear_password",
            Self::Ed25519 => "client_ed25519",
            Self::Parsec => "parsec",
        }
    }

    /// Whether its first answer can go into the login packet, over the greeting's nonce. The others begin with an
    /// AuthSwitchRequest.
    pub(crate) const fn can_open(self) -> bool {
        matches!(self, Self::NativePassword | Self::CachingSha2)
    }
}

/// What is known and what is permitted on this connection.
pub(crate) struct Context<'a> {
    pub(crate) password: &'a Password,
    /// Inside TLS.
    pub(crate) encrypted: bool,
    /// Nobody can listen or stand in between: the password may be sent as it is, if the plugin wants that.
    pub(crate) secure: bool,
    /// The server's RSA key may be asked for and believed.
    pub(crate) allow_public_key_retrieval: bool,
    /// The server's RSA key, known beforehand.
    pub(crate) public_key: Option<&'a [u8]>,
    /// `mysql_clear_password` may be answered.
    pub(crate) allow_cleartext: bool,
    /// Random bytes for `parsec`.
    pub(crate) client_nonce: Option<&'a [u8; CLIENT_NONCE_LEN]>,
}

/// The client's next move.
pub(crate) enum Step {
    /// Send these bytes as a packet (possibly an empty one).
    Send(Zeroizing<Vec<u8>>),
    /// Encrypt `plaintext` with the key, then send the result.
    Encrypt { public_key_pem: Vec<u8>, plaintext: Zeroizing<Vec<u8>> },
    /// Nothing to send: the server speaks next.
    Wait,
}

/// What the server wants the password mixed with.
#[derive(Clone, Copy, Debug)]
enum Nonce {
    None,
    Short([u8; NONCE_LEN]),
    Long([u8; CHALLENGE_LEN]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begun,
    /// `caching_sha2_password`, `sha256_password`: the RSA key is due.
    KeyRequested,
    /// `parsec`: the salt is due.
    SaltRequested,
    Finished,
}

/// One run of one plugin.
#[derive(Debug)]
pub(crate) struct Exchange {
    plugin: Plugin,
    nonce: Nonce,
    stage: Stage,
    /// What the server keeps of the password, once the exchange told it.
    stored: Option<Vec<u8>>,
}

impl Exchange {
    /// The plugin of the login packet.
    pub(crate) const fn opening(plugin: Plugin, nonce: [u8; NONCE_LEN]) -> Self {
        Self { plugin, nonce: Nonce::Short(nonce), stage: Stage::Begun, stored: None }
    }

    /// The plugin of an AuthSwitchRequest with the data that came with it. The nonce of the SHA plugins ends in a NUL that
    /// is not part of it, and that some servers leave out.
    pub(crate) fn switched(plugin: Plugin, data: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(data);
        let nonce = match plugin {
            Plugin::Clear => Nonce::None,
            Plugin::Ed25519 | Plugin::Parsec => {
                let nonce = Nonce::Long(r.array("challenge")?);
                r.finish("challenge")?;
                nonce
            }
            Plugin::NativePassword | Plugin::CachingSha2 | Plugin::Sha256 => Nonce::Short(r.array("nonce")?),
        };
        Ok(Self { plugin, nonce, stage: Stage::Begun, stored: None })
    }

    pub(crate) const fn plugin(&self) -> Plugin {
        self.plugin
    }

    fn fail(&self, what: &'static str) -> Error {
        Error::auth(what, Some(self.plugin.name().as_bytes()))
    }

    /// The first answer: inside the login packet, or to an AuthSwitchRequest.
    pub(crate) fn start(&mut self, context: &Context<'_>) -> Result<Step, Error> {
        let password = context.password.expose();
        let answer = match (self.plugin, self.nonce) {
            (Plugin::Clear, _) => return self.clear_if_allowed(context),
            // A request for the salt, with and without a password.
            (Plugin::Parsec, _) => {
                self.stage = Stage::SaltRequested;
                Vec::new()
            }
            // An empty password is an empty answer: a scramble of nothing would be refused.
            (Plugin::Sha256, _) if password.is_empty() => vec![0],
            (Plugin::NativePassword | Plugin::CachingSha2, _) if password.is_empty() => Vec::new(),
            (Plugin::NativePassword, Nonce::Short(nonce)) => native_password::scramble(password, &nonce).to_vec(),
            (Plugin::CachingSha2, Nonce::Short(nonce)) => caching_sha2::scramble(password, &nonce).to_vec(),
            // Not over a unix socket: for this plugin, unlike caching_sha2_password, servers do not take it as secure.
            (Plugin::Sha256, _) if context.encrypted => return Ok(self.clear(context)),
            (Plugin::Sha256, _) => return self.by_key(context, 1),
            (Plugin::Ed25519, Nonce::Long(challenge)) => {
                self.stored = Some(ed25519::public_key(password).to_vec());
                ed25519::sign(password, &challenge).to_vec()
            }
            _ => return Err(self.fail("no nonce came with it")),
        };
        Ok(Step::Send(Zeroizing::new(answer)))
    }

    /// An AuthMoreData packet, without its first byte.
    pub(crate) fn more(&mut self, data: &[u8], context: &Context<'_>) -> Result<Step, Error> {
        match (self.stage, self.plugin, data) {
            (Stage::Finished, ..) => Err(self.fail("the server went on after the last answer")),
            (Stage::KeyRequested, ..) => self.encrypt(data, context),
            (Stage::SaltRequested, ..) => self.sign(data, context),
            // Fast authentication worked: an OK packet follows.
            (_, Plugin::CachingSha2, [3]) => {
                self.stage = Stage::Finished;
                Ok(Step::Wait)
            }
            (_, Plugin::CachingSha2, [4]) if context.secure => Ok(self.clear(context)),
            (_, Plugin::CachingSha2, [4]) => self.by_key(context, 2),
            _ => Err(self.fail("an answer of the server that has no place in the exchange")),
        }
    }

    fn clear(&mut self, context: &Context<'_>) -> Step {
        self.stage = Stage::Finished;
        let password = context.password.expose();
        let mut answer = Zeroizing::new(Vec::new());
        answer.reserve_exact(password.len().saturating_add(1));
        answer.extend_from_slice(password);
        answer.push(0);
        Step::Send(answer)
    }

    fn clear_if_allowed(&mut self, context: &Context<'_>) -> Result<Step, Error> {
        if !context.allow_cleartext {
            return Err(self.fail(
                "the server asks for the password as it is: set allow_cleartext_password if this server is meant to have \
                 it (for PAM or LDAP)",
            ));
        }
        if !context.secure {
            return Err(self.fail(
                "the server asks for the password as it is, and somebody could listen or stand in between: use TLS \
                 (ssl_mode, with ssl_ca to know the server) or a unix socket",
            ));
        }
        Ok(self.clear(context))
    }

    /// Sends the password encrypted by the server's key, which may have to be asked for first.
    fn by_key(&mut self, context: &Context<'_>, request: u8) -> Result<Step, Error> {
        if let Some(key) = context.public_key {
            return self.encrypt(key, context);
        }
        if !context.allow_public_key_retrieval {
            return Err(self.fail(
                "the server wants the whole password and the connection is not encrypted: use TLS (ssl_mode), \
                 a unix socket, give the server's key (server_public_key), or set allow_public_key_retrieval if nobody \
                 can stand in between",
            ));
        }
        self.stage = Stage::KeyRequested;
        Ok(Step::Send(Zeroizing::new(vec![request])))
    }

    fn encrypt(&mut self, public_key_pem: &[u8], context: &Context<'_>) -> Result<Step, Error> {
        self.stage = Stage::Finished;
        let Nonce::Short(nonce) = &self.nonce else {
            return Err(self.fail("no nonce came with it"));
        };
        let plaintext = obfuscate(context.password.expose(), nonce);
        Ok(Step::Encrypt { public_key_pem: public_key_pem.to_vec(), plaintext })
    }

    fn sign(&mut self, data: &[u8], context: &Context<'_>) -> Result<Step, Error> {
        self.stage = Stage::Finished;
        let (Nonce::Long(challenge), Some(client_nonce)) = (&self.nonce, context.client_nonce) else {
            return Err(self.fail("the plugin needs random bytes of the client (Login::client_nonce)"));
        };
        let parameters = ParsecParameters::parse(data).map_err(|e| Error::malformed(DURING, e))?;
        let (answer, stored) = parsec::answer(context.password.expose(), &parameters, challenge, client_nonce);
        self.stored = Some(stored);
        Ok(Step::Send(Zeroizing::new(answer)))
    }

    /// What the server keeps of the password and the nonce that its proof is made with: the greeting's, or that of a
    /// switch to `mysql_native_password`. Nothing for plugins that know no proof.
    pub(crate) fn proof_parts(
        &self,
        password: &Password,
        greeting: &[u8; NONCE_LEN],
    ) -> Option<(Vec<u8>, [u8; NONCE_LEN])> {
        match (self.plugin, self.nonce) {
            _ if password.is_empty() => None,
            (Plugin::NativePassword, Nonce::Short(nonce)) => {
                Some((stored_native_password(password.expose()).to_vec(), nonce))
            }
            _ => self.stored.clone().map(|stored| (stored, *greeting)),
        }
    }
}

#[cfg(test)]
mod tests;
