//! Which rows are taken, filtered or changed (doris.md 6.6, 7.1, 7.2, 8).

use crate::client::*;
use millstream_tests::doris::SimOptions;

const TYPES: &str = "CREATE TABLE d.t (k INT NOT NULL, b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, g LARGEINT, \
    f FLOAT, d DOUBLE, c DECIMAL(10,2), dt DATE, ts DATETIME(3), ch CHAR(3), vc VARCHAR(4), st STRING, j JSON, \
    nn VARCHAR(5) NOT NULL DEFAULT \"dflt\") DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 \
    PROPERTIES(\"replication_num\"=\"1\")";

/// (column, JSON value, what strict mode stores; None: the row is filtered, and what lax mode stores).
#[rustfmt::skip]
const VALUES: &[(&str, &str, Option<&str>, Option<&str>)] = &[
    ("b", "true", Some("1"), Some("1")),
    ("b", "\"2\"", None, Some("NULL")),
    ("t", "-128", Some("-128"), Some("-128")),
    ("t", "128", None, Some("NULL")),
    ("s", "\"32767\"", Some("32767"), Some("32767")),
    ("i", "2147483648", None, Some("NULL")),
    ("i", "\"\"", None, Some("NULL")),
    ("i", "null", Some("NULL"), Some("NULL")),
    ("l", "9223372036854775807", Some("9223372036854775807"), Some("9223372036854775807")),
    ("l", "9223372036854775808", None, Some("NULL")),
    ("g", "18446744073709551615", Some("18446744073709551615"), Some("18446744073709551615")),
    ("f", "0.1", Some("0.1"), Some("0.1")),
    ("d", "1e300", Some("1e+300"), Some("1e+300")),
    ("d", "\"NaN\"", None, Some("NULL")),
    ("c", "12345678.99", Some("12345678.99"), Some("12345678.99")),
    ("c", "\"123456789.00\"", None, Some("NULL")),
    ("dt", "\"2026-02-28\"", Some("2026-02-28"), Some("2026-02-28")),
    ("dt", "\"2026-02-30\"", None, Some("NULL")),
    ("dt", "\"0000-00-00\"", None, Some("NULL")),
    ("ts", "\"2026-01-01 01:02:03.4\"", Some("2026-01-01 01:02:03.400"), Some("2026-01-01 01:02:03.400")),
    ("ts", "\"2026-01-01 25:00:00\"", None, Some("NULL")),
    ("ch", "\"abc\"", Some("abc"), Some("abc")),
    ("ch", "\"abcd\"", None, Some("abc")),
    ("vc", "\"😀\"", Some("😀"), Some("😀")),
    ("vc", "\"a😀\"", None, Some("a")),
    ("st", "\"\\\\N\"", Some("\\N"), Some("\\N")),
    ("st", "{\"x\": [1]}", Some("{\"x\": [1]}"), Some("{\"x\": [1]}")),
    ("j", "\"{\\\"a\\\":1}\"", Some("{\"a\":1}"), Some("{\"a\":1}")),
    ("j", "\"{\"", None, Some("NULL")),
    ("nn", "null", None, None),
    ("nn", "\"abcdef\"", None, Some("abcde")),
];

#[tokio::test]
async fn every_type_takes_what_it_holds_and_nothing_else() {
    let sim = start().await;
    sim.sql(TYPES).unwrap();
    for (strict, pick) in [("true", 0), ("false", 1)] {
        for (column, value, strictly, laxly) in VALUES {
            sim.sql("TRUNCATE TABLE d.t").unwrap();
            let want = if pick == 0 { strictly } else { laxly };
            let body = format!("{{\"k\":1,\"{column}\":{value}}}\n");
            let r = load(&sim, "d.t", &[("strict_mode", strict)], &body).await;
            let case = format!("strict {strict}, {column} = {value}: {}", r.body);
            match want {
                None => {
                    assert_eq!(r.field("Message"), "[DATA_QUALITY_ERROR]too many filtered rows", "{case}");
                    assert_eq!((r.field("NumberFilteredRows"), r.field("NumberLoadedRows")), ("1".into(), "0".into()));
                    assert!(
                        r.field("ErrorURL")
                            .starts_with(&format!("http://{}/api/_load_error_log?file=", sim.be_addrs()[0]))
                    );
                    assert_eq!(sim.row_count("d", "t"), 0, "{case}");
                }
                Some(want) => {
                    assert_eq!(r.field("Status"), "Success", "{case}");
                    let got = sim.sql(&format!("SELECT {column} FROM d.t")).unwrap();
                    let got = got[0][0].clone().unwrap_or_else(|| "NULL".into());
                    assert_eq!(&got, want, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_error_page_names_the_reason_and_the_line() {
    let sim = start_with(SimOptions { first_error_msg: true, ..SimOptions::default() }).await;
    sim.sql(TYPES).unwrap();
    let body = "{\"k\":1}\n{\"k\":null}\n{\"k\":3,\"vc\":\"12345\"}\nrubbish\n{\"k\":1}{\"k\":2}\n{\"K\":9}\n";
    let r = load(&sim, "d.t", &[("label", "bad")], body).await;
    assert_eq!((r.field("NumberTotalRows"), r.field("NumberFilteredRows")), ("6".into(), "5".into()), "{}", r.body);
    assert_eq!(label_state(&sim, "d", "bad").await, "ABORTED");
    let url = r.field("ErrorURL");
    let (addr, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let page = http(addr.parse().unwrap(), &format!("GET /{path}"), &[], b"").await.unwrap().body;
    let lines: Vec<&str> = page.lines().collect();
    for (line, want) in lines.iter().zip([
        "column_name[k], null value for not null column, type=INT. src line [{\"k\":null}]; ",
        "column_name[vc], the length of input is too long than schema. first 32 bytes of input str: [12345] schema length: 4; actual length: 5; . src line [{\"k\":3,\"vc\":\"12345\"}]; ",
        "Parse json data failed. code: 17",
        "Multiple JSON objects in a single line. src line",
        "There is no column matching jsonpaths",
    ]) {
        assert!(line.starts_with(&format!("Reason: {want}")), "{line}");
    }
    assert_eq!(lines.len(), 5);
    assert_eq!(r.field("FirstErrorMsg"), lines[0]);
    // A ratio lets the rest through, and the page is named all the same.
    let r = load(&sim, "d.t", &[("max_filter_ratio", "0.9")], body).await;
    assert_eq!((r.field("Status"), r.field("NumberLoadedRows")), ("Success".into(), "1".into()), "{}", r.body);
    assert!(!r.field("ErrorURL").is_empty());
    assert_eq!(sim.row_count("d", "t"), 1);
    assert_eq!(http(addr.parse().unwrap(), "GET /api/_load_error_log?file=no", &[], b"").await.unwrap().status, 404);
}

#[tokio::test]
async fn columns_missing_from_a_row_or_from_the_load_get_their_defaults() {
    let sim = start().await;
    tables(&sim);
    let columns = [("columns", "`k`, v, n, __DORIS_SEQUENCE_COL__")];
    let body = "{\"k\":1,\"__DORIS_SEQUENCE_COL__\":1}\n{\"n\":5,\"k\":2,\"zz\":[{}],\"k\":9,\"V\":\"x\"}\n";
    let r = load(&sim, "d.u", &columns, body).await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(sim.rows("d", "u"), [vec![text("1"), None, text("7")], vec![text("2"), None, text("5")]]);
    let r = load(&sim, "d.u", &[("columns", "k,v='c',__DORIS_SEQUENCE_COL__=9")], "{\"k\":3}").await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    assert_eq!(sim.rows("d", "u")[2], vec![text("3"), text("c"), text("7")]);
    let mapped = [("columns", "k,v,stamp"), ("function_column.sequence_col", "stamp")];
    let r =
        load(&sim, "d.u", &mapped, "{\"k\":3,\"v\":\"old\",\"stamp\":8}\n{\"k\":1,\"v\":\"new\",\"stamp\":8}").await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    assert_eq!(sim.rows("d", "u")[2][1], text("c"));
    assert_eq!(sim.rows("d", "u")[0][1], text("new"));
}

#[tokio::test]
async fn names_in_back_quotes_may_hold_anything() {
    let sim = start().await;
    sim.sql("CREATE TABLE d.q (k INT, `a,b=``é` INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 PROPERTIES(\"replication_num\"=\"1\")")
        .unwrap();
    let r = load(&sim, "d.q", &[("columns", "`k`,`a,b=``é`")], "{\"k\":1,\"a,b=`é\":2}").await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    assert_eq!(sim.rows("d", "q"), [["1", "2"].map(|s| Some(s.to_owned()))]);
    let r = load(&sim, "d.q", &[("columns", "k,`a,b=``é`=3")], "{\"k\":1}").await;
    assert_eq!(r.field("Status"), "Success", "{}", r.body);
    assert_eq!(sim.rows("d", "q")[1][1].as_deref(), Some("3"));
}

#[tokio::test]
async fn json_arrays_and_whole_documents() {
    let sim = start().await;
    tables(&sim);
    let whole = [("read_json_by_line", "false"), ("strip_outer_array", "true"), ("columns", "k,v")];
    let r = load(&sim, "d.a", &whole, "[{\"k\":1,\"v\":\"a\\nb\"},\n {\"k\":2}]").await;
    assert_eq!((r.field("Status"), r.field("NumberTotalRows")), ("Success".into(), "2".into()), "{}", r.body);
    let r = load(&sim, "d.a", &[("strip_outer_array", "true")], "[{\"k\":3}]\n[{\"k\":4},{\"k\":5}]\n").await;
    assert_eq!((r.field("Status"), r.field("NumberTotalRows")), ("Success".into(), "3".into()), "{}", r.body);
    for (headers, body, want) in [
        (&[("strip_outer_array", "true")][..], "[]\n", "Empty json line"),
        (&[("strip_outer_array", "true")], "{\"k\":1}\n", "`strip_outer_array` must be FALSE."),
        (&[], "[{\"k\":1}]\n", "`strip_outer_array` must be TRUE."),
    ] {
        let r = load(&sim, "d.a", headers, body).await;
        let url = r.field("ErrorURL");
        let (addr, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let page = http(addr.parse().unwrap(), &format!("GET /{path}"), &[], b"").await.unwrap().body;
        assert!(page.contains(want), "{page}");
    }
}

#[tokio::test]
async fn csv_with_its_traps() {
    let sim = start().await;
    tables(&sim);
    let csv = [("format", "csv"), ("column_separator", "\\x01"), ("line_delimiter", "\\x02"), ("columns", "_,k,v")];
    let r = load(&sim, "d.a", &csv, "-\u{1}1\u{1}a\nb\u{2}-\u{1}2\u{1}\\N\u{2}\u{2}-\u{1}3\u{1}\u{2}").await;
    assert_eq!((r.field("Status"), r.field("NumberTotalRows")), ("Success".into(), "3".into()), "{}", r.body);
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(sim.rows("d", "a"), [vec![text("1"), text("a\nb")], vec![text("2"), None], vec![text("3"), text("")]]);
    let r = load(&sim, "d.a", &[("format", "csv")], "\u{feff}4\tx\r\n5\n").await;
    assert_eq!((r.field("NumberTotalRows"), r.field("NumberFilteredRows")), ("2".into(), "1".into()), "{}", r.body);
}

#[tokio::test]
async fn a_body_in_chunks_is_read_as_one() {
    let sim = start().await;
    tables(&sim);
    let body = "{\"k\":1,\"v\":\"a\"}\n{\"k\":2}\n";
    let mut chunks = String::new();
    for part in body.as_bytes().chunks(5) {
        chunks.push_str(&format!("{:x}\r\n{}\r\n", part.len(), std::str::from_utf8(part).unwrap()));
    }
    chunks.push_str("0\r\n\r\n");
    let headers = [("Content-Length", ""), ("Transfer-Encoding", "chunked"), ("Expect", "100-continue")];
    let r = load(&sim, "d.a", &headers, &chunks).await;
    assert_eq!((r.field("Status"), r.field("LoadBytes")), ("Success".into(), body.len().to_string()), "{}", r.body);
    assert_eq!(sim.row_count("d", "a"), 2);
}

#[tokio::test]
async fn counting_mode_counts_lines_and_keeps_nothing() {
    let sim = start_with(SimOptions { counting: true, ..SimOptions::default() }).await;
    tables(&sim);
    let r = load(&sim, "d.a", &[("label", "c"), ("two_phase_commit", "true")], "{\"k\":1}\nanything\n\nmore").await;
    assert_eq!((r.field("Status"), r.field("NumberLoadedRows")), ("Success".into(), "3".into()), "{}", r.body);
    assert_eq!(sim.row_count("d", "a"), 0);
    finish(&sim, "d", &r.field("TxnId"), "commit").await;
    let mut c = sql(&sim).await;
    assert_eq!(rows(&mut c, "SELECT COUNT(*) FROM d.a").await, [[Some("3".to_owned())]]);
    assert!(refusal(&mut c, "SELECT * FROM d.a").await.contains("counting mode"));
    assert!(sim.rows("d", "a").is_empty());
}
