use pbkdf2::pbkdf2_hmac;
use sha2::Sha512;
use zeroize::Zeroizing;

use super::ed25519::{CHALLENGE_LEN, sign_with_seed};
use crate::codec::{ParseError, ParseErrorKind, Reader};

/// Bytes that the client adds to the server's challenge, at random.
pub const CLIENT_NONCE_LEN: usize = 32;
const SALT_LEN: usize = 18;
/// 8192 rounds: the most that a server of today asks for (MariaDB: `plugin/auth_parsec`).
const MAX_FACTOR: u8 = 3;

/// How the server has the password hashed: `'P'`, `u8 n` for 1024 << n rounds, `salt[18]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The rounds of PBKDF2 are 1024 times two to the power of this, at most 3.
    pub factor: u8,
    /// The account's salt.
    pub salt: [u8; SALT_LEN],
}

impl Parameters {
    /// Reads what the server sends of them.
    ///
    /// # Errors
    /// Another algorithm, more rounds than a server asks for (each factor doubles the work), another length.
    pub fn parse(data: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(data);
        match r.u8("parsec algorithm")? {
            b'P' => {}
            other => return Err(r.error("parsec algorithm", ParseErrorKind::BadTag(other))),
        }
        let factor = r.u8("parsec rounds")?;
        if factor > MAX_FACTOR {
            return Err(r.error("parsec rounds", ParseErrorKind::BadTag(factor)));
        }
        let salt = r.array("parsec salt")?;
        r.finish("parsec parameters")?;
        Ok(Self { factor, salt })
    }

    fn seed(&self, password: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new([0; 32]);
        let rounds = 1024_u32 << self.factor.min(MAX_FACTOR);
        pbkdf2_hmac::<Sha512>(password, &self.salt, rounds, &mut *seed);
        seed
    }
}

/// `parsec`: the client's nonce and the signature of both sides' nonces, and what the server keeps of the password: the
/// parameters and the public key.
#[must_use]
pub fn answer(
    password: &[u8],
    parameters: &Parameters,
    challenge: &[u8; CHALLENGE_LEN],
    client_nonce: &[u8; CLIENT_NONCE_LEN],
) -> (Vec<u8>, Vec<u8>) {
    let seed = parameters.seed(password);
    let (signature, public) = sign_with_seed(&seed, &[&challenge[..], client_nonce].concat());
    let stored = [&[b'P', parameters.factor][..], &parameters.salt, &public].concat();
    ([&client_nonce[..], &signature].concat(), stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::hex;

    #[test]
    fn a_server_accepted_this_one() {
        // A recorded login to MariaDB 11.8.9 with the password pa55-w0rd.
        let challenge = hex("f460fc4e05e4fab0aefd1485e2e6c7fd7590b88dcaa969be0890d1cccb5aaf93");
        let parameters = Parameters::parse(&hex("5000528c182878cf5ddb527446acb515468d191a")).unwrap();
        let client_nonce: Vec<u8> = (0..32).collect();
        let (answer, stored) = answer(
            b"pa55-w0rd",
            &parameters,
            &challenge[..].try_into().unwrap(),
            &client_nonce[..].try_into().unwrap(),
        );
        assert_eq!(answer[..32], client_nonce[..]);
        assert_eq!(answer[32..40], hex("153e1ba697878889")[..]);
        assert_eq!(answer[88..], hex("93db711bb8cfe7bd330b")[2..]);
        assert_eq!((answer.len(), stored.len()), (96, 52));
    }

    #[test]
    fn only_what_a_server_asks_for() {
        let good = [&[b'P', 3][..], &[7; 18]].concat();
        assert_eq!(Parameters::parse(&good).unwrap().factor, 3);
        for (at, byte) in [(0, b'Q'), (1, 4), (1, 255)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Parameters::parse(&bad).is_err());
        }
        for cut in 0..good.len() {
            assert!(Parameters::parse(&good[..cut]).is_err(), "{cut}");
        }
        assert!(Parameters::parse(&[&good[..], &[0]].concat()).is_err());
    }
}
