//! The examples over logs of real servers.

#![allow(clippy::panic, reason = "what does not run is a failure of the test")]

#[path = "../examples/count_rows.rs"]
mod count_rows;
#[path = "../examples/print.rs"]
mod print;

use std::fs::File;
use std::path::Path;

fn fixture(name: &str) -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn printed(name: &str) -> String {
    let mut out = Vec::new();
    print::run(fixture(name), &mut out).unwrap_or_else(|e| panic!("{name}: {e}"));
    String::from_utf8(out).unwrap_or_default()
}

#[test]
fn a_log_is_printed() {
    let text = printed("metadata-full.bin");
    for part in [
        "198\tGTID c4a6f24d-ecd5-11f1-8e4c-02fc00000001:7\n",
        "TABLE_MAP m.prefixed\n",
        "WRITE_ROWS\n\t+ a=Text { bytes: [97, 98, 99, 100, 101, 102, 103, 104], charset: ",
        "\t- a=",
        "\t< id=UInt(0) grp=",
        "\t> id=UInt(0) grp=",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(printed("compression-zstd.bin").contains("\n\tWRITE_ROWS\n\t+ id=Int(1)"), "opened");
    let maria = printed("mariadb-compressed-events.bin");
    assert!(
        maria.contains("WRITE_ROWS_COMPRESSED_V1\n\t+ @1=Int(1)") && maria.contains("CREATE TABLE ints"),
        "{maria}"
    );
}

#[test]
fn rows_are_counted_by_table() {
    let counts =
        |name: &str, database| count_rows::run(fixture(name), database).unwrap_or_else(|e| panic!("{name}: {e}"));
    let all = counts("metadata-full.bin", None);
    assert_eq!(all.get("m.prefixed"), Some(&2), "{all:?}");
    assert_eq!(counts("metadata-full.bin", Some("m")), all);
    assert!(counts("metadata-full.bin", Some("other")).is_empty());
    assert_eq!(counts("compression-zstd.bin", None).get("ms.ints"), Some(&7));
    assert_eq!(
        counts("mariadb-compressed-events.bin", None).get("ms.ints"),
        counts("compression-zstd.bin", None).get("ms.ints")
    );
}
