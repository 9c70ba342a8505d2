/// A borrowed bitmap, least significant bit first (null bitmaps and present-column bitmaps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmap<'a> {
    bytes: &'a [u8],
}

impl<'a> Bitmap<'a> {
    /// A bitmap over `bytes`. Bits beyond its end read as 0.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that a bitmap of `bits` bits takes.
    #[must_use]
    pub const fn byte_len(bits: usize) -> usize {
        bits.div_ceil(8)
    }

    /// Bit `i`.
    #[inline]
    #[must_use]
    pub fn is_set(&self, i: usize) -> bool {
        self.bytes.get(i >> 3).is_some_and(|b| (b >> (i & 7)) & 1 == 1)
    }

    /// How many of the first `bits` bits are set.
    #[must_use]
    pub fn count_ones(&self, bits: usize) -> usize {
        let whole = bits >> 3;
        let full: u32 = self.bytes.iter().take(whole).map(|b| b.count_ones()).sum();
        let rest = self.bytes.get(whole).map_or(0, |b| {
            let mask = (1u16 << (bits & 7)).wrapping_sub(1);
            (u16::from(*b) & mask).count_ones()
        });
        usize::try_from(full.saturating_add(rest)).unwrap_or(usize::MAX)
    }

    /// The bytes underneath.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_the_asked_bits() {
        let b = Bitmap::new(&[0b1010_1010, 0xff]);
        assert_eq!(b.count_ones(8), 4);
        assert_eq!(b.count_ones(11), 7);
        assert_eq!(b.count_ones(16), 12);
        assert!(b.is_set(1) && !b.is_set(0) && !b.is_set(16));
        assert_eq!(Bitmap::byte_len(9), 2);
    }
}
