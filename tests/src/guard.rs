//! Processes and directories that do not outlive the test that made them.
//!
//! Each child hangs on a guardian: a shell that is the child's parent and reads a pipe whose other
//! end only the test process holds. When the test process is gone, however it went (SIGKILL too),
//! the pipe ends and the guardian kills the child. The guardian is a few lines of `sh`, not a
//! program of this package, so that it is there for every test binary and for the demo without
//! being built first. It runs in a process group of its own: Ctrl-C on the terminal ends the test,
//! and the test's end ends the child.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Lines on the pipe are names of signals to pass on; its end means SIGKILL.
const GUARDIAN: &str = r#"
out=$1; err=$2; shift 2
exec 3<&0
"$@" </dev/null >>"$out" 2>>"$err" 3<&- &
pid=$!
echo "$pid"
exec >/dev/null 2>&1
(while read -r name <&3; do kill -s "$name" "$pid"; done; kill -s KILL "$pid") &
watcher=$!
exec 3<&-
wait "$pid"
status=$?
kill -s KILL "$watcher"
exit "$status"
"#;

/// Removes a directory at the pipe's end. Other guardians may still be killing what writes into
/// it, so it tries for a while.
const DIR_GUARDIAN: &str = r#"
while read -r line; do :; done
tries=0
until rm -rf "$1" 2>/dev/null || [ "$tries" -ge 100 ]; do tries=$((tries + 1)); sleep 0.1; done
"#;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 + the signal's number when a signal ended it.
    pub code: i32,
}

impl Exit {
    /// Whether the code is 0.
    pub fn success(self) -> bool {
        self.code == 0
    }
}

/// A running child on its guardian. Dropping it kills the child and waits for its end.
#[derive(Debug)]
pub struct Guarded {
    guardian: Child,
    pipe: Option<ChildStdin>,
    pid: u32,
}

impl Guarded {
    /// Starts `command` (its program, arguments, environment changes and directory; its own stdio
    /// settings are not used). Standard output and error are appended to the two files.
    pub fn spawn(command: &Command, stdout: &Path, stderr: &Path) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(GUARDIAN).arg("millstream-guardian").arg(stdout).arg(stderr);
        shell.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            shell.current_dir(dir);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut guardian = shell.spawn()?;
        let pipe = guardian.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = guardian.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let pid = line.trim().parse().map_err(|_| {
            let program = OsString::from(command.get_program());
            io::Error::other(format!("the guardian did not start {}", program.display()))
        })?;
        Ok(Self { guardian, pipe, pid })
    }

    /// The child's process id (the child's own, not the guardian's).
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal by its name without `SIG`, such as `TERM`, `STOP` or `CONT`.
    pub fn signal(&mut self, name: &str) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(format!("{name}\n").as_bytes()),
            None => Err(io::Error::other("the guardian's pipe is closed")),
        }
    }

    /// Kills the child with SIGKILL and waits for its end.
    pub fn kill(&mut self) -> io::Result<Exit> {
        drop(self.pipe.take());
        let status = self.guardian.wait()?;
        Ok(Exit { code: status.code().unwrap_or(-1) })
    }

    /// How the child ended, or nothing while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        let status = self.guardian.try_wait()?;
        Ok(status.map(|status| Exit { code: status.code().unwrap_or(-1) }))
    }

    /// Waits until the child has ended, at most `limit`; nothing if it still runs then.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Exit>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(exit) = self.try_wait()? {
                return Ok(Some(exit));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("waiting for the guardian of process {}: {error}", self.pid);
        }
    }
}

/// Removes a directory when dropped, or when the test process is gone.
#[derive(Debug)]
pub struct DirGuard {
    path: PathBuf,
    guardian: Child,
}

impl DirGuard {
    /// Takes charge of `path`. `MILLSTREAM_KEEP` in the environment keeps directories for a look
    /// after the test.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let script = match std::env::var_os("MILLSTREAM_KEEP") {
            Some(_) => "cat >/dev/null",
            None => DIR_GUARDIAN,
        };
        let guardian = Command::new("/bin/sh")
            .args(["-c", script, "millstream-guardian"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { path, guardian })
    }

    /// A new directory with a short path, guarded from the start.
    pub fn temp() -> io::Result<Self> {
        Self::new(crate::paths::short_temp_dir()?)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DirGuard {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        if let Err(error) = self.guardian.wait() {
            eprintln!("waiting for the guardian of {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn exit_codes_and_output_come_through() {
        let dir = DirGuard::temp().unwrap();
        let (out, err) = (dir.path().join("out"), dir.path().join("err"));
        let mut child = Guarded::spawn(&shell("echo hello; echo oops >&2; exit 7"), &out, &err).unwrap();
        let exit = child.wait(Duration::from_secs(10)).unwrap();
        assert_eq!(exit, Some(Exit { code: 7 }));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "hello\n");
        assert_eq!(std::fs::read_to_string(&err).unwrap(), "oops\n");
    }

    #[test]
    fn signals_are_passed_on() {
        let dir = DirGuard::temp().unwrap();
        let (out, err) = (dir.path().join("out"), dir.path().join("err"));
        let script = "trap 'echo got it; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child = Guarded::spawn(&shell(script), &out, &err).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::fs::read_to_string(&out).unwrap_or_default() != "ready\n" {
            assert!(Instant::now() < deadline, "the child never got ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.signal("TERM").unwrap();
        assert_eq!(child.wait(Duration::from_secs(10)).unwrap(), Some(Exit { code: 3 }));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "ready\ngot it\n");
    }

    #[test]
    fn kill_is_sigkill_and_drop_removes_the_directory() {
        let dir = DirGuard::temp().unwrap();
        let path = dir.path().to_path_buf();
        let (out, err) = (path.join("out"), path.join("err"));
        let mut child = Guarded::spawn(&shell("trap '' TERM; exec sleep 60"), &out, &err).unwrap();
        assert_eq!(child.kill().unwrap(), Exit { code: 128 + 9 });
        drop(child);
        drop(dir);
        assert!(!path.exists());
    }
}
