//! What a TABLE_MAP says about its columns (`Table_map_event`, its fields and its optional metadata).

use std::sync::Arc;

use millstream_wire::codec::{Bitmap, ParseError, ParseErrorKind, Reader};

use super::physical::{Physical, code, is_same_type, known_from_catalog, logical, old_temporal, read_physical};
use super::{Charset, Column, ColumnType, SchemaMismatch, TableSchema};

/// The server's limit.
const MAX_COLUMNS: usize = 4096;

const BINARY_COLLATION: u16 = 63;

/// The field that an unknown collation id is an error of.
pub(crate) const UNKNOWN_COLLATION: &str = "collation id";

/// The columns of a TABLE_MAP with everything that its optional metadata says; `None` where it says nothing.
#[derive(Debug)]
pub(crate) struct Definition<'a> {
    mariadb: bool,
    physical: Vec<Physical>,
    nullable: Bitmap<'a>,
    /// Bit per numeric column, most significant first.
    signedness: Option<&'a [u8]>,
    /// Per character column.
    charsets: Option<Vec<u16>>,
    /// Per ENUM and SET column.
    enum_charsets: Option<Vec<u16>>,
    names: Option<Vec<&'a str>>,
    set_labels: Option<Vec<Vec<&'a [u8]>>>,
    enum_labels: Option<Vec<Vec<&'a [u8]>>>,
    /// Column and prefix length (0: the whole column).
    key: Option<Vec<(usize, u64)>>,
    /// Not decoded: rows do not need them.
    pub(super) geometry_types: Option<&'a [u8]>,
    pub(super) visible: Option<&'a [u8]>,
    pub(super) dimensions: Option<&'a [u8]>,
}

impl<'a> Definition<'a> {
    /// Reads from the column count on. `mariadb` says who wrote it.
    pub(crate) fn parse(mut r: Reader<'a>, mariadb: bool) -> Result<Self, ParseError> {
        let count = r.lenenc_len("column count")?;
        if count == 0 || count > MAX_COLUMNS {
            return Err(r.error("column count", ParseErrorKind::Limit));
        }
        let types = r.bytes(count, "column types")?;
        if r.is_empty() {
            return Err(r.error("a table map of a 5.1 pre-release", ParseErrorKind::Unsupported));
        }
        let meta_len = r.lenenc_len("metadata length")?;
        let mut meta = r.sub(meta_len, "column metadata")?;
        let mut physical = Vec::new();
        for ty in types {
            physical.push(read_physical(*ty, &mut meta)?);
        }
        meta.finish("column metadata")?;
        let nullable = Bitmap::new(r.bytes(Bitmap::byte_len(count), "null bitmap")?);
        let mut this = Self {
            mariadb,
            physical,
            nullable,
            signedness: None,
            charsets: None,
            enum_charsets: None,
            names: None,
            set_labels: None,
            enum_labels: None,
            key: None,
            geometry_types: None,
            visible: None,
            dimensions: None,
        };
        let mut seen = 0u64;
        while !r.is_empty() {
            let ty = r.u8("optional metadata type")?;
            // A field of a few bytes may stand for work on every column: once is enough.
            let bit = 1u64.checked_shl(u32::from(ty)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(r.error("optional metadata type", ParseErrorKind::BadTag(ty)));
            }
            seen |= bit;
            let n = r.lenenc_len("optional metadata length")?;
            this.optional(ty, r.sub(n, "optional metadata")?)?;
        }
        Ok(this)
    }

    /// Whether all behind the first `known` columns are those that MariaDB adds for long unique keys and shows nowhere.
    fn has_hidden_hashes(&self, known: usize) -> bool {
        let hidden = self.names.as_deref().and_then(|names| names.get(known..)).unwrap_or_default();
        self.mariadb && !hidden.is_empty() && hidden.iter().all(|name| name.starts_with("DB_ROW_HASH_"))
    }

    /// The first collation id that no server of ours has.
    pub(crate) fn unknown_collation(&self) -> Option<u16> {
        let lists = [&self.charsets, &self.enum_charsets];
        lists.into_iter().flatten().flatten().copied().find(|id| *id != 0 && Charset::from_collation(*id).is_none())
    }

    /// Type codes of the columns.
    pub(super) fn codes(&self) -> impl Iterator<Item = u8> {
        self.physical.iter().map(|p| p.code)
    }

    fn count(&self, which: fn(Physical) -> bool) -> usize {
        self.physical.iter().filter(|p| which(**p)).count()
    }

    /// Which columns the lists of collations count.
    const fn character(&self) -> fn(Physical) -> bool {
        if self.mariadb { Physical::is_mariadb_character } else { Physical::is_character }
    }

    fn optional(&mut self, ty: u8, mut r: Reader<'a>) -> Result<(), ParseError> {
        match ty {
            1 => {
                let bytes = Bitmap::byte_len(self.count(Physical::is_numeric));
                self.signedness = Some(r.bytes(bytes, "signedness")?);
            }
            2 => self.charsets = Some(default_charset(r, self.count(self.character()))?),
            3 => self.charsets = Some(column_charsets(r, self.count(self.character()))?),
            4 => {
                let mut names = Vec::new();
                for _ in &self.physical {
                    let n = r.u8("column name length")?;
                    names.push(r.str(usize::from(n), "column name")?);
                }
                r.finish("column names")?;
                self.names = Some(names);
            }
            5 => self.set_labels = Some(labels(r, self.count(|p| p.code == code::SET))?),
            6 => self.enum_labels = Some(labels(r, self.count(|p| p.code == code::ENUM))?),
            8 | 9 => {
                let mut key = Vec::new();
                let mut taken = vec![false; self.physical.len()];
                while !r.is_empty() {
                    let at = r.lenenc("primary key column")?;
                    let prefix = if ty == 9 { r.lenenc("primary key prefix")? } else { 0 };
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    match taken.get_mut(at) {
                        Some(slot @ false) => *slot = true,
                        _ => return Err(r.error("primary key column", ParseErrorKind::BadLength)),
                    }
                    key.push((at, prefix));
                }
                self.key = Some(key);
            }
            10 => self.enum_charsets = Some(default_charset(r, self.count(Physical::is_enum_or_set))?),
            11 => self.enum_charsets = Some(column_charsets(r, self.count(Physical::is_enum_or_set))?),
            7 => self.geometry_types = Some(r.rest()),
            12 => self.visible = Some(r.rest()),
            13 => self.dimensions = Some(r.rest()),
            // Newer servers.
            _ => {}
        }
        Ok(())
    }

    /// The schema. What the log does not say comes from `catalog`, and from defaults without one.
    fn columns(&self, catalog: Option<&TableSchema>) -> Result<Vec<Column>, ParseError> {
        let (mut numeric, mut character, mut enums, mut set_at, mut enum_at) = (0usize, 0usize, 0usize, 0usize, 0usize);
        let mut out = Vec::new();
        for (i, p) in self.physical.iter().enumerate() {
            let hint = catalog.and_then(|c| c.columns.get(i));
            let mut unsigned = hint.is_some_and(|c| is_unsigned(&c.ty));
            if p.is_numeric() {
                if let Some(bits) = self.signedness {
                    unsigned = bits.get(numeric >> 3).is_some_and(|b| (b >> (7 & !numeric)) & 1 == 1);
                }
                numeric = numeric.saturating_add(1);
            }
            let mut collation = hint.map_or(0, |c| c.collation);
            let is_character = self.character()(*p);
            if is_character {
                collation = nth(&self.charsets, character).copied().unwrap_or(collation);
                character = character.saturating_add(1);
            }
            let mut stated_labels = None;
            if p.is_enum_or_set() {
                collation = nth(&self.enum_charsets, enums).copied().unwrap_or(collation);
                enums = enums.saturating_add(1);
                let (lists, at) = if p.code == code::SET {
                    (&self.set_labels, &mut set_at)
                } else {
                    (&self.enum_labels, &mut enum_at)
                };
                stated_labels = nth(lists, *at);
                *at = at.saturating_add(1);
            }
            let has_collation = is_character || p.is_enum_or_set();
            if !has_collation {
                collation = BINARY_COLLATION;
            }
            // Without any word on the collation the catalog's type decides, else bytes are only bytes.
            let binary = match (collation, hint) {
                (0, Some(hint)) => hint.charset == Charset::Binary,
                (0, None) => !p.is_enum_or_set(),
                (id, _) => id == BINARY_COLLATION && !p.is_enum_or_set(),
            };
            let charset = match (binary || !has_collation, collation, hint) {
                (true, ..) => Charset::Binary,
                (false, 0, Some(hint)) => hint.charset,
                (false, 0, None) => Charset::Utf8mb4,
                // The catalog may know a collation of a newer server.
                (false, id, hint) => Charset::from_collation(id)
                    .or_else(|| hint.filter(|c| c.collation == id).map(|c| c.charset))
                    .ok_or_else(|| Reader::new(&[]).error(UNKNOWN_COLLATION, ParseErrorKind::Unsupported))?,
            };
            let labels = match (stated_labels, hint.map(|c| &c.ty)) {
                (Some(list), _) => decode_labels(list, charset)?,
                (None, Some(ColumnType::Enum { labels, .. } | ColumnType::Set { labels, .. })) => Arc::clone(labels),
                _ => Arc::default(),
            };
            let name = match (nth(&self.names, i), hint) {
                (Some(name), _) => (*name).to_owned(),
                (None, Some(hint)) => hint.name.clone(),
                (None, None) => format!("@{}", i.saturating_add(1)),
            };
            let ty = match p.code {
                code::OLD_TIME | code::OLD_DATETIME | code::OLD_TIMESTAMP => old_temporal(*p, hint, self.mariadb)?,
                _ => known_from_catalog(logical(*p, unsigned, binary, labels)?, hint),
            };
            out.push(Column { name, ty, nullable: self.nullable.is_set(i), charset, collation });
        }
        Ok(out)
    }

    pub(crate) fn schema(&self, database: &str, table: &str) -> Result<TableSchema, ParseError> {
        let key = match &self.key {
            // A key over prefixes does not tell rows apart by the values alone.
            Some(key) if key.iter().all(|(_, prefix)| *prefix == 0) => key.iter().map(|(at, _)| *at).collect(),
            _ => Vec::new(),
        };
        Ok(TableSchema { database: database.into(), table: table.into(), columns: self.columns(None)?, key })
    }

    /// The catalog's schema, after everything the log states has been found to agree with it.
    pub(crate) fn resolve(
        &self,
        database: &str,
        table: &str,
        catalog: &TableSchema,
    ) -> Result<Result<TableSchema, SchemaMismatch>, ParseError> {
        let differ = |column: Option<(usize, &Column)>, what, log: String, other: String| SchemaMismatch {
            database: database.into(),
            table: table.into(),
            column: column.map(|(i, c)| (i, c.name.clone())),
            what,
            log,
            catalog: other,
        };
        if self.physical.len() != catalog.columns.len() && !self.has_hidden_hashes(catalog.columns.len()) {
            let (log, other) = (self.physical.len().to_string(), catalog.columns.len().to_string());
            return Ok(Err(differ(None, "the number of columns", log, other)));
        }
        let columns = self.columns(Some(catalog))?;
        for (i, (ours, theirs)) in columns.iter().zip(&catalog.columns).enumerate() {
            let at = Some((i, theirs));
            if ours.name != theirs.name {
                return Ok(Err(differ(at, "the name", ours.name.clone(), theirs.name.clone())));
            }
            if !is_same_type(&ours.ty, &theirs.ty) {
                return Ok(Err(differ(at, "the type", ours.ty.to_string(), theirs.ty.to_string())));
            }
            if ours.nullable != theirs.nullable {
                let word = |nullable| String::from(if nullable { "NULL" } else { "NOT NULL" });
                return Ok(Err(differ(at, "nullability", word(ours.nullable), word(theirs.nullable))));
            }
            if theirs.collation != 0 && ours.charset != Charset::Binary && ours.collation != theirs.collation {
                let (log, other) = (ours.collation.to_string(), theirs.collation.to_string());
                return Ok(Err(differ(at, "the collation id", log, other)));
            }
        }
        // Names and no key: full metadata of a table without a primary key.
        if self.key.is_some() || self.names.is_some() {
            let key = self.key.as_deref().unwrap_or_default();
            let stated: Vec<usize> = key.iter().map(|(at, _)| *at).collect();
            let prefixed = key.iter().any(|(_, prefix)| *prefix != 0);
            if stated != catalog.key && !(prefixed && catalog.key.is_empty()) {
                let text = |key: &[usize]| {
                    let names = key.iter().filter_map(|i| catalog.columns.get(*i)).map(|c| c.name.as_str());
                    format!("({})", names.collect::<Vec<_>>().join(", "))
                };
                return Ok(Err(differ(None, "the primary key", text(&stated), text(&catalog.key))));
            }
        }
        let key = catalog.key.clone();
        Ok(Ok(TableSchema { database: database.into(), table: table.into(), columns, key }))
    }
}

fn nth<T>(list: &Option<Vec<T>>, i: usize) -> Option<&T> {
    list.as_ref().and_then(|l| l.get(i))
}

fn is_unsigned(ty: &ColumnType) -> bool {
    use ColumnType::{BigInt, Int, MediumInt, SmallInt, TinyInt};
    matches!(
        ty,
        TinyInt { unsigned: true }
            | SmallInt { unsigned: true }
            | MediumInt { unsigned: true }
            | Int { unsigned: true }
            | BigInt { unsigned: true }
    )
}

/// The default collation, then `(index, collation)` of the columns that have another.
fn default_charset(mut r: Reader<'_>, columns: usize) -> Result<Vec<u16>, ParseError> {
    let default = collation(&mut r)?;
    let mut out = vec![default; columns];
    while !r.is_empty() {
        let at = usize::try_from(r.lenenc("charset column")?).unwrap_or(usize::MAX);
        let id = collation(&mut r)?;
        match out.get_mut(at) {
            Some(slot) => *slot = id,
            None => return Err(r.error("charset column", ParseErrorKind::BadLength)),
        }
    }
    Ok(out)
}

fn column_charsets(mut r: Reader<'_>, columns: usize) -> Result<Vec<u16>, ParseError> {
    let out = (0..columns).map(|_| collation(&mut r)).collect::<Result<_, _>>()?;
    r.finish("column charsets")?;
    Ok(out)
}

fn collation(r: &mut Reader<'_>) -> Result<u16, ParseError> {
    u16::try_from(r.lenenc("collation")?).map_err(|_| r.error("collation", ParseErrorKind::BadLength))
}

fn labels<'a>(mut r: Reader<'a>, columns: usize) -> Result<Vec<Vec<&'a [u8]>>, ParseError> {
    let mut out = Vec::new();
    for _ in 0..columns {
        let count = r.lenenc_len("label count")?;
        let list = (0..count).map(|_| r.lenenc_bytes("label")).collect::<Result<_, _>>()?;
        out.push(list);
    }
    r.finish("labels")?;
    Ok(out)
}

fn decode_labels(list: &[&[u8]], charset: Charset) -> Result<Arc<[String]>, ParseError> {
    let decode = |bytes: &&[u8]| {
        let mut text = Vec::new();
        let error = |kind| ParseError::new("ENUM or SET label", kind, bytes.len());
        // Labels of `binary` are bytes; they are shown as text when they are text.
        let charset = if charset == Charset::Binary { Charset::Utf8mb4 } else { charset };
        charset
            .decode(bytes, &mut text)
            .map_err(|e| error(if e.at.is_some() { ParseErrorKind::BadUtf8 } else { ParseErrorKind::Unsupported }))?;
        String::from_utf8(text).map_err(|_| error(ParseErrorKind::BadUtf8))
    };
    list.iter().map(decode).collect()
}
