//! A place in the binlog of one server.

use core::cmp::Ordering;
use core::fmt;
use std::sync::Arc;

/// A binlog file and a byte offset in it. Ordered by the file's numeric suffix (`binlog.999999` is before
/// `binlog.1000000`), then by offset. Positions of different servers must not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// File name as the server sends it, without a path.
    pub file: Arc<str>,
    /// Byte offset: the end of the last event that lies at or below this position.
    pub offset: u64,
}

impl Position {
    /// A position in `file` at `offset`.
    #[must_use]
    pub fn new(file: impl Into<Arc<str>>, offset: u64) -> Self {
        Self { file: file.into(), offset }
    }

    fn suffix(&self) -> Option<u64> {
        self.file.rsplit('.').next()?.parse().ok()
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        let files = if self.file == other.file {
            Ordering::Equal
        } else {
            self.suffix().cmp(&other.suffix()).then_with(|| self.file.cmp(&other.file))
        };
        files.then(self.offset.cmp(&other.offset))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_ordered_by_their_number() {
        let a = Position::new("mysql-bin.999999", 900);
        let b = Position::new("mysql-bin.1000000", 4);
        assert!(a < b);
        assert!(Position::new("mysql-bin.000002", 4) > Position::new("mysql-bin.000001", 5_000_000_000));
    }
}
