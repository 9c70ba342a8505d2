//! `millstream binlog` as it is typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use millstream_wire::SslMode;

use super::{
    Error, Filter, Format, GtidFilter, Input, Live, LiveStart, Offset, Options, TableFilter, TypeFilter, When,
};
use crate::config::{Password, SourceUrl};

/// `millstream binlog`.
#[derive(Debug, Args)]
pub struct BinlogArgs {
    /// Binlog or relay log files, - for standard input, or an index file for all that it lists (the files of one log are
    /// read in the order of their numbers); or 'mysql://user:${PASSWORD}@host:3306' for a server, in single quotes: the
    /// variable is looked up by millstream, so that the password is in no list of processes
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
    /// Where to start: current (the end of the log), earliest, FILE, or FILE:OFFSET
    #[arg(long, value_name = "WHERE", help_heading = "Servers")]
    pub from: Option<LiveStart>,
    /// Start with the transactions that are not in this set (MySQL), or that follow these (MariaDB: 0-1-42,7-1-9)
    #[arg(long, value_name = "SET", conflicts_with = "from", help_heading = "Servers")]
    pub from_gtid: Option<String>,
    /// Wait for more at the end of the log, until interrupted
    #[arg(short, long, help_heading = "Servers")]
    pub follow: bool,
    /// A file with the password as its first line
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    pub password_file: Option<PathBuf>,
    /// How the connection is protected
    #[arg(long, value_enum, default_value_t, help_heading = "Servers")]
    pub ssl_mode: Tls,
    /// CA certificates to believe (PEM), for verify-ca
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    pub ssl_ca: Option<PathBuf>,
    /// Believe an RSA key that the server sends on a connection without TLS
    #[arg(long, help_heading = "Servers")]
    pub allow_public_key_retrieval: bool,
    /// The number of this replica, which no other replica may have; a random one above 2^31 if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Servers")]
    pub server_id: Option<u32>,
}

/// Protection of a connection, as in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[allow(clippy::exhaustive_enums, reason = "the command line offers these")]
pub enum Tls {
    /// Never TLS.
    Disabled,
    /// TLS when the server offers it.
    #[default]
    Preferred,
    /// TLS or no connection; the certificate is not checked.
    Required,
    /// TLS, and the certificate must come from the CA; without one, MariaDB's proof by the password counts.
    VerifyCa,
    /// As verify-ca, and the certificate must be for the host.
    VerifyIdentity,
}

impl BinlogArgs {
    /// What it means.
    ///
    /// # Errors
    /// A pattern or a type that is none, or an index file that cannot be read.
    pub fn options(&self) -> Result<Options, Error> {
        let tables = (!self.tables.is_empty()).then(|| TableFilter::parse(&self.tables)).transpose();
        let types = (!self.types.is_empty()).then(|| TypeFilter::parse(&self.types)).transpose();
        let live = self.live()?;
        Ok(Options {
            inputs: if live.is_some() { Vec::new() } else { Input::expand(&self.sources)? },
            live,
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

    /// The server, if that is the source.
    fn live(&self) -> Result<Option<Live>, Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let Some(url) = self.sources.iter().find_map(|s| s.to_str().filter(|s| SourceUrl::is_one(s))) else {
            let asked = self.from.is_some() || self.from_gtid.is_some() || self.follow || self.password_file.is_some();
            return if asked {
                usage(
                    "--from, --from-gtid, --follow and --password-file are for servers: 'mysql://user:${PASSWORD}@host'",
                )
            } else {
                Ok(None)
            };
        };
        if self.sources.len() > 1 {
            return usage("a server is read alone, without other sources");
        }
        if self.start_pos.is_some() {
            return usage("where to start on a server is told by --from FILE:OFFSET");
        }
        if self.stop_pos.as_ref().is_some_and(|stop| stop.file.is_none()) {
            return usage("where to stop on a server is told by --stop-pos FILE:OFFSET");
        }
        let start = match (&self.from, &self.from_gtid) {
            (Some(start), _) => start.clone(),
            (None, Some(set)) => LiveStart::Gtids(set.clone()),
            (None, None) => LiveStart::Current,
        };
        if start == LiveStart::Current && !self.follow {
            return usage(
                "nothing is behind the end of the log: give --from earliest, --from FILE[:OFFSET] or --from-gtid SET, or \
                 --follow to wait for more",
            );
        }
        let mut url = SourceUrl::parse(url, &|name| std::env::var(name).ok()).map_err(Error::Usage)?;
        if let Some(file) = &self.password_file {
            if url.password.is_some() {
                return usage("the password is given twice: in the URL and by --password-file");
            }
            let text = std::fs::read_to_string(file)
                .map_err(|source| Error::Open { file: file.to_string_lossy().into_owned(), source })?;
            url.password = Some(Password::new(text.lines().next().unwrap_or_default()));
        }
        let mode = match self.ssl_mode {
            Tls::Disabled => SslMode::Disabled,
            Tls::Preferred => SslMode::Preferred,
            Tls::Required => SslMode::Required,
            Tls::VerifyCa => SslMode::VerifyCa,
            Tls::VerifyIdentity => SslMode::VerifyIdentity,
        };
        let mut connect =
            url.connect_options().ssl_mode(mode).allow_public_key_retrieval(self.allow_public_key_retrieval);
        if let Some(ca) = &self.ssl_ca {
            connect = connect.ssl_ca(ca);
        }
        let server_id = self.server_id.unwrap_or_else(|| fastrand::u32(1 << 31..));
        Ok(Some(Live { connect, at: url.at.to_string(), start, follow: self.follow, server_id }))
    }
}
