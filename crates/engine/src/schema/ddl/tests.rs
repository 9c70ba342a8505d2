use proptest::prelude::*;

use super::*;
use crate::config::NameCase::Sensitive;

/// A short form: what it is, and every name in it.
fn shown(classified: &Classified) -> String {
    let name = |t: &TableName| match &t.database {
        Some(database) => format!("{database}.{}", t.table),
        None => t.table.clone(),
    };
    let names = |tables: &[TableName]| tables.iter().map(name).collect::<Vec<_>>().join(" ");
    let xid = |x: &Xid| {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        format!("{},{},{}", text(&x.gtrid), text(&x.bqual), x.format_id)
    };
    match classified {
        Classified::Begin => "begin".to_owned(),
        Classified::Commit => "commit".to_owned(),
        Classified::Rollback => "rollback".to_owned(),
        Classified::Savepoint => "savepoint".to_owned(),
        Classified::XaStart(x) => format!("xa start {}", xid(x)),
        Classified::XaEnd(x) => format!("xa end {}", xid(x)),
        Classified::XaCommit { xid: x, one_phase } => format!("xa commit {} {one_phase}", xid(x)),
        Classified::XaRollback(x) => format!("xa rollback {}", xid(x)),
        Classified::Skip(rule) => format!("skip {rule}"),
        Classified::Create(table) => format!("create {}", name(table)),
        Classified::Ddl { verb, tables } => format!("{verb}: {}", names(tables)),
        Classified::DropDatabase(database) => format!("drop database {database}"),
        Classified::Dml { verb, databases } => format!("dml {verb}: {}", databases.join(" ")),
        Classified::Unclassifiable => "?".to_owned(),
    }
}

const STATEMENTS: &[(&str, &str)] = &[
    // Transactions.
    ("BEGIN", "begin"),
    ("begin work;", "begin"),
    ("START TRANSACTION", "begin"),
    ("COMMIT", "commit"),
    ("COMMIT /* implicit, from Xid_log_event */", "commit"),
    ("ROLLBACK", "rollback"),
    ("ROLLBACK TO `sp1`", "savepoint"),
    ("ROLLBACK WORK TO SAVEPOINT sp1", "savepoint"),
    ("SAVEPOINT `a``b`", "savepoint"),
    ("RELEASE SAVEPOINT a", "savepoint"),
    ("XA START X'74',X'',1", "xa start t,,1"),
    ("XA BEGIN 'a','b'", "xa start a,b,1"),
    ("XA START 0x61, 'b', 7 JOIN", "xa start a,b,7"),
    ("XA END X'74',X'',1", "xa end t,,1"),
    ("XA COMMIT X'74',X'',1", "xa commit t,,1 false"),
    ("XA COMMIT X'74',X'',1 ONE PHASE", "xa commit t,,1 true"),
    ("XA ROLLBACK 'g','b',-1", "?"),
    ("XA ROLLBACK 'g','b',3", "xa rollback g,b,3"),
    ("XA COMMIT", "?"),
    ("BEGIN NOT ATOMIC SELECT 1; END", "?"),
    // Accounts and administration.
    ("GRANT SELECT ON shop.* TO 'u'@'%'", "skip account_statement"),
    ("REVOKE ALL ON *.* FROM u", "skip account_statement"),
    ("CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$'", "skip account_statement"),
    ("ALTER USER u PASSWORD EXPIRE", "skip account_statement"),
    ("DROP USER IF EXISTS u", "skip account_statement"),
    ("RENAME USER a TO b", "skip account_statement"),
    ("CREATE ROLE r", "skip account_statement"),
    ("DROP ROLE r", "skip account_statement"),
    ("SET DEFAULT ROLE ALL TO u", "skip account_statement"),
    ("SET PASSWORD FOR 'u'@'%' = 'x'", "skip account_statement"),
    ("SET @a = 1", "?"),
    ("FLUSH TABLES", "skip administration_statement"),
    ("flush privileges", "skip administration_statement"),
    ("ANALYZE TABLE shop.orders", "skip administration_statement"),
    ("OPTIMIZE TABLE t", "skip administration_statement"),
    ("INSTALL PLUGIN x SONAME 'x.so'", "skip administration_statement"),
    ("ALTER INSTANCE ROTATE INNODB MASTER KEY", "skip administration_statement"),
    // Objects that are no tables.
    ("CREATE VIEW v AS SELECT * FROM shop.orders", "skip view_ddl"),
    (
        "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS select 1",
        "skip view_ddl",
    ),
    ("ALTER DEFINER = CURRENT_USER() VIEW v AS SELECT 1", "skip view_ddl"),
    ("DROP VIEW IF EXISTS v", "skip view_ddl"),
    ("CREATE DEFINER='a'@'%' PROCEDURE p() BEGIN DROP TABLE x; END", "skip routine_ddl"),
    ("CREATE DEFINER=root FUNCTION f() RETURNS INT RETURN 1", "skip routine_ddl"),
    ("CREATE AGGREGATE FUNCTION f RETURNS INTEGER SONAME 'x'", "skip routine_ddl"),
    ("CREATE DEFINER=`root`@`%` TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", "skip routine_ddl"),
    ("DROP TRIGGER tr", "skip routine_ddl"),
    ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO TRUNCATE t", "skip routine_ddl"),
    ("ALTER EVENT e DISABLE", "skip routine_ddl"),
    ("CREATE TABLESPACE ts ADD DATAFILE 'x.ibd'", "skip other_object_ddl"),
    ("CREATE UNDO TABLESPACE u ADD DATAFILE 'u.ibu'", "skip other_object_ddl"),
    ("CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'", "skip other_object_ddl"),
    ("CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')", "skip other_object_ddl"),
    ("CREATE DATABASE IF NOT EXISTS shop", "skip database_ddl"),
    ("ALTER DATABASE shop CHARACTER SET utf8mb4", "skip database_ddl"),
    ("DROP DATABASE IF EXISTS `shop`", "drop database shop"),
    ("DROP SCHEMA shop;", "drop database shop"),
    // Indexes.
    ("CREATE INDEX i ON shop.orders (a)", "skip index_only_ddl"),
    ("CREATE UNIQUE INDEX i USING BTREE ON t (a)", "skip index_only_ddl"),
    ("CREATE SPATIAL INDEX i ON t (g)", "skip index_only_ddl"),
    ("DROP INDEX i ON t", "skip index_only_ddl"),
    ("DROP INDEX `PRIMARY` ON s.t", "DROP INDEX `PRIMARY`: s.t"),
    ("ALTER TABLE t ADD INDEX (a), DROP KEY b, ALGORITHM=INPLACE, LOCK=NONE", "skip index_only_ddl"),
    ("ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE", "skip index_only_ddl"),
    ("ALTER TABLE t ADD CONSTRAINT CHECK (a > 0), ADD UNIQUE KEY u (a,b)", "skip index_only_ddl"),
    ("ALTER TABLE t RENAME INDEX a TO b", "skip index_only_ddl"),
    ("ALTER TABLE t ALTER INDEX i INVISIBLE;", "skip index_only_ddl"),
    ("ALTER TABLE t COMMENT = 'a, DROP COLUMN b'", "skip index_only_ddl"),
    ("ALTER TABLE t DROP INDEX `PRIMARY`, ADD INDEX (a)", "ALTER TABLE: t"),
    ("ALTER TABLE t DROP CONSTRAINT `PRIMARY`", "ALTER TABLE: t"),
    ("ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a)", "ALTER TABLE: t"),
    ("ALTER TABLE t ADD INDEX i (a), ADD COLUMN index2 INT", "ALTER TABLE: t"),
    // Tables.
    ("CREATE TABLE t (a INT)", "create t"),
    ("CREATE TABLE IF NOT EXISTS `a b`.`c.d` LIKE x", "create a b.c.d"),
    ("CREATE TABLE `t` (`a` int DEFAULT NULL) START TRANSACTION", "create t"),
    ("/* hint */ CREATE /*!32302 IF NOT EXISTS */ TABLE t (a INT)", "?"),
    ("CREATE TABLE /*!32312 IF NOT EXISTS*/ `t` (a INT)", "create t"),
    ("CREATE OR REPLACE TABLE s.t (a INT)", "CREATE OR REPLACE TABLE: s.t"),
    ("CREATE TEMPORARY TABLE t (a INT)", "skip temporary_table"),
    ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", "skip temporary_table"),
    ("DROP TEMPORARY TABLE t", "skip temporary_table"),
    ("DROP TABLE `t` /* generated by server */", "DROP TABLE: t"),
    ("DROP TABLE IF EXISTS a, s.b , `c`.`d` CASCADE", "DROP TABLE: a s.b c.d"),
    ("drop\ttable\n.t", "DROP TABLE: t"),
    ("TRUNCATE t", "TRUNCATE TABLE: t"),
    ("TRUNCATE TABLE `s` . `t`", "TRUNCATE TABLE: s.t"),
    ("RENAME TABLE a TO b, s.c TO s2.d", "RENAME TABLE: a b s.c s2.d"),
    ("RENAME TABLE a", "?"),
    ("ALTER TABLE s.t ADD COLUMN x INT", "ALTER TABLE: s.t"),
    ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", "skip index_only_ddl"),
    ("-- note\nALTER TABLE t DROP COLUMN a", "ALTER TABLE: t"),
    ("# note\r\nALTER TABLE t MODIFY a BIGINT", "ALTER TABLE: t"),
    ("ALTER TABLE t RENAME TO s.u", "ALTER TABLE: t s.u"),
    ("ALTER TABLE t RENAME u, ADD COLUMN b INT", "ALTER TABLE: t u"),
    ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE: t"),
    ("ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE s.x WITHOUT VALIDATION", "ALTER TABLE: p s.x"),
    ("ALTER TABLE t TRUNCATE PARTITION p0", "ALTER TABLE: t"),
    ("ALTER TABLE t DROP PARTITION p0", "ALTER TABLE: t"),
    ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "ALTER TABLE: t"),
    ("ALTER TABLE t ENGINE=InnoDB", "ALTER TABLE: t"),
    ("ALTER TABLE t", "ALTER TABLE: t"),
    ("ALTER TABLE größe ADD (a INT, b INT)", "ALTER TABLE: größe"),
    ("ALTER TABLE t ADD COLUMN b VARCHAR(10) DEFAULT 'never closed", "?"),
    ("ALTER TABLE t ADD COLUMN (b INT", "?"),
    // DML as statements.
    ("INSERT INTO t VALUES (1.5)", "dml INSERT: 1"),
    ("INSERT INTO shop.t SELECT a.x FROM `other`.y a", "dml INSERT: shop a other"),
    ("UPDATE `s`.`t` SET a = 's.x'", "dml UPDATE: s"),
    ("DELETE FROM t", "dml DELETE: "),
    ("REPLACE INTO t VALUES (1)", "dml REPLACE: "),
    ("LOAD DATA INFILE 'x' INTO TABLE s.t", "dml LOAD: s"),
    ("WITH c AS (SELECT 1) DELETE FROM s.t", "dml WITH: s"),
    ("SELECT `s`.`f`(1)", "dml SELECT: s"),
    // Anything else.
    ("", "?"),
    ("   ", "?"),
    (";", "?"),
    ("(SELECT 1)", "?"),
    ("HANDLER t OPEN", "?"),
    ("CREATE", "?"),
    ("DROP", "?"),
    ("ALTER", "?"),
    ("ALTER TABLE", "?"),
    ("DROP TABLE", "?"),
    ("DROP TABLE a,", "?"),
    ("TRUNCATE TABLE 't'", "?"),
    ("IMPORT TABLE FROM 'x'", "?"),
];

#[test]
fn statements_are_told_apart() {
    let mut wrong = Vec::new();
    for (sql, want) in STATEMENTS {
        let got = shown(&classify(sql.as_bytes(), 0));
        if got != *want {
            wrong.push(format!("{sql}\n  is     {got}\n  wanted {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(STATEMENTS.len() >= 80);
}

#[test]
fn the_sql_mode_moves_quotes() {
    assert_eq!(shown(&classify(b"DROP TABLE \"a\".\"b\"", 1 << 2)), "DROP TABLE: a.b");
    assert_eq!(shown(&classify(b"DROP TABLE \"a\"", 0)), "?");
    let comment = b"ALTER TABLE t COMMENT 'x\\', RENAME TO u";
    assert_eq!(shown(&classify(comment, 1 << 20)), "ALTER TABLE: t u");
    assert_eq!(shown(&classify(comment, 0)), "?");
}

#[test]
fn names_of_other_character_sets_are_converted_or_not_believed() {
    let latin1 = b"DROP TABLE gr\xf6\xdfe";
    assert_eq!(shown(&classify(latin1, 0)), "?");
    assert_eq!(shown(&classify(&utf8(latin1, Some(Charset::Latin1)), 0)), "DROP TABLE: größe");
    let already = "DROP TABLE größe".as_bytes();
    assert_eq!(shown(&classify(&utf8(already, Some(Charset::Latin1)), 0)), "DROP TABLE: größe");
}

/// Conformance: P2
#[test]
fn only_captured_tables_stop() {
    let patterns = TablePatterns::parse(&["shop.*", "!shop.tmp_*", "crm.users"]).unwrap();
    let captured = (&patterns, Sensitive);
    for (sql, database, want) in [
        ("ALTER TABLE orders ADD COLUMN a INT", "shop", Err("ALTER TABLE of the captured table shop.orders")),
        ("ALTER TABLE orders ADD COLUMN a INT", "other", Ok(SkipRule::OtherTable)),
        ("ALTER TABLE shop.tmp_1 ADD COLUMN a INT", "shop", Ok(SkipRule::OtherTable)),
        ("RENAME TABLE other.a TO shop.b", "", Err("RENAME TABLE of the captured table shop.b")),
        ("DROP TABLE x, y, crm.users", "other", Err("DROP TABLE of the captured table crm.users")),
        ("TRUNCATE TABLE crm.leads", "shop", Ok(SkipRule::OtherTable)),
        ("CREATE TABLE shop.new (a INT)", "", Ok(SkipRule::NewTable)),
        ("CREATE TABLE crm.new (a INT)", "", Ok(SkipRule::OtherTable)),
        ("CREATE OR REPLACE TABLE shop.t (a INT)", "", Err("CREATE OR REPLACE TABLE of the captured table shop.t")),
        ("DROP DATABASE shop", "", Err("DROP DATABASE of the captured database shop")),
        ("DROP DATABASE other", "shop", Ok(SkipRule::OtherTable)),
        ("INSERT INTO t VALUES (1)", "shop", Err("INSERT logged as a statement")),
        ("INSERT INTO crm.t VALUES (1)", "other", Err("in the captured database crm")),
        ("INSERT INTO t VALUES (1)", "other", Ok(SkipRule::OtherDml)),
        ("CREATE INDEX i ON shop.orders (a)", "shop", Ok(SkipRule::IndexOnly)),
        ("GRANT ALL ON shop.* TO u", "shop", Ok(SkipRule::Account)),
        ("BEGIN", "shop", Ok(SkipRule::TransactionControl)),
        ("XA END 'a'", "shop", Ok(SkipRule::Xa)),
        ("FROBNICATE", "other", Err("cannot be classified")),
    ] {
        match (concerns(&classify(sql.as_bytes(), 0), database, &captured), want) {
            (Verdict::Skip(got), Ok(want)) => assert_eq!(got, want, "{sql}"),
            (Verdict::Stop(got), Err(want)) => assert!(got.contains(want), "{sql}: {got}"),
            (got, want) => panic!("{sql}: {got:?}, wanted {want:?}"),
        }
    }
}

proptest! {
    #[test]
    fn odd_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), mode in any::<u64>()) {
        drop(classify(&bytes, mode));
    }

    #[test]
    fn cut_and_mixed_statements_are_answered(i in 0..STATEMENTS.len(), j in 0..STATEMENTS.len(), at in 0..200_usize) {
        let (a, b) = (STATEMENTS[i].0.as_bytes(), STATEMENTS[j].0.as_bytes());
        let mixed = [&a[..at.min(a.len())], &b[at.min(b.len())..]].concat();
        drop(classify(&mixed, 0));
    }

    #[test]
    fn comments_between_words_change_nothing(i in 0..STATEMENTS.len()) {
        let (sql, want) = STATEMENTS[i];
        if !sql.contains(['\'', '`', '#', '-', '/']) {
            let commented = sql.replace(' ', " /* it's */ ");
            prop_assert_eq!(shown(&classify(commented.as_bytes(), 0)), want);
        }
    }
}
