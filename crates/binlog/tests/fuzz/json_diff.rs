//! Differences applied to JSON documents.

use millstream_binlog::value::JsonOperation;
use millstream_binlog::{JsonBinary, JsonDiffs};

use super::json_text::is_json;

/// `u16 length of the document, document, differences`.
pub(crate) fn run(data: &[u8]) {
    let Some(([low, high], rest)) = data.split_first_chunk::<2>() else { return };
    let (document, diffs) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    let mut text = Vec::new();
    if (JsonDiffs { bytes: diffs }).write_to(&mut text).is_ok() {
        assert!(is_json(std::str::from_utf8(&text).unwrap(), 102));
    }
    assert!(text.len() <= diffs.len() * 32 + 4096);
    let Some(changed) = apply(document, diffs) else { return };
    let size = document.len() + diffs.len();
    assert!(changed.len() <= size * 4 + 1024, "{} of {size}", changed.len());
    if diffs.is_empty() {
        assert_eq!(changed, document);
        return;
    }
    let whole = printed(&changed);

    // One difference at a time: what it does is undone, or done again without effect.
    let mut at = document.to_vec();
    let mut left = diffs;
    for diff in (JsonDiffs { bytes: diffs }).iter() {
        let diff = diff.unwrap();
        let rest = after(left);
        let one = &left[..left.len() - rest.len()];
        let next = apply(&at, one).expect("every difference fits where all of them did");
        let remove = encoded(JsonOperation::Remove, diff.path, &[]);
        match diff.operation {
            JsonOperation::Replace => assert_eq!(apply(&next, one).as_ref(), Some(&next)),
            // A cell beyond the end is put at the end; one counted from the end is another one afterwards.
            JsonOperation::Insert if !diff.path.contains("last") => {
                if let Some(back) = apply(&next, &remove) {
                    assert_eq!(printed(&back), printed(&at));
                }
            }
            JsonOperation::Insert => {}
            JsonOperation::Remove => {
                let value = [4, 1];
                if !diff.path.contains("last") {
                    let again = apply(&next, &encoded(JsonOperation::Insert, diff.path, &value)).unwrap();
                    assert_eq!(apply(&again, &remove).and_then(|d| printed(&d)), printed(&next));
                }
            }
        }
        (at, left) = (next, rest);
    }
    assert_eq!(printed(&at), whole);
}

fn apply(document: &[u8], diffs: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"kept".to_vec();
    let done = JsonDiffs { bytes: diffs }.apply(JsonBinary { bytes: document }, &mut out);
    let changed = out.split_off(4);
    assert_eq!(out, b"kept");
    assert!(done.is_ok() || changed.is_empty());
    done.ok().map(|()| changed)
}

fn printed(document: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    JsonBinary { bytes: document }.write_to(&mut text).ok()?;
    assert!(is_json(std::str::from_utf8(&text).unwrap(), 101));
    Some(text)
}

/// The differences behind the first one.
fn after(diffs: &[u8]) -> &[u8] {
    let mut r = millstream_wire::codec::Reader::new(diffs);
    let operation = r.u8("operation").unwrap();
    r.lenenc_bytes("path").unwrap();
    if operation < 2 {
        r.lenenc_bytes("value").unwrap();
    }
    r.rest()
}

fn encoded(operation: JsonOperation, path: &str, value: &[u8]) -> Vec<u8> {
    let mut w = millstream_wire::codec::Writer::new();
    w.u8(match operation {
        JsonOperation::Replace => 0,
        JsonOperation::Insert => 1,
        JsonOperation::Remove => 2,
    });
    w.lenenc_bytes(path.as_bytes());
    if operation != JsonOperation::Remove {
        w.lenenc_bytes(value);
    }
    w.into_bytes()
}
