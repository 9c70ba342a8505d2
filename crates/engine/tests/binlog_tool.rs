//! `millstream binlog` as a user types it, over files and standard input.

#![allow(clippy::unwrap_used, reason = "what is not there is a failure of the test")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/fixtures").join(name)
}

fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.arg("binlog").stdin(Stdio::null());
    command
}

#[track_caller]
fn run(file: impl AsRef<Path>, args: &[&str]) -> Output {
    tool().arg(file.as_ref()).args(args).output().unwrap()
}

/// Standard output of a run that must succeed.
#[track_caller]
fn ok(file: impl AsRef<Path>, args: &[&str]) -> String {
    let output = run(file, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(file: impl AsRef<Path>, args: &[&str]) -> Vec<Value> {
    let args = [&["--format", "json"], args].concat();
    ok(file, &args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What follows the file's name, one line per event: offsets and type.
fn events(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with('\t'))
        .map(|line| {
            let mut parts = line.trim_start().split('\t');
            let (place, ty) = (parts.next().unwrap(), parts.nth(1).unwrap());
            format!("{} {ty}", place.split('-').next().unwrap())
        })
        .collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const XA_UUID: &str = "dd73c07a-ecbb-11f1-964a-02fc00000001";

#[test]
fn text_has_a_line_per_event_and_per_row() {
    let text = ok(fixture("metadata-full.bin"), &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("# /") && lines[0].ends_with("metadata-full.bin"), "{}", lines[0]);
    assert!(lines.contains(
        &"3348-3426\t2026-11-30T16:03:00Z\tTABLE_MAP\t108 is m.prefixed\tc4a6f24d-ecd5-11f1-8e4c-02fc00000001:11"
    ));
    assert!(lines.contains(&"\t+ a='abcdefgh', b=1, c='x'"), "{text}");
    let update = lines.iter().find(|l| l.starts_with("\t~ ")).unwrap();
    assert!(update.starts_with("\t~ id=0, grp=0, t=NULL -> 5, tu=NULL,"), "{update}");
    let minimal = ok(fixture("types-minimal-image.bin"), &["--type", "update"]);
    assert!(minimal.contains("\t~ id=1, a=? -> 0, l=? -> 1\n"), "{minimal}");
}

#[test]
fn standard_input_gives_what_the_file_gives() {
    let path = fixture("compression-zstd.bin");
    let mut child =
        tool().args(["-", "--format", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let same =
        String::from_utf8(output.stdout).unwrap().replace("\"file\":\"stdin\"", "\"file\":\"compression-zstd.bin\"");
    assert_eq!(same, ok(path, &["--format", "json"]));
}

#[test]
fn a_table_filter_shows_whole_transactions_of_the_tables_and_nothing_else() {
    let text = ok(fixture("metadata-full.bin"), &["--table", "m.prefixed"]);
    let insert = ["3197 GTID", "3276 QUERY", "3348 TABLE_MAP", "3426 WRITE_ROWS", "3478 XID"];
    let delete = ["4091 GTID", "4170 QUERY", "4242 TABLE_MAP", "4320 DELETE_ROWS", "4372 XID"];
    assert_eq!(events(&text), [insert, delete].concat(), "{text}");
    // The same log inside compressed transactions; the statement that made the table belongs to it.
    let lines = json(fixture("compression-zstd.bin"), &["--table", "ms.decs"]);
    assert!(lines.iter().any(|l| l["sql"].as_str().is_some_and(|sql| sql.starts_with("CREATE TABLE decs"))));
    assert!(lines.iter().filter(|l| l.get("op").is_some()).all(|l| l["table"] == "decs" && l["inner"] == true));
    let rows = |pattern: &str| {
        json(fixture("compression-zstd.bin"), &["--table", pattern, "--type", "insert,update,delete"]).len()
    };
    let (all, decs, others) = (rows("*.*"), rows("ms.decs"), rows("!ms.decs"));
    assert!(decs > 0 && others > 0 && decs + others == all, "{decs} {others} {all}");
    assert_eq!(ok(fixture("metadata-full.bin"), &["--table", "m.nothing"]), "");
}

#[test]
fn gtids_choose_whole_transactions() {
    let of = |set: &str| format!("{XA_UUID}:{set}");
    let text = ok(fixture("xa.bin"), &["--gtid", &of("638:641")]);
    assert_eq!(events(&text), ["367 GTID", "444 QUERY", "1187 GTID", "1264 QUERY"]);
    let text = ok(fixture("xa.bin"), &["--exclude-gtid", &of("638-642:644")]);
    let want = ["1778 GTID", "1857 QUERY", "1949 TABLE_MAP", "2007 WRITE_ROWS", "2047 QUERY", "2137 XA_PREPARE"];
    assert_eq!(events(&text), want);
    let both = ok(fixture("xa.bin"), &["--gtid", &of("638-700"), "--exclude-gtid", &of("638-643"), "--format", "json"]);
    assert_eq!(both.lines().count(), 2, "{both}");
    assert_eq!(ok(fixture("xa.bin"), &["--gtid", "00000000-0000-0000-0000-000000000001:1-9"]), "");
}

#[test]
fn mariadbs_logs_are_read_and_filtered_too() {
    let file = fixture("mariadb-compressed-events.bin");
    let lines = json(&file, &[]);
    let rows: Vec<&Value> = lines.iter().filter(|l| l.get("op").is_some()).collect();
    assert!(rows.iter().any(|l| l["event"].as_str().unwrap().contains("COMPRESSED")), "opened: {}", rows.len());
    let gtid = rows[0]["gtid"].as_str().unwrap();
    let only = json(&file, &["--gtid", gtid]);
    assert!(only.len() > 2 && only.iter().all(|l| l["gtid"] == gtid), "{only:?}");
    assert_eq!(only.last().unwrap()["event"], "XID");
    let table = format!("{}.{}", rows[0]["db"].as_str().unwrap(), rows[0]["table"].as_str().unwrap());
    let of = |pattern: &str| json(&file, &["--table", pattern, "--type", "insert,update,delete"]).len();
    assert!(of(&table) > 0 && of(&table) + of(&format!("!{table}")) == rows.len());
    assert_eq!(json(&file, &["--exclude-gtid", "0-13318-1..18446744073709551615"]).len(), 0);
}

#[test]
fn times_are_those_of_the_commit() {
    let gtids = |args: &[&str]| -> Vec<String> {
        let lines = json(fixture("statement.bin"), &[args, &["--type", "gtid"]].concat());
        lines.iter().map(|l| l["gtid"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()).collect()
    };
    let all = gtids(&[]);
    assert!(all.len() > 6 && all[0] == "621", "{all:?}");
    // 626 ran with SET TIMESTAMP in 2023 and was committed in its turn.
    assert_eq!(gtids(&["--stop-time", "2024-01-01"]), [""; 0]);
    assert_eq!(gtids(&["--start-time", "2024-01-01"]), all);
    let window = ["--start-time", "2026-11-30T12:47:53.607279Z", "--stop-time", "1796042873.619894"];
    assert_eq!(gtids(&window), ["624", "625", "626"]);
}

#[test]
fn positions_bound_what_is_read() {
    let file = fixture("xa.bin");
    let text = ok(&file, &["--start-pos", "933", "--stop-pos", "1139"]);
    // Inside a transaction: its table map and its GTID are known though they lie before the start.
    assert_eq!(events(&text), ["933 TABLE_MAP", "991 WRITE_ROWS", "1031 QUERY"]);
    assert!(text.contains(&format!("{XA_UUID}:640")), "{text}");
    let text = ok(&file, &["--start-pos", "xa.bin:991", "--stop-pos", "xa.bin:1031"]);
    assert_eq!(events(&text), ["991 WRITE_ROWS"]);
    let inside = run(&file, &["--start-pos", "1000"]);
    assert_eq!(inside.status.code(), Some(2));
    assert!(
        stderr(&inside).contains("no event begins at 1000: one begins at 991, the next at 1031"),
        "{}",
        stderr(&inside)
    );
    assert_eq!(run(&file, &["--stop-pos", "other.000001:4"]).status.code(), Some(2));
}

#[test]
fn statistics_count_what_the_filter_lets_through() {
    let stats = |args: &[&str]| {
        let lines = json(fixture("compression-zstd.bin"), &[args, &["--stats"]].concat());
        let (last, shown) = lines.split_last().unwrap();
        let rows = shown.iter().filter(|l| l.get("op").is_some()).count() as u64;
        assert_eq!(last["rows"], rows, "{last}");
        last.clone()
    };
    let (all, one) = (stats(&[]), stats(&["--table", "ms.ints"]));
    assert_eq!(all["read_bytes"], std::fs::metadata(fixture("compression-zstd.bin")).unwrap().len());
    assert_eq!(all["read_bytes"], one["read_bytes"]);
    assert_eq!(all["checksums"], one["checksums"]);
    let ints = |stats: &Value| stats["tables"].as_array().unwrap().iter().find(|t| t["table"] == "ints").cloned();
    assert_eq!(ints(&all), ints(&one));
    assert_eq!(one["tables"].as_array().unwrap().len(), 1, "{one}");
    let count = ints(&one).unwrap();
    assert_eq!((&count["inserts"], &count["updates"], &count["deletes"]), (&4.into(), &2.into(), &1.into()), "{count}");
    assert!(one["bytes"].as_u64() < all["bytes"].as_u64() && one["transactions"] == 5, "{one}");

    let text = ok(fixture("compression-zstd.bin"), &["--format", "none", "--stats"]);
    for part in ["# read: ", " MB/s; ", " checksums verified, ", "# table ms.ints: 4 inserts, 2 updates, 1 deletes, "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rule = ok(fixture("statement.bin"), &["--format", "none", "--stats"]);
    assert!(rule.contains("# skipped statement-context: "), "{rule}");
}

#[test]
fn damage_is_named_after_everything_before_it_was_printed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("binlog.000045");
    let sound = std::fs::read(fixture("xa.bin")).unwrap();
    let whole = ok(fixture("xa.bin"), &[]);

    // One bit of the row event at 1606.
    let mut bytes = sound.clone();
    bytes[1630] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let output = run(&file, &["--stats"]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    let path = file.to_str().unwrap();
    assert!(message.starts_with(&format!("error: {path}: WRITE_ROWS (30) event at offset 1606\n")), "{message}");
    assert!(
        message.contains("  because: WRITE_ROWS (30) event ending at log position 1646: its CRC32 is 0x"),
        "{message}"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    let before = whole.lines().skip(1).take_while(|line| !line.starts_with("1606-"));
    let got: Vec<&str> = printed.lines().skip(1).take_while(|line| !line.starts_with('#')).collect();
    assert_eq!(got, before.collect::<Vec<_>>());
    assert!(printed.contains("# read: 18 events"), "the statistics come all the same: {printed}");

    // Whoever begins behind it reads on.
    let text = ok(&file, &["--start-pos", "1778", "--stop-pos", "1857"]);
    assert_eq!(events(&text), ["1778 GTID"]);

    for (cut, offset) in [(100usize, 4), (1640, 1606), (2, 0)] {
        std::fs::write(&file, &sound[..cut]).unwrap();
        let output = run(&file, &["--format", "none"]);
        assert_eq!(output.status.code(), Some(1), "{cut}");
        assert!(stderr(&output).contains(&format!("offset {offset}")), "{cut}: {}", stderr(&output));
        if cut == 1640 {
            let reason = "the file ends inside an event of type WRITE_ROWS (30): 34 of its 40 bytes are there";
            assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        }
    }
    let missing = run(dir.path().join("none"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("none: cannot be opened\n  because: No such file"), "{}", stderr(&missing));
}

#[test]
fn files_of_a_log_come_in_their_order_and_a_gap_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for (name, from) in [("b.999999", "xa.bin"), ("b.1000000", "metadata-full.bin"), ("b.index", "INDEX.md")] {
        std::fs::copy(fixture(from), dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("b.index"), "./b.999999\n./b.1000000\n").unwrap();
    let files = ["b.1000000", "b.999999", "b.index"].map(|name| dir.path().join(name));
    let output = tool().args(&files).args(["--format", "json", "--type", "format_description"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let names: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["file"].clone())
        .collect();
    assert_eq!(names, ["b.999999", "b.1000000"]);
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(
        note.contains("b.999999 goes on in binlog.000045, but ") && note.contains("b.1000000 was read after it"),
        "{note}"
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    let file = fixture("xa.bin");
    for (args, word) in [
        (&["--table", "orders"][..], "db.table"),
        (&["--type", "rowz"], "no event type"),
        (&["--start-time", "yesterday"], "a time"),
        (&["--gtid", "x:1"], "GTID"),
        (&["--start-pos", "x"], "offset"),
        (&["--format", "xml"], "text"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let output = run(&file, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{args:?}");
    }
    assert_eq!(tool().output().unwrap().status.code(), Some(2), "without a source");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    // More output than a pipe and the buffers hold.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("long");
    let mut log = std::fs::read(fixture("xa.bin")).unwrap();
    let events = log[127..].to_vec();
    for _ in 0..400 {
        log.extend_from_slice(&events);
    }
    std::fs::write(&file, log).unwrap();
    let mut child = tool().arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn passwords_in_statements_are_not_shown() {
    // A QUERY event by hand: the corpus has no account statement that is small.
    let mut log = std::fs::read(fixture("types-nochecksum.bin")).unwrap();
    let length = u32::from_le_bytes(log[13..17].try_into().unwrap()) as usize;
    log.truncate(4 + length);
    let sql = b"CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'hunter2'";
    let mut event = vec![0; 19 + 13];
    event[4] = 2;
    event.push(0);
    event.extend_from_slice(sql);
    let total = u32::try_from(event.len()).unwrap();
    event[9..13].copy_from_slice(&total.to_le_bytes());
    log.extend_from_slice(&event);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("accounts");
    std::fs::write(&file, log).unwrap();
    for format in ["text", "json"] {
        let shown = ok(&file, &["--format", format]);
        assert!(shown.contains("AS '***'") && !shown.contains("hunter2"), "{shown}");
    }
}
