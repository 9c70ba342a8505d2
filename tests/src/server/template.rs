//! A data directory that is initialised once, cached, and copied for each server.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::error::StartError;
use super::flavor::Flavor;
use super::install::Installation;
use super::{ADMIN_PASSWORD, REPL_PASSWORD, cache};
use crate::guard::{DirGuard, Guarded};

/// Bumped when what a template holds changes.
const VERSION: u32 = 2;

/// Copies an initialised data directory to `to`, which must not exist.
pub(super) fn copy_to(installation: &Installation, to: &Path) -> Result<(), StartError> {
    copy(&template(installation)?, to)
}

fn copy(from: &Path, to: &Path) -> Result<(), StartError> {
    // Not with their owner: a package's files may be of a user that is not here.
    let output = Command::new("cp").args(["-R", "--preserve=mode,timestamps"]).arg(from).arg(to).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(StartError::failed(format!("copying the data directory: {text}")));
    }
    Ok(())
}

fn template(installation: &Installation) -> Result<PathBuf, StartError> {
    cache::folder(&format!("data-{}-{}", installation.flavor(), fingerprint(installation)?), |scratch| {
        let data = scratch.join("data");
        initialise(installation, &data)?;
        Ok(data)
    })
}

/// Another server binary, or other contents, make another template.
fn fingerprint(installation: &Installation) -> Result<String, StartError> {
    let path = installation.mysqld();
    // Without links: target directories may share what is unpacked.
    let found = path.canonicalize().and_then(|path| Ok((fs::metadata(&path)?, path)));
    let (binary, path) = found.map_err(|error| StartError::failed(format!("{}: {error}", path.display())))?;
    let mut hasher = std::hash::DefaultHasher::new();
    (path, binary.len(), binary.mtime(), VERSION, setup_sql(installation.flavor())).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// The users, one statement a line as `--init-file` wants it.
fn setup_sql(flavor: Flavor) -> String {
    let identified = |password: &str| match flavor.default_plugin() {
        "mysql_native_password" => format!("IDENTIFIED BY '{password}'"),
        plugin => format!("IDENTIFIED WITH {plugin} BY '{password}'"),
    };
    // 5.6 comes with root from several hosts and MariaDB's script makes them; a server for tests has root on the socket.
    let strangers = match flavor {
        Flavor::Mysql97 => "",
        Flavor::Mysql56 => "DELETE FROM mysql.user WHERE user <> 'root' OR host <> 'localhost';\nFLUSH PRIVILEGES;\n",
        _ => {
            "DELETE FROM mysql.global_priv WHERE user = '' OR (user = 'root' AND host <> 'localhost');\n\
              FLUSH PRIVILEGES;\n"
        }
    };
    format!(
        "{strangers}CREATE USER 'repl'@'%' {};\n\
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'repl'@'%';\n\
         CREATE USER 'admin'@'%' {};\n\
         GRANT ALL ON *.* TO 'admin'@'%' WITH GRANT OPTION;\n",
        identified(REPL_PASSWORD),
        identified(ADMIN_PASSWORD),
    )
}

/// Makes a data directory at `data`: the system tables, then a first start that adds the users and makes what a server
/// makes once.
fn initialise(installation: &Installation, data: &Path) -> Result<(), StartError> {
    let dir = DirGuard::temp()?;
    match (installation.ready_data(), installation.flavor().is_mariadb()) {
        (Some(ready), _) => copy(&ready, data)?,
        (None, true) => bootstrap(installation, data, dir.path())?,
        (None, false) => {
            let mut command = base_command(installation, data);
            command.arg("--initialize-insecure");
            run_to_end(&command, dir.path(), None, "initialising a data directory")?;
        }
    }

    // MySQL 9.7 makes certificates and RSA keys here, which takes longer than the rest of it.
    let (out, log) = (dir.path().join("out"), dir.path().join("log"));
    let init_file = dir.path().join("setup.sql");
    fs::write(&init_file, setup_sql(installation.flavor()))?;
    let socket = dir.path().join("s");
    let mut command = base_command(installation, data);
    command.arg("--skip-networking").arg(format!("--socket={}", socket.display()));
    command.arg(format!("--pid-file={}", dir.path().join("pid").display()));
    command.arg(format!("--init-file={}", init_file.display())).arg("--skip-log-bin");
    if installation.flavor() == Flavor::Mysql97 {
        command.arg("--mysqlx=OFF");
    }
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

/// MariaDB has no `--initialize`: its system tables come from scripts, as its own mariadb-install-db feeds them.
/// The help tables and the sys schema are left out: they take longer than all else.
fn bootstrap(installation: &Installation, data: &Path, dir: &Path) -> Result<(), StartError> {
    let Some(share) = installation.share() else {
        return Err(StartError::failed("the server's scripts are not where they should be"));
    };
    let mut script = "create database if not exists mysql;\nuse mysql;\n".to_owned();
    for part in ["system_tables", "performance_tables", "system_tables_data"] {
        let named = ["mariadb", "mysql"].map(|family| share.join(format!("{family}_{part}.sql")));
        let Some(path) = named.iter().find(|path| path.is_file()) else {
            return Err(StartError::failed(format!("no script {part} in {}", share.display())));
        };
        script.push_str(&fs::read_to_string(path)?);
    }
    let gis = share.join("maria_add_gis_sp_bootstrap.sql");
    if gis.is_file() {
        script.push_str(&fs::read_to_string(gis)?);
    }
    let input = dir.join("bootstrap.sql");
    fs::write(&input, script)?;
    fs::create_dir(data)?;
    let mut command = base_command(installation, data);
    command.args(["--bootstrap", "--log-warnings=0"]);
    run_to_end(&command, dir, Some(&input), "making the system tables")
}

/// Runs the server until it ends by itself.
fn run_to_end(command: &Command, dir: &Path, input: Option<&Path>, what: &str) -> Result<(), StartError> {
    let (out, log) = (dir.join("out"), dir.join("log"));
    // A guarded process has no standard input of its own.
    let redirected = input.map(|input| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#"exec <"$1"; shift; exec "$@""#, "sh"]).arg(input);
        shell.arg(command.get_program()).args(command.get_args());
        shell
    });
    let mut server = Guarded::spawn(redirected.as_ref().unwrap_or(command), &out, &log)?;
    if server.wait(Duration::from_secs(120))?.is_some_and(|exit| exit.success()) {
        return Ok(());
    }
    Err(StartError::failed(format!("{what}: {}", last_lines(&log))))
}

fn base_command(installation: &Installation, data: &Path) -> Command {
    let mut command = installation.server_command();
    command.arg(format!("--datadir={}", data.display()));
    if let Some(folder) = data.parent() {
        command.arg(format!("--tmpdir={}", folder.display()));
    }
    // Small files make small copies; they grow as needed.
    command.arg("--innodb-buffer-pool-size=32M");
    command.args(super::redo_flags(installation.flavor(), 8));
    if installation.flavor().is_mariadb() {
        command.args(["--innodb-data-file-path=ibdata1:1M:autoextend", "--innodb-autoextend-increment=1"]);
    }
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
