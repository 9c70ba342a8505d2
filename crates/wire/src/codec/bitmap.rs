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

    /// The first set bit from `from` on. Bytes of zeros are passed over as such.
    #[inline]
    #[must_use]
    pub fn next_set(&self, from: usize) -> Option<usize> {
        let at = from >> 3;
        let low = |at: usize, byte: u8| {
            let bit = usize::try_from(byte.trailing_zeros()).unwrap_or(0);
            Some(at.wrapping_mul(8).wrapping_add(bit))
        };
        match self.bytes.get(at)? & (0xff << (from & 7)) {
            0 => {}
            first => return low(at, first),
        }
        let at = at.wrapping_add(1);
        let (zeros, byte) = self.bytes.get(at..)?.iter().enumerate().find(|(_, b)| **b != 0)?;
        low(at.wrapping_add(zeros), *byte)
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

    #[test]
    fn next_set_finds_what_is_set() {
        for bytes in [&[][..], &[0], &[0b1010_1010, 0xff], &[0, 0, 0x80, 0, 1], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0]] {
            let b = Bitmap::new(bytes);
            for from in 0..bytes.len() * 8 + 9 {
                assert_eq!(b.next_set(from), (from..bytes.len() * 8).find(|i| b.is_set(*i)), "{bytes:?} from {from}");
            }
        }
    }
}
