use millstream_wire::codec::{ParseError, Reader};

/// RAND (`Rand_event`): seeds of RAND() in the next statement. Only before statements that are logged as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rand {
    /// The two seeds.
    pub seeds: [u64; 2],
}

impl Rand {
    pub(crate) fn parse(mut r: Reader<'_>) -> Result<Self, ParseError> {
        let seeds = [r.u64_le("first seed")?, r.u64_le("second seed")?];
        r.finish("rand")?;
        Ok(Self { seeds })
    }
}
