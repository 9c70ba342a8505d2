/// A MySQL character set that column bytes can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Charset {
    /// `binary`: bytes, never text.
    Binary,
    /// `ascii`.
    Ascii,
    /// `latin1`: windows-1252 with the five unassigned bytes passed through.
    Latin1,
    /// `utf8mb3`.
    Utf8mb3,
    /// `utf8mb4`.
    Utf8mb4,
}
