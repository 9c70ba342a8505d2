//! Unpacks packages of another Debian suite privately, without touching the system.
//!
//! apt works on a scratch state of its own: one source line, an empty dpkg status (so that every
//! dependency is fetched, libc included), own lists and cache. The mirror and the signing keyring
//! are those of the machine's own apt configuration.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache;
use super::error::StartError;

/// The root into which `packages` of `suite` and all they depend on are unpacked, and the files of `alone` without
/// what those depend on; cached under the target directory, fetched by one process while others wait.
pub(super) fn root(suite: &str, packages: &[&str], alone: &[&str]) -> Result<PathBuf, StartError> {
    let names = [packages, alone].concat();
    cache::folder(&format!("{suite}-{}", names.join("-")), |scratch| {
        eprintln!("fetching {} of Debian {suite} (once)", names.join(" and "));
        fetch_and_unpack(suite, packages, alone, scratch)
    })
}

fn fetch_and_unpack(suite: &str, packages: &[&str], alone: &[&str], scratch: &Path) -> Result<PathBuf, StartError> {
    let source = machine_source()?;
    for dir in ["lists/partial", "cache/archives/partial", "root"] {
        fs::create_dir_all(scratch.join(dir))?;
    }
    fs::write(scratch.join("status"), "")?;
    let option = match &source.signed_by {
        Some(keyring) => format!("[signed-by={keyring}] "),
        None => String::new(),
    };
    fs::write(scratch.join("sources.list"), format!("deb {option}{} {suite} main\n", source.uri))?;
    fs::write(scratch.join("apt.conf"), apt_conf(scratch))?;

    let archives = scratch.join("cache/archives");
    apt(scratch, &["update"], scratch)?;
    apt(scratch, &[&["-y", "--download-only", "install"], packages].concat(), scratch)?;
    if !alone.is_empty() {
        // Leaves the packages in the working directory.
        apt(scratch, &[&["download"], alone].concat(), &archives)?;
    }

    let root = scratch.join("root");
    for entry in fs::read_dir(archives)? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            let mut dpkg = Command::new("dpkg");
            dpkg.arg("-x").arg(&package).arg(&root);
            cache::run("dpkg", &mut dpkg)?;
        }
    }
    Ok(root)
}

/// Read after the machine's own configuration, so that proxies and credentials stay in force.
fn apt_conf(scratch: &Path) -> String {
    let mut conf = String::new();
    for (key, file) in [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::State::Lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "cache"),
    ] {
        writeln!(conf, "{key} \"{}\";", scratch.join(file).display()).ok();
    }
    conf.push_str(
        "Dir::Etc::sourceparts \"-\";\n\
         Dir::Cache::archives \"archives\";\n\
         APT::Install-Recommends \"0\";\n\
         APT::Sandbox::User \"root\";\n\
         APT::Keep-Downloaded-Packages \"1\";\n\
         Acquire::Languages \"none\";\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::Retries \"3\";\n\
         Acquire::http::Timeout \"20\";\n\
         Acquire::https::Timeout \"20\";\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear Acquire::IndexTargets::deb::DEP-11;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n",
    );
    conf
}

fn apt(scratch: &Path, args: &[&str], dir: &Path) -> Result<(), StartError> {
    let mut command = Command::new("apt-get");
    command.arg("-c").arg(scratch.join("apt.conf")).arg("-q").args(args);
    command.env("LC_ALL", "C").current_dir(dir);
    cache::run(&format!("apt-get {}", args.join(" ")), &mut command)
}

/// One archive of the machine's apt configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    signed_by: Option<String>,
}

fn machine_source() -> Result<Source, StartError> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let sources: Vec<Source> = files
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            Some(match path.extension()?.to_str()? {
                "sources" => parse_deb822(&text),
                "list" => parse_one_line(&text),
                _ => Vec::new(),
            })
        })
        .flatten()
        .collect();
    choose(&sources)
        .cloned()
        .ok_or_else(|| StartError::unavailable("apt's configuration names no archive to fetch servers from"))
}

/// The main Debian archive, by its usual address or its keyring; else the first of all, which may
/// be a mirror under another name.
fn choose(sources: &[Source]) -> Option<&Source> {
    let by_address = |source: &&Source| {
        let uri = source.uri.trim_end_matches('/');
        // The second is a list of mirrors on the disk, as cloud images have it.
        uri.ends_with("/debian") || uri.ends_with("/debian.list")
    };
    let by_keyring =
        |source: &&Source| source.signed_by.as_ref().is_some_and(|keyring| keyring.contains("debian-archive"));
    let named = sources.iter().find(by_address).or_else(|| sources.iter().find(by_keyring));
    named.or_else(|| sources.first())
}

/// The deb822 form: stanzas of `Field: value`, split by empty lines.
fn parse_deb822(text: &str) -> Vec<Source> {
    text.split("\n\n")
        .filter_map(|stanza| {
            let field = |name: &str| {
                stanza.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            let uri = field("URIs")?.split_whitespace().next()?.to_owned();
            // An inline key block is not a path.
            let signed_by = field("Signed-By").filter(|value| value.starts_with('/'));
            Some(Source { uri, signed_by })
        })
        .collect()
}

/// The one-line form: `deb [options] uri suite component…`.
fn parse_one_line(text: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| {
            let mut rest = line.trim().strip_prefix("deb ")?.trim_start();
            let mut signed_by = None;
            if let Some((options, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                signed_by =
                    options.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")).map(str::to_owned);
                rest = after;
            }
            let uri = rest.split_whitespace().next()?.to_owned();
            Some(Source { uri, signed_by })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str, signed_by: Option<&str>) -> Source {
        Source { uri: uri.to_owned(), signed_by: signed_by.map(str::to_owned) }
    }

    #[test]
    fn both_forms_of_sources_are_read() {
        let deb822 = "Types: deb\n# a comment: with a colon\nURIs: http://mirror.test/debian\n\
                      Suites: stable stable-updates\nComponents: main\n\
                      Signed-By: /usr/share/keyrings/a.gpg\n\nTypes: deb\n\
                      URIs: http://mirror.test/debian-security\nSuites: stable-security\n";
        assert_eq!(
            parse_deb822(deb822),
            [
                source("http://mirror.test/debian", Some("/usr/share/keyrings/a.gpg")),
                source("http://mirror.test/debian-security", None),
            ]
        );
        let one_line = "# deb http://old.test/debian stable main\n\
                        deb http://mirror.test/debian/ stable main\n\
                        deb [arch=amd64 signed-by=/k.gpg] https://b.test/debian stable main\n\
                        deb-src http://mirror.test/debian stable main\n";
        assert_eq!(
            parse_one_line(one_line),
            [source("http://mirror.test/debian/", None), source("https://b.test/debian", Some("/k.gpg")),]
        );
    }

    #[test]
    fn the_main_archive_is_taken() {
        let security = source("http://mirror.test/debian-security", Some("/k/debian-archive-keyring.gpg"));
        let vendor = source("https://vendor.test/apt", None);
        for uri in ["http://mirror.test/debian/", "mirror+file:///etc/apt/mirrors/debian.list"] {
            let main = source(uri, None);
            assert_eq!(choose(&[vendor.clone(), security.clone(), main.clone()]), Some(&main));
        }
        assert_eq!(choose(&[vendor.clone(), security.clone()]), Some(&security));
        assert_eq!(choose(std::slice::from_ref(&vendor)), Some(&vendor));
        assert_eq!(choose(&[]), None);
    }
}
