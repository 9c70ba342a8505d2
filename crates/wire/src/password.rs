use core::fmt;

use zeroize::Zeroizing;

/// A password: wiped from memory when dropped, never shown by `Debug`.
#[derive(Clone, Default)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Takes over the bytes of a password.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The secret itself. Never let it reach a log or an error.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is no password at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Password(none)" } else { "Password(***)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Password::from("hunter2")), "Password(***)");
        assert_eq!(format!("{:?}", Password::default()), "Password(none)");
    }
}
