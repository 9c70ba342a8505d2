/// Writes protocol fields at the end of a byte vector.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

/// The place of a length that is filled in by [`Writer::fill_u32_le`] once it is known.
#[derive(Debug)]
#[must_use = "the length stays zero until it is filled in"]
pub struct LengthMark(usize);

impl Writer {
    /// An empty writer.
    #[must_use]
    pub const fn new() -> Self {
        Self { out: Vec::new() }
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.out.push(v);
        self
    }

    /// Little-endian 16 bits.
    pub fn u16_le(&mut self, v: u16) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Little-endian 32 bits.
    pub fn u32_le(&mut self, v: u32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Little-endian 64 bits.
    pub fn u64_le(&mut self, v: u64) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.out.extend_from_slice(v);
        self
    }

    /// `n` zero bytes.
    pub fn zeros(&mut self, n: usize) -> &mut Self {
        self.out.resize(self.out.len().saturating_add(n), 0);
        self
    }

    /// Bytes and a NUL. A NUL inside ends the field early for the reader: callers refuse it before.
    pub fn nul_bytes(&mut self, v: &[u8]) -> &mut Self {
        self.bytes(v).u8(0)
    }

    /// Length-encoded integer.
    pub fn lenenc(&mut self, v: u64) -> &mut Self {
        let [a, b, c, d, e, f, g, h] = v.to_le_bytes();
        match v {
            0..=0xfa => self.u8(a),
            0xfb..=0xffff => self.u8(0xfc).bytes(&[a, b]),
            0x1_0000..=0xff_ffff => self.u8(0xfd).bytes(&[a, b, c]),
            _ => self.u8(0xfe).bytes(&[a, b, c, d, e, f, g, h]),
        }
    }

    /// Length-encoded string.
    pub fn lenenc_bytes(&mut self, v: &[u8]) -> &mut Self {
        self.lenenc(v.len() as u64).bytes(v)
    }

    /// Leaves room for a 32-bit length of what follows.
    pub fn mark_u32_le(&mut self) -> LengthMark {
        let at = self.out.len();
        self.u32_le(0);
        LengthMark(at)
    }

    /// Fills in the length of everything written since `mark`.
    pub fn fill_u32_le(&mut self, mark: LengthMark) {
        let start = mark.0.saturating_add(4);
        let len = u32::try_from(self.out.len().saturating_sub(start)).unwrap_or(u32::MAX);
        if let Some(slot) = self.out.get_mut(mark.0..start) {
            slot.copy_from_slice(&len.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;

    #[test]
    fn lenenc_round_trips_at_every_boundary() {
        for v in [0, 0xfa, 0xfb, 0xff, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut w = Writer::new();
            w.lenenc(v);
            let bytes = w.into_bytes();
            let mut r = Reader::new(&bytes);
            assert_eq!(r.lenenc("v").unwrap(), v);
            r.finish("v").unwrap();
        }
    }

    #[test]
    fn a_marked_length_counts_what_follows() {
        let mut w = Writer::new();
        w.u8(9);
        let mark = w.mark_u32_le();
        w.bytes(b"abc");
        w.fill_u32_le(mark);
        assert_eq!(w.into_bytes(), [9, 3, 0, 0, 0, b'a', b'b', b'c']);
    }
}
