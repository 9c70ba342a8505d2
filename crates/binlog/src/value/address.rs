/// Appends a UUID as MariaDB prints it: lower-case hex in groups of 8, 4, 4, 4 and 12.
pub fn write_uuid(uuid: [u8; 16], out: &mut Vec<u8>) {
    for (i, b) in uuid.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[hex(b >> 4), hex(b & 15)]);
    }
}

/// Appends an INET4 as four decimal numbers.
pub fn write_inet4(address: [u8; 4], out: &mut Vec<u8>) {
    for (i, b) in address.into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(itoa::Buffer::new().format(b).as_bytes());
    }
}

/// Appends an INET6 as MariaDB prints it (`Inet6::to_string` of `plugin/type_inet/sql_type_inet.cc`): the first longest
/// run of zero groups, a single one too, is `::`; mapped and compatible IPv4 addresses end in four decimal numbers.
pub fn write_inet6(address: [u8; 16], out: &mut Vec<u8>) {
    let (pairs, _) = address.as_chunks::<2>();
    // (start, length) of the run that is left out.
    let (mut gap, mut run) = ((0usize, 0usize), (0usize, 0usize));
    for (i, pair) in pairs.iter().enumerate() {
        run = match (*pair == [0, 0], run.1) {
            (false, _) => (0, 0),
            (true, 0) => (i, 1),
            (true, n) => (run.0, n.saturating_add(1)),
        };
        if run.1 > gap.1 {
            gap = run;
        }
    }
    let [.., c, d] = pairs else { return };
    let has_ipv4 = gap == (0, 6) || (gap == (0, 5) && pairs.get(5) == Some(&[0xff, 0xff]));
    let gap_end = gap.0.saturating_add(gap.1);
    for (i, pair) in pairs.iter().enumerate() {
        if gap.1 > 0 && (gap.0..gap_end).contains(&i) {
            if i == gap.0 {
                out.extend_from_slice(if i == 0 { b"::" } else { b":" });
            }
            continue;
        }
        if i == 6 && has_ipv4 {
            write_inet4([c[0], c[1], d[0], d[1]], out);
            return;
        }
        let [high, low] = *pair;
        let digits = [hex(high >> 4), hex(high), hex(low >> 4), hex(low)];
        let zeros = digits.iter().take(3).take_while(|d| **d == b'0').count();
        out.extend_from_slice(digits.get(zeros..).unwrap_or_default());
        if i < 7 {
            out.push(b':');
        }
    }
}

/// The lowest half of a byte as a digit.
const fn hex(n: u8) -> u8 {
    match n & 15 {
        n @ 0..=9 => b'0'.wrapping_add(n),
        n => b'a'.wrapping_add(n).wrapping_sub(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_mariadb_prints_them() {
        for (groups, text) in [
            ([0, 0, 0, 0, 0, 0, 0, 0], "::"),
            ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
            ([0, 0, 0, 0, 0, 0, 1, 2], "::0.1.0.2"),
            ([0, 0, 0, 0, 0, 0xffff, 0x0a00, 0], "::ffff:10.0.0.0"),
            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], "2001:db8::"),
            ([0x2001, 0xdb8, 0, 0, 1, 0, 0, 0], "2001:db8:0:0:1::"),
            ([0x2001, 0xdb8, 0, 0, 1, 0, 0, 1], "2001:db8::1:0:0:1"),
            ([1, 0, 2, 3, 4, 5, 6, 7], "1::2:3:4:5:6:7"),
            ([0, 0, 0, 0, 0, 0xfffe, 1, 2], "::fffe:1:2"),
            ([0xffff; 8], "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let mut address = [0; 16];
            for (slot, group) in address.as_chunks_mut::<2>().0.iter_mut().zip(groups) {
                *slot = u16::to_be_bytes(group);
            }
            let mut out = Vec::new();
            write_inet6(address, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
