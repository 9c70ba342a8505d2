/// A DECIMAL in MySQL's packed form: 9 digits per 4 bytes, big endian, first bit flipped, negatives inverted.
/// Values of one column order as their bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    /// The packed bytes.
    pub bytes: &'a [u8],
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}
