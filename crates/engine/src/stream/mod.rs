//! Reading the binlog stream from the source.

mod reader;
mod scan;

pub use reader::{Batch, SourceReader, StreamEnd, StreamPlan};
pub use scan::{ScanError, file_created, gtids_at};
