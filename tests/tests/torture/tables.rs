//! Tables whose keys are hard: equal in other letters, ordered by number or by weight, of several parts, at the ends of
//! their types. Each has few keys, so that rows are changed, moved, deleted and put back again and again.

use std::fmt::Write;

use fastrand::Rng;
use millstream_tests::server::Flavor;

/// A table: its key columns, then `n` (another number in every change) and `body`.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Columns of the key with their types. `{ci}` is the flavor's usual collation for text.
    pub(crate) key: &'static [(&'static str, &'static str)],
    /// No primary key: a unique one.
    unique: bool,
    body: &'static str,
    make_key: fn(&mut Rng) -> Vec<String>,
    make_body: fn(&mut Rng) -> String,
}

const SPELLINGS: &[&str] =
    &["a", "A", "\u{e4}", "\u{c4}", "b", "B", "ab", "AB", "Ab", "ss", "\u{df}", "e", "\u{e9}", "E", "\u{1f980}", ""];
const LATIN: &[&str] = &["x", "X", "x ", "x\\t", "x!", "xy", "XY", "\u{e4}", "A", "o", "\u{f6}", ""];

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn text(text: &str) -> String {
    format!("'{text}'")
}

fn short(rng: &mut Rng) -> String {
    if rng.u8(..) < 20 { "NULL".to_owned() } else { text(&"y".repeat(rng.usize(..40))) }
}

/// Mostly a few bytes, now and then more than a packet of the network, a chunk or a load takes.
fn large(rng: &mut Rng) -> String {
    let times = if rng.u8(..) < 40 { rng.usize(1000..20_000) } else { rng.usize(..20) };
    format!("REPEAT('{}', {times})", pick(rng, &["abc ", "\u{65e5}\u{672c}", "0123456789"]))
}

pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "ints",
        key: &[("a", "SMALLINT"), ("b", "BIGINT UNSIGNED")],
        unique: false,
        body: "VARCHAR(60)",
        make_key: |rng| {
            let b = pick(rng, &[0, 1, 2, 9, u64::MAX, 1 << 63, (1 << 63) - 1]);
            vec![pick(rng, &[-32_768, -2, -1, 0, 1, 7, 32_767]).to_string(), b.to_string()]
        },
        make_body: short,
    },
    Table {
        name: "spelled",
        key: &[("k", "VARCHAR(10) CHARACTER SET utf8mb4 COLLATE {ci}"), ("m", "TINYINT")],
        unique: false,
        body: "VARCHAR(60)",
        make_key: |rng| vec![text(pick(rng, SPELLINGS)), rng.i8(-2..3).to_string()],
        make_body: short,
    },
    Table {
        name: "padded",
        key: &[("m", "TINYINT UNSIGNED"), ("k", "VARCHAR(8) CHARACTER SET latin1 COLLATE latin1_swedish_ci")],
        unique: false,
        body: "VARCHAR(60)",
        make_key: |rng| vec![rng.u8(..4).to_string(), text(pick(rng, LATIN))],
        make_body: short,
    },
    Table {
        name: "bytes",
        key: &[("k", "VARBINARY(6)"), ("t", "VARCHAR(6) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")],
        unique: false,
        body: "BLOB",
        make_key: |rng| {
            let k = pick(rng, &["''", "0x00", "0x0000", "0x61", "0x6100", "0xff", "0xff00ff"]);
            vec![k.to_owned(), text(pick(rng, LATIN))]
        },
        make_body: short,
    },
    Table {
        name: "labels",
        key: &[("e", "ENUM('z','m','a','Ende')"), ("s", "SET('x','y','zz')"), ("bits", "BIT(9)")],
        unique: false,
        body: "VARCHAR(60)",
        make_key: |rng| {
            let (e, s) = (pick(rng, &["z", "m", "a", "Ende"]), pick(rng, &["", "x", "y", "x,y", "zz", "x,zz"]));
            vec![text(e), text(s), format!("b'{:b}'", pick(rng, &[0, 1, 255, 256, 511]))]
        },
        make_body: short,
    },
    Table {
        name: "times",
        key: &[("d", "DATE"), ("t", "TIME(3)"), ("amount", "DECIMAL(7,2)")],
        unique: false,
        body: "VARCHAR(60)",
        make_key: |rng| {
            let d = pick(rng, &["1000-01-01", "1999-12-31", "2024-02-29", "9999-12-31"]);
            let t = pick(rng, &["-838:59:59", "-00:00:00.001", "00:00:00", "12:00:00.5", "838:59:59"]);
            vec![text(d), text(t), pick(rng, &["-99999.99", "-0.01", "0", "0.01", "99999.99"]).to_owned()]
        },
        make_body: short,
    },
    Table {
        name: "large",
        key: &[("id", "INT")],
        unique: false,
        body: "MEDIUMTEXT CHARACTER SET utf8mb4",
        make_key: |rng| vec![rng.i32(-30..30).to_string()],
        make_body: large,
    },
    Table {
        name: "only_unique",
        key: &[("u", "CHAR(5) CHARACTER SET utf8mb4 COLLATE {ci}"), ("m", "MEDIUMINT")],
        unique: true,
        body: "VARCHAR(60)",
        make_key: |rng| vec![text(pick(rng, SPELLINGS)), pick(rng, &["-8388608", "0", "1", "8388607"]).to_owned()],
        make_body: short,
    },
];

impl Table {
    pub(crate) fn create(&self, database: &str, flavor: Flavor) -> String {
        let ci = match flavor {
            Flavor::Mysql97 => "utf8mb4_0900_ai_ci",
            Flavor::Mysql56 => "utf8mb4_unicode_ci",
            _ => "utf8mb4_unicode_520_ci",
        };
        let mut sql = format!("CREATE TABLE `{database}`.`{}` (", self.name);
        for (name, sql_type) in self.key {
            write!(sql, "{name} {} NOT NULL, ", sql_type.replace("{ci}", ci)).ok();
        }
        let index = if self.unique { "UNIQUE KEY the_key" } else { "PRIMARY KEY" };
        write!(sql, "n BIGINT NOT NULL, body {}, {index} ({})) ENGINE=InnoDB", self.body, self.columns()).ok();
        sql
    }

    fn columns(&self) -> String {
        self.key.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn is_key(&self, rng: &mut Rng) -> String {
        let parts = self.key.iter().zip((self.make_key)(rng));
        parts.map(|((name, _), value)| format!("{name} = {value}")).collect::<Vec<_>>().join(" AND ")
    }

    /// One random statement. `n` is a number that no statement had before.
    pub(crate) fn statement(&self, rng: &mut Rng, n: u64) -> String {
        let Self { name, .. } = self;
        let values = |rng: &mut Rng| format!("({}, {n}, {})", (self.make_key)(rng).join(", "), (self.make_body)(rng));
        match rng.u8(..100) {
            0..30 => {
                let rows: Vec<String> = (0..rng.usize(1..4)).map(|_| values(rng)).collect();
                format!("INSERT INTO {name} VALUES {} ON DUPLICATE KEY UPDATE n = VALUES(n)", rows.join(", "))
            }
            // Which spelling stays is up to the server.
            30..42 => format!("REPLACE INTO {name} VALUES {}", values(rng)),
            42..58 => {
                format!("UPDATE {name} SET n = {n}, body = {} WHERE {}", (self.make_body)(rng), self.is_key(rng))
            }
            // To another key, or to another spelling of the same one.
            58..72 => {
                let to = self.is_key(rng).replace(" AND ", ", ");
                format!("UPDATE IGNORE {name} SET {to}, n = {n} WHERE {}", self.is_key(rng))
            }
            72..86 => format!("DELETE FROM {name} WHERE {}", self.is_key(rng)),
            86..95 => format!("UPDATE {name} SET n = {n} ORDER BY {} LIMIT {}", self.columns(), rng.u8(1..9)),
            _ => format!("DELETE FROM {name} ORDER BY {} DESC LIMIT {}", self.columns(), rng.u8(1..4)),
        }
    }
}
