//! A data directory that is initialised once, cached, and copied for each server.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::error::StartError;
use super::install::Installation;
use super::{ADMIN_PASSWORD, REPL_PASSWORD};
use crate::guard::{DirGuard, Guarded};
use crate::paths::{self, FileLock};

/// Bumped when what a template holds changes.
const VERSION: u32 = 1;

/// Copies an initialised data directory to `to`, which must not exist.
pub(super) fn copy_to(installation: &Installation, to: &Path) -> Result<(), StartError> {
    let template = template(installation)?;
    let output = Command::new("cp").arg("-a").arg(&template).arg(to).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(StartError::failed(format!("copying the data directory: {text}")));
    }
    Ok(())
}

fn template(installation: &Installation) -> Result<PathBuf, StartError> {
    let servers = paths::target_dir().join("servers");
    let name = format!("data-{}", fingerprint(installation)?);
    let template = servers.join(&name);
    if template.is_dir() {
        return Ok(template);
    }
    let _lock = FileLock::acquire(&servers.join(format!("{name}.lock")))?;
    if template.is_dir() {
        return Ok(template);
    }
    let partial = servers.join(format!("{name}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    initialise(installation, &partial)?;
    fs::rename(&partial, &template)?;
    Ok(template)
}

/// Another server binary, or other contents, make another template.
fn fingerprint(installation: &Installation) -> Result<String, StartError> {
    let binary = fs::metadata(installation.mysqld())
        .map_err(|error| StartError::failed(format!("{}: {error}", installation.mysqld().display())))?;
    let mut hasher = std::hash::DefaultHasher::new();
    (installation.mysqld(), binary.len(), binary.mtime(), VERSION, setup_sql()).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn setup_sql() -> String {
    format!(
        "CREATE USER 'repl'@'%' IDENTIFIED WITH caching_sha2_password BY '{REPL_PASSWORD}';\n\
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'repl'@'%';\n\
         CREATE USER 'admin'@'%' IDENTIFIED WITH caching_sha2_password BY '{ADMIN_PASSWORD}';\n\
         GRANT ALL ON *.* TO 'admin'@'%' WITH GRANT OPTION;\n"
    )
}

fn initialise(installation: &Installation, data: &Path) -> Result<(), StartError> {
    let dir = DirGuard::temp()?;
    let (out, log) = (dir.path().join("out"), dir.path().join("log"));
    let init_file = dir.path().join("setup.sql");
    fs::write(&init_file, setup_sql())?;

    let mut command = base_command(installation, data);
    command.arg("--initialize-insecure").arg(format!("--init-file={}", init_file.display()));
    let mut server = Guarded::spawn(&command, &out, &log)?;
    let exit = server.wait(Duration::from_secs(120))?;
    if !exit.is_some_and(|exit| exit.success()) {
        let text = last_lines(&log);
        return Err(StartError::failed(format!("initialising a data directory: {text}")));
    }

    // The first start makes certificates and RSA keys, which takes longer than the rest of it.
    let socket = dir.path().join("s");
    let mut command = base_command(installation, data);
    command.arg("--skip-networking").arg(format!("--socket={}", socket.display()));
    command.args(["--mysqlx=OFF", "--skip-log-bin"]);
    let mut server = Guarded::spawn(&command, &out, &log)?;
    let deadline = Instant::now() + Duration::from_secs(120);
    while !answers(&socket) {
        if server.try_wait()?.is_some() || Instant::now() > deadline {
            let text = last_lines(&log);
            return Err(StartError::failed(format!("the first start: {text}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal("TERM")?;
    if !server.wait(Duration::from_secs(60))?.is_some_and(|exit| exit.success()) {
        let text = last_lines(&log);
        return Err(StartError::failed(format!("stopping after the first start: {text}")));
    }
    // Holds the server's uuid: each copy makes its own.
    remove_if_there(&data.join("auto.cnf"))?;
    Ok(())
}

fn base_command(installation: &Installation, data: &Path) -> Command {
    let mut command = installation.server_command();
    command.arg(format!("--datadir={}", data.display()));
    // Small files make small copies; both grow as needed.
    command.args(["--innodb-redo-log-capacity=8M", "--innodb-buffer-pool-size=32M"]);
    command
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the server behind a unix socket greets with protocol version 10.
// MySQL: page_protocol_connection_phase_packets_protocol_handshake_v10
pub(super) fn answers(socket: &Path) -> bool {
    use std::io::Read;
    let Ok(mut stream) = std::os::unix::net::UnixStream::connect(socket) else {
        return false;
    };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == 10
}

/// The end of a log, for an error message.
pub(super) fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
