//! The configuration file as a user meets it.

use std::path::Path;
use std::time::Duration;

use millstream_engine::config::{
    Address, Config, Delivery, NameCase, OnExisting, OnInvalidDate, Password, Sink, SnapshotMode, SslMode, Start,
    TableMode,
};
use millstream_wire::Compression;

const EXAMPLE: &str = r#"
name = "shop"
memory = "128MiB"
[source]
url = "mysql://repl:${MYSQL_PASSWORD}@127.0.0.1:3306"
tables = ["shop.*", "!shop.tmp_*"]
[snapshot]
mode = "initial"
workers = 4
chunk_rows = 16384
backfill = "exact"
[sink]
type = "doris"
fe = ["http://127.0.0.1:8030"]
be = []
sql = "127.0.0.1:9030"
user = "root"
password = "${DORIS_PASSWORD}"
mode = "upsert"
delivery = "exactly-once"
on_existing = "fail"
flush = { interval = "2s", bytes = "64MiB" }
[[route]]
match = "shop.orders"
to = "ods.orders_log"
mode = "append"
[state]
dir = "./state"
"#;

const SMALL: &str = r#"
name = "s"
[source]
url = "mysql://u@h"
tables = ["a.b"]
[sink]
type = "jsonl"
[state]
dir = "d"
"#;

fn env(name: &str) -> Option<String> {
    match name {
        "MYSQL_PASSWORD" => Some("s@cret/1".to_owned()),
        "DORIS_PASSWORD" => Some("geheim".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("shop.toml"), text, &env).map_err(|e| e.to_string())
}

/// The messages for `text`, which must be refused.
#[allow(clippy::unwrap_used, reason = "an accepted text is a failure of the test")]
fn refused(text: &str) -> String {
    parse(text).unwrap_err()
}

#[test]
fn the_example_of_the_readme_means_what_it_says() {
    let config = parse(EXAMPLE).unwrap();
    assert_eq!(config.name, "shop");
    assert_eq!(config.memory, 128 << 20);
    assert_eq!(config.source.user, "repl");
    assert_eq!(config.source.password.reveal(), "s@cret/1");
    assert_eq!(config.source.address.to_string(), "127.0.0.1:3306");
    assert_eq!((config.source.ssl_mode, config.source.compression), (SslMode::Preferred, Compression::None));
    assert_eq!(config.source.start, Start::Current);
    assert!(config.source.tables.captures("shop", "orders", NameCase::Sensitive));
    assert_eq!(config.snapshot.mode, SnapshotMode::Initial);
    assert_eq!((config.snapshot.workers, config.snapshot.chunk_rows), (4, 16_384));
    let Sink::Doris(doris) = &config.sink else { panic!("{:?}", config.sink) };
    assert_eq!(doris.fe[0].to_string(), "http://127.0.0.1:8030");
    assert_eq!(doris.sql[0].to_string(), "127.0.0.1:9030");
    assert_eq!(doris.password.reveal(), "geheim");
    assert_eq!(doris.delivery, Delivery::ExactlyOnce);
    assert_eq!((doris.on_existing, doris.on_invalid_date), (OnExisting::Fail, OnInvalidDate::Fail));
    assert_eq!((doris.replication_num, doris.buckets), (None, None));
    // An eighth of the memory is less than the 64 MiB asked for.
    assert_eq!(doris.flush.bytes, 16 << 20);
    assert_eq!(doris.flush.interval, Duration::from_secs(2));
    let targets = config.routes.targets("shop", "orders", NameCase::Sensitive);
    assert_eq!(targets.len(), 1);
    assert_eq!((targets[0].database.as_str(), targets[0].mode), ("ods", TableMode::Append));
    assert!(!format!("{config:?}").contains("s@cret/1"));
    assert!(!format!("{config:?}").contains("geheim"));
}

#[test]
fn everything_that_may_be_left_out_has_a_default() {
    let config = parse(SMALL).unwrap();
    assert_eq!(config.memory, 128 << 20);
    assert_eq!(config.snapshot.mode, SnapshotMode::Initial);
    assert!(config.source.password.is_empty());
    assert!(matches!(&config.sink, Sink::Jsonl(j) if j.path.is_none()));
    assert!(((1 << 30)..(1_u32 << 31)).contains(&config.source.server_id));
    assert_eq!(config.source.server_id, parse(SMALL).unwrap().source.server_id);
    let socket = SMALL.replace("url = \"mysql://u@h\"", "socket = \"/run/m.sock\"\nuser = \"u\"\npassword = \"p\"");
    let config = parse(&socket).unwrap();
    assert_eq!(config.source.address, Address::Socket("/run/m.sock".into()));
    assert_eq!(config.source.password, Password::new("p"));
}

#[test]
fn tls_to_doris_and_several_sql_ports() {
    let tls =
        "be = []\nsql_ssl_mode = \"verify-ca\"\ntls_ca = \"ca.pem\"\nallow_hosts = [\"be1\"]\nallow_plain_be = true";
    let text = EXAMPLE.replacen("be = []", tls, 1);
    let text = text.replacen("sql = \"127.0.0.1:9030\"", "sql = [\"fe1\", \"fe2:9031\"]", 1);
    let Sink::Doris(doris) = parse(&text).unwrap().sink else { panic!() };
    let options = doris.client_options();
    assert_eq!((options.sql.as_str(), options.allow_plain_be), ("fe1:9030,fe2:9031", true));
    assert_eq!((options.ca_file, options.allow_hosts), (Some("ca.pem".into()), vec!["be1".to_owned()]));
    assert_eq!(options.sql_ssl_mode, millstream_wire::SslMode::VerifyCa);
    let message = refused(&text.replacen("tls_ca = \"ca.pem\"", "", 1));
    assert!(message.contains("sink.tls_ca: is missing"), "{message}");
}

#[test]
fn each_mistake_is_named_with_its_key_and_the_way_out() {
    let change = |from: &str, to: &str| {
        assert!(EXAMPLE.contains(from), "{from}");
        EXAMPLE.replacen(from, to, 1)
    };
    for (text, wants) in [
        (change("tables =", "tabels ="), &["source.tabels: unknown key; did you mean \"tables\"?"][..]),
        (change("[state]", "[states]"), &["states: unknown key; did you mean \"state\"?", "state.dir: is missing"]),
        (change("interval =", "intervall ="), &["sink.flush.intervall: unknown key; did you mean \"interval\"?"]),
        (change("to = \"ods", "two = \"ods"), &["route[0].to: is missing", "route[0].two: unknown key"]),
        (change("${MYSQL_PASSWORD}", "${NOPE}"), &["source.url: the environment variable NOPE is not set"]),
        (
            change("\"initial\"", "\"inital\""),
            &[
                "snapshot.mode: \"inital\" is not allowed: \"initial\" | \"never\" | \"only\"; did you mean \"initial\"?",
            ],
        ),
        (change("workers = 4", "workers = 0"), &["snapshot.workers: 0 is not allowed: a whole number from 1 to 64"]),
        (
            change("workers = 4", "workers = \"4\""),
            &["snapshot.workers: must be a whole number from 1 to 64, not a string"],
        ),
        (change("\"128MiB\"", "\"128M\""), &["memory: must be a size such as \"64MiB\""]),
        (change("\"128MiB\"", "\"1MiB\""), &["memory: 1MiB is not allowed: from 32MiB to"]),
        (change("\"2s\"", "\"2\""), &["sink.flush.interval: must be a duration such as \"2s\""]),
        (
            change("\"exactly-once\"", "\"at-least-once\""),
            &["sink.delivery: \"at-least-once\" repeats rows of append targets after a failure"],
        ),
        (
            change("\"exactly-once\"", "\"label\"\ngroup_commit = \"sync\""),
            &["sink.group_commit: loads without labels are not loaded once"],
        ),
        (
            change("\"exact\"", "\"skip\""),
            &["snapshot.backfill: \"skip\" brings some changes twice, and route[0].mode = \"append\" keeps both"],
        ),
        (
            change("\"doris\"", "\"jsonl\""),
            &["sink.fe: belongs to sink.type = \"doris\"", "sink.mode: belongs", "route: routes belong"],
        ),
        (change("\"doris\"", "\"kafka\""), &["sink.type: \"kafka\" is not allowed: \"doris\" | \"jsonl\""]),
        (change("\"shop.*\"", "\"shop\""), &["source.tables[0]: \"shop\" is not db.table"]),
        (change("\"ods.orders_log\"", "\"{dbs}.x\""), &["route[0].to: only {db} and {table} may stand in braces"]),
        (change("name = \"shop\"", "name = \"my shop\""), &["name: \"my shop\" is not allowed"]),
        (
            change("tables =", "start = \"earliest\"\ntables ="),
            &["source.start: is allowed with snapshot.mode = \"never\" only"],
        ),
        (change("tables =", "ssl_mode = \"verify-ca\"\ntables ="), &["source.ssl_ca: is missing"]),
        (
            change("tables =", "compression = \"zst\"\ntables ="),
            &["source.compression: \"zst\" is not allowed: \"none\" | \"zlib\" | \"zstd\"; did you mean \"zstd\"?"],
        ),
        (change("tables =", "ssl_mode = \"verify-identity\"\ntables ="), &["source.ssl_ca: is missing"]),
        (change("tables =", "socket = \"/x\"\ntables ="), &["source.socket: cannot stand beside source.url"]),
        (change("http://127.0.0.1:8030", "127.0.0.1:8030"), &["sink.fe[0]: must be of the form http://host:8030"]),
        (change("be = []", "be = \"x\""), &["sink.be: must be an array of strings, not a string"]),
        (change("[sink]", "[sink"), &["shop.toml: line 12, column"]),
        (
            change("workers = 4", "rows_per_second = -1"),
            &["snapshot.rows_per_second: -1 is not allowed: a whole number from 0 to 4294967295"],
        ),
        (
            change("[state]", "[[table]]\nwere = \"x\"\nkey = []\n[state]"),
            &[
                "table[0].match: is missing",
                "table[0].were: unknown key; did you mean \"where\"?",
                "table[0].key: must name columns",
            ],
        ),
        (
            change("[state]", "[[table]]\nmatch = \"shop\"\nwhere = \"a; b\"\nmode = \"apend\"\n[state]"),
            &[
                "table[0].match: \"shop\" is not db.table",
                "table[0].where: must be one condition in SQL",
                "table[0].mode: \"apend\" is not allowed: \"upsert\" | \"append\"; did you mean \"append\"?",
            ],
        ),
        (
            change("[state]", "[[table]]\nmatch = \"shop.t\"\nexclude = [\"a\", \"A\"]\n[state]"),
            &["table[0].exclude: names \"A\" twice"],
        ),
        (change("[state]", "[table]\n[state]"), &["table: must be an array of tables ([[table]])"]),
    ] {
        let message = refused(&text);
        for want in wants {
            assert!(message.contains(want), "wanted {want:?} in:\n{message}");
        }
        assert!(message.lines().all(|line| line.starts_with("shop.toml: ")), "{message}");
        assert!(
            !message.contains("geheim") && !message.contains("s@cret") && !message.contains("s%40cret"),
            "{message}"
        );
    }
}

#[test]
fn table_sections_say_what_holds_for_single_tables() {
    let text = EXAMPLE.replace(
        "[state]",
        "[[table]]\nmatch = \"shop.orders\"\nwhere = \"id > 7\"\nexclude = [\"note\"]\nkey = [\"code\"]\n\
         [[table]]\nmatch = \"shop.*\"\nmode = \"append\"\n[state]",
    );
    let config = parse(&text).unwrap();
    let case = NameCase::Sensitive;
    assert_eq!(config.table_rules.filter("shop", "orders", case), Some("id > 7"));
    assert_eq!(config.table_rules.key("shop", "orders", case), Some(&["code".to_owned()][..]));
    assert_eq!(config.table_rules.key("shop", "items", case), None);
    assert_eq!(config.routes.targets("shop", "items", case)[0].mode, TableMode::Append);
    assert_eq!(config.snapshot.rows_per_second, 0);
    let lines = SMALL.replace("[state]", "[[table]]\nmatch = \"a.b\"\nmode = \"upsert\"\n[state]");
    assert!(refused(&lines).contains("table[0].mode: belongs to sink.type = \"doris\""));
}

#[test]
fn all_problems_come_at_once() {
    let message = refused("nam = \"x\"\n[source]\nurl = \"mysql://h\"\n[sink]\ntype = \"doris\"\n");
    for key in ["name:", "nam:", "source.user:", "source.tables:", "sink.fe:", "sink.sql:", "sink.user:", "state.dir:"]
    {
        assert!(message.contains(key), "{key} in {message}");
    }
}

#[test]
fn a_syntax_error_never_quotes_the_line() {
    let message = refused("password = \"hunter2\" x\n");
    assert!(message.contains("line 1") && !message.contains("hunter2"), "{message}");
}

#[test]
fn a_start_goes_with_never_alone() {
    let never =
        |start: &str| SMALL.replace("[sink]", &format!("start = \"{start}\"\n[snapshot]\nmode = \"never\"\n[sink]"));
    assert_eq!(parse(&never("earliest")).unwrap().source.start, Start::Earliest);
    assert!(matches!(parse(&never("binlog.000002:157")).unwrap().source.start, Start::Position(p) if p.offset == 157));
    assert!(refused(&never("yesterday")).contains("current | earliest | a GTID set | FILE:POS"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let e = Config::load(Path::new("/nonexistent/x.toml")).unwrap_err();
    assert_eq!(e.to_string(), "/nonexistent/x.toml: cannot be read");
    assert!(std::error::Error::source(&e).is_some());
}
