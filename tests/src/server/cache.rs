//! Unpacked servers are kept under the target directory: made by one process while others wait, and never half there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::StartError;
use crate::paths::{self, FileLock};

/// The folder `name` of the cache; when it is missing, what `make` leaves at the path it returns inside the scratch
/// folder it is given.
pub(super) fn folder(
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, StartError>,
) -> Result<PathBuf, StartError> {
    let servers = paths::target_dir().join("servers");
    let folder = servers.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _lock = FileLock::acquire(&servers.join(format!("{name}.lock")))?;
    if folder.is_dir() {
        return Ok(folder);
    }
    // Left by a killed run.
    let scratch = servers.join(format!("{name}.partial"));
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    let made = make(&scratch)?;
    fs::rename(made, &folder)?;
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    Ok(folder)
}

/// Runs a program that fetches or unpacks; `what` names it in errors.
pub(super) fn run(what: &str, command: &mut Command) -> Result<(), StartError> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| StartError::unavailable(format!("{what}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.clone().find(|line| line.starts_with("E: ")).or_else(|| lines.next());
    Err(StartError::unavailable(format!("{what} failed: {}", first.unwrap_or("no message"))))
}
