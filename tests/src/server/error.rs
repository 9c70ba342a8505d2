//! Why a server could not be had.

use std::fmt;

/// Why [`crate::server::Server::start`] failed.
#[derive(Clone, Debug)]
pub enum StartError {
    /// A part is missing on this machine (no apt, no network, another processor): tests that need
    /// the server are skipped, and the demo says what to install.
    Unavailable(String),
    /// Everything is there, and it still did not work: a test fails.
    Failed(String),
}

impl StartError {
    pub(super) fn unavailable(what: impl fmt::Display) -> Self {
        Self::Unavailable(what.to_string())
    }

    /// Adds what to do about a missing part.
    pub(super) fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Unavailable(what) => Self::Unavailable(format!("{what}; {hint}")),
            failed @ Self::Failed(_) => failed,
        }
    }

    pub(super) fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }

    /// Whether a part is missing, so that a test may be skipped.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(what) => write!(f, "no server here: {what}"),
            Self::Failed(what) => write!(f, "the server did not start: {what}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// For tests: the server, or nothing (with a printed line) when a part is missing here.
///
/// Panics when the server is there and did not start, and also when a part is missing while
/// `MILLSTREAM_REQUIRE_SERVERS` is set, as in CI.
pub fn or_skip<T>(result: Result<T, StartError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.is_unavailable() && std::env::var_os("MILLSTREAM_REQUIRE_SERVERS").is_none() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
