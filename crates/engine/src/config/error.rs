use core::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with a configuration: every problem at once, each with its file, its key and the way out.
#[derive(Debug)]
pub struct ConfigError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    problems: Vec<Problem>,
    source: Option<std::io::Error>,
}

/// One problem of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key it is about, dotted (`source.url`); empty when it is about the file as a whole.
    pub key: String,
    /// What is wrong and what is allowed. Never a value that may hold a secret.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(file: &Path, problems: Vec<Problem>) -> Self {
        Self(Box::new(Inner { file: file.to_owned(), problems, source: None }))
    }

    pub(super) fn unreadable(file: &Path, source: std::io::Error) -> Self {
        let problem = Problem { key: String::new(), message: "cannot be read".to_owned() };
        Self(Box::new(Inner { file: file.to_owned(), problems: vec![problem], source: Some(source) }))
    }

    /// The problems, in the order of the file's sections.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { key, message }) in self.0.problems.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}: ", self.0.file.display())?;
            if !key.is_empty() {
                write!(f, "{key}: ")?;
            }
            f.write_str(message)?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// Collects problems while a file is read, so that all are reported at once.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { key: key.into(), message: message.into() });
    }

    /// Whether something under `key` was noted already.
    pub(super) fn mentions(&self, key: &str) -> bool {
        self.0.iter().any(|p| p.key.starts_with(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}
