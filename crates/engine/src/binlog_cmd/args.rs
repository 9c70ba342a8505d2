//! `millstream binlog` as it is typed.

use std::path::PathBuf;

use super::{Error, Filter, Format, GtidFilter, Input, Offset, Options, TableFilter, TypeFilter, When};
use clap::Args;

/// `millstream binlog`.
#[derive(Debug, Args)]
pub struct BinlogArgs {
    /// Binlog or relay log files, - for standard input, or an index file for all that it lists; the files of one log are
    /// read in the order of their numbers
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<PathBuf>,
    /// One line per event and row, one JSON object per row and event, or nothing (decodes and checks all the same)
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Counts at the end of what was shown: events by type, rows by table, bytes, speed, what was passed over
    #[arg(long)]
    pub stats: bool,
    /// Only rows of these tables and statements that concern them: db.table with * and ?, !db.table to exclude
    #[arg(short, long = "table", value_name = "PATTERN", value_delimiter = ',', help_heading = "Filters")]
    pub tables: Vec<String>,
    /// Only events of these types: insert, update, delete, or names as in the output (query, gtid, xid, ...)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', help_heading = "Filters")]
    pub types: Vec<String>,
    /// Only transactions committed at or after: 2026-11-30T12:00:00Z, UTC without an offset, or seconds since 1970
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub start_time: Option<When>,
    /// Only transactions committed before
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub stop_time: Option<When>,
    /// Only transactions of this GTID set (of MariaDB: 0-1-42,0-1-50..60)
    #[arg(long, value_name = "SET", help_heading = "Filters")]
    pub gtid: Option<GtidFilter>,
    /// No transactions of this GTID set
    #[arg(long, value_name = "SET", help_heading = "Filters")]
    pub exclude_gtid: Option<GtidFilter>,
    /// Begin at this event: an offset in the first file, or FILE:OFFSET
    #[arg(long, value_name = "OFFSET", help_heading = "Filters")]
    pub start_pos: Option<Offset>,
    /// End before this event: an offset in the last file, or FILE:OFFSET
    #[arg(long, value_name = "OFFSET", help_heading = "Filters")]
    pub stop_pos: Option<Offset>,
}

impl BinlogArgs {
    /// What it means.
    ///
    /// # Errors
    /// A pattern or a type that is none, or an index file that cannot be read.
    pub fn options(&self) -> Result<Options, Error> {
        let tables = (!self.tables.is_empty()).then(|| TableFilter::parse(&self.tables)).transpose();
        let types = (!self.types.is_empty()).then(|| TypeFilter::parse(&self.types)).transpose();
        Ok(Options {
            inputs: Input::expand(&self.sources)?,
            filter: Filter {
                tables: tables.map_err(|e| Error::Usage(format!("--table: {e}")))?,
                start_time: self.start_time,
                stop_time: self.stop_time,
                gtids: self.gtid.clone(),
                exclude_gtids: self.exclude_gtid.clone(),
                types: types.map_err(|e| Error::Usage(format!("--type: {e}")))?,
            },
            format: self.format,
            stats: self.stats,
            start_pos: self.start_pos.clone(),
            stop_pos: self.stop_pos.clone(),
        })
    }
}
