//! What a check found wrong: how much, and the first few cases in words.

use std::fmt;

/// Cases kept in words.
const KEPT: usize = 5;

/// Faults of one check.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    count: u64,
    first: Vec<String>,
}

impl Faults {
    /// One more; the words are only made while they are kept.
    pub fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(what());
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first of them.
    pub fn first(&self) -> &[String] {
        &self.first
    }

    /// Takes another check's faults in.
    pub fn append(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(KEPT);
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} found", self.count)?;
        for text in &self.first {
            write!(f, "\n      {text}")?;
        }
        Ok(())
    }
}
