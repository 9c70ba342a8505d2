//! The bench lab: four logs of a real MySQL 9.7 (A narrow transactions, B wide rows, C and D the same compressed), made once
//! per size and kept under the target directory.
//!
//! Their shapes are those of the measurements that the project's bars come from: A is 540,000 transactions of one to three
//! statements over four tables of four columns, B 120 transactions of 10,000 rows of 31 columns.

pub mod measure;
mod narrow;
mod wide;

use std::fs;
use std::path::{Path, PathBuf};

use millstream_wire::{Connection, Error as WireError};

use crate::paths::{self, FileLock};
use crate::server::{Server, ServerOptions, StartError};

/// One of the four workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Narrow rows, small transactions.
    A,
    /// Wide rows, large transactions.
    B,
    /// [`Workload::A`] with binlog_transaction_compression.
    C,
    /// [`Workload::B`] with binlog_transaction_compression.
    D,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// Its letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        }
    }

    /// The workload of a letter.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.name().eq_ignore_ascii_case(name))
    }

    const fn is_compressed(self) -> bool {
        matches!(self, Self::C | Self::D)
    }

    /// The database that its tables are in.
    pub const fn database(self) -> &'static str {
        match self {
            Self::A => "lab_a",
            Self::B => "lab_b",
            Self::C => "lab_c",
            Self::D => "lab_d",
        }
    }
}

/// Why a log could not be made.
#[derive(Debug)]
pub enum LabError {
    /// No server here, or it did not start.
    Server(StartError),
    /// A statement failed.
    Statement(WireError),
    /// A file.
    Io(std::io::Error),
}

impl std::fmt::Display for LabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(e) => write!(f, "{e}"),
            Self::Statement(e) => write!(f, "writing the workload: {e}"),
            Self::Io(e) => write!(f, "keeping the log: {e}"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<StartError> for LabError {
    fn from(e: StartError) -> Self {
        Self::Server(e)
    }
}

impl From<WireError> for LabError {
    fn from(e: WireError) -> Self {
        Self::Statement(e)
    }
}

impl From<std::io::Error> for LabError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// A workload in thousandths of its full size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u32);

impl Size {
    /// `LAB_SIZE`, a share of the full size such as `0.1` (the default) or `1`.
    ///
    /// # Panics
    /// When it is not a number above 0 and up to 4.
    pub fn from_env() -> Self {
        let text = std::env::var("LAB_SIZE").unwrap_or_else(|_| "0.1".to_owned());
        Self::parse(&text).unwrap_or_else(|| panic!("LAB_SIZE={text:?} is not a number from 0.001 to 4"))
    }

    /// A share of the full size.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
        let all = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths)?;
        (1..=4000).contains(&all).then_some(Self(all))
    }

    /// That share of `full`, at least 1.
    pub fn of(self, full: u32) -> u32 {
        u32::try_from(u64::from(full) * u64::from(self.0) / 1000).map_or(u32::MAX, |n| n.max(1))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A server for the lab: nothing of it waits for a disk, and its log tells the tables' metadata.
///
/// # Errors
/// No server here, or it did not start.
pub fn server() -> Result<Server, LabError> {
    let options = ServerOptions::new()
        .durable(false)
        .flag("--performance-schema=OFF")
        .flag("--binlog-row-event-max-size=8192")
        .flag("--max-binlog-size=1G")
        .flag("--innodb-buffer-pool-size=1G");
    Ok(Server::start(options)?)
}

/// The log of a workload: made when it is not there yet.
///
/// # Errors
/// See [`LabError`].
pub fn log(workload: Workload, size: Size) -> Result<PathBuf, LabError> {
    let lab = paths::target_dir().join("lab");
    let path = lab.join(format!("{}-{size}.binlog", workload.name().to_lowercase()));
    fs::create_dir_all(&lab)?;
    let _lock = FileLock::acquire(&path.with_extension("lock"))?;
    if !path.is_file() {
        let server = server()?;
        let made = write(&server, workload, size)?;
        let partial = path.with_extension("partial");
        fs::copy(made, &partial)?;
        fs::rename(partial, &path)?;
    }
    Ok(path)
}

/// Writes a workload on a server and returns the binlog file that holds it alone.
///
/// # Errors
/// See [`LabError`].
pub fn write(server: &Server, workload: Workload, size: Size) -> Result<PathBuf, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match workload {
            Workload::A | Workload::C => narrow::prepare(server, workload).await?,
            Workload::B | Workload::D => wide::prepare(server, workload).await?,
        }
        let mut session = connect(server, workload).await?;
        session.execute("FLUSH BINARY LOGS").await?;
        let status = session.query_all("SHOW BINARY LOG STATUS").await?;
        let file = status.text(0, "File").unwrap_or_default().to_owned();
        match workload {
            Workload::A | Workload::C => narrow::write(server, workload, size).await?,
            Workload::B | Workload::D => wide::write(server, workload, size).await?,
        }
        session.execute("FLUSH BINARY LOGS").await?;
        session.close().await;
        Ok(data_file(server, &file))
    })
}

fn data_file(server: &Server, name: &str) -> PathBuf {
    server.data_dir().join(Path::new(name))
}

/// A session in the workload's database, compressed as the workload is.
async fn connect(server: &Server, workload: Workload) -> Result<Connection, LabError> {
    let mut session = Connection::connect(&server.connect_options("root")).await?;
    let compressed = u8::from(workload.is_compressed());
    session.execute(&format!("SET SESSION binlog_transaction_compression = {compressed}")).await?;
    session.execute(&format!("CREATE DATABASE IF NOT EXISTS {}", workload.database())).await?;
    session.execute(&format!("USE {}", workload.database())).await?;
    Ok(session)
}
