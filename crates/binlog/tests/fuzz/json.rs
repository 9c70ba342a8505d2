//! The binary form of JSON: whatever is in it, text comes out that is JSON, or nothing.

use millstream_binlog::JsonBinary;

use super::json_text::is_json;

/// A document.
pub(crate) fn run(data: &[u8]) {
    let mut out = b"kept".to_vec();
    let done = JsonBinary { bytes: data }.write_to(&mut out);
    let text = out.strip_prefix(b"kept").unwrap();
    if done.is_err() {
        assert!(text.is_empty());
        return;
    }
    // Entries that all point at one child cannot blow it up.
    assert!(text.len() <= data.len() * 16 + 4096, "{} of {}", text.len(), data.len());
    let text = std::str::from_utf8(text).unwrap();
    assert!(is_json(text, 101), "{text}");

    // The same document as the only member of an array.
    let size = u32::try_from(data.len() + 12).unwrap().to_le_bytes();
    if let Some((ty, body)) = data.split_first()
        && !matches!(ty, 4..=8)
    {
        let around = [&[3, 1, 0, 0, 0], &size[..], &[*ty, 13, 0, 0, 0], body].concat();
        let mut again = Vec::new();
        if (JsonBinary { bytes: &around }).write_to(&mut again).is_ok() {
            assert_eq!(again, format!("[{text}]").as_bytes());
        } else {
            assert!(text.matches(['[', '{']).count() >= 99, "{text}");
        }
    }
}
