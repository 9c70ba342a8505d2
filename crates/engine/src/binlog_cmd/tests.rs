use std::path::{Path, PathBuf};

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/fixtures").join(name)
}

fn options(file: PathBuf, format: Format) -> Options {
    Options { inputs: vec![Input::File(file)], format, stats: false, ..Options::default() }
}

fn printed(name: &str, format: Format) -> (Summary, String) {
    let mut out = Vec::new();
    let (summary, result) = run(&options(fixture(name), format), &mut out);
    result.unwrap();
    (summary, String::from_utf8(out).unwrap())
}

#[test]
fn every_event_has_one_line_of_text_and_every_row_another() {
    let (summary, text) = printed("xa.bin", Format::Text);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, summary.shown.events + summary.rows + 1);
    assert!(lines[0].starts_with("# ") && lines[0].ends_with("xa.bin"));
    assert!(lines[1].contains("FORMAT_DESCRIPTION") && lines[1].contains("9.7.4"), "{}", lines[1]);
    assert!(text.contains("XA_PREPARE"));
    assert!(text.lines().any(|l| l.contains("WRITE_ROWS") && l.contains("1 row")));
}

#[test]
fn every_line_of_json_is_an_object_and_rows_have_values() {
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".bin") {
            continue;
        }
        let (summary, text) = printed(&name, Format::Json);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{name}: {e}: {l}"))).collect();
        let rows = lines.iter().filter(|l| l.get("op").is_some()).count() as u64;
        assert_eq!(rows, summary.rows, "{name}");
    }
    let (_, text) = printed("metadata-full.bin", Format::Json);
    let line = text.lines().find(|l| l.contains("WRITE_ROWS")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((line["db"].as_str(), line["table"].as_str()), (Some("m"), Some("every_type")));
    assert_eq!((line["op"].as_str(), line["row"].as_u64()), (Some("insert"), Some(0)));
    for (column, value) in [
        ("id", r#""18446744073709551615""#),
        ("t", "-128"),
        ("f", "1.1"),
        ("de", r#""-12345678901234.567890""#),
        ("ti", r#""-838:59:59.000""#),
        ("ts", r#""2038-01-19 03:14:07.9""#),
        ("cl", r#""é""#),
        ("vg", r#""中文""#),
        ("bn", r#""00112233445566778899aabbccdd0000""#),
        ("e", r#""ü""#),
        ("st", r#""p,é""#),
        ("j", r#""{\"a\": [1, 2.0, \"x\"]}""#),
        ("bi", r#""257""#),
    ] {
        assert_eq!(line["after"][column].to_string(), value, "{column}");
    }
    let (_, text) = printed("metadata-full.bin", Format::Text);
    let row = text.lines().find(|l| l.starts_with("\t+ id=18446744073709551615")).unwrap();
    for part in ["t=-128", "de=-12345678901234.567890", "cl='é'", "bn=0x00112233445566778899aabbccdd0000", "bi=257"] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

#[test]
fn all_formats_count_the_same() {
    for name in ["compression-zstd.bin", "types-minimal-image.bin", "partial-json-fullimage.bin", "statement.bin"] {
        let counts = |format| {
            let (s, _) = printed(name, format);
            (s.shown, s.rows, s.values, s.read, s.types, s.skipped, s.tables)
        };
        let text = counts(Format::Text);
        assert_eq!(text, counts(Format::None), "{name}");
        assert_eq!(text, counts(Format::Json), "{name}");
        assert_eq!(text.3.bytes, std::fs::metadata(fixture(name)).unwrap().len());
        assert_eq!(text.0.events, text.3.events, "{name}: without a filter everything is shown");
    }
}

#[test]
fn an_index_stands_for_its_files_and_the_files_of_one_log_are_ordered_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("b.index");
    std::fs::write(&index, "./b.999999\n./b.1000000\n/gone/b.000001\n").unwrap();
    let file = |name: &str| Input::File(dir.path().join(name));
    let typed = [dir.path().join("b.1000000"), index];
    let inputs = Input::expand(&typed).unwrap();
    assert_eq!(inputs, [file("b.000001"), file("b.999999"), file("b.1000000")]);
    let others = ["x", "b.2", "a.1"].map(PathBuf::from);
    let inputs = Input::expand(&others).unwrap();
    assert_eq!(inputs, others.map(Input::File), "files of several logs stay as they were given");
    assert!(Input::expand(&["-".into(), "-".into()]).unwrap_err().is_usage());
}
