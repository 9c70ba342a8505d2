//! `millstream binlog`: shows, filters or counts the events of binlog files, of standard input, or of a server. With
//! [`Format::None`] and statistics it is the decoder's bench: every checksum is checked and every value is visited.
//!
//! Nothing is left out silently: an event is shown, or not chosen by a filter, or skipped by a rule with a name that the
//! statistics list, or it ends the run with its file and offset.

mod args;
mod error;
mod files;
mod filter;
mod json;
mod live;
mod role;
mod secret;
mod stats;
mod text;
mod value;
mod walk;
mod when;

use std::borrow::Cow;
use std::io::Write;
use std::time::Instant;

use millstream_binlog::EventType;
use millstream_binlog::event::Query;

pub use args::{BinlogArgs, Tls};
pub use error::Error;
pub use files::Input;
pub use filter::{Filter, GtidFilter, Offset, TableFilter, TypeFilter};
pub use live::{Live, LiveStart};
pub use stats::{Amount, Summary, TableCount};
pub use when::When;

use crate::schema::ddl::{self, Classified, SkipRule};
use walk::Walk;

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "the command line offers these three")]
pub enum Format {
    /// One line per event and one per row, for people.
    #[default]
    Text,
    /// One JSON object per line: each row change, each other event.
    Json,
    /// Nothing, but everything is read.
    None,
}

/// What to read and what to show of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where the log comes from, in order.
    pub inputs: Vec<Input>,
    /// A server to read from instead.
    pub live: Option<Live>,
    /// What is shown.
    pub filter: Filter,
    /// How it is shown.
    pub format: Format,
    /// Whether counts follow at the end.
    pub stats: bool,
    /// Nothing before this is shown.
    pub start_pos: Option<Offset>,
    /// Nothing at or behind this is read.
    pub stop_pos: Option<Offset>,
}

/// Where an event lies.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    /// The file as the user named it, or as the server does.
    file: &'a str,
    offset: u64,
    end: u64,
    /// Bytes of the event itself; of one inside a compressed transaction, opened.
    bytes: u64,
    /// Inside a compressed transaction.
    inner: bool,
}

impl<'a> Place<'a> {
    fn error(&self, event: Option<EventType>, source: millstream_binlog::Error) -> Error {
        Error::Event { file: self.file.to_owned(), offset: self.offset, event, inner: self.inner, source }
    }

    /// The file without its folder.
    fn name(&self) -> &'a str {
        self.file.rsplit('/').next().unwrap_or(self.file)
    }
}

/// Reads everything and writes what is chosen to `out`, then the statistics if asked for. Also when it fails, what was
/// read before is written and counted.
///
/// # Errors
/// Beside the counts: why the log was not read to its end.
pub fn run(options: &Options, out: &mut impl Write) -> (Summary, Result<(), Error>) {
    #[allow(clippy::disallowed_methods, reason = "the speed of reading is what the statistics show")]
    let start = Instant::now();
    let mut walk = Walk::new(&options.filter, options.format, options.live.is_some(), out);
    let mut result = match &options.live {
        Some(live) => live::read(live, options, &mut walk),
        None => files::read(options, &mut walk),
    };
    let mut summary = walk.summary;
    summary.elapsed = start.elapsed();
    if !result.as_ref().is_err_and(|e| e.is_broken_pipe() || e.is_usage()) {
        let written = if options.stats { summary.write_to(options.format, out) } else { Ok(()) };
        let written = written.and_then(|()| out.flush());
        result = result.and_then(|()| Ok(written?));
    }
    (summary, result)
}

/// A statement for printing: in UTF-8 as far as its character set is known, without passwords.
fn sql_text<'a>(query: &Query<'a>) -> Cow<'a, [u8]> {
    let text = ddl::statement_text(query);
    match ddl::classify_query(query) {
        Classified::Skip(SkipRule::Account | SkipRule::OtherObject) | Classified::Unclassifiable => {
            Cow::Owned(secret::redacted(&text).into_owned())
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests;
