/// A JSON document in the server's binary form (`sql/json_binary.h`): type byte and value. Empty bytes are JSON null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonBinary<'a> {
    /// The document's bytes.
    pub bytes: &'a [u8],
}
