use zeroize::Zeroizing;

use crate::handshake::NONCE_LEN;

/// The password and a NUL, XORed with the nonce over and over (20 bytes of it: its own NUL has no part in this).
pub(super) fn obfuscate(password: &[u8], nonce: &[u8; NONCE_LEN]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::new());
    out.reserve_exact(password.len().saturating_add(1));
    out.extend(password.iter().chain(&[0]).zip(nonce.iter().cycle()).map(|(p, n)| p ^ n));
    out
}

/// RSA-OAEP with SHA-1 twice (`sha256_password`, `caching_sha2_password`), under the key a server sent as PEM.
#[cfg(feature = "client")]
pub(crate) fn encrypt(public_key_pem: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, crate::Error> {
    use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
    use rustls::pki_types::SubjectPublicKeyInfoDer;
    use rustls::pki_types::pem::PemObject;

    let refused = || crate::Error::auth("the server's RSA key is not a usable public key", None);
    let der = SubjectPublicKeyInfoDer::from_pem_slice(public_key_pem).map_err(|_| refused())?;
    let key = PublicEncryptingKey::from_der(der.as_ref()).map_err(|_| refused())?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| refused())?;
    if plaintext.len() > key.max_plaintext_size(&OAEP_SHA1_MGF1SHA1) {
        return Err(crate::Error::auth("the password is too long for the server's RSA key", None));
    }
    let mut out = vec![0; key.ciphertext_size()];
    let len = key.encrypt(&OAEP_SHA1_MGF1SHA1, plaintext, &mut out, None).map_err(|_| refused())?.len();
    out.truncate(len);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: 98
    #[test]
    fn a_long_password_cycles_over_twenty_bytes() {
        let nonce = b"01234567890123456789";
        let password = b"a password of more than twenty bytes";
        let out = obfuscate(password, nonce);
        assert_eq!(out.len(), password.len() + 1);
        assert_eq!(out[20], password[20] ^ b'0');
        assert_eq!(out[36], b'6');
    }

    /// The padding hashes with SHA-1, as servers do.
    /// Bug: 99
    #[cfg(feature = "client")]
    #[test]
    fn the_holder_of_the_key_reads_it() {
        use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
        use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
        use core::fmt::Write as _;

        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let der: PublicKeyX509Der<'_> = private.public_key().as_der().unwrap();
        // PEM by hand: the standard base64 alphabet.
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        for chunk in der.as_ref().chunks(48) {
            for three in chunk.chunks(3) {
                let n = three.iter().fold(0u32, |acc, b| acc << 8 | u32::from(*b)) << (8 * (3 - three.len()));
                for i in 0..4 {
                    let c = if i <= three.len() { alphabet[(n >> (18 - 6 * i) & 63) as usize] } else { b'=' };
                    pem.write_char(char::from(c)).unwrap();
                }
            }
            pem.push('\n');
        }
        pem.push_str("-----END PUBLIC KEY-----\n");

        let secret = encrypt(pem.as_bytes(), b"pa55").unwrap();
        let private = OaepPrivateDecryptingKey::new(private).unwrap();
        let mut out = vec![0; private.min_output_size()];
        assert_eq!(private.decrypt(&OAEP_SHA1_MGF1SHA1, &secret, &mut out, None).unwrap(), b"pa55");
        assert!(encrypt(pem.as_bytes(), &[1; 215]).is_err());
        assert!(encrypt(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", b"x").is_err());
        assert!(encrypt(b"", b"x").is_err());
    }
}
