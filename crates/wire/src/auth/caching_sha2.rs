use sha2::{Digest, Sha256};

use crate::handshake::NONCE_LEN;

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// `SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)`
/// (`page_caching_sha2_authentication_exchanges`).
#[must_use]
pub fn scramble(password: &[u8], nonce: &[u8; NONCE_LEN]) -> [u8; 32] {
    let mut out = sha256(&[password]);
    let mask = sha256(&[&sha256(&[&out]), nonce]);
    for (o, m) in out.iter_mut().zip(mask) {
        *o ^= m;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_accepted_this_one() {
        // Nonce, password and answer of a recorded login to MySQL 9.7.4.
        let nonce = b"iG\x1b\x0f\tKj,D\x01qL9H*G{\x13J\x17";
        let answer = scramble(b"pa55-w0rd", nonce);
        assert_eq!(answer[..8], [0x2a, 0x9a, 0xeb, 0x5d, 0x72, 0xcf, 0xfb, 0x39]);
        assert_eq!(answer[28..], [0x0e, 0xe7, 0x13, 0xcd]);
    }
}
