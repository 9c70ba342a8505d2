//! Finds the marks: doc-comment lines `Conformance: ID, ID` and `Bug: N, N` above a test.

use std::fs;
use std::path::{Path, PathBuf};

/// A test that says what it proves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// From the repository's root, with `/`.
    pub(crate) file: String,
    /// The test function.
    pub(crate) test: String,
    /// Ids of lines of the matrix.
    pub(crate) lines: Vec<String>,
    /// Numbers of bugs.
    pub(crate) bugs: Vec<u32>,
}

/// All marks in the Rust files of `crates` and `tests`, in the order of files and lines.
///
/// # Errors
/// A mark that cannot be read or stands above something that is not a test: file, line and what is wrong.
pub(crate) fn of_repository(root: &Path) -> Result<Vec<Mark>, String> {
    let mut files = Vec::new();
    for folder in ["crates", "tests"] {
        rust_files(&root.join(folder), &mut files);
    }
    files.sort();
    let mut marks = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        marks.extend(of_text(&file, &text)?);
    }
    Ok(marks)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The marks of one file.
pub(crate) fn of_text(file: &str, text: &str) -> Result<Vec<Mark>, String> {
    let mut marks = Vec::new();
    let mut open: Option<Mark> = None;
    let mut is_test = false;
    for (number, line) in (1_usize..).zip(text.lines()) {
        let at = || format!("{file}:{number}");
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            let comment = comment.trim();
            let (ids, bugs) = match comment.split_once(':') {
                Some(("Conformance", ids)) => (ids, ""),
                Some(("Bug" | "Bugs", numbers)) => ("", numbers),
                _ => continue,
            };
            let mark = open.get_or_insert_with(|| Mark {
                file: file.to_owned(),
                test: String::new(),
                lines: Vec::new(),
                bugs: Vec::new(),
            });
            for id in words(ids) {
                mark.lines.push(id.to_owned());
            }
            for bug in words(bugs) {
                mark.bugs.push(bug.parse().map_err(|_| format!("{}: {bug:?} is not a bug's number", at()))?);
            }
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test");
        } else if let Some(mut mark) = open.take() {
            // A property test is a function inside a macro: `#[test]` is there too.
            let function = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            // `on_every_server! { name; }` makes a test per server of the function `name`.
            let listed = line.strip_suffix(';').filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
            match function.filter(|_| is_test).or(listed) {
                Some(name) => {
                    name.trim().clone_into(&mut mark.test);
                    marks.push(mark);
                }
                None => return Err(format!("{}: a mark stands above something that is not a test", at())),
            }
            is_test = false;
        } else {
            is_test = false;
        }
    }
    match open {
        Some(_) => Err(format!("{file}: a mark stands above nothing")),
        None => Ok(marks),
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ']).map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty())
}
