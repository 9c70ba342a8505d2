use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{SigningKey, VerifyingKey};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// Bytes of the challenge that comes with the AuthSwitchRequest.
pub const CHALLENGE_LEN: usize = 32;

/// Ed25519 as RFC 8032 has it, but with a password of any length where the RFC has a seed of 32 bytes: SHA-512 makes the
/// scalar and the prefix of either.
fn key(password: &[u8]) -> ExpandedSecretKey {
    let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(password)));
    ExpandedSecretKey::from_bytes(&hash)
}

/// `client_ed25519`: the signature of the server's challenge (MariaDB: `plugin/auth_ed25519`).
#[must_use]
pub fn sign(password: &[u8], challenge: &[u8; CHALLENGE_LEN]) -> [u8; 64] {
    let key = key(password);
    let public = VerifyingKey::from(&key);
    raw_sign::<Sha512>(&key, challenge, &public).to_bytes()
}

/// What the server keeps of a password: the public key.
#[must_use]
pub(super) fn public_key(password: &[u8]) -> [u8; 32] {
    VerifyingKey::from(&key(password)).to_bytes()
}

/// The same two with a seed of 32 bytes, for `parsec`.
pub(super) fn sign_with_seed(seed: &[u8; 32], message: &[u8]) -> ([u8; 64], [u8; 32]) {
    use ed25519_dalek::Signer;
    let key = SigningKey::from_bytes(seed);
    (key.sign(message).to_bytes(), key.verifying_key().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::hex;

    #[test]
    fn with_thirty_two_bytes_it_is_the_rfcs() {
        // RFC 8032, 7.1, test 1: the public key and the signature of nothing.
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        assert_eq!(public_key(&seed)[..], public[..]);
        let (signature, same) = sign_with_seed(&seed[..].try_into().unwrap(), b"");
        assert_eq!(same[..], public[..]);
        assert_eq!(signature[..4], [0xe5, 0x56, 0x43, 0x00]);
    }

    #[test]
    fn a_server_accepted_this_one() {
        // Challenge and answer of a recorded login to MariaDB 11.8.9 with the password pa55-w0rd.
        let challenge = hex("d44a21d335f8287f05158b640376c2b4904be03249019de5b2147d4f56065701");
        let answer = sign(b"pa55-w0rd", &challenge[..].try_into().unwrap());
        assert_eq!(answer[..16], hex("9ebdc2e8565832556103f68684b0f254")[..]);
        assert_eq!(answer[48..], hex("2825eaa410e270f8b65c19bc07bd0addfe07")[2..]);
    }
}
