//! Sizes and durations as people write them.

use core::time::Duration;

const SIZES: [(&str, u64); 8] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("", 1),
];

const DURATIONS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// What [`size`] takes, for messages.
pub(super) const SIZE_FORM: &str = "a size such as \"64MiB\" (B, KiB, MiB, GiB, KB, MB, GB)";
/// What [`duration`] takes, for messages.
pub(super) const DURATION_FORM: &str = "a duration such as \"2s\" (ms, s, m, h)";

/// `"64MiB"` to bytes; None for anything that is not a whole number and a known unit.
pub(super) fn size(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

/// `"2s"` to a duration.
pub(super) fn duration(text: &str) -> Option<Duration> {
    scaled(text, &DURATIONS).map(Duration::from_millis)
}

/// The largest unit that gives a whole number: for messages.
pub(super) fn show_size(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes.checked_div(factor).unwrap_or(0));
        }
    }
    format!("{bytes}B")
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim_start();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        for (text, bytes) in [
            ("64MiB", Some(64 << 20)),
            ("1 GiB", Some(1 << 30)),
            ("10mb", Some(10_000_000)),
            ("512", Some(512)),
            ("7B", Some(7)),
            ("1.5MiB", None),
            ("-1MiB", None),
            ("MiB", None),
            ("64M", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!((show_size(128 << 20), show_size(1000)), ("128MiB".to_owned(), "1000B".to_owned()));
    }

    #[test]
    fn durations_always_name_their_unit() {
        for (text, ms) in
            [("2s", Some(2000)), ("500ms", Some(500)), ("1m", Some(60_000)), ("2", None), ("2 days", None)]
        {
            assert_eq!(duration(text), ms.map(Duration::from_millis), "{text}");
        }
    }
}
