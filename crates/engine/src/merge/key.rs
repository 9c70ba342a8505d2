//! A key as the merge sees it.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

/// A whole key as bytes in the server's order ([`crate::key`]). A bound also carries what names it in a statement where
/// the order does not tell: the text of parts that are ordered by the server's weights. Two keys are the same when their order
/// bytes are; the text never counts, so that keys that the server takes for equal are one key whatever their spelling.
#[derive(Clone, Default)]
pub struct Key {
    /// Order, then text.
    bytes: Box<[u8]>,
    order: usize,
}

impl Key {
    /// A bound: its order, and the text of its weighed parts.
    #[must_use]
    pub fn with_text(order: &[u8], text: &[u8]) -> Self {
        Self { bytes: [order, text].concat().into_boxed_slice(), order: order.len() }
    }

    /// The bytes that are compared.
    #[must_use]
    pub fn order(&self) -> &[u8] {
        self.bytes.get(..self.order).unwrap_or(&self.bytes)
    }

    /// The text of its weighed parts, as the codec wrote it.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.bytes.get(self.order..).unwrap_or_default()
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.order()
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.order()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(other.order())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.order())?;
        if self.text().is_empty() { Ok(()) } else { write!(f, " \"{}\"", self.text().escape_ascii()) }
    }
}

impl From<Vec<u8>> for Key {
    fn from(order: Vec<u8>) -> Self {
        Self { order: order.len(), bytes: order.into_boxed_slice() }
    }
}

impl From<&[u8]> for Key {
    fn from(order: &[u8]) -> Self {
        Self { order: order.len(), bytes: order.into() }
    }
}

impl<const N: usize> From<[u8; N]> for Key {
    fn from(order: [u8; N]) -> Self {
        Self { order: N, bytes: order.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_does_not_count() {
        let (a, b) = (Key::with_text(&[1, 2], b"a"), Key::with_text(&[1, 2], b"A"));
        assert_eq!(a, b);
        assert_eq!(a, Key::from([1, 2]));
        assert!(a < Key::from([1, 2, 0]) && *a == [1, 2]);
        assert_eq!((a.text(), Key::from([9]).text()), (&b"a"[..], &b""[..]));
        assert_eq!(format!("{a:?}"), "[1, 2] \"a\"");
    }
}
