//! The durable state of a pipeline.
//!
//! A [`Store`] keeps small text values in a [`Backend`] that writes a batch of them atomically and durably. What is
//! written when, and by whom, is decided here and is the same for the file and for the tests' memory.

mod file;
mod memory;
mod schema;
mod state;

use std::collections::BTreeMap;

pub use file::FileBackend;
pub use memory::MemoryBackend;
pub use state::{Quarantine, ResyncRequest, SourceState, StoredState, StoredTable, StoredTarget};

use crate::delivery::{CommitPermit, Coordinate, EpochRecord, TargetNo, TargetState};

/// Why the state could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process holds the state directory.
    #[error(
        "the state directory {path} is in use by another millstream; stop it, or give this pipeline its own state.dir"
    )]
    Locked {
        /// The directory.
        path: String,
    },
    /// A value is not what this version wrote.
    #[error(
        "the state is damaged at {key}: {reason}; restore a copy of the state directory, or remove it to begin again \
         with a new snapshot"
    )]
    Corrupt {
        /// The value's key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer millstream wrote the state.
    #[error("the state has format {found}, this millstream reads format {known}: use the version that wrote it")]
    Format {
        /// Format in the state.
        found: u32,
        /// Format of this version.
        known: u32,
    },
    /// The writer's era is not the stored one: a successor has started.
    #[error("another millstream has taken this pipeline over (era {stored}, ours is {ours}); this one stops")]
    Superseded {
        /// The stored era.
        stored: u32,
        /// The writer's era.
        ours: u32,
    },
    /// Eras are used up.
    #[error(
        "this pipeline has used all its eras; begin again with a new state directory and on_existing = \"truncate\""
    )]
    EraOverflow,
    /// The file could not be read or written.
    #[error("the state in {path} could not be {action}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
}

/// A map of text values whose batches are atomic and durable.
pub trait Backend: Send {
    /// All values.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Corrupt`].
    fn read(&self) -> Result<BTreeMap<String, String>, StoreError>;

    /// One value.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Corrupt`].
    fn value(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Writes all values and removes the values of these keys, or does nothing; durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Io`]: nothing was written, or it is not known whether it was.
    fn apply(&mut self, batch: &[(String, String)], remove: &[String]) -> Result<(), StoreError>;

    /// Writes all values or none; durable when it returns.
    ///
    /// # Errors
    /// As [`Backend::apply`].
    fn write(&mut self, batch: &[(String, String)]) -> Result<(), StoreError> {
        self.apply(batch, &[])
    }
}

/// Eras must leave room for 44 bits of sequence below the sign.
pub const MAX_ERA: u32 = (1 << 19) - 1;

const ERA: &str = "era";
const RECORD: &str = "record";

/// The pipeline's state over a backend.
pub struct Store<B> {
    backend: B,
}

fn encode<T: serde::Serialize>(key: &str, value: &T) -> Result<(String, String), StoreError> {
    let text =
        serde_json::to_string(value).map_err(|e| StoreError::Corrupt { key: key.to_owned(), reason: e.to_string() })?;
    Ok((key.to_owned(), text))
}

fn decode<T: serde::de::DeserializeOwned>(key: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Corrupt { key: key.to_owned(), reason: e.to_string() })
}

impl<B: Backend> Store<B> {
    /// A store over `backend`.
    pub const fn new(backend: B) -> Self {
        Self { backend }
    }

    /// The backend, for another store over the same values.
    pub fn into_backend(self) -> B {
        self.backend
    }

    /// The state; `None` before the first start.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn read(&self) -> Result<Option<StoredState>, StoreError> {
        let values = self.backend.read()?;
        if values.is_empty() {
            return Ok(None);
        }
        state::read(&values).map(Some)
    }

    /// Writes the first state, before anything else happens.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn create(&mut self, state: &StoredState) -> Result<(), StoreError> {
        let batch = state::write(state)?;
        self.backend.write(&batch)
    }

    /// Makes the era one higher, durably, and returns it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn next_era(&mut self) -> Result<u32, StoreError> {
        let era = self.era()?.saturating_add(1);
        if era > MAX_ERA {
            return Err(StoreError::EraOverflow);
        }
        self.backend.write(&[encode(ERA, &era)?])?;
        Ok(era)
    }

    /// Raises the era to at least `floor` (targets that were kept may hold sequence numbers of it).
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raise_era(&mut self, floor: u32) -> Result<(), StoreError> {
        if floor > MAX_ERA {
            return Err(StoreError::EraOverflow);
        }
        let era = self.era()?.max(floor);
        self.backend.write(&[encode(ERA, &era)?])
    }

    fn era(&self) -> Result<u32, StoreError> {
        self.backend.value(ERA)?.map_or(Ok(0), |text| decode(ERA, &text))
    }

    fn own(&self, ours: u32) -> Result<(), StoreError> {
        let stored = self.era()?;
        if stored == ours { Ok(()) } else { Err(StoreError::Superseded { stored, ours }) }
    }

    /// Makes the source's identity and start durable.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_source(&mut self, era: u32, source: &SourceState, stream: &Coordinate) -> Result<(), StoreError> {
        self.own(era)?;
        self.backend.write(&[encode(state::SOURCE, source)?, encode(state::STREAM, stream)?])
    }

    /// Makes new tables and targets durable, before their first chunk is marked.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_tables(&mut self, era: u32, tables: &[StoredTable], targets: &[StoredTarget]) -> Result<(), StoreError> {
        self.own(era)?;
        let mut batch = Vec::new();
        for table in tables {
            let key = state::table_key(&table.schema.database, &table.schema.table);
            batch.push(encode(&key, &schema::to_stored(table))?);
        }
        for target in targets {
            batch.push(encode(&state::target_key(target.target), target)?);
        }
        self.backend.write(&batch)
    }

    /// Leaves a target out from now on: it stands where it stands, and no later record may speak of it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn quarantine(
        &mut self,
        era: u32,
        target: TargetNo,
        state: TargetState,
        why: Quarantine,
    ) -> Result<(), StoreError> {
        self.own(era)?;
        let stored = StoredTarget { state, quarantine: Some(why), ..self.stored_target(target)? };
        self.backend.write(&[encode(&state::target_key(target), &stored)?])
    }

    /// Takes a target back from quarantine, as one that stands at `state`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn release(&mut self, era: u32, target: TargetNo, state: TargetState) -> Result<(), StoreError> {
        self.own(era)?;
        let stored = StoredTarget { state, quarantine: None, ..self.stored_target(target)? };
        self.backend.write(&[encode(&state::target_key(target), &stored)?])
    }

    /// Keeps requests to read tables again, until [`Store::begin_again`] carries them out. Of one table the last one counts, but
    /// targets that were to be emptied still are.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn request_resync(&mut self, requests: &[ResyncRequest]) -> Result<(), StoreError> {
        let mut batch = Vec::new();
        for request in requests {
            let key = request.key();
            let before: Option<ResyncRequest> = self.backend.value(&key)?.map(|t| decode(&key, &t)).transpose()?;
            let truncate = request.truncate || before.is_some_and(|before| before.truncate);
            batch.push(encode(&key, &ResyncRequest { truncate, ..request.clone() })?);
        }
        self.backend.write(&batch)
    }

    /// Makes durable that targets are read again from here on, before their first chunk is marked: their states, and whether
    /// they are to be emptied first ([`Store::emptied`]). One that was left out is taken back. `requests` are carried out by that,
    /// or about nothing any more.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn begin_again(
        &mut self,
        era: u32,
        targets: &[(TargetNo, TargetState, bool)],
        requests: &[ResyncRequest],
    ) -> Result<(), StoreError> {
        self.own(era)?;
        let mut batch = Vec::new();
        for (target, state, emptying) in targets {
            let key = state::target_key(*target);
            let state = state.clone();
            let stored = StoredTarget { state, emptying: *emptying, quarantine: None, ..self.target(&key)? };
            batch.push(encode(&key, &stored)?);
        }
        let done: Vec<String> = requests.iter().map(ResyncRequest::key).collect();
        self.apply(&batch, &done)
    }

    /// Targets that were to be emptied are empty.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn emptied(&mut self, era: u32, targets: &[TargetNo]) -> Result<(), StoreError> {
        self.own(era)?;
        let mut batch = Vec::new();
        for target in targets {
            let key = state::target_key(*target);
            batch.push(encode(&key, &StoredTarget { emptying: false, ..self.target(&key)? })?);
        }
        self.apply(&batch, &[])
    }

    /// Forgets tables and targets, and requests about them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget(&mut self, era: u32, tables: &[(String, String)], targets: &[TargetNo]) -> Result<(), StoreError> {
        self.own(era)?;
        let mut gone: Vec<String> = targets.iter().map(|target| state::target_key(*target)).collect();
        for (database, table) in tables {
            gone.push(state::table_key(database, table));
            gone.push(state::resync_key(database, table));
        }
        self.apply(&[], &gone)
    }

    /// Nothing to write costs nothing.
    fn apply(&mut self, batch: &[(String, String)], remove: &[String]) -> Result<(), StoreError> {
        if batch.is_empty() && remove.is_empty() { Ok(()) } else { self.backend.apply(batch, remove) }
    }

    /// Makes an epoch's record durable together with the state after it, and permits the commits.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] when the writer's era is not the stored one; otherwise [`StoreError`].
    pub fn write_record(&mut self, era: u32, record: &EpochRecord) -> Result<CommitPermit, StoreError> {
        self.own(era)?;
        let mut batch =
            vec![encode(RECORD, record)?, encode(state::STREAM, &record.next)?, encode(state::XA, &record.xa.next)?];
        for change in &record.targets {
            batch.push(self.target_with(change.target, &change.next)?);
        }
        self.backend.write(&batch)?;
        Ok(CommitPermit::issue(record.epoch))
    }

    fn target_with(&self, target: TargetNo, state: &TargetState) -> Result<(String, String), StoreError> {
        encode(&state::target_key(target), &StoredTarget { state: state.clone(), ..self.stored_target(target)? })
    }

    fn stored_target(&self, target: TargetNo) -> Result<StoredTarget, StoreError> {
        let key = state::target_key(target);
        self.target(&key)
    }

    fn target(&self, key: &str) -> Result<StoredTarget, StoreError> {
        let text = self.backend.value(key)?;
        let text =
            text.ok_or_else(|| StoreError::Corrupt { key: key.to_owned(), reason: "it is missing".to_owned() })?;
        decode(key, &text)
    }

    /// Marks the record of `epoch` committed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn mark_committed(&mut self, era: u32, epoch: u64) -> Result<(), StoreError> {
        self.own(era)?;
        let Some(text) = self.backend.value(RECORD)? else { return Ok(()) };
        let mut record: EpochRecord = decode(RECORD, &text)?;
        if record.epoch != epoch {
            return Err(StoreError::Corrupt {
                key: RECORD.to_owned(),
                reason: format!("it is of epoch {}, not {epoch}", record.epoch),
            });
        }
        record.committed = true;
        self.backend.write(&[encode(RECORD, &record)?])
    }

    /// Makes the outcome of a recovery durable: the record is settled, the stream and the targets stand here.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn settle(
        &mut self,
        era: u32,
        stream: &Coordinate,
        targets: &[(TargetNo, TargetState)],
    ) -> Result<(), StoreError> {
        self.own(era)?;
        let mut batch = vec![encode(state::STREAM, stream)?];
        if let Some(text) = self.backend.value(RECORD)? {
            let mut record: EpochRecord = decode(RECORD, &text)?;
            record.committed = true;
            batch.push(encode(RECORD, &record)?);
        }
        for (target, state) in targets {
            batch.push(self.target_with(*target, state)?);
        }
        self.backend.write(&batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{LoadEnd, LoadId, LoadRecord, TableMode, TargetChange};

    fn record(epoch: u64, era: u32) -> EpochRecord {
        EpochRecord {
            epoch,
            era,
            committed: false,
            previous: Coordinate::default(),
            next: Coordinate::default(),
            targets: vec![TargetChange {
                target: TargetNo(1),
                previous: TargetState::default(),
                next: TargetState { may_hold_more: true, ..TargetState::default() },
            }],
            loads: vec![LoadRecord {
                id: LoadId { epoch, target: TargetNo(1), part: 0 },
                label: "l".to_owned(),
                txn: 5,
                seq: (1, 2),
                rows: 2,
                mode: TableMode::Append,
                end: LoadEnd { coordinate: Coordinate::default(), done: Vec::new() },
                more: false,
            }],
            output_bytes: None,
            xa: Default::default(),
        }
    }

    fn target() -> StoredTarget {
        StoredTarget {
            target: TargetNo(1),
            source: ("shop".to_owned(), "orders".to_owned()),
            sink: ("ods".to_owned(), "orders".to_owned()),
            mode: TableMode::Append,
            state: TargetState::default(),
            quarantine: None,
            emptying: false,
        }
    }

    fn store() -> Store<MemoryBackend> {
        let mut store = Store::new(MemoryBackend::default());
        store.create(&StoredState::new(1, "uuid".to_owned(), "shop".to_owned())).unwrap();
        store
    }

    #[test]
    fn a_writer_whose_successor_started_gets_no_permit() {
        let mut store = store();
        let ours = store.next_era().unwrap();
        store.add_tables(ours, &[], &[target()]).unwrap();
        assert_eq!(store.write_record(ours, &record(1, ours)).unwrap().epoch(), 1);
        let next = store.next_era().unwrap();
        assert!(matches!(
            store.write_record(ours, &record(2, ours)),
            Err(StoreError::Superseded { stored, ours: o }) if stored == next && o == ours
        ));
        assert!(store.mark_committed(ours, 1).is_err());
        assert_eq!(store.read().unwrap().unwrap().record.unwrap().epoch, 1);
    }

    #[test]
    fn a_record_carries_its_state_and_is_marked() {
        let mut store = store();
        let era = store.next_era().unwrap();
        store.add_tables(era, &[], &[target()]).unwrap();
        store.write_record(era, &record(3, era)).unwrap();
        let state = store.read().unwrap().unwrap();
        assert!(!state.record.as_ref().unwrap().committed);
        assert!(state.targets[0].state.may_hold_more);
        assert!(store.mark_committed(era, 2).is_err());
        store.mark_committed(era, 3).unwrap();
        assert!(store.read().unwrap().unwrap().record.unwrap().committed);
    }

    #[test]
    fn a_quarantine_is_durable_and_outlives_records_of_other_targets() {
        let mut store = store();
        let era = store.next_era().unwrap();
        let other = StoredTarget { target: TargetNo(2), ..target() };
        store.add_tables(era, &[], &[target(), other]).unwrap();
        let why = Quarantine { at: Coordinate::default(), reason: "row 3".to_owned(), since: 7 };
        let frozen = TargetState { ahead: Some(Coordinate::default()), ..TargetState::default() };
        store.quarantine(era, TargetNo(2), frozen.clone(), why.clone()).unwrap();
        store.write_record(era, &record(1, era)).unwrap();
        let read = |store: &Store<MemoryBackend>| store.read().unwrap().unwrap().targets;
        assert_eq!((read(&store)[1].quarantine.clone(), read(&store)[1].state.clone()), (Some(why.clone()), frozen));
        assert!(store.quarantine(era - 1, TargetNo(1), TargetState::default(), why).is_err(), "not the owner");
        store.release(era, TargetNo(2), TargetState::default()).unwrap();
        assert_eq!(read(&store)[1].quarantine, None);
    }

    #[test]
    fn eras_end_before_they_overflow_the_sequence() {
        let mut store = store();
        store.raise_era(MAX_ERA - 1).unwrap();
        assert_eq!(store.next_era().unwrap(), MAX_ERA);
        assert!(matches!(store.next_era(), Err(StoreError::EraOverflow)));
    }

    #[test]
    fn a_request_stays_until_it_is_carried_out_in_one_step() {
        let mut store = store();
        let era = store.next_era().unwrap();
        store.add_tables(era, &[], &[target()]).unwrap();
        let request = |truncate| ResyncRequest { database: "shop".to_owned(), table: "orders".to_owned(), truncate };
        store.request_resync(&[request(true)]).unwrap();
        store.request_resync(&[request(false)]).unwrap();
        let state = store.read().unwrap().unwrap();
        assert_eq!(state.resync, [request(true)], "emptying is never taken back");
        let again = TargetState { may_hold_more: true, ..TargetState::default() };
        assert!(store.begin_again(era + 1, &[(TargetNo(1), again.clone(), true)], &state.resync).is_err());
        store.begin_again(era, &[(TargetNo(1), again.clone(), true)], &state.resync).unwrap();
        let state = store.read().unwrap().unwrap();
        assert_eq!((&state.targets[0].state, state.targets[0].emptying, state.resync.len()), (&again, true, 0));
        // A record of another epoch leaves the intent alone.
        store.write_record(era, &record(1, era)).unwrap();
        assert!(store.read().unwrap().unwrap().targets[0].emptying);
        store.emptied(era, &[TargetNo(1)]).unwrap();
        assert!(!store.read().unwrap().unwrap().targets[0].emptying);
    }

    #[test]
    fn what_is_forgotten_is_gone_with_its_requests() {
        let mut store = store();
        let era = store.next_era().unwrap();
        store.add_tables(era, &[], &[target(), StoredTarget { target: TargetNo(2), ..target() }]).unwrap();
        let orders = ("shop".to_owned(), "orders".to_owned());
        let request = ResyncRequest { database: orders.0.clone(), table: orders.1.clone(), truncate: false };
        store.request_resync(&[request]).unwrap();
        store.forget(era, &[orders], &[TargetNo(1)]).unwrap();
        let state = store.read().unwrap().unwrap();
        assert_eq!(state.targets.iter().map(|t| t.target.0).collect::<Vec<_>>(), [2]);
        assert!(state.resync.is_empty());
    }

    #[test]
    fn a_damaged_value_is_named() {
        let mut backend = store().into_backend();
        backend.write(&[("stream".to_owned(), "{".to_owned())]).unwrap();
        let error = Store::new(backend).read().unwrap_err().to_string();
        assert!(error.contains("damaged at stream"), "{error}");
    }
}
