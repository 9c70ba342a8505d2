use sha1::{Digest, Sha1};

use crate::handshake::NONCE_LEN;

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// `SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))`
/// (`page_protocol_connection_phase_authentication_methods_native_password_authentication`).
#[must_use]
pub fn scramble(password: &[u8], nonce: &[u8; NONCE_LEN]) -> [u8; 20] {
    let stage1 = sha1(&[password]);
    let stage2 = sha1(&[&stage1]);
    let mut out = sha1(&[nonce, &stage2]);
    for (o, s) in out.iter_mut().zip(stage1) {
        *o ^= s;
    }
    out
}

/// What the server keeps of a password.
pub(crate) fn stored(password: &[u8]) -> [u8; 20] {
    sha1(&[&sha1(&[password])])
}

/// The server's side: whether `answer` proves knowledge of `password`. No password is an empty answer.
#[must_use]
pub fn check(password: &[u8], nonce: &[u8; NONCE_LEN], answer: &[u8]) -> bool {
    if password.is_empty() { answer.is_empty() } else { answer == scramble(password, nonce) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_only_its_scramble() {
        let nonce = b"01234567890123456789";
        let answer = scramble(b"pa55-w0rd", nonce);
        assert!(check(b"pa55-w0rd", nonce, &answer));
        assert!(!check(b"pa55-w0re", nonce, &answer));
        assert!(!check(b"pa55-w0rd", b"11234567890123456789", &answer));
        assert!(!check(b"pa55-w0rd", nonce, &[]));
        assert!(check(b"", nonce, &[]) && !check(b"", nonce, &answer));
    }

    #[test]
    fn the_double_hash_is_the_one_servers_store() {
        // SELECT SHA1(UNHEX(SHA1('pa55-w0rd'))) is what the server keeps: undo the XOR and compare.
        let nonce = b"abcdefghijklmnopqrst";
        let answer = scramble(b"pa55-w0rd", nonce);
        let stored = sha1(&[&sha1(&[b"pa55-w0rd"])]);
        let mask = sha1(&[nonce, &stored]);
        let stage1: Vec<u8> = answer.iter().zip(mask).map(|(a, m)| a ^ m).collect();
        assert_eq!(sha1(&[&stage1]), stored);
    }
}
