//! The first packets of a connection: greeting, TLS request, login.

mod greeting;
mod login;

pub use greeting::{HandshakeV10, NONCE_LEN};
pub use login::{HandshakeResponse41, SslRequest, UTF8MB4_GENERAL_CI};
