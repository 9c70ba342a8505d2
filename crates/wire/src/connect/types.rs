use zeroize::Zeroizing;

use crate::auth::CLIENT_NONCE_LEN;
use crate::compress::Compression;
use crate::flags::{CapabilityFlags, StatusFlags};
use crate::password::Password;
use crate::version::ServerVersion;

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
    /// The server's RSA key (`public_key.pem`) as PEM, known beforehand: it is used instead of one that the server sends.
    pub server_public_key: Option<Vec<u8>>,
    /// Answer `mysql_clear_password`, inside TLS or where nobody can listen.
    pub allow_cleartext_password: bool,
    /// Bytes from a source of randomness, new for each login. Without them `parsec` is refused.
    pub client_nonce: Option<[u8; CLIENT_NONCE_LEN]>,
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
#[non_exhaustive]
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
    /// Who says that the server is the right one.
    pub identity: Identity,
    /// What all bytes from here on are compressed with, inside TLS if there is TLS.
    pub compression: Compression,
}

/// What the TLS handshake found out about the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certificate {
    /// It comes from a CA that is believed.
    Verified,
    /// Nobody asked whose it is. A server that proves by the password that it is another's is refused all the same.
    Unchecked {
        /// SHA-256 of the certificate in DER.
        sha256: [u8; 32],
    },
    /// No CA vouches for it: the server must prove by the password that it is its own, as MariaDB does since 11.4. Until
    /// then nothing is sent from which somebody in between could read the password.
    ToBeProven {
        /// SHA-256 of the certificate in DER.
        sha256: [u8; 32],
    },
}

/// Who says that the server is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// Nobody: plain text, or a certificate that was not checked.
    Unknown,
    /// A CA, for the certificate.
    Certificate,
    /// The server itself, which knows what it keeps of the password and has bound the certificate to it.
    Password,
}

/// What the caller has to do next.
#[must_use]
#[non_exhaustive]
pub enum Action {
    /// Send this payload as one packet, then hand over the next packet. It may hold the password: wipe copies of it.
    Send(Zeroizing<Vec<u8>>),
    /// Send this payload, run the TLS handshake, then call [`Connect::tls_ready`](super::Connect::tls_ready). Bytes that came before the TLS
    /// handshake belong to nobody: refuse them.
    StartTls(Vec<u8>),
    /// Encrypt `plaintext` by RSA-OAEP with SHA-1 under the key, then call [`Connect::encrypted`](super::Connect::encrypted).
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
