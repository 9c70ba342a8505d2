use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::{Backend, Store, StoreError};

const FILE: &str = "millstream.redb";
const VALUES: TableDefinition<'_, &str, &str> = TableDefinition::new("values");

/// A backend in one redb file, locked while it is open.
pub struct FileBackend {
    path: PathBuf,
    db: Database,
}

impl FileBackend {
    /// Whether there is a state file in `dir`.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Opens (or creates) the state file in `dir`.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it, [`StoreError::Corrupt`] when it is not a state file,
    /// [`StoreError::Io`] otherwise.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|e| StoreError::Io {
            path: dir.display().to_string(),
            action: "created",
            source: e.into(),
        })?;
        let path = dir.join(FILE);
        let mut db = Database::create(&path).map_err(|e| match e {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: dir.display().to_string() },
            DatabaseError::Storage(redb::StorageError::Io(e)) if e.kind() != std::io::ErrorKind::InvalidData => {
                StoreError::Io { path: path.display().to_string(), action: "opened", source: e.into() }
            }
            other => StoreError::Corrupt { key: path.display().to_string(), reason: other.to_string() },
        })?;
        // Damage that redb would meet much later, or never.
        let broken = |reason: String| StoreError::Corrupt { key: path.display().to_string(), reason };
        match db.check_integrity() {
            Ok(_) => Ok(Self { path, db }),
            Err(e) => Err(broken(e.to_string())),
        }
    }

    /// The captured tables of the state in `dir`; `None` if no pipeline has begun there, or it cannot be looked at now.
    #[must_use]
    pub fn tables(dir: &Path) -> Option<BTreeSet<(String, String)>> {
        if !Self::exists(dir) {
            return None;
        }
        let state = Store::new(Self::open(dir).ok()?).read().ok()??;
        state.source.as_ref()?;
        Some(state.tables.into_iter().map(|t| (t.schema.database, t.schema.table)).collect())
    }

    fn failed<E: core::error::Error + Send + Sync + 'static>(
        &self,
        action: &'static str,
    ) -> impl FnOnce(E) -> StoreError {
        let path = self.path.display().to_string();
        move |e| StoreError::Io { path, action, source: Box::new(e) }
    }
}

impl Backend for FileBackend {
    fn read(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let read = self.db.begin_read().map_err(self.failed("read"))?;
        let table = match read.open_table(VALUES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
            Err(e) => return Err(self.failed("read")(e)),
        };
        let mut values = BTreeMap::new();
        for entry in table.iter().map_err(self.failed("read"))? {
            let (key, value) = entry.map_err(self.failed("read"))?;
            values.insert(key.value().to_owned(), value.value().to_owned());
        }
        Ok(values)
    }

    fn value(&self, key: &str) -> Result<Option<String>, StoreError> {
        let read = self.db.begin_read().map_err(self.failed("read"))?;
        let table = match read.open_table(VALUES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(e) => return Err(self.failed("read")(e)),
        };
        let value = table.get(key).map_err(self.failed("read"))?;
        Ok(value.map(|v| v.value().to_owned()))
    }

    fn apply(&mut self, batch: &[(String, String)], remove: &[String]) -> Result<(), StoreError> {
        let write = self.db.begin_write().map_err(self.failed("written"))?;
        {
            let mut table = write.open_table(VALUES).map_err(self.failed("written"))?;
            for (key, value) in batch {
                table.insert(key.as_str(), value.as_str()).map_err(self.failed("written"))?;
            }
            for key in remove {
                table.remove(key.as_str()).map_err(self.failed("written"))?;
            }
        }
        write.commit().map_err(self.failed("written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_and_a_second_opener_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = FileBackend::open(dir.path()).unwrap();
        assert!(first.read().unwrap().is_empty());
        first.write(&[("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]).unwrap();
        assert!(matches!(FileBackend::open(dir.path()), Err(StoreError::Locked { .. })));
        drop(first);
        let again = FileBackend::open(dir.path()).unwrap();
        assert_eq!(again.value("b").unwrap().as_deref(), Some("2"));
        assert_eq!(again.read().unwrap().len(), 2);
        let mut again = again;
        again.apply(&[("c".to_owned(), "3".to_owned())], &["a".to_owned(), "z".to_owned()]).unwrap();
        assert_eq!(again.read().unwrap().into_keys().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn a_state_that_was_cut_or_overwritten_at_the_start_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = FileBackend::open(dir.path()).unwrap();
        first.write(&[("a".to_owned(), "1".to_owned())]).unwrap();
        drop(first);
        let file = dir.path().join("millstream.redb");
        let whole = std::fs::read(&file).unwrap();
        let mut overwritten = whole.clone();
        overwritten[..64].fill(0xa5);
        for bytes in [&overwritten, &whole[..5000]] {
            std::fs::write(&file, bytes).unwrap();
            let Err(error) = FileBackend::open(dir.path()) else { panic!("it was taken") };
            assert!(error.to_string().contains("millstream.redb"), "{error}");
        }
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(FileBackend::open(dir.path()).unwrap().read().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_is_no_state_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("millstream.redb"), b"not a database, but long enough to look like one")
            .unwrap();
        let Err(error) = FileBackend::open(dir.path()) else { panic!("it was taken") };
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
}
