//! The bodies of loads that are written ahead: `delivery = "label"` sends a load only once its label and its bytes are
//! durable, so that a restart sends the same bytes under the same label.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The folder in the state directory.
const FOLDER: &str = "loads";

/// What is kept beside the bytes: a later run may be configured to write others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The `columns` header.
    pub(super) columns: String,
    /// Whether the bytes are CSV.
    pub(super) csv: bool,
    /// Whether the load has some columns alone.
    #[serde(default)]
    pub(super) partial: bool,
    /// Rows.
    pub(super) rows: u64,
}

/// Where bodies are kept, each in a file of its own: a line of JSON, then the bytes.
#[derive(Clone, Debug)]
pub(super) struct Spill {
    folder: PathBuf,
}

impl Spill {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { folder: state_dir.join(FOLDER) }
    }

    fn path(&self, label: &str) -> io::Result<PathBuf> {
        // A label is letters, digits and underscores; one that was damaged must not lead elsewhere.
        if label.is_empty() || !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no label"));
        }
        Ok(self.folder.join(label))
    }

    /// Keeps a body; durable when it returns.
    pub(super) fn keep(&self, label: &str, head: &Head, body: &[u8]) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut file = std::fs::File::create(self.path(label)?)?;
        let mut line = serde_json::to_vec(head)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.write_all(body)?;
        file.sync_data()?;
        // The name, too.
        std::fs::File::open(&self.folder)?.sync_all()
    }

    /// The body of a label, as it was kept.
    pub(super) fn body(&self, label: &str) -> io::Result<(Head, Bytes)> {
        let mut all = Bytes::from(std::fs::read(self.path(label)?)?);
        let end = all.iter().position(|b| *b == b'\n').ok_or(io::ErrorKind::UnexpectedEof)?;
        let line = all.split_to(end.saturating_add(1));
        Ok((serde_json::from_slice(&line)?, all))
    }

    /// Forgets one body.
    pub(super) fn forget(&self, label: &str) {
        // What stays is forgotten by the next start.
        if let Ok(path) = self.path(label) {
            let _gone = std::fs::remove_file(path);
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_by_their_label_alone() {
        let dir = tempfile::tempdir().unwrap();
        let spill = Spill::new(dir.path());
        spill.clear().unwrap();
        let head = Head { columns: "`a\n`".to_owned(), csv: true, partial: true, rows: 7 };
        spill.keep("ms1_a", &head, b"\n{}\n").unwrap();
        spill.keep("ms1_b", &head, b"[]\n").unwrap();
        assert_eq!(Spill::new(dir.path()).body("ms1_a").unwrap(), (head.clone(), Bytes::from_static(b"\n{}\n")));
        spill.forget("ms1_a");
        assert!(spill.body("ms1_a").is_err() && spill.body("ms1_b").is_ok());
        assert!(spill.keep("../x", &head, b"").is_err() && spill.body("").is_err());
        spill.clear().unwrap();
        assert!(spill.body("ms1_b").is_err());
    }
}
