//! Bodies of the fuzz targets over this crate. The targets and the test `generated` run the same code.

pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod gtid_encoding;
pub(crate) mod gtid_text;
pub(crate) mod json;
pub(crate) mod json_diff;
mod json_text;
pub(crate) mod mariadb;
pub(crate) mod payload;
pub(crate) mod rows;
pub(crate) mod table_map;
mod touch;
pub(crate) mod value;

/// An event of a type around a body; its length is right and it has no checksum.
pub(crate) fn event_of(ty: u8, body: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 19];
    raw[4] = ty;
    raw.extend_from_slice(body);
    let length = u32::try_from(raw.len()).unwrap();
    raw[9..13].copy_from_slice(&length.to_le_bytes());
    raw
}
