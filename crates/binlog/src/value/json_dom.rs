//! Documents taken apart, changed and put together again as the server does (`sql/json_binary.cc`).

use std::borrow::Cow;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::json::{Container, MAX_DEPTH, Value, ty};
use super::json_path::Leg;

/// A part of a document. Texts and opaque values stay where they are.
#[derive(Clone, Debug)]
pub(super) enum Node<'a> {
    /// Members by length of the key, then its bytes: the server's order.
    Object(Vec<(Cow<'a, [u8]>, Self)>),
    Array(Vec<Self>),
    Literal(u8),
    Int(i64),
    UInt(u64),
    /// Type byte and the value as it lies: DOUBLE, string with its length, opaque value with type and length.
    Raw(u8, &'a [u8]),
}

/// Members that are moved for the sake of all insertions and removals of one document: as many as take about a second.
const MAX_MOVED: usize = 1 << 26;

/// What is spent on one document, so that bytes whose entries all point at one place do not multiply.
pub(super) struct Budget {
    nodes: usize,
    bytes: usize,
    moved: usize,
}

impl Budget {
    /// For documents of `len` bytes together.
    pub(super) const fn new(len: usize) -> Self {
        // A member's entry takes three bytes. Growing to the large form doubles what is there at most.
        Self { nodes: (len / 3).saturating_add(1), bytes: len.saturating_mul(4).saturating_add(1024), moved: MAX_MOVED }
    }
}

#[cold]
fn error(field: &'static str, kind: ParseErrorKind) -> ParseError {
    Reader::new(&[]).error(field, kind)
}

/// Keys as the server sorts them.
fn order(a: &[u8], b: &[u8]) -> core::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'a> Node<'a> {
    /// A whole document: type byte and value; nothing at all is JSON null.
    pub(super) fn parse(document: &'a [u8], budget: &mut Budget) -> Result<Self, ParseError> {
        match document.split_first() {
            None => Ok(Self::Literal(0)),
            Some((ty, data)) => Self::build(Value::new(*ty, data)?, 0, budget),
        }
    }

    fn build(value: Value<'a>, depth: usize, budget: &mut Budget) -> Result<Self, ParseError> {
        budget.nodes = budget.nodes.checked_sub(1).ok_or_else(|| error("json members", ParseErrorKind::Limit))?;
        let container = match value {
            Value::Scalar(ty, data) => return Self::scalar(ty, data),
            Value::Container(container) => container,
        };
        if depth >= MAX_DEPTH {
            return Err(error("json depth", ParseErrorKind::Limit));
        }
        let child = |i, budget: &mut Budget| Self::build(container.value(i)?, depth.saturating_add(1), budget);
        if !container.is_object {
            return (0..container.count).map(|i| child(i, budget)).collect::<Result<_, _>>().map(Self::Array);
        }
        let mut members = Vec::new();
        for i in 0..container.count {
            members.push((Cow::Borrowed(container.key(i)?), child(i, budget)?));
        }
        if !members.is_sorted_by(|(a, _), (b, _)| order(a, b).is_lt()) {
            return Err(error("json keys", ParseErrorKind::BadLength));
        }
        Ok(Self::Object(members))
    }

    fn scalar(ty: u8, data: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(data);
        Ok(match ty {
            ty::LITERAL => match r.u8("json literal")? {
                b @ 0..=2 => Self::Literal(b),
                b => return Err(r.error("json literal", ParseErrorKind::BadTag(b))),
            },
            ty::INT16 => Self::Int(i64::from(r.u16_le("json int16")?.cast_signed())),
            ty::UINT16 => Self::UInt(u64::from(r.u16_le("json uint16")?)),
            ty::INT32 => Self::Int(i64::from(r.u32_le("json int32")?.cast_signed())),
            ty::UINT32 => Self::UInt(u64::from(r.u32_le("json uint32")?)),
            ty::INT64 => Self::Int(r.u64_le("json int64")?.cast_signed()),
            ty::UINT64 => Self::UInt(r.u64_le("json uint64")?),
            ty::DOUBLE => Self::Raw(ty, r.bytes(8, "json double")?),
            ty::STRING | ty::OPAQUE => {
                if ty == ty::OPAQUE {
                    r.skip(1, "json opaque type")?;
                }
                let n = super::json::varint(&mut r, "json value length")?;
                r.skip(n, "json value")?;
                Self::Raw(ty, data.get(..data.len().saturating_sub(r.left())).unwrap_or_default())
            }
            b => return Err(r.error("json type", ParseErrorKind::BadTag(b))),
        })
    }

    /// The part at the path, without the leniency that queries have: a cell only of an array, a member only of an object.
    fn seek(&mut self, path: &[Leg<'a>]) -> Option<&mut Self> {
        let mut node = self;
        for leg in path {
            node = match (node, leg) {
                (Self::Object(members), Leg::Member(name)) => {
                    let at = members.binary_search_by(|(key, _)| order(key, name)).ok()?;
                    &mut members.get_mut(at)?.1
                }
                (Self::Array(cells), leg) => {
                    let at = cell(leg, cells.len())?;
                    cells.get_mut(at)?
                }
                _ => return None,
            };
        }
        Some(node)
    }

    /// Puts `value` in the place of what is at the path; false if nothing is there.
    pub(super) fn replace(&mut self, path: &[Leg<'a>], value: Self) -> bool {
        match self.seek(path) {
            Some(place) if !path.is_empty() => {
                *place = value;
                true
            }
            _ => false,
        }
    }

    /// Adds a member that is not there, or a cell before the one at the path, at the array's end when it has none there.
    pub(super) fn insert(&mut self, path: &[Leg<'a>], value: Self, budget: &mut Budget) -> Result<bool, ParseError> {
        let Some((last, parent)) = path.split_last() else { return Ok(false) };
        match (self.seek(parent), last) {
            (Some(Self::Object(members)), Leg::Member(name)) => {
                match members.binary_search_by(|(key, _)| order(key, name)) {
                    Ok(_) => return Ok(false),
                    Err(at) => {
                        budget.moving(members.len().saturating_sub(at))?;
                        members.insert(at, (name.clone(), value));
                    }
                }
            }
            (Some(Self::Array(cells)), leg @ (Leg::Cell(_) | Leg::FromEnd(_))) => {
                let at = match leg {
                    Leg::Cell(i) => (*i).min(cells.len()),
                    leg => cell(leg, cells.len()).unwrap_or(0),
                };
                budget.moving(cells.len().saturating_sub(at))?;
                cells.insert(at, value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes out what is at the path; false if nothing is there.
    pub(super) fn remove(&mut self, path: &[Leg<'a>], budget: &mut Budget) -> Result<bool, ParseError> {
        let Some((last, parent)) = path.split_last() else { return Ok(false) };
        match (self.seek(parent), last) {
            (Some(Self::Object(members)), Leg::Member(name)) => {
                let Ok(at) = members.binary_search_by(|(key, _)| order(key, name)) else { return Ok(false) };
                budget.moving(members.len().saturating_sub(at))?;
                members.remove(at);
            }
            (Some(Self::Array(cells)), leg) => {
                let Some(at) = cell(leg, cells.len()).filter(|at| *at < cells.len()) else { return Ok(false) };
                budget.moving(cells.len().saturating_sub(at))?;
                cells.remove(at);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends the document in the server's binary form. On an error nothing is appended.
    pub(super) fn write(&self, budget: &Budget, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let start = out.len();
        let end = start.saturating_add(budget.bytes);
        let mut writer = Writer { out, end };
        writer.out.push(0);
        match writer.value(self, false, 0) {
            Ok(ty) => {
                writer.patch(start, &[ty]);
                Ok(())
            }
            Err(e) => {
                out.truncate(start);
                Err(match e {
                    Stop::TooBig => error("json document", ParseErrorKind::Limit),
                    Stop::Error(e) => e,
                })
            }
        }
    }
}

impl Budget {
    fn moving(&mut self, members: usize) -> Result<(), ParseError> {
        self.moved = self.moved.checked_sub(members).ok_or_else(|| error("json diffs", ParseErrorKind::Limit))?;
        Ok(())
    }
}

/// The place of a cell in an array of `len`; one from the end is always within or absent.
fn cell(leg: &Leg<'_>, len: usize) -> Option<usize> {
    match leg {
        Leg::Member(_) => None,
        Leg::Cell(i) => Some(*i),
        Leg::FromEnd(i) => len.checked_sub(1)?.checked_sub(*i),
    }
}

/// Why a value could not be written.
enum Stop {
    /// It does not fit the small form: the container around it becomes a large one.
    TooBig,
    Error(ParseError),
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    end: usize,
}

impl Writer<'_> {
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        let slot = at..at.saturating_add(bytes.len());
        if let Some(slot) = self.out.get_mut(slot) {
            slot.copy_from_slice(bytes);
        }
    }

    /// A count, a size or an offset.
    fn number(&mut self, n: usize, large: bool, at: Option<usize>) -> Result<(), Stop> {
        let bytes = u32::try_from(n).map_err(|_| Stop::TooBig)?.to_le_bytes();
        let bytes = match large {
            true => bytes.as_slice(),
            false if n <= usize::from(u16::MAX) => bytes.get(..2).unwrap_or_default(),
            false => return Err(Stop::TooBig),
        };
        match at {
            Some(at) => self.patch(at, bytes),
            None => self.out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Appends a value without its type byte, which is returned.
    fn value(&mut self, node: &Node<'_>, small_parent: bool, depth: usize) -> Result<u8, Stop> {
        if self.out.len() > self.end {
            return Err(Stop::Error(error("json document", ParseErrorKind::Limit)));
        }
        let mut put = |ty: u8, bytes: &[u8]| {
            self.out.extend_from_slice(bytes);
            Ok(ty)
        };
        match node {
            Node::Literal(b) => put(ty::LITERAL, &[*b]),
            Node::Raw(ty, bytes) => put(*ty, bytes),
            Node::Int(n) => match (i16::try_from(*n), i32::try_from(*n)) {
                (Ok(n), _) => put(ty::INT16, &n.to_le_bytes()),
                (_, Ok(n)) => put(ty::INT32, &n.to_le_bytes()),
                _ => put(ty::INT64, &n.to_le_bytes()),
            },
            Node::UInt(n) => match (u16::try_from(*n), u32::try_from(*n)) {
                (Ok(n), _) => put(ty::UINT16, &n.to_le_bytes()),
                (_, Ok(n)) => put(ty::UINT32, &n.to_le_bytes()),
                _ => put(ty::UINT64, &n.to_le_bytes()),
            },
            Node::Object(_) | Node::Array(_) => {
                if depth >= MAX_DEPTH {
                    return Err(Stop::Error(error("json depth", ParseErrorKind::Limit)));
                }
                let (small, large) = match node {
                    Node::Object(_) => (ty::SMALL_OBJECT, ty::LARGE_OBJECT),
                    _ => (ty::SMALL_ARRAY, ty::LARGE_ARRAY),
                };
                let start = self.out.len();
                match self.container(node, false, depth) {
                    Ok(()) => Ok(small),
                    Err(Stop::TooBig) if !small_parent => {
                        self.out.truncate(start);
                        self.container(node, true, depth).map(|()| large)
                    }
                    Err(e) => Err(e),
                }
            }
        }
    }

    fn container(&mut self, node: &Node<'_>, large: bool, depth: usize) -> Result<(), Stop> {
        let start = self.out.len();
        let keys = match node {
            Node::Object(members) => Some(members),
            _ => None,
        };
        let count = match node {
            Node::Object(members) => members.len(),
            Node::Array(cells) => cells.len(),
            _ => 0,
        };
        let layout = Container { bytes: &[], is_object: keys.is_some(), large, count, next: 0 };
        self.number(count, large, None)?;
        let size_at = self.out.len();
        self.number(0, large, None)?;
        let (key_entries, value_entries) =
            (count.saturating_mul(layout.key_entry()), count.saturating_mul(layout.value_entry()));
        let mut key_at = layout.head().saturating_add(key_entries).saturating_add(value_entries);
        for (key, _) in keys.into_iter().flatten() {
            let len = u16::try_from(key.len());
            let len = len.map_err(|_| Stop::Error(error("json key length", ParseErrorKind::Limit)))?;
            self.number(key_at, large, None)?;
            self.out.extend_from_slice(&len.to_le_bytes());
            key_at = key_at.saturating_add(key.len());
        }
        // Many keys may lie at one place.
        if start.saturating_add(key_at) > self.end {
            return Err(Stop::Error(error("json document", ParseErrorKind::Limit)));
        }
        let mut entry = self.out.len();
        self.out.resize(entry.saturating_add(value_entries), 0);
        keys.into_iter().flatten().for_each(|(key, _)| self.out.extend_from_slice(key));
        let depth = depth.saturating_add(1);
        for i in 0..count {
            let member = match node {
                Node::Object(members) => members.get(i).map(|(_, value)| value),
                Node::Array(cells) => cells.get(i),
                _ => None,
            };
            let Some(member) = member else { break };
            self.member(member, start, entry, large, depth)?;
            entry = entry.saturating_add(layout.value_entry());
        }
        let size = self.out.len().saturating_sub(start);
        self.number(size, large, Some(size_at))
    }

    /// The entry of a member, and its value behind everything if it is not inlined.
    fn member(&mut self, node: &Node<'_>, start: usize, entry: usize, large: bool, depth: usize) -> Result<(), Stop> {
        let inlined = match *node {
            Node::Literal(b) => Some((ty::LITERAL, i32::from(b))),
            Node::Int(n) => match (i16::try_from(n), i32::try_from(n)) {
                (Ok(n), _) => Some((ty::INT16, i32::from(n))),
                (_, Ok(n)) if large => Some((ty::INT32, n)),
                _ => None,
            },
            Node::UInt(n) => match (u16::try_from(n), u32::try_from(n)) {
                (Ok(n), _) => Some((ty::UINT16, i32::from(n))),
                (_, Ok(n)) if large => Some((ty::UINT32, n.cast_signed())),
                _ => None,
            },
            _ => None,
        };
        let value_at = entry.saturating_add(1);
        if let Some((ty, value)) = inlined {
            let bytes = value.to_le_bytes();
            self.patch(entry, &[ty]);
            self.patch(value_at, bytes.get(..if large { 4 } else { 2 }).unwrap_or_default());
            return Ok(());
        }
        let offset = self.out.len().saturating_sub(start);
        self.number(offset, large, Some(value_at))?;
        let ty = self.value(node, !large, depth)?;
        self.patch(entry, &[ty]);
        Ok(())
    }
}
