//! What may change while a pipeline lives: its tables, how they are read, and how fast.

use millstream_tests::rig::{PATIENCE, Rig};
use millstream_tests::server;

fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|row| row.iter().map(|text| Some((*text).to_owned())).collect()).collect()
}

/// Some columns of a target's rows, in order.
fn shown(rig: &Rig, database: &str, table: &str, columns: &[&str]) -> Vec<Vec<Option<String>>> {
    let (names, rows) = rig.table(database, table).unwrap();
    let at: Vec<usize> = columns.iter().map(|c| names.iter().position(|n| n == c).unwrap()).collect();
    let mut rows: Vec<Vec<_>> = rows.iter().map(|row| at.iter().map(|i| row[*i].clone()).collect()).collect();
    rows.sort();
    rows
}

#[test]
fn what_a_table_section_says_holds_for_snapshot_stream_and_target() {
    let Some(server) = server::shared() else { return };
    server.sql(
        "CREATE DATABASE any1; USE any1;
         CREATE TABLE part (id INT PRIMARY KEY, secret VARCHAR(20) NOT NULL, kept INT, pad BLOB);
         INSERT INTO part VALUES (1,'x',1,'p'),(2,'x',2,'p'),(3,'x',3,'p'),(4,'x',4,'p');
         CREATE TABLE keyed (id INT PRIMARY KEY, code INT NOT NULL, lang CHAR(2) NOT NULL, UNIQUE KEY other (lang, code));
         INSERT INTO keyed VALUES (1, 7, 'de'), (2, 7, 'en')",
    );
    let mut rig = Rig::new(server, &["any1.*"]);
    rig.top = "[[table]]\nmatch = \"any1.part\"\nwhere = \"kept % 2 = 0 OR kept = 3 -- odd ones\"\nexclude = [\"Secret\", \"pad\"]\n\
               [[table]]\nmatch = \"any1.keyed\"\nkey = [\"code\", \"lang\"]"
        .to_owned();
    rig.run_well();
    assert_eq!(shown(&rig, "up_any1", "part", &["id", "kept"]), texts(&[&["2", "2"], &["3", "3"], &["4", "4"]]));
    let names = rig.table("log_any1", "part").unwrap().0;
    assert!(!names.iter().any(|n| n == "secret" || n == "pad"), "{names:?}");
    // Rows are one by their unique key, and the condition is of the snapshot alone.
    server.sql("UPDATE any1.keyed SET id = 9 WHERE id = 1; UPDATE any1.part SET kept = 11, secret = 'y' WHERE id < 3");
    rig.run_well();
    assert_eq!(
        shown(&rig, "up_any1", "part", &["id", "kept"]),
        texts(&[&["1", "11"], &["2", "11"], &["3", "3"], &["4", "4"]])
    );
    assert_eq!(
        shown(&rig, "up_any1", "keyed", &["lang", "code", "id"]),
        texts(&[&["de", "7", "9"], &["en", "7", "2"]])
    );
    assert_eq!(shown(&rig, "log_any1", "keyed", &["id", "_ms_op"])[2], [Some("9".to_owned()), Some("u".to_owned())]);

    // What cannot be is refused by name, before anything else happens.
    let good = rig.top.clone();
    for (from, to, want) in [
        ("\"Secret\"", "\"id\"", "the key column \"id\" cannot be excluded"),
        ("\"Secret\"", "\"secrets\"", "has no column \"secrets\""),
        ("\"code\", \"lang\"", "\"code\"", "is neither the primary key nor a unique index"),
        ("\"code\", \"lang\"", "\"id\"", "was captured with the key (lang, code), and [[table]] asks for (id)"),
        ("kept % 2", "kapt % 2", "where: the source refuses the condition"),
        (", \"pad\"", "", "pad"),
    ] {
        assert!(good.contains(from), "{from}");
        rig.top = good.replacen(from, to, 1);
        let output = rig.run();
        assert_eq!(output.exit.code, 2, "{to}: {}", output.stderr);
        assert!(output.stderr.contains(want), "{want}: {}", output.stderr);
    }
    rig.top = good;
    let check = rig.home.finish(Some(&rig.config()), &["check"], PATIENCE);
    assert!(check.exit.success(), "{}", check.stderr);
}
