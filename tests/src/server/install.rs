//! An unpacked or installed server: where its programs and files are, and how to run them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::error::StartError;
use super::packages;
use crate::paths;

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavor {
    /// MySQL 9.7 LTS, from Debian's suite `sid`, or the binary that `MILLSTREAM_MYSQLD` names.
    #[default]
    Mysql97,
}

/// The programs and files of one server.
#[derive(Clone, Debug)]
pub struct Installation {
    mysqld: PathBuf,
    basedir: PathBuf,
    /// The unpacked root, whose own loader and libraries run its programs.
    root: Option<PathBuf>,
}

impl Installation {
    /// Finds or fetches the server.
    pub fn locate(flavor: Flavor) -> Result<Self, StartError> {
        let Flavor::Mysql97 = flavor;
        if let Some(named) = std::env::var_os("MILLSTREAM_MYSQLD") {
            return Self::named(PathBuf::from(named));
        }
        if multiarch().is_none() {
            return Err(StartError::unavailable("MySQL is only fetched on Linux x86_64 and aarch64"));
        }
        // Asked once: without a network, each try takes seconds.
        static ROOT: OnceLock<Result<PathBuf, StartError>> = OnceLock::new();
        let root = ROOT.get_or_init(|| packages::root("sid", &["mysql-server-core", "mysql-client-core"]));
        let root = root.clone()?;
        Ok(Self { mysqld: root.join("usr/sbin/mysqld"), basedir: root.join("usr"), root: Some(root) })
    }

    fn named(mysqld: PathBuf) -> Result<Self, StartError> {
        let mysqld = mysqld
            .canonicalize()
            .map_err(|error| StartError::failed(format!("MILLSTREAM_MYSQLD={}: {error}", mysqld.display())))?;
        let basedir = mysqld.ancestors().nth(2).unwrap_or_else(|| Path::new("/")).to_path_buf();
        let installation = Self { mysqld, basedir, root: None };
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

    /// The server's binary.
    pub fn mysqld(&self) -> &Path {
        &self.mysqld
    }

    /// A command for the server, with the options that say where its own files are.
    pub(super) fn server_command(&self) -> Command {
        let mut command = self.command_for(&self.mysqld);
        command.arg("--no-defaults").arg(format!("--basedir={}", self.basedir.display()));
        for share in ["share/mysql", "share"] {
            let share = self.basedir.join(share);
            if share.join("errmsg-utf8.txt").exists() || share.join("english/errmsg.sys").exists() {
                command.arg(format!("--lc-messages-dir={}", share.display()));
                break;
            }
        }
        let plugins = self.basedir.join("lib/mysql/plugin");
        if plugins.is_dir() {
            command.arg(format!("--plugin-dir={}", plugins.display()));
        }
        // Its default folder does not exist in an unpacked root.
        command.arg("--secure-file-priv=NULL");
        // mysqld refuses to run as root without being told to.
        if paths::user_id() == 0 {
            command.arg("--user=root");
        }
        command
    }

    /// A command for one of the programs that come with the server, such as `mysql` and
    /// `mysqlbinlog`; searched in PATH when the server's own folders do not have it.
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
        let (Some(root), Some((triple, loader))) = (&self.root, multiarch()) else {
            return Command::new(program);
        };
        let libraries = root.join("usr/lib").join(triple);
        let mut command = Command::new(libraries.join(loader));
        command.arg("--library-path").arg(libraries).arg(program);
        command
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
