use core::fmt;

use crate::delivery::TxnId;

/// Why a run ended before it was asked to.
pub struct RunError(Box<Inner>);

struct Inner {
    kind: RunErrorKind,
    text: String,
    inside: Option<TxnId>,
    source_lost: bool,
    source: Option<Box<dyn core::error::Error + Send + Sync>>,
}

/// What the caller does about a [`RunError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunErrorKind {
    /// Refused before anything was changed: configuration, rights, settings.
    Refused,
    /// Stopped for good: someone has to decide.
    Stopped,
    /// The source or the sink is away: begin again from the last durable record after a pause.
    Away,
}

impl RunError {
    /// Refused before any change.
    pub fn refused(text: impl Into<String>) -> Self {
        Self::of(RunErrorKind::Refused, text)
    }

    /// Stopped for good.
    pub fn stopped(text: impl Into<String>) -> Self {
        Self::of(RunErrorKind::Stopped, text)
    }

    /// Worth another try from the last durable record.
    pub fn away(text: impl Into<String>) -> Self {
        Self::of(RunErrorKind::Away, text)
    }

    fn of(kind: RunErrorKind, text: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, text: text.into(), inside: None, source_lost: false, source: None }))
    }

    /// Notes that this transaction was open and had rows in the output already.
    #[must_use]
    pub(super) fn inside(mut self, txn: Option<TxnId>) -> Self {
        self.0.inside = txn;
        self
    }

    /// The transaction that was open, when this error stopped the run for good.
    pub(super) fn stopped_inside(&self) -> Option<TxnId> {
        self.0.inside.clone().filter(|_| self.0.kind == RunErrorKind::Stopped)
    }

    /// Notes that the source's current host is the trouble.
    #[must_use]
    pub(super) fn source_lost(mut self) -> Self {
        self.0.source_lost = true;
        self
    }

    /// Whether another host of the source may help.
    pub(super) fn is_source_lost(&self) -> bool {
        self.0.source_lost
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> RunErrorKind {
        self.0.kind
    }

    /// The same error as one that ends the process for good.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        if self.0.kind == RunErrorKind::Away {
            self.0.kind = RunErrorKind::Stopped;
        }
        self
    }

    /// The same error as a refusal (nothing was changed yet).
    #[must_use]
    pub fn before_any_change(mut self) -> Self {
        self.0.kind = RunErrorKind::Refused;
        self
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunError")
            .field("kind", &self.0.kind)
            .field("text", &self.0.text)
            .field("source", &self.0.source)
            .finish()
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl core::error::Error for RunError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| &**e as &(dyn core::error::Error + 'static))
    }
}

impl From<crate::checkpoint::StoreError> for RunError {
    fn from(e: crate::checkpoint::StoreError) -> Self {
        let text = e.to_string();
        Self::stopped(text)
    }
}
