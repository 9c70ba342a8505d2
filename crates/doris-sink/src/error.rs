use core::fmt;

use crate::classify::FatalCause;

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Domain {
    /// The user: configuration, privileges, a table that is not as it should be.
    User,
    /// Doris or the network; mostly passes by itself.
    External,
    /// millstream itself.
    Internal,
}

/// A source error, kept for `source()`.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

#[derive(Debug)]
pub(crate) enum Kind {
    /// A setting that cannot be used.
    Config { text: String },
    /// Connecting, sending or receiving.
    Transport { what: String, source: Source },
    /// Refused, and trying again does not help.
    Refused { what: String, cause: FatalCause, text: String },
    /// Rows sent and rows loaded differ; the load was aborted (two phases) or is visible as it is (one phase).
    RowCount { what: String, text: String },
    /// Still failing when the time was up.
    GaveUp { what: String, text: String },
    /// The label has been aborted too often; a new one is needed.
    LabelWornOut { what: String },
    /// The SQL port.
    Sql { what: String, retryable: bool, source: Source },
    /// A reply over the SQL port that cannot be read.
    Unexpected { what: String, text: String },
}

/// An error of the sink. Never carries a password.
#[derive(Debug)]
pub struct SinkError(Box<Kind>);

impl SinkError {
    #[cold]
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    #[cold]
    pub(crate) fn config(text: impl Into<String>) -> Self {
        Self::new(Kind::Config { text: text.into() })
    }

    /// Who has to act.
    #[must_use]
    pub fn domain(&self) -> Domain {
        match &*self.0 {
            Kind::Config { .. } => Domain::User,
            Kind::Refused { cause, .. } => match cause {
                FatalCause::LabelFinished | FatalCause::WrongState => Domain::Internal,
                _ => Domain::User,
            },
            Kind::RowCount { .. } => Domain::User,
            Kind::Transport { .. } | Kind::GaveUp { .. } | Kind::Unexpected { .. } => Domain::External,
            Kind::Sql { retryable, .. } => {
                if *retryable {
                    Domain::External
                } else {
                    Domain::User
                }
            }
            Kind::LabelWornOut { .. } => Domain::External,
        }
    }

    /// Whether the same call may succeed later. (A worn-out label needs a new one: [`needs_new_label`](Self::needs_new_label).)
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Kind::Transport { .. } | Kind::GaveUp { .. } | Kind::LabelWornOut { .. } => true,
            Kind::Sql { retryable, .. } => *retryable,
            _ => false,
        }
    }

    /// Whether the load has to be sent under another label, which is to say in a new epoch.
    #[must_use]
    pub fn needs_new_label(&self) -> bool {
        matches!(&*self.0, Kind::LabelWornOut { .. })
    }

    /// Why Doris refuses, when it is known that trying again does not help.
    #[must_use]
    pub fn fatal_cause(&self) -> Option<FatalCause> {
        match &*self.0 {
            Kind::Refused { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// Whether the batch must be split into smaller loads.
    #[must_use]
    pub fn wants_split(&self) -> bool {
        matches!(self.fatal_cause(), Some(FatalCause::TooManySegments | FatalCause::TooLarge))
    }

    /// Whether it lies in the one table or in its rows: what Doris says of it says nothing of other tables.
    #[must_use]
    pub fn is_of_table(&self) -> bool {
        self.is_row_count()
            || matches!(
                self.fatal_cause(),
                Some(
                    FatalCause::DataQuality
                        | FatalCause::UnknownTable
                        | FatalCause::UnknownColumn
                        | FatalCause::Unknown
                )
            )
    }

    /// Whether user, password or privileges are refused.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        self.fatal_cause() == Some(FatalCause::Auth)
    }

    /// Whether rows sent and rows loaded differ.
    #[must_use]
    pub fn is_row_count(&self) -> bool {
        matches!(&*self.0, Kind::RowCount { .. })
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Config { text } => f.write_str(text),
            Kind::Transport { what, .. } => write!(f, "{what} failed"),
            Kind::Refused { what, cause, text } => write!(f, "{what} is refused: {text}; {cause}"),
            Kind::RowCount { what, text } => write!(f, "{what} did not load every row: {text}"),
            Kind::GaveUp { what, text } => write!(f, "{what} still fails: {text}"),
            Kind::LabelWornOut { what } => write!(f, "{what} was aborted too often under one label"),
            Kind::Sql { what, .. } => write!(f, "{what} over Doris' SQL port failed"),
            Kind::Unexpected { what, text } => write!(f, "{what}: unexpected reply: {text}"),
        }
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Transport { source, .. } | Kind::Sql { source, .. } => Some(&**source),
            _ => None,
        }
    }
}
