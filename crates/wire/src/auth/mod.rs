//! Authentication plugins as pure exchanges: the server's bytes in, the client's answer out.
//!
//! Spoken: `caching_sha2_password`, `sha256_password`, `mysql_native_password`. Any other plugin is named in the
//! error. `mysql_clear_password` is never answered, on no transport.

mod caching_sha2;
mod native_password;
mod rsa;

pub use caching_sha2::scramble as caching_sha2;
pub use native_password::{check as check_native_password, scramble as native_password};

#[cfg(feature = "client")]
pub(crate) use rsa::encrypt;
use rsa::obfuscate;

use zeroize::Zeroizing;

use crate::error::Error;
use crate::handshake::NONCE_LEN;
use crate::password::Password;

/// A plugin this crate can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    NativePassword,
    CachingSha2,
    Sha256,
}

impl Plugin {
    pub(crate) fn by_name(name: &[u8]) -> Option<Self> {
        [Self::NativePassword, Self::CachingSha2, Self::Sha256].into_iter().find(|p| p.name().as_bytes() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NativePassword => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Sha256 => "sha256_password",
        }
    }
}

/// What may travel on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    /// TLS or a unix socket: the password may be sent as it is.
    pub(crate) secure: bool,
    /// The server's RSA key may be asked for and believed.
    pub(crate) allow_public_key_retrieval: bool,
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

/// One run of one plugin.
#[derive(Debug)]
pub(crate) struct Exchange {
    plugin: Plugin,
    nonce: [u8; NONCE_LEN],
    channel: Channel,
    key_requested: bool,
    finished: bool,
}

impl Exchange {
    pub(crate) const fn new(plugin: Plugin, nonce: [u8; NONCE_LEN], channel: Channel) -> Self {
        Self { plugin, nonce, channel, key_requested: false, finished: false }
    }

    pub(crate) const fn plugin(&self) -> Plugin {
        self.plugin
    }

    fn fail(&self, what: &'static str) -> Error {
        Error::auth(what, Some(self.plugin.name().as_bytes()))
    }

    /// The first answer: inside the login packet, or to an AuthSwitchRequest.
    pub(crate) fn start(&mut self, password: &Password) -> Result<Zeroizing<Vec<u8>>, Error> {
        // An empty password is an empty answer with every plugin: a scramble of nothing would be refused.
        if password.is_empty() {
            return Ok(Zeroizing::new(match self.plugin {
                Plugin::Sha256 => vec![0],
                _ => Vec::new(),
            }));
        }
        match self.plugin {
            Plugin::NativePassword => {
                Ok(Zeroizing::new(native_password::scramble(password.expose(), &self.nonce).to_vec()))
            }
            Plugin::CachingSha2 => Ok(Zeroizing::new(caching_sha2::scramble(password.expose(), &self.nonce).to_vec())),
            Plugin::Sha256 if self.channel.secure => Ok(self.clear(password)),
            Plugin::Sha256 => self.request_key(1),
        }
    }

    /// An AuthMoreData packet, without its first byte.
    pub(crate) fn more(&mut self, data: &[u8], password: &Password) -> Result<Step, Error> {
        if self.finished {
            return Err(self.fail("the server went on after the last answer"));
        }
        if self.key_requested {
            self.finished = true;
            return Ok(Step::Encrypt {
                public_key_pem: data.to_vec(),
                plaintext: obfuscate(password.expose(), &self.nonce),
            });
        }
        match (self.plugin, data) {
            // Fast authentication worked: an OK packet follows.
            (Plugin::CachingSha2, [3]) => {
                self.finished = true;
                Ok(Step::Wait)
            }
            (Plugin::CachingSha2, [4]) if self.channel.secure => Ok(Step::Send(self.clear(password))),
            (Plugin::CachingSha2, [4]) => self.request_key(2).map(Step::Send),
            _ => Err(self.fail("an answer of the server that has no place in the exchange")),
        }
    }

    fn clear(&mut self, password: &Password) -> Zeroizing<Vec<u8>> {
        self.finished = true;
        let mut answer = Zeroizing::new(Vec::new());
        answer.reserve_exact(password.expose().len().saturating_add(1));
        answer.extend_from_slice(password.expose());
        answer.push(0);
        answer
    }

    fn request_key(&mut self, request: u8) -> Result<Zeroizing<Vec<u8>>, Error> {
        if !self.channel.allow_public_key_retrieval {
            return Err(self.fail(
                "the server wants the whole password and the connection is not encrypted: use TLS (ssl_mode), \
                 a unix socket, or set allow_public_key_retrieval if nobody can stand in between",
            ));
        }
        self.key_requested = true;
        Ok(Zeroizing::new(vec![request]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"01234567890123456789";
    const SECURE: Channel = Channel { secure: true, allow_public_key_retrieval: false };
    const PLAIN: Channel = Channel { secure: false, allow_public_key_retrieval: false };
    const PLAIN_KEY: Channel = Channel { secure: false, allow_public_key_retrieval: true };

    #[test]
    fn clear_password_and_strangers_are_unknown() {
        for name in ["mysql_clear_password", "mysql_old_password", "client_ed25519", "", "caching_sha2_password\0"] {
            assert_eq!(Plugin::by_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_clear_password_goes_over_secure_channels_only() {
        let pw = Password::from("secret");
        let mut e = Exchange::new(Plugin::CachingSha2, NONCE, SECURE);
        assert_eq!(e.start(&pw).unwrap().len(), 32);
        assert!(matches!(e.more(&[4], &pw).unwrap(), Step::Send(b) if b[..] == *b"secret\0"));
        assert!(e.more(&[4], &pw).is_err());

        let mut e = Exchange::new(Plugin::CachingSha2, NONCE, PLAIN);
        e.start(&pw).unwrap();
        let refused = e.more(&[4], &pw).err().unwrap();
        assert!(refused.is_auth() && refused.to_string().contains("allow_public_key_retrieval"));

        let mut e = Exchange::new(Plugin::CachingSha2, NONCE, PLAIN_KEY);
        e.start(&pw).unwrap();
        assert!(matches!(e.more(&[4], &pw).unwrap(), Step::Send(b) if b[..] == [2]));
        let Step::Encrypt { public_key_pem, plaintext } = e.more(b"PEM", &pw).unwrap() else { panic!() };
        assert_eq!((&public_key_pem[..], plaintext.len()), (&b"PEM"[..], 7));
    }

    #[test]
    fn sha256_never_shows_the_password_on_a_plain_connection() {
        let pw = Password::from("secret");
        assert!(Exchange::new(Plugin::Sha256, NONCE, PLAIN).start(&pw).is_err());
        assert_eq!(Exchange::new(Plugin::Sha256, NONCE, PLAIN_KEY).start(&pw).unwrap()[..], [1]);
        assert_eq!(Exchange::new(Plugin::Sha256, NONCE, SECURE).start(&pw).unwrap()[..], *b"secret\0");
    }

    #[test]
    fn no_password_is_an_empty_answer() {
        for (plugin, answer) in [(Plugin::NativePassword, &[][..]), (Plugin::CachingSha2, &[]), (Plugin::Sha256, &[0])]
        {
            let got = Exchange::new(plugin, NONCE, PLAIN).start(&Password::default()).unwrap();
            assert_eq!(got[..], *answer);
        }
    }

    #[test]
    fn nonsense_ends_the_exchange() {
        let pw = Password::from("secret");
        for data in [&[][..], &[1], &[5], &[3, 3]] {
            assert!(Exchange::new(Plugin::CachingSha2, NONCE, SECURE).more(data, &pw).is_err());
        }
        assert!(Exchange::new(Plugin::NativePassword, NONCE, SECURE).more(&[4], &pw).is_err());
    }
}
