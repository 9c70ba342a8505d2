//! docs/conformance.md, docs/doris-conformance.md and docs/bugs.md are made from the marks above tests, and are never stale.
//!
//! Every line of the matrix (`lines.rs`) and every row of the catalogue of bugs (`bugs.rs`) has a test that names it, or a
//! reason. `MILLSTREAM_BLESS=1` writes the pages anew.

mod bugs;
mod doris;
mod lines;
mod marks;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bugs::BUGS;
use crate::doris::CHECKS;
use crate::lines::{LINES, Reason};
use crate::marks::Mark;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a folder of the repository").to_path_buf()
}

/// `file.rs` test, test; other.rs: test.
fn tests_of<'a>(marks: impl Iterator<Item = &'a Mark>) -> String {
    let mut text = String::new();
    let mut last = "";
    for mark in marks {
        if mark.file == last {
            write!(text, ", {}", mark.test).unwrap();
        } else {
            let separator = if text.is_empty() { "" } else { "; " };
            write!(text, "{separator}`{}`: {}", mark.file, mark.test).unwrap();
            last = &mark.file;
        }
    }
    text
}

fn reason<'a>(reasons: &'a [Reason], id: &str) -> Option<&'a str> {
    reasons.iter().find(|reason| reason.id == id).map(|reason| reason.why)
}

/// A cell: the tests, then what is not done.
fn cell(tests: &str, why: Option<&str>) -> Option<String> {
    match (tests.is_empty(), why) {
        (true, None) => None,
        (true, Some(why)) => Some(format!("**not done**: {why}")),
        (false, None) => Some(tests.to_owned()),
        (false, Some(why)) => Some(format!("{tests}. Not done: {why}")),
    }
}

/// A table cell cannot hold a bar.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn conformance_page(marks: &[Mark], missing: &mut Vec<String>) -> String {
    let mut page = String::from(
        "# What of the protocol and the log is covered\n\n\
         Made by `tests/tests/conformance` from the `Conformance:` marks above tests; do not edit. A cell of a server says \
         whether the feature exists there (x, or which form of it). Tests in `tests/tests` run against real servers (MySQL 5.6 \
         and 9.7, MariaDB 10.5, 10.11 and 11.8); the others read recordings, binlog files or handmade bytes. MySQL 5.7, 8.0 \
         and 8.4 could not be run: they are covered by files that they wrote.\n\n\
         | line | requirement | 5.6 | 5.7 | 8.0 | 8.4 | 9.x | M 10.5 | M 10.11 | M 11.8 | tests |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in LINES {
        let tests = tests_of(marks.iter().filter(|mark| mark.lines.iter().any(|id| id == line.id)));
        let Some(cell) = cell(&tests, reason(lines::NOT_DONE, line.id)) else {
            missing.push(format!("{} {}", line.id, line.requirement));
            continue;
        };
        let servers = line.servers.join(" | ");
        writeln!(page, "| {} | {} | {servers} | {} |", line.id, escaped(line.requirement), escaped(&cell)).unwrap();
    }
    page
}

fn bugs_page(marks: &[Mark], missing: &mut Vec<String>) -> String {
    let mut page = String::from(
        "# Bugs of others that are not ours\n\n\
         Made by `tests/tests/conformance` from the `Bug:` marks above tests; do not edit. Each row is a defect that another \
         client or connector had.\n\n\
         | # | what went wrong | input | right | tests |\n|---|---|---|---|---|\n",
    );
    for bug in BUGS {
        let tests = tests_of(marks.iter().filter(|mark| mark.bugs.contains(&bug.number)));
        let Some(cell) = cell(&tests, reason(bugs::NOT_TESTED, &bug.number.to_string())) else {
            missing.push(format!("bug {} {}", bug.number, bug.symptom));
            continue;
        };
        let [symptom, input, right, cell] = [bug.symptom, bug.input, bug.right, &cell].map(escaped);
        writeln!(page, "| {} | {symptom} | {input} | {right} | {cell} |", bug.number).unwrap();
    }
    page
}

fn doris_page(marks: &[Mark], missing: &mut Vec<String>) -> String {
    let mut page = String::from(
        "# The checks of the Doris client\n\n\
         Made by `tests/tests/conformance` from the `Conformance:` marks above tests; do not edit. The tests `t01_…` to `t30_…` of \
         `tests/tests/sink_conformance` put the client and the engine to them, against the simulator, or against the real \
         cluster that `MILLSTREAM_DORIS_FE` names (with `MILLSTREAM_DORIS_SQL`, `_USER` and `_PASSWORD`): there, what needs a \
         fault, the clock or the log of the simulator says that it is skipped.\n\n\
         | check | what must hold | on a real cluster | tests |\n|---|---|---|---|\n",
    );
    for check in CHECKS {
        let tests = tests_of(marks.iter().filter(|mark| mark.lines.iter().any(|id| id == check.id)));
        let Some(cell) = cell(&tests, reason(doris::NOT_DONE, check.id)) else {
            missing.push(format!("{} {}", check.id, check.requirement));
            continue;
        };
        writeln!(page, "| {} | {} | {} | {} |", check.id, escaped(check.requirement), check.real, escaped(&cell))
            .unwrap();
    }
    page
}

fn same_as_file(name: &str, page: &str) -> Result<(), String> {
    let path = root().join("docs").join(name);
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        return fs::write(&path, page).map_err(|error| error.to_string());
    }
    match fs::read_to_string(&path) {
        Ok(text) if text == page => Ok(()),
        _ => Err(format!("docs/{name} is stale: MILLSTREAM_BLESS=1 cargo test -p millstream-tests --test conformance")),
    }
}

#[test]
fn every_line_and_every_bug_has_a_test_or_a_reason() {
    let marks = marks::of_repository(&root()).unwrap();
    let mut missing = Vec::new();
    let pages = [
        ("conformance.md", conformance_page(&marks, &mut missing)),
        ("doris-conformance.md", doris_page(&marks, &mut missing)),
        ("bugs.md", bugs_page(&marks, &mut missing)),
    ];
    assert!(missing.is_empty(), "neither a test nor a reason:\n{}", missing.join("\n"));
    for (name, page) in pages {
        same_as_file(name, &page).unwrap();
    }
}

#[test]
fn every_mark_and_every_reason_names_something() {
    let marks = marks::of_repository(&root()).unwrap();
    let ids = || LINES.iter().map(|line| line.id).chain(CHECKS.iter().map(|check| check.id));
    let lines: BTreeSet<&str> = ids().collect();
    let bugs: BTreeSet<u32> = BUGS.iter().map(|bug| bug.number).collect();
    assert_eq!((lines.len(), bugs.len()), (ids().count(), BUGS.len()), "an id stands twice");
    for mark in &marks {
        for id in &mark.lines {
            assert!(lines.contains(id.as_str()), "{}: {} names {id}, which is no line", mark.file, mark.test);
        }
        for bug in &mark.bugs {
            assert!(bugs.contains(bug), "{}: {} names bug {bug}, which is no row", mark.file, mark.test);
        }
    }
    for reason in lines::NOT_DONE.iter().chain(doris::NOT_DONE) {
        assert!(lines.contains(reason.id) && !reason.why.is_empty(), "a reason for {}, which is no line", reason.id);
    }
    for reason in bugs::NOT_TESTED {
        let known = reason.id.parse().is_ok_and(|number| bugs.contains(&number));
        assert!(known && !reason.why.is_empty(), "a reason for bug {}, which is no row", reason.id);
    }
}

#[test]
fn marks_are_found_above_tests_and_nowhere_else() {
    // Built of pieces, so that this file holds no mark of its own.
    let mark = |kind: &str, rest: &str| format!("/// {kind}: {rest}\n");
    let text = format!(
        "/// Reads.\n{}{}#[test]\nfn reads() {{}}\n\n{}#[tokio::test]\nasync fn waits() {{}}\nevery! {{\n{}ends;\n}}\n",
        mark("Conformance", "W1, E3."),
        mark("Bug", "17, 18"),
        mark("Bug", "95"),
        mark("Bug", "84")
    );
    let found = marks::of_text("a.rs", &text).unwrap();
    let found: Vec<_> = found.iter().map(|m| (m.test.as_str(), m.lines.join(" "), m.bugs.as_slice())).collect();
    let expected: [(&str, &str, &[u32]); 3] =
        [("reads", "W1 E3", &[17, 18]), ("waits", "", &[95]), ("ends", "", &[84])];
    assert_eq!(found, expected.map(|(test, lines, bugs)| (test, lines.to_owned(), bugs)));

    for wrong in [
        format!("{}fn helper() {{}}\n", mark("Bug", "1")),
        format!("{}#[test]\nfn a() {{}}\n", mark("Bug", "one")),
        mark("Conformance", "W1"),
    ] {
        assert!(marks::of_text("a.rs", &wrong).is_err(), "{wrong}");
    }
}
