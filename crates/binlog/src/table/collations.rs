// The server's collations by id, from `SELECT id, character_set_name, collation_name FROM information_schema.collations`
// on MySQL 9.7.4 and MariaDB 11.8.9, which agree where both have an id (the same tables are in the test corpus; a test
// compares them).

use super::Charset;

/// The character set of a collation id; `None` for ids that neither server has.
pub(super) const fn charset_of(collation: u16) -> Option<Charset> {
    Some(match collation {
        32 | 64 | 1056 | 1088 => Charset::Armscii8,
        11 | 65 | 1035 | 1089 => Charset::Ascii,
        1 | 84 | 1025 | 1108 => Charset::Big5,
        63 => Charset::Binary,
        26 | 34 | 44 | 66 | 99 | 1050 | 1090 => Charset::Cp1250,
        14 | 23 | 50..=52 | 1074..=1075 => Charset::Cp1251,
        57 | 67 | 1081 | 1091 => Charset::Cp1256,
        29 | 58..=59 | 1082..=1083 => Charset::Cp1257,
        4 | 80 | 1028 | 1104 => Charset::Cp850,
        40 | 81 | 1064 | 1105 => Charset::Cp852,
        36 | 68 | 1060 | 1092 => Charset::Cp866,
        95..=96 | 1119..=1120 => Charset::Cp932,
        3 | 69 | 1027 | 1093 => Charset::Dec8,
        97..=98 | 1121..=1122 => Charset::Eucjpms,
        19 | 85 | 1043 | 1109 => Charset::Euckr,
        248..=250 => Charset::Gb18030,
        24 | 86 | 1048 | 1110 => Charset::Gb2312,
        28 | 87 | 1052 | 1111 => Charset::Gbk,
        92..=93 | 1116..=1117 => Charset::Geostd8,
        25 | 70 | 1049 | 1094 => Charset::Greek,
        16 | 71 | 1040 | 1095 => Charset::Hebrew,
        6 | 72 | 1030 | 1096 => Charset::Hp8,
        37 | 73 | 1061 | 1097 => Charset::Keybcs2,
        7 | 74 | 1031 | 1098 => Charset::Koi8r,
        22 | 75 | 1046 | 1099 => Charset::Koi8u,
        5 | 8 | 15 | 31 | 47..=49 | 94 | 1032 | 1071 => Charset::Latin1,
        2 | 9 | 21 | 27 | 77 | 1033 | 1101 => Charset::Latin2,
        30 | 78 | 1054 | 1102 => Charset::Latin5,
        20 | 41..=42 | 79 | 1065 | 1103 => Charset::Latin7,
        38 | 43 | 1062 | 1067 => Charset::Macce,
        39 | 53 | 1063 | 1077 => Charset::Macroman,
        13 | 88 | 1037 | 1112 => Charset::Sjis,
        10 | 82 | 1034 | 1106 => Charset::Swe7,
        18 | 89 | 1042 | 1113 => Charset::Tis620,
        35 | 90 | 128..=151 | 159 | 640..=642 | 1059 | 1114 | 1152 | 1174 | 2560..=2727 | 2744..=2759 => Charset::Ucs2,
        12 | 91 | 1036 | 1115 => Charset::Ujis,
        54..=55 | 101..=124 | 672..=674 | 1078..=1079 | 1125 | 1147 | 2816..=2983 | 3000..=3015 => Charset::Utf16,
        56 | 62 | 1080 | 1086 => Charset::Utf16le,
        60..=61 | 160..=183 | 736..=738 | 1084..=1085 | 1184 | 1206 | 3072..=3239 | 3256..=3271 => Charset::Utf32,
        33 | 76 | 83 | 192..=215 | 223 | 576..=579 | 1057 | 1107 | 1216 | 1238 | 2048..=2215 | 2232..=2247 => {
            Charset::Utf8mb3
        }
        45..=46
        | 224..=247
        | 255..=271
        | 273..=275
        | 277..=294
        | 296..=298
        | 300
        | 303..=323
        | 608..=611
        | 1069..=1070
        | 1248
        | 1270
        | 2304..=2471
        | 2488..=2503 => Charset::Utf8mb4,
        _ => return None,
    })
}
