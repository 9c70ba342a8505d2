use std::collections::BTreeMap;

use super::{Backend, StoreError};

/// A backend in memory, for tests: what is in it survives as long as it does.
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {
    values: BTreeMap<String, String>,
}

impl Backend for MemoryBackend {
    fn read(&self) -> Result<BTreeMap<String, String>, StoreError> {
        Ok(self.values.clone())
    }

    fn value(&self, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.values.get(key).cloned())
    }

    fn apply(&mut self, batch: &[(String, String)], remove: &[String]) -> Result<(), StoreError> {
        self.values.extend(batch.iter().cloned());
        self.values.retain(|key, _| !remove.contains(key));
        Ok(())
    }
}
