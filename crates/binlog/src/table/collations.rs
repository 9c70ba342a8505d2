// The server's collations by id, from `SELECT id, character_set_name, collation_name FROM information_schema.collations`
// on MySQL 9.7.4 (the same table is in the test corpus; a test compares them).

use super::Charset;

/// The character set of a collation id; `None` for ids MySQL 9.7 does not have.
pub(super) const fn charset_of(collation: u16) -> Option<Charset> {
    Some(match collation {
        32 | 64 => Charset::Armscii8,
        11 | 65 => Charset::Ascii,
        1 | 84 => Charset::Big5,
        63 => Charset::Binary,
        26 | 34 | 44 | 66 | 99 => Charset::Cp1250,
        14 | 23 | 50..=52 => Charset::Cp1251,
        57 | 67 => Charset::Cp1256,
        29 | 58..=59 => Charset::Cp1257,
        4 | 80 => Charset::Cp850,
        40 | 81 => Charset::Cp852,
        36 | 68 => Charset::Cp866,
        95..=96 => Charset::Cp932,
        3 | 69 => Charset::Dec8,
        97..=98 => Charset::Eucjpms,
        19 | 85 => Charset::Euckr,
        248..=250 => Charset::Gb18030,
        24 | 86 => Charset::Gb2312,
        28 | 87 => Charset::Gbk,
        92..=93 => Charset::Geostd8,
        25 | 70 => Charset::Greek,
        16 | 71 => Charset::Hebrew,
        6 | 72 => Charset::Hp8,
        37 | 73 => Charset::Keybcs2,
        7 | 74 => Charset::Koi8r,
        22 | 75 => Charset::Koi8u,
        5 | 8 | 15 | 31 | 47..=49 | 94 => Charset::Latin1,
        2 | 9 | 21 | 27 | 77 => Charset::Latin2,
        30 | 78 => Charset::Latin5,
        20 | 41..=42 | 79 => Charset::Latin7,
        38 | 43 => Charset::Macce,
        39 | 53 => Charset::Macroman,
        13 | 88 => Charset::Sjis,
        10 | 82 => Charset::Swe7,
        18 | 89 => Charset::Tis620,
        35 | 90 | 128..=151 | 159 => Charset::Ucs2,
        12 | 91 => Charset::Ujis,
        54..=55 | 101..=124 => Charset::Utf16,
        56 | 62 => Charset::Utf16le,
        60..=61 | 160..=183 => Charset::Utf32,
        33 | 76 | 83 | 192..=215 | 223 => Charset::Utf8mb3,
        45..=46 | 224..=247 | 255..=271 | 273..=275 | 277..=294 | 296..=298 | 300 | 303..=323 => Charset::Utf8mb4,
        _ => return None,
    })
}
