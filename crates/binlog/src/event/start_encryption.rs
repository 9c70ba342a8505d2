use millstream_wire::codec::{ParseError, Reader};

/// MariaDB's START_ENCRYPTION (164): what follows in the file is encrypted (`Start_encryption_log_event`).
///
/// In a stream it says nothing, as the server decrypts what it sends; [`BinlogFile`](crate::BinlogFile) refuses the
/// events behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartEncryption {
    /// 1: AES in the mode that the server has for its log.
    pub scheme: u8,
    /// Version of the server's key 1.
    pub key_version: u32,
    /// Begins every event's initialisation vector.
    pub nonce: [u8; 12],
}

impl StartEncryption {
    pub(crate) fn parse(mut r: Reader<'_>) -> Result<Self, ParseError> {
        let scheme = r.u8("encryption scheme")?;
        let key_version = r.u32_le("encryption key version")?;
        let nonce = r.array("encryption nonce")?;
        r.finish("start_encryption")?;
        Ok(Self { scheme, key_version, nonce })
    }
}
