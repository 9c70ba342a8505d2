use sha2::{Digest, Sha256};

use crate::handshake::NONCE_LEN;

/// How a server of MariaDB 11.4 and later shows that a certificate is its own: in the remark of the login's OK,
/// `01` and 64 hexadecimal digits (MariaDB: `sql/sql_acl.cc`). Without SESSION_TRACK the remark's length, `41`, is part
/// of it.
pub(crate) fn claimed(info: &[u8]) -> Option<[u8; 32]> {
    let digits = match info {
        [1, digits @ ..] | [0x41, 1, digits @ ..] if digits.len() == 64 => digits,
        _ => return None,
    };
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let text = core::str::from_utf8(pair).ok().filter(|text| !text.starts_with('+'))?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    Some(out)
}

/// What it must be: SHA-256 of what the server keeps of the password, the nonce that the password was mixed with, and the
/// SHA-256 of the certificate in DER. Whoever stands in between shows a certificate of his own and does not know the
/// first of them.
pub(crate) fn expected(stored: &[u8], nonce: &[u8; NONCE_LEN], certificate: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(stored);
    hash.update(nonce);
    hash.update(certificate);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_proof_is_one() {
        let digits = b"0123456789abcdefABCDEF0123456789abcdefABCDEF0123456789abcdefABCD";
        let proof = [&[1][..], digits].concat();
        let with_length = [&[0x41][..], &proof].concat();
        assert_eq!(claimed(&proof).unwrap()[..4], [0x01, 0x23, 0x45, 0x67]);
        assert_eq!(claimed(&with_length), claimed(&proof));
        for cut in 0..proof.len() {
            assert_eq!(claimed(&proof[..cut]), None);
        }
        assert_eq!(claimed(&[&proof[..], b"0"].concat()), None);
        for bad in [b'g', b'+', b'-', 0, 0xff] {
            let mut bytes = proof.clone();
            bytes[1] = bad;
            assert_eq!(claimed(&bytes), None, "{bad}");
        }
        assert_eq!(claimed(b"Rows matched: 1"), None);
    }
}
