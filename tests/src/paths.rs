//! Where things lie: the cargo target directory, caches that outlive a run, and locks between processes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The target directory of the build that made the running program, shared by debug and release.
///
/// Found from the program's own path (cargo marks a target directory with `CACHEDIR.TAG`), else
/// from `CARGO_TARGET_DIR`, else beside this crate.
pub fn target_dir() -> PathBuf {
    if let Ok(exe) = std::env::current_exe() {
        for dir in exe.ancestors().skip(1) {
            if dir.join("CACHEDIR.TAG").is_file() {
                return dir.to_path_buf();
            }
        }
    }
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => repo_root().join(dir),
        None => repo_root().join("target"),
    }
}

/// The root of this repository, as it was when the program was built.
pub fn repo_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A new directory of its own under the system's temporary directory, with a path short enough
/// for a unix socket (108 bytes). Not removed by itself: see [`crate::guard::DirGuard`].
pub fn short_temp_dir() -> io::Result<PathBuf> {
    let mut base = std::env::temp_dir();
    if base.as_os_str().len() > 60 {
        base = PathBuf::from("/tmp");
    }
    let dir = tempfile::Builder::new().prefix("millstream-").tempdir_in(base)?;
    Ok(dir.keep())
}

/// The user this process runs as.
pub fn user_id() -> u32 {
    use std::os::unix::fs::MetadataExt;
    // Without `unsafe` or a crate for it, the owner of the process' own folder tells.
    fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid())
}

/// An exclusive lock between processes; released when dropped, or when the process is gone.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "the open file is the lock")] File);

impl FileLock {
    /// Waits for the lock on `path` (the file is made when missing, and stays).
    pub fn acquire(path: &Path) -> io::Result<Self> {
        let file = open_lock(path)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Takes the lock if nobody has it.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
