use core::fmt;

use zeroize::Zeroizing;

/// A secret: wiped when dropped, never printed. Only [`Password::reveal`] gives the text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes the secret over.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret itself, for the handshake alone.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_it() {
        assert_eq!(format!("{:?}", Password::new("hunter2")), "Password(***)");
        assert_eq!(Password::new("hunter2").reveal(), "hunter2");
    }
}
