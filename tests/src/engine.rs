//! Runs the engine as a user would: the `millstream` binary of this very source, with a config
//! file, in a directory of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::guard::{DirGuard, Exit, Guarded};
use crate::paths::{self, FileLock};

/// The `millstream` binary in the profile of the running program.
///
/// Built by cargo once per process, and the path is the one that cargo reports, so it is never a
/// stale one. Panics with cargo's messages when it does not build.
pub fn binary() -> &'static Path {
    try_binary().unwrap_or_else(|error| panic!("{error}"))
}

/// As [`binary`], with cargo's messages as the error.
pub fn try_binary() -> Result<&'static Path, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY.get_or_init(build).as_deref().map_err(Clone::clone)
}

fn build() -> Result<PathBuf, String> {
    let target = paths::target_dir();
    let _lock = FileLock::acquire(&target.join("engine-build.lock"))
        .map_err(|error| format!("locking {}: {error}", target.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The whole workspace is selected so that dependencies have the features they were already
    // built with for the tests.
    command.args(["build", "--workspace", "--bin", "millstream"]);
    command.arg("--message-format=json-render-diagnostics");
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.arg("--manifest-path").arg(paths::repo_root().join("Cargo.toml"));
    command.arg("--target-dir").arg(&target);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cargo, to build the engine: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the engine does not build:\n{text}"));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "cargo reported no binary named millstream".to_owned())
}

/// The path in cargo's artifact message of the binary.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_binary = message["reason"] == "compiler-artifact" && message["target"]["name"] == "millstream";
        let path = message["executable"].as_str().filter(|_| is_binary)?;
        Some(PathBuf::from(path))
    })
}

/// A directory for runs of one engine: its config, its state (a relative `./state` lies here) and
/// the output of each run. Removed when dropped, or when the test is gone.
#[derive(Debug)]
pub struct Home {
    dir: DirGuard,
    env: Vec<(String, String)>,
    runs: AtomicU32,
}

impl Home {
    /// A new, empty directory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { dir: DirGuard::temp()?, env: Vec::new(), runs: AtomicU32::new(0) })
    }

    /// Sets a variable in the environment of every run, such as one that `${…}` in the config
    /// names.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Starts `millstream ARGS…` in the directory. With `config`, it is written to
    /// `millstream.toml` and `-c millstream.toml` follows the first argument.
    pub fn spawn(&self, config: Option<&str>, args: &[&str]) -> io::Result<Engine> {
        let mut command = Command::new(binary());
        command.current_dir(self.path());
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        let (first, rest) = args.split_at(args.len().min(1));
        command.args(first);
        if let Some(config) = config {
            fs::write(self.path().join("millstream.toml"), config)?;
            command.args(["-c", "millstream.toml"]);
        }
        command.args(rest);
        let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let stdout = self.path().join(format!("run-{run}.out"));
        let stderr = self.path().join(format!("run-{run}.err"));
        let process = Guarded::spawn(&command, &stdout, &stderr)?;
        let memory = Arc::new(Memory::default());
        let pid = process.pid();
        let sampler = std::thread::spawn({
            let memory = Arc::clone(&memory);
            move || memory.sample(pid)
        });
        Ok(Engine { process, stdout, stderr, memory, sampler: Some(sampler), exit: None })
    }

    /// Runs to the end, at most `limit`, and returns everything; panics when it does not end.
    #[track_caller]
    pub fn finish(&self, config: Option<&str>, args: &[&str], limit: Duration) -> Output {
        match self.spawn(config, args) {
            Ok(engine) => engine.finish(limit),
            Err(error) => panic!("starting millstream {args:?}: {error}"),
        }
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
    /// The largest resident set, in bytes.
    pub peak_rss: u64,
}

/// A running engine. Dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    process: Guarded,
    stdout: PathBuf,
    stderr: PathBuf,
    memory: Arc<Memory>,
    sampler: Option<std::thread::JoinHandle<()>>,
    exit: Option<Exit>,
}

impl Engine {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL; returns once the process is gone. An exit code other than 137 says that it had
    /// ended by itself before.
    pub fn kill9(&mut self) -> io::Result<Exit> {
        let exit = self.process.kill()?;
        self.ended(exit);
        Ok(exit)
    }

    /// Asks it to finish (SIGTERM); wait for the end with [`Self::wait`].
    pub fn sigterm(&mut self) -> io::Result<()> {
        self.process.signal("TERM")
    }

    /// Sends another signal by its name, such as `STOP` and `CONT`.
    pub fn signal(&mut self, name: &str) -> io::Result<()> {
        self.process.signal(name)
    }

    /// How it ended, or nothing while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        self.wait(Duration::ZERO)
    }

    /// Waits for its end, at most `limit`; nothing if it still runs then.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Exit>> {
        if self.exit.is_none()
            && let Some(exit) = self.process.wait(limit)?
        {
            self.ended(exit);
        }
        Ok(self.exit)
    }

    /// Waits for its end and returns everything; panics, with the end of its log, when it still
    /// runs after `limit`.
    #[track_caller]
    pub fn finish(mut self, limit: Duration) -> Output {
        match self.wait(limit) {
            Ok(Some(exit)) => Output { exit, stdout: self.stdout(), stderr: self.stderr(), peak_rss: self.peak_rss() },
            Ok(None) => panic!("millstream still runs after {limit:?}:\n{}", tail(&self.stderr())),
            Err(error) => panic!("waiting for millstream: {error}"),
        }
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Standard error (the log) so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// The file that standard output goes to.
    pub fn stdout_path(&self) -> &Path {
        &self.stdout
    }

    /// The file that standard error (the log) goes to.
    pub fn stderr_path(&self) -> &Path {
        &self.stderr
    }

    /// Waits until `reached` says so of standard error. Panics, with the end of the log, when the
    /// engine ends before, or after `limit`.
    #[track_caller]
    pub fn wait_for_log(&mut self, what: &str, limit: Duration, reached: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + limit;
        loop {
            // Asked before the log is read: what it wrote last is then seen.
            let ended = self.try_wait().unwrap_or_default();
            let log = self.stderr();
            if reached(&log) {
                return;
            }
            if let Some(exit) = ended {
                panic!("millstream ended ({}) before {what}:\n{}", exit.code, tail(&log));
            }
            assert!(Instant::now() < deadline, "no {what} within {limit:?}:\n{}", tail(&log));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The largest resident set so far, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.memory.peak.load(Ordering::Relaxed)
    }

    fn ended(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.memory.stop.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            sampler.join().ok();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The process itself goes with its guardian.
        self.memory.stop.store(true, Ordering::Relaxed);
    }
}

/// The kernel keeps the peak; it is lost with the process, so it is read until then.
#[derive(Debug, Default)]
struct Memory {
    peak: AtomicU64,
    stop: AtomicBool,
}

impl Memory {
    fn sample(&self, pid: u32) {
        let status = PathBuf::from(format!("/proc/{pid}/status"));
        while !self.stop.load(Ordering::Relaxed) {
            let Some(peak) = fs::read_to_string(&status).ok().and_then(|text| peak_rss(&text)) else {
                return;
            };
            self.peak.fetch_max(peak, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(25));
        }
    }
}

/// Bytes in the line `VmHWM:   1234 kB`.
fn peak_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_own_words_name_the_binary() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"serde\"},\"executable\":null}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"millstream\"},",
            "\"executable\":\"/t/debug/millstream\"}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/millstream")));
        assert_eq!(executable("not json\n"), None);
    }

    #[test]
    fn the_peak_is_read_from_the_kernels_text() {
        assert_eq!(peak_rss("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(peak_rss("Name:\tzombie\n"), None);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(peak_rss(&own).unwrap() > 1 << 20);
    }
}
