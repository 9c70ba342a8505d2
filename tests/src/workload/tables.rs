//! The tables of the workload, their keys, and values for them as SQL literals.

use std::fmt::Write;

use fastrand::Rng;

/// What a column holds, and so how a value for it is made.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Integers from the first to the second.
    Int(i64, i64),
    UnsignedBig,
    /// Digits before and after the point.
    Decimal(u32, u32),
    Float,
    Double,
    /// Bits.
    Bit(u32),
    Date,
    /// Digits of the second's fraction.
    DateTime(usize),
    Timestamp(usize),
    Time(usize),
    Year,
    /// Up to so many characters.
    Text(usize),
    Latin1(usize),
    /// Up to so many bytes.
    Bytes(usize),
    Labels(&'static [&'static str]),
    LabelSet(&'static [&'static str]),
    Json,
}

/// A table: key columns first, then `version` (counted up by every update, so that no update is
/// without effect), then the rest.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    key: &'static str,
    key_columns: &'static [&'static str],
    make_key: fn(u64, &mut String),
    columns: &'static [(&'static str, &'static str, Kind)],
}

const WORDS: &[&str] =
    &["alpha", "beta", "\u{3b3}amma", "\u{65e5}\u{672c}", "\u{1f980}", "a'b", "c\\d", " e ", "tab\tin", "nl\nin"];

/// Key types BIGINT; INT UNSIGNED + DATE + VARCHAR; BINARY(16).
pub(super) const TABLES: [Table; 3] = [
    Table {
        name: "orders",
        key: "id BIGINT NOT NULL",
        key_columns: &["id"],
        make_key: |id, out| {
            write!(out, "{id}").ok();
        },
        columns: &[
            ("customer", "MEDIUMINT UNSIGNED", Kind::Int(0, 16_777_215)),
            ("amount", "DECIMAL(12,2)", Kind::Decimal(10, 2)),
            ("weight", "FLOAT", Kind::Float),
            ("price", "DOUBLE", Kind::Double),
            (
                "status",
                "ENUM('new','paid','shipped','zur\u{fc}ck') NOT NULL",
                Kind::Labels(&["new", "paid", "shipped", "zur\u{fc}ck"]),
            ),
            ("flags", "SET('gift','fragile','two words')", Kind::LabelSet(&["gift", "fragile", "two words"])),
            ("note", "VARCHAR(100)", Kind::Text(40)),
            ("created", "DATETIME(3) NOT NULL", Kind::DateTime(3)),
            ("updated", "TIMESTAMP(6) NULL", Kind::Timestamp(6)),
            ("doc", "JSON", Kind::Json),
        ],
    },
    Table {
        name: "stock",
        key: "shop INT UNSIGNED NOT NULL, day DATE NOT NULL, code VARCHAR(24) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
        key_columns: &["shop", "day", "code"],
        make_key: |id, out| {
            // The code alone is unique; its letters differ only in case for neighbours.
            let (letter, month, day) = (if id % 2 == 0 { 'k' } else { 'K' }, id / 97 % 12 + 1, id / 7 % 28 + 1);
            write!(out, "{},'2024-{month:02}-{day:02}','{letter}{}'", id % 97, id / 2).ok();
        },
        columns: &[
            ("quantity", "SMALLINT", Kind::Int(-32_768, 32_767)),
            ("level", "TINYINT", Kind::Int(-128, 127)),
            ("rank_", "TINYINT UNSIGNED", Kind::Int(0, 255)),
            ("total", "BIGINT UNSIGNED", Kind::UnsignedBig),
            ("season", "YEAR", Kind::Year),
            ("opens", "TIME(3)", Kind::Time(3)),
            ("active", "BIT(1)", Kind::Bit(1)),
            ("mask", "BIT(40)", Kind::Bit(40)),
            ("label", "CHAR(10)", Kind::Text(6)),
            ("remark", "VARCHAR(60) CHARACTER SET latin1", Kind::Latin1(30)),
            ("delta", "INT", Kind::Int(i32::MIN as i64, i32::MAX as i64)),
        ],
    },
    Table {
        name: "events",
        key: "id BINARY(16) NOT NULL",
        key_columns: &["id"],
        make_key: |id, out| {
            // Bijective, so unique; every eighth ends in zero bytes.
            let head = mix(id);
            let tail = if id % 8 == 0 { head & 0xff00 } else { mix(head) };
            write!(out, "0x{head:016x}{tail:016x}").ok();
        },
        columns: &[
            ("kind", "SMALLINT UNSIGNED", Kind::Int(0, 65_535)),
            ("number", "MEDIUMINT", Kind::Int(-8_388_608, 8_388_607)),
            ("big", "DECIMAL(38,10)", Kind::Decimal(28, 10)),
            ("bits", "BIT(64)", Kind::Bit(64)),
            ("day", "DATE", Kind::Date),
            ("at", "DATETIME NOT NULL", Kind::DateTime(0)),
            ("body", "BLOB", Kind::Bytes(60)),
            ("tag", "VARBINARY(32)", Kind::Bytes(32)),
            ("text", "MEDIUMTEXT", Kind::Text(80)),
            ("counter", "INT UNSIGNED", Kind::Int(0, u32::MAX as i64)),
        ],
    },
];

/// The finaliser of SplitMix64.
fn mix(id: u64) -> u64 {
    let z = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Table {
    pub(super) fn create(&self, database: &str) -> String {
        let mut sql = format!("CREATE TABLE `{database}`.`{}` ({}, version INT UNSIGNED NOT NULL", self.name, self.key);
        for (name, sql_type, _) in self.columns {
            write!(sql, ", {name} {sql_type}").ok();
        }
        write!(sql, ", PRIMARY KEY ({})) DEFAULT CHARSET=utf8mb4", self.key_columns.join(", ")).ok();
        sql
    }

    /// `INSERT INTO … VALUES (…),(…)` for these ids.
    pub(super) fn insert(&self, rng: &mut Rng, ids: impl Iterator<Item = u64>, out: &mut String) {
        write!(out, "INSERT INTO {} VALUES ", self.name).ok();
        for (n, id) in ids.enumerate() {
            out.push_str(if n == 0 { "(" } else { ",(" });
            (self.make_key)(id, out);
            out.push_str(",0");
            for (_, sql_type, kind) in self.columns {
                out.push(',');
                kind.value(rng, sql_type, out);
            }
            out.push(')');
        }
    }

    /// An update of these rows that changes the version and one to four other columns.
    pub(super) fn update(&self, rng: &mut Rng, ids: &[u64], out: &mut String) {
        write!(out, "UPDATE {} SET version=version+1", self.name).ok();
        let first = rng.usize(..self.columns.len());
        for n in 0..rng.usize(1..=4) {
            let (name, sql_type, kind) = self.columns[(first + n) % self.columns.len()];
            write!(out, ",{name}=").ok();
            kind.value(rng, sql_type, out);
        }
        self.condition(ids, out);
    }

    pub(super) fn delete(&self, ids: &[u64], out: &mut String) {
        write!(out, "DELETE FROM {}", self.name).ok();
        self.condition(ids, out);
    }

    /// Gives the row the key of another id.
    pub(super) fn change_key(&self, from: u64, to: u64, out: &mut String) {
        write!(out, "UPDATE {} SET version=version+1", self.name).ok();
        let mut key = String::new();
        (self.make_key)(to, &mut key);
        for (column, value) in self.key_columns.iter().zip(key.split(',')) {
            write!(out, ",{column}={value}").ok();
        }
        self.condition(&[from], out);
    }

    fn condition(&self, ids: &[u64], out: &mut String) {
        write!(out, " WHERE ({}) IN (", self.key_columns.join(",")).ok();
        for (n, &id) in ids.iter().enumerate() {
            out.push_str(if n == 0 { "(" } else { ",(" });
            (self.make_key)(id, out);
            out.push(')');
        }
        out.push(')');
    }
}

impl Kind {
    /// Appends a literal; NULL now and then where the column allows it.
    fn value(self, rng: &mut Rng, sql_type: &str, out: &mut String) {
        if rng.u8(..) < 16 && !sql_type.contains("NOT NULL") {
            out.push_str("NULL");
            return;
        }
        let written = match self {
            // The ends of the range come up often.
            Self::Int(min, max) => match rng.u8(..32) {
                0 => write!(out, "{min}"),
                1 => write!(out, "{max}"),
                _ => write!(out, "{}", rng.i64(min..=max)),
            },
            Self::UnsignedBig => match rng.u8(..8) {
                0 => write!(out, "{}", u64::MAX),
                _ => write!(out, "{}", rng.u64(..) >> rng.u32(..64)),
            },
            Self::Decimal(before, after) => {
                if rng.bool() {
                    out.push('-');
                }
                digits(rng, before, out);
                out.push('.');
                digits(rng, after, out);
                Ok(())
            }
            // Halves of integers, and numbers that need all bits of a float.
            Self::Float => write!(out, "{}", rng.i32(-16_777_216..16_777_216) as f32 * [1.0, 0.5, 0.1][rng.usize(..3)]),
            Self::Double => write!(out, "{:e}", (rng.f64() - 0.5) * 10f64.powi(rng.i32(-20..20))),
            Self::Bit(bits) => write!(out, "{}", rng.u64(..) >> (64 - bits)),
            Self::Date => {
                out.push('\'');
                date(rng, out);
                out.push('\'');
                Ok(())
            }
            Self::DateTime(fraction) => {
                out.push('\'');
                date(rng, out);
                write!(out, " {:02}:", rng.u32(..24)).ok();
                minutes(rng, fraction, out);
                Ok(())
            }
            Self::Timestamp(fraction) => {
                write!(
                    out,
                    "'{}-{:02}-{:02} {:02}:",
                    rng.u32(1971..2038),
                    rng.u32(1..13),
                    rng.u32(1..29),
                    rng.u32(..24)
                )
                .ok();
                minutes(rng, fraction, out);
                Ok(())
            }
            Self::Time(fraction) => {
                write!(out, "'{}{:02}:", if rng.bool() { "-" } else { "" }, rng.u32(..838)).ok();
                minutes(rng, fraction, out);
                Ok(())
            }
            Self::Year => match rng.u8(..16) {
                0 => write!(out, "0"),
                _ => write!(out, "{}", rng.u32(1901..=2155)),
            },
            Self::Text(max) => {
                quoted(rng, max, WORDS, out);
                Ok(())
            }
            Self::Latin1(max) => {
                quoted(rng, max, &["plain", "caf\u{e9}", "\u{20ac}5", "\u{fc}ber", "it's"], out);
                Ok(())
            }
            Self::Bytes(max) => match rng.usize(..=max) {
                0 => write!(out, "''"),
                len => {
                    out.push_str("0x");
                    (0..len).try_for_each(|_| write!(out, "{:02x}", rng.u8(..)))
                }
            },
            Self::Labels(labels) => write!(out, "'{}'", labels[rng.usize(..labels.len())]),
            Self::LabelSet(labels) => write!(out, "{}", rng.u64(..1 << labels.len())),
            Self::Json => {
                write!(out, "'{{\"n\":{},\"x\":{:.3},\"s\":", rng.i64(..), rng.f64() * 1e3).ok();
                out.push_str(["\"q\\\\\"uote\"", "\"\u{1f980}\"", "null", "[1,[true,{}]]", "\"\""][rng.usize(..5)]);
                out.push_str("}'");
                Ok(())
            }
        };
        written.ok();
    }
}

fn digits(rng: &mut Rng, most: u32, out: &mut String) {
    let count = rng.u32(1..=most);
    out.extend((0..count).map(|_| rng.digit(10)));
}

fn date(rng: &mut Rng, out: &mut String) {
    write!(out, "{:04}-{:02}-{:02}", rng.u32(1000..=9999), rng.u32(1..13), rng.u32(1..29)).ok();
}

/// Minutes, seconds and fraction, and the closing quote.
fn minutes(rng: &mut Rng, fraction: usize, out: &mut String) {
    write!(out, "{:02}:{:02}", rng.u32(..60), rng.u32(..60)).ok();
    if fraction > 0 {
        write!(out, ".{:0fraction$}", rng.u64(..10u64.pow(u32::try_from(fraction).expect("at most six digits")))).ok();
    }
    out.push('\'');
}

fn quoted(rng: &mut Rng, max: usize, words: &[&str], out: &mut String) {
    out.push('\'');
    let mut left = rng.usize(..=max);
    loop {
        let word = words[rng.usize(..words.len())];
        let length = word.chars().count();
        if length > left {
            break;
        }
        left -= length;
        for c in word.chars() {
            match c {
                '\'' => out.push_str("''"),
                '\\' => out.push_str("\\\\"),
                // The client splits its input at line ends, for better or worse.
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
    }
    out.push('\'');
}
