//! What a user can get wrong: one clear message with the way out, the right exit code, no secret, and nothing lost.

use std::time::{Duration, Instant};

use millstream_tests::doris::DorisSim;
use millstream_tests::engine::{Engine, Home, Output};
use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server::{self, Server, ServerOptions, or_skip};

/// Refused before any change.
const REFUSED: i32 = 2;
/// Stopped while running.
const STOPPED: i32 = 1;

/// One message with these words, this exit code, no secret, and none of a program's own troubles.
#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.exit.code, code, "{}", output.stderr);
    let errors: Vec<&str> = output.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one message:\n{}", output.stderr);
    // The last words: nothing comes after them that would hide them.
    let end = output.stderr.lines().rev().find(|l| !l.starts_with("  because: ")).unwrap_or_default();
    assert_eq!(end, errors[0], "{}", output.stderr);
    for word in words {
        assert!(errors[0].contains(word), "{word:?} is missing in: {}", errors[0]);
    }
    clean(output);
}

#[track_caller]
fn clean(output: &Output) {
    for text in ["panicked", "backtrace", "stack backtrace"] {
        assert!(!output.stderr.contains(text), "{text}: {}", output.stderr);
    }
    let doris = "sim:@%/é pass";
    for secret in [server::REPL_PASSWORD, "repl%3Apw%401", "very-wrong", "very-new", doris] {
        assert!(!output.stderr.contains(secret) && !output.stdout.contains(secret), "a secret: {output:?}");
    }
}

fn table(server: &Server, database: &str) {
    server.sql(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT NOT NULL);
         INSERT INTO {database}.t VALUES (1, 10), (2, 20)"
    ));
}

fn run(rig: &Rig, config: &str) -> Output {
    rig.home.finish(Some(config), &["run", "--until", "current"], PATIENCE)
}

/// After the cause is mended a further run is exact.
#[track_caller]
fn mended(rig: &Rig, server: &Server, database: &str, tables: &[&str]) {
    let output = rig.run();
    assert!(output.exit.success(), "{}", output.stderr);
    clean(&output);
    rig.assert_exact(&server.endpoint(), database, tables);
}

fn wait_for_rows(sim: &DorisSim, engine: &mut Engine, database: &str, table: &str, rows: u64) {
    let deadline = Instant::now() + PATIENCE / 4;
    while sim.row_count(database, table) < rows {
        assert!(engine.try_wait().unwrap().is_none(), "it ended\n{}", engine.stderr());
        assert!(Instant::now() < deadline, "{} rows\n{}", sim.row_count(database, table), engine.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn executed(server: &Server) -> String {
    server.value("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')")
}

/// The number of the newest transaction.
fn last_number(server: &Server) -> u64 {
    executed(server).rsplit(['-', ':']).next().unwrap().parse().unwrap()
}

#[test]
fn a_configuration_that_is_wrong() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_config");
    let Some(rig) = Rig::simulated(server, &["bi_config.*"]) else { return };
    let good = rig.config();
    for (from, to, words) in [
        ("[snapshot]", "[snapshto]", &["snapshto", "unknown key", "did you mean \"snapshot\"?"][..]),
        ("chunk_rows", "chunk_row", &["snapshot.chunk_row", "did you mean \"chunk_rows\"?"]),
        ("name = \"rig\"", "name = \"rig\"\nmemory = \"much\"", &["memory", "64MiB"]),
        ("type = \"doris\"", "type = \"dorris\"", &["sink.type", "\"doris\" | \"jsonl\""]),
        ("name = \"rig\"", "name = \"${MILLSTREAM_NO_SUCH_NAME}\"", &["name", "MILLSTREAM_NO_SUCH_NAME", "not set"]),
    ] {
        says(&run(&rig, &good.replace(from, to)), REFUSED, words);
    }
    let broken = run(&rig, "name = ");
    assert_eq!(broken.exit.code, REFUSED, "{}", broken.stderr);
    assert!(broken.stderr.contains("millstream.toml"), "{}", broken.stderr);
    let none = rig.home.finish(None, &["run", "-c", "nowhere.toml"], PATIENCE);
    says(&none, REFUSED, &["nowhere.toml"]);
    assert!(!rig.home.path().join("state").exists(), "nothing was changed");
    mended(&rig, server, "bi_config", &["t"]);
}

#[test]
fn secrets_come_from_the_environment_and_show_nowhere() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_secret");
    let Some(mut rig) = Rig::simulated(server, &["bi_secret.*"]) else { return };
    rig.home = Home::new().unwrap().env("RIG_MYSQL", server::REPL_PASSWORD).env("RIG_DORIS", rig.sim().password());
    let url = format!("mysql://repl:${{RIG_MYSQL}}@127.0.0.1:{}", server.port());
    let config =
        rig.config().replace(&rig.source_url, &url).replace(&format!("{:?}", rig.sim().password()), "\"${RIG_DORIS}\"");
    assert!(config.contains("${RIG_MYSQL}") && config.contains("${RIG_DORIS}"), "{config}");
    let mut engine = rig.home.spawn(Some(&config), &["run"]).unwrap();
    wait_for_rows(rig.sim(), &mut engine, "log_bi_secret", "t", 2);
    let line = std::fs::read(format!("/proc/{}/cmdline", engine.pid())).unwrap();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    assert!(line.contains("millstream") && !line.contains("pw"), "{line}");
    let statements = server.sql("SELECT COALESCE(info, '') FROM information_schema.processlist");
    assert!(!format!("{statements:?}").contains("sim:@"), "{statements:?}");
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    clean(&output);
}

#[test]
fn addresses_and_logins_that_do_not_work() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_login");
    server.sql(
        "CREATE USER bi_login@'%' IDENTIFIED BY 'very-new';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO bi_login@'%'",
    );
    let Some(mut rig) = Rig::simulated(server, &["bi_login.*"]) else { return };
    let url = |password: &str, port: u16| format!("mysql://bi_login:{password}@127.0.0.1:{port}");
    rig.source_url = url("very-wrong", server.port());
    says(&rig.run(), REFUSED, &["127.0.0.1", "Access denied", "check the user and the password in source.url"]);
    rig.source_url = url("very-new", 1);
    says(&rig.run(), REFUSED, &["127.0.0.1:1", "check the address in source.url"]);
    rig.source_url = "mysql://bi_login:very-new@no-such-host.invalid:3306".to_owned();
    says(&rig.run(), REFUSED, &["no-such-host.invalid", "check the address in source.url"]);
    assert!(!rig.home.path().join("state").exists(), "nothing was changed");
    rig.source_url = url("very-new", server.port());
    mended(&rig, server, "bi_login", &["t"]);

    // While it runs: the password is changed and the connections are cut.
    let mut engine = rig.spawn();
    server.sql("INSERT INTO bi_login.t VALUES (3, 30)");
    wait_for_rows(rig.sim(), &mut engine, "log_bi_login", "t", 3);
    server.sql("ALTER USER bi_login@'%' IDENTIFIED BY 'very-new-2'; INSERT INTO bi_login.t VALUES (4, 40)");
    let ids = server.sql("SELECT id FROM information_schema.processlist WHERE user = 'bi_login'");
    for id in &ids {
        let _gone = server.try_sql(&format!("KILL {}", id[0]));
    }
    assert!(!ids.is_empty());
    says(&engine.finish(PATIENCE), STOPPED, &["Access denied"]);
    rig.source_url = url("very-new-2", server.port());
    mended(&rig, server, "bi_login", &["t"]);
}

#[test]
fn a_server_without_tls_and_with_settings_that_will_not_do() {
    let options = ServerOptions::new().flag("--tls-version=");
    let Some(server) = or_skip(Server::start(options)) else { return };
    table(&server, "bi_set");
    let Some(rig) = Rig::simulated(&server, &["bi_set.*"]) else { return };
    let with = |lines: &str| rig.config().replace("tables = [", &format!("{lines}\ntables = ["));
    let plain = with("allow_public_key_retrieval = true");
    for mode in ["required", "verify-ca"] {
        let ca = server.data_dir().join("ca.pem");
        let ca = if mode == "verify-ca" { format!("ssl_ca = {:?}\n", ca.display().to_string()) } else { String::new() };
        let output = run(&rig, &with(&format!("{ca}ssl_mode = \"{mode}\"")));
        says(&output, REFUSED, &["TLS", "source.ssl_mode"]);
    }
    let output = run(&rig, &rig.config());
    says(&output, REFUSED, &["allow_public_key_retrieval"]);

    for (set, back, words) in [
        ("binlog_format = 'STATEMENT'", "binlog_format = 'ROW'", "SET PERSIST binlog_format = 'ROW'"),
        ("binlog_format = 'MIXED'", "binlog_format = 'ROW'", "SET PERSIST binlog_format = 'ROW'"),
        ("binlog_row_image = 'MINIMAL'", "binlog_row_image = 'FULL'", "SET PERSIST binlog_row_image = 'FULL'"),
        ("binlog_row_image = 'NOBLOB'", "binlog_row_image = 'FULL'", "SET PERSIST binlog_row_image = 'FULL'"),
    ] {
        server.sql(&format!("SET GLOBAL {set}"));
        says(&run(&rig, &plain), REFUSED, &[words]);
        server.sql(&format!("SET GLOBAL {back}"));
    }
    server.stop().unwrap();
    server.start_with(&["--skip-log-bin"]).unwrap();
    says(&run(&rig, &plain), REFUSED, &["log_bin = OFF", "skip-log-bin"]);
    server.restart().unwrap();
    assert!(!rig.home.path().join("state").exists(), "nothing was changed");

    let output = run(&rig, &plain);
    assert!(output.exit.success(), "{}", output.stderr);
    rig.assert_exact(&server.endpoint(), "bi_set", &["t"]);
    // A pipeline that began with GTIDs has no place in a log.
    server.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE");
    says(&run(&rig, &plain), STOPPED, &["this pipeline began with gtid_mode=ON", "new state directory"]);
    server.sql("SET GLOBAL gtid_mode = ON");

    // While it runs: one session that does not log whole rows. What an image lacks is not in the other one: the append target
    // cannot have the row.
    let mut engine = rig.home.spawn(Some(&plain), &["run"]).unwrap();
    engine.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
    server.sql("SET SESSION binlog_row_image = 'MINIMAL'; DELETE FROM bi_set.t WHERE id = 1");
    says(&engine.finish(PATIENCE), STOPPED, &["bi_set.t", "column `v`", "binlog_row_image = FULL"]);
}

#[test]
fn each_missing_grant_is_named_with_the_statement_that_gives_it() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_grant");
    server
        .sql("CREATE TABLE bi_grant.u (id INT PRIMARY KEY, v INT); CREATE USER bi_grant@'%' IDENTIFIED BY 'very-new'");
    // Something on every table, so that they can be seen at all.
    server.sql("GRANT INSERT ON bi_grant.* TO bi_grant@'%'");
    let Some(mut rig) = Rig::simulated(server, &["bi_grant.*"]) else { return };
    rig.source_url = format!("mysql://bi_grant:very-new@127.0.0.1:{}", server.port());
    let mut given = Vec::new();
    let output = loop {
        let output = rig.run();
        clean(&output);
        if output.exit.success() {
            break output;
        }
        assert_eq!(output.exit.code, REFUSED, "{}", output.stderr);
        // What the message says is what is done, one after the other.
        let statement =
            output.stderr.lines().filter(|l| l.starts_with("error: ")).find_map(|l| l.split(": GRANT ").nth(1));
        let statement = statement.unwrap_or_else(|| panic!("no way out: {}", output.stderr));
        server.sql(&format!("GRANT {statement}"));
        given.push(statement.to_owned());
        assert!(given.len() < 6, "{given:?}");
    };
    assert!(output.exit.success());
    given.sort();
    let on = |what: &str| given.iter().filter(|g| g.starts_with(what)).count();
    assert_eq!((on("SELECT ON `bi_grant`."), on("REPLICATION"), given.len()), (2, 2, 4), "{given:?}");
    rig.assert_exact(&server.endpoint(), "bi_grant", &["t", "u"]);
}

#[test]
fn a_position_that_the_source_has_purged() {
    let Some(server) = or_skip(Server::start(ServerOptions::new())) else { return };
    table(&server, "bi_purge");
    let Some(mut rig) = Rig::simulated(&server, &["bi_purge.*"]) else { return };
    rig.run_well();
    let uuid = server.value("SELECT @@server_uuid");
    let first = last_number(&server) + 1;
    server.sql("UPDATE bi_purge.t SET v = 11 WHERE id = 1; INSERT INTO bi_purge.t VALUES (3, 30)");
    let last = last_number(&server);
    server.sql("FLUSH BINARY LOGS; INSERT INTO bi_purge.t VALUES (4, 40)");
    let newest = server.sql("SHOW BINARY LOGS").last().unwrap()[0].clone();
    server.sql(&format!("PURGE BINARY LOGS TO '{newest}'"));
    let missing = format!("{uuid}:{first}-{last}");
    for _ in 0..2 {
        let output = rig.run();
        assert!([REFUSED, STOPPED].contains(&output.exit.code), "{}", output.stderr);
        let words = [
            &*format!("missing transactions: {missing})"),
            "new state directory",
            "on_existing",
            "binlog_expire_logs_seconds",
        ];
        says(&output, output.exit.code, &words);
    }
    assert_eq!(rig.sim().row_count("up_bi_purge", "t"), 2, "nothing was changed");
    // The way out, as told.
    std::fs::remove_dir_all(rig.home.path().join("state")).unwrap();
    rig.sink = "on_existing = \"truncate\"".to_owned();
    mended(&rig, &server, "bi_purge", &["t"]);
}

#[test]
fn tables_that_cannot_be_captured() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_tab");
    server.sql(
        "USE bi_tab; CREATE TABLE beginning (k VARCHAR(90), PRIMARY KEY (k(3)));
         CREATE TABLE nokey (a INT); CREATE TABLE se (k SET('1','2','3','4','5','6','7','8','9','10','11','12','13') PRIMARY KEY);
         CREATE TABLE cz (k VARCHAR(9) CHARACTER SET latin2 COLLATE latin2_czech_cs PRIMARY KEY); CREATE VIEW seen AS SELECT * FROM t;
         CREATE TABLE fl (k DOUBLE PRIMARY KEY); CREATE TABLE reserved (id INT PRIMARY KEY, _ms_x INT)",
    );
    let Some(mut rig) = Rig::simulated(server, &[]) else { return };
    for (tables, words) in [
        (
            &["bi_tab.t", "bi_tab.tt"][..],
            &["bi_tab.tt", "does not exist", "create it, correct the name, or GRANT SELECT"][..],
        ),
        (&["bi_tab.x*"], &["no table to capture"]),
        (&["bi_tab.t", "!bi_tab.*"], &["no table to capture", "exclusions"]),
        (&["bi_tab.seen"], &["bi_tab.seen", "view"]),
        (&["bi_tab.beginning"], &["bi_tab.beginning", "column k", "first characters"]),
        (&["bi_tab.cz"], &["bi_tab.cz", "column k", "collation"]),
        (&["bi_tab.nokey"], &["bi_tab.nokey", "no primary key"]),
        (&["bi_tab.se"], &["bi_tab.se", "column k", "12 labels"]),
        (&["bi_tab.fl"], &["bi_tab.fl", "column k"]),
    ] {
        rig.tables = tables.iter().map(ToString::to_string).collect();
        says(&rig.run(), REFUSED, words);
    }
    rig.tables = vec!["bi_tab.reserved".to_owned()];
    let output = rig.run();
    assert_eq!(output.exit.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("bi_tab.reserved") && output.stderr.contains("_ms_x"), "{}", output.stderr);
    assert!(!rig.home.path().join("state").exists(), "nothing was changed");
    rig.tables = vec!["bi_tab.t".to_owned(), "bi_tab.none_*".to_owned()];
    let output = rig.run();
    assert!(output.exit.success(), "{}", output.stderr);
    let warning = output.stderr.lines().find(|l| l.contains("WARN") && l.contains("bi_tab.none_*"));
    assert!(warning.is_some_and(|w| w.contains("no table matches")), "{}", output.stderr);
    rig.assert_exact(&server.endpoint(), "bi_tab", &["t"]);
}

#[test]
fn a_state_directory_that_is_locked_or_broken() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_state");
    let Some(mut rig) = Rig::simulated(server, &["bi_state.*"]) else { return };
    let mut engine = rig.spawn();
    wait_for_rows(rig.sim(), &mut engine, "log_bi_state", "t", 2);
    says(&rig.run(), REFUSED, &["in use by another millstream", "state.dir"]);
    server.sql("INSERT INTO bi_state.t VALUES (3, 30)");
    wait_for_rows(rig.sim(), &mut engine, "log_bi_state", "t", 3);
    engine.kill9().unwrap();
    // The lock went with the process.
    mended(&rig, server, "bi_state", &["t"]);

    let file = rig.home.path().join("state/millstream.redb");
    let whole = std::fs::read(&file).unwrap();
    server.sql("UPDATE bi_state.t SET v = v + 1");
    let mut wrong = whole.clone();
    wrong[..64].fill(0x5a);
    let mut flipped = whole.clone();
    flipped[4096..].fill(0xa5);
    for content in
        [b"this is no state file, but long enough to be taken for one".to_vec(), wrong, whole[..5000].to_vec(), flipped]
    {
        std::fs::write(&file, &content).unwrap();
        let output = rig.run();
        assert!([REFUSED, STOPPED].contains(&output.exit.code), "{}", output.stderr);
        says(&output, output.exit.code, &["millstream.redb"]);
        assert_eq!(rig.sim().row_count("log_bi_state", "t"), 3, "nothing was written");
    }
    std::fs::write(&file, &whole).unwrap();
    mended(&rig, server, "bi_state", &["t"]);
    // The state belongs to a name.
    rig.top = String::new();
    let other = rig.config().replace("name = \"rig\"", "name = \"other\"");
    says(&run(&rig, &other), REFUSED, &["\"rig\"", "\"other\"", "state.dir"]);
    mended(&rig, server, "bi_state", &["t"]);
}

#[test]
fn doris_refuses() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_doris");
    let Some(mut rig) = Rig::simulated(server, &["bi_doris.*"]) else { return };
    let good = rig.config();
    let password = format!("{:?}", rig.sim().password());
    says(&run(&rig, &good.replace(&password, "\"very-wrong\"")), REFUSED, &["check sink.user and sink.password"]);
    says(&run(&rig, &good.replace(&rig.sim().fe_url(), "http://127.0.0.1:1")), REFUSED, &["127.0.0.1:1", "sink.fe"]);
    let sql = rig.sim().sql_addr().to_string();
    says(&run(&rig, &good.replace(&format!("\"{sql}\""), "\"127.0.0.1:1\"")), REFUSED, &["127.0.0.1:1", "sink.sql"]);

    // A table that exists and is another one.
    let create = |columns: &str, table: &str, model: &str| {
        rig.sim().create_database(table.split('.').next().unwrap());
        let sql = format!(
            "CREATE TABLE {table} ({columns}) {model}(`id`) DISTRIBUTED BY HASH(`id`) BUCKETS 1 PROPERTIES (\"replication_num\" = \"1\")"
        );
        rig.sim().sql(&sql).unwrap_or_else(|e| panic!("{e}: {sql}"));
    };
    create("`id` INT NOT NULL, `w` VARCHAR(5)", "up_bi_doris.t", "DUPLICATE KEY");
    let output = run(&rig, &good);
    says(&output, REFUSED, &["up_bi_doris.t", "exists", "route to another table"]);
    rig.sim().sql("DROP TABLE up_bi_doris.t").unwrap();
    mended(&rig, server, "bi_doris", &["t"]);

    // Rows in the targets, and no state that says where they are from.
    let state = rig.home.path().join("state");
    std::fs::remove_dir_all(&state).unwrap();
    server.sql("DELETE FROM bi_doris.t WHERE id = 2; INSERT INTO bi_doris.t VALUES (3, 30)");
    let output = rig.run();
    assert_eq!(output.exit.code, REFUSED, "{}", output.stderr);
    for word in ["up_bi_doris.t", "log_bi_doris.t", "on_existing", "truncate", "keep"] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    rig.sink = "on_existing = \"keep\"".to_owned();
    let output = rig.run_well();
    assert!(output.stderr.contains("WARN") && output.stderr.contains("no longer has stay"), "{}", output.stderr);
    let differences = rig.upsert_differences(&server.endpoint(), "bi_doris", "t");
    assert_eq!(differences, ["[Some(\"2\")] is too much"], "what was kept, and nothing else");
    server.sql("UPDATE bi_doris.t SET v = 31 WHERE id = 3");
    rig.run_well();
    assert_eq!(rig.upsert_differences(&server.endpoint(), "bi_doris", "t"), ["[Some(\"2\")] is too much"]);
    std::fs::remove_dir_all(&state).unwrap();
    rig.sink = "on_existing = \"truncate\"".to_owned();
    mended(&rig, server, "bi_doris", &["t"]);
    // It is for the first start alone.
    server.sql("UPDATE bi_doris.t SET v = 32 WHERE id = 3");
    mended(&rig, server, "bi_doris", &["t"]);
}

/// Conformance: P2
#[test]
fn statements_that_cannot_be_followed_stop_the_run_after_what_came_before() {
    let Some(server) = server::shared() else { return };
    for (n, (statement, words)) in [
        ("ALTER TABLE DB.t ADD COLUMN w INT", &["ALTER TABLE", "ADD COLUMN w INT"][..]),
        ("TRUNCATE TABLE DB.t", &["TRUNCATE TABLE"]),
        ("DROP TABLE DB.t", &["DROP TABLE"]),
        ("RENAME TABLE DB.t TO DB.s", &["RENAME TABLE"]),
        ("SET SESSION binlog_format = 'STATEMENT'; UPDATE DB.t SET v = v + 1", &["UPDATE"]),
    ]
    .into_iter()
    .enumerate()
    {
        let database = format!("bi_ddl{n}");
        table(server, &database);
        let Some(mut rig) = Rig::simulated(server, &[&format!("{database}.*")]) else { return };
        rig.run_well();
        let mut engine = rig.spawn();
        engine.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
        let before = "INSERT INTO DB.t VALUES (3, 30); DELETE FROM DB.t WHERE id = 1;";
        let after = if statement.starts_with("ALTER") { "; INSERT INTO DB.t VALUES (4, 40, 0)" } else { "" };
        server.sql(&format!("{before}{statement}{after}").replace("DB", &database));
        let file = server.sql("SHOW BINARY LOG STATUS")[0][0].clone();
        let output = engine.finish(PATIENCE);
        let mut all = vec!["stopped at", &*file, "new state"];
        all.extend(words);
        says(&output, STOPPED, &all);
        let place = output.stderr.split(&format!("{file}:")).last().unwrap();
        assert!(place.starts_with(|c: char| c.is_ascii_digit()), "{}", output.stderr);
        assert_eq!(
            rig.sim().row_count(&format!("log_{database}"), "t"),
            4,
            "what came before is delivered: {statement}"
        );
        // It stays stopped, and says the same as long as there is a table at all.
        let again = rig.run();
        if statement.starts_with("DROP") {
            says(&again, REFUSED, &["no table to capture"]);
        } else {
            says(&again, STOPPED, &all);
        }
        assert_eq!(rig.sim().row_count(&format!("log_{database}"), "t"), 4, "{statement}");
        // The way out, as told.
        std::fs::remove_dir_all(rig.home.path().join("state")).unwrap();
        let sims = [format!("up_{database}"), format!("log_{database}")];
        if statement.starts_with("ALTER") {
            for db in &sims {
                rig.sim().sql(&format!("DROP TABLE {db}.t")).unwrap();
            }
        }
        let left = server.sql(&format!("SHOW TABLES FROM {database}"));
        if left.is_empty() {
            continue;
        }
        rig.sink = "on_existing = \"truncate\"".to_owned();
        mended(&rig, server, &database, &[&left[0][0]]);
    }
}

#[test]
fn what_does_not_concern_captured_rows_is_counted_and_passed_over() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_skip");
    server.sql("CREATE DATABASE bi_skip_other; CREATE TABLE bi_skip_other.t (id INT PRIMARY KEY)");
    let Some(rig) = Rig::simulated(server, &["bi_skip.*"]) else { return };
    rig.run_well();
    server.sql(
        "CREATE USER bi_skip@'%'; DROP USER bi_skip@'%'; ALTER TABLE bi_skip_other.t ADD COLUMN v INT;
         CREATE INDEX vi ON bi_skip.t (v); DROP INDEX vi ON bi_skip.t; ANALYZE TABLE bi_skip.t; FLUSH TABLES;
         CREATE VIEW bi_skip.w AS SELECT 1;
         XA START 'other'; INSERT INTO bi_skip_other.t VALUES (1, 1); XA END 'other'; XA PREPARE 'other'; XA COMMIT 'other';
         SET SESSION binlog_format = 'STATEMENT'; INSERT INTO bi_skip_other.t VALUES (2, 2);",
    );
    server
        .sql("BEGIN; INSERT INTO bi_skip.t VALUES (3, 30); SAVEPOINT a; DELETE FROM bi_skip.t; ROLLBACK TO a; COMMIT");
    let output = rig.run();
    assert!(output.exit.success(), "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    for rule in ["account_statement", "index_only_ddl", "view_ddl", "other_table_ddl", "xa_prepare", "xa_commit"] {
        assert!(report["skipped"][rule].as_u64() >= Some(1), "{rule}: {report}");
    }
    assert_eq!((&report["changes_in"], &report["changes_emitted"]), (&1.into(), &1.into()), "{report}");
    rig.assert_exact(&server.endpoint(), "bi_skip", &["t"]);
}

#[test]
fn two_engines_with_one_identity() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_twin");
    let config = format!(
        "name = \"twin\"\n[source]\nurl = \"{}\"\ntables = [\"bi_twin.t\"]\n[sink]\ntype = \"jsonl\"\npath = \"out.jsonl\"\n\
         flush = {{ interval = \"100ms\" }}\n[state]\ndir = \"state\"\n",
        server.url("repl")
    );
    let (one, two) = (Home::new().unwrap(), Home::new().unwrap());
    let lines =
        |home: &Home| std::fs::read_to_string(home.path().join("out.jsonl")).unwrap_or_default().lines().count();
    let output = one.finish(Some(&config), &["run", "--until", "current"], PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    // Somebody copies the directory to a second machine and starts it there too.
    std::fs::create_dir(two.path().join("state")).unwrap();
    for file in ["out.jsonl", "state/millstream.redb"] {
        std::fs::copy(one.path().join(file), two.path().join(file)).unwrap();
    }
    let mut first = one.spawn(Some(&config), &["run"]).unwrap();
    first.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
    let mut second = two.spawn(Some(&config), &["run"]).unwrap();
    second.wait_for_log("its start", PATIENCE / 4, |log| log.contains("running"));
    let named = |log: &str| log.contains("another replica uses the same server_id or uuid");
    let deadline = Instant::now() + PATIENCE / 4;
    let mut id = 10;
    while !named(&first.stderr()) && !named(&second.stderr()) {
        assert!(Instant::now() < deadline, "{}\n{}", first.stderr(), second.stderr());
        server.sql(&format!("INSERT INTO bi_twin.t VALUES ({id}, 0)"));
        id += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    second.kill9().unwrap();
    // The one that is left has lost nothing.
    let rows = 2 + (id - 10);
    let deadline = Instant::now() + PATIENCE / 2;
    while lines(&one) < rows {
        assert!(first.try_wait().unwrap().is_none(), "{}", first.stderr());
        assert!(Instant::now() < deadline, "{} of {rows}\n{}", lines(&one), first.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    first.sigterm().unwrap();
    let output = first.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    clean(&output);
    assert_eq!(lines(&one), rows);
}

#[test]
fn a_source_that_lost_what_was_replicated() {
    let Some(server) = or_skip(Server::start(ServerOptions::new())) else { return };
    table(&server, "bi_lost");
    let Some(mut rig) = Rig::simulated(&server, &["bi_lost.*"]) else { return };
    rig.run_well();
    let uuid = server.value("SELECT @@server_uuid");
    let set = executed(&server);
    server.sql("RESET BINARY LOGS AND GTIDS; INSERT INTO bi_lost.t VALUES (3, 30)");
    let output = rig.run();
    assert!([REFUSED, STOPPED].contains(&output.exit.code), "{}", output.stderr);
    let missing = format!("{uuid}:2-{}", set.rsplit('-').next().unwrap());
    says(&output, output.exit.code, &[&missing, "source.url", "new state directory"]);
    assert_eq!(rig.sim().row_count("up_bi_lost", "t"), 2, "nothing was written");
    std::fs::remove_dir_all(rig.home.path().join("state")).unwrap();
    rig.sink = "on_existing = \"truncate\"".to_owned();
    mended(&rig, &server, "bi_lost", &["t"]);
}

#[test]
fn doris_goes_bad_while_the_engine_runs() {
    let Some(server) = server::shared() else { return };
    table(server, "bi_quota");
    let Some(rig) = Rig::simulated(server, &["bi_quota.*"]) else { return };
    let mut engine = rig.spawn();
    wait_for_rows(rig.sim(), &mut engine, "log_bi_quota", "t", 2);
    // Full for a while: it says so, and goes on by itself when there is room.
    rig.sim().set_quota_full("log_bi_quota", true);
    server.sql("INSERT INTO bi_quota.t VALUES (3, 30)");
    engine.wait_for_log("the refusal", PATIENCE / 4, |log| log.contains("quota"));
    assert_eq!(rig.sim().row_count("log_bi_quota", "t"), 2);
    rig.sim().set_quota_full("log_bi_quota", false);
    wait_for_rows(rig.sim(), &mut engine, "log_bi_quota", "t", 3);
    engine.sigterm().unwrap();
    let output = engine.finish(PATIENCE);
    assert!(output.exit.success(), "{}", output.stderr);
    clean(&output);
    mended(&rig, server, "bi_quota", &["t"]);

    // A target that somebody dropped is not made again silently: its rows would be missing. The other one goes on.
    rig.sim().sql("DROP TABLE up_bi_quota.t").unwrap();
    server.sql("INSERT INTO bi_quota.t VALUES (4, 40)");
    let output = rig.run();
    says(&output, STOPPED, &["quarantined", "up_bi_quota.t", "millstream resync"]);
    assert!(output.stderr.contains("gone"), "{}", output.stderr);
    assert!(rig.sim().schema("up_bi_quota", "t").is_none());
    assert_eq!(rig.sim().row_count("log_bi_quota", "t"), 4, "the other goes on");
}
