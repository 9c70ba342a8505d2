/// The point after this many digits at most, and as many zeros after it at most: beyond, `e` notation
/// (`MAX_DECPT_FOR_F_FORMAT` of `strings/dtoa.cc`).
const PLAIN_DIGITS: i32 = 15;

/// Appends a DOUBLE as the server prints it: the shortest digits that read back as the same number, plain from 1e-15 up
/// to 15 digits before the point (more when some follow it), else `1.5e20` and `1.5e-20`. A number that is not finite
/// prints as 0, as there.
pub fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        write_shortest(ryu::Buffer::new().format_finite(value), out);
    } else {
        out.push(b'0');
    }
}

/// Appends a FLOAT by the same rules, with the shortest digits that read back as the same 32-bit number. (The server's
/// own text has at most 6 digits and loses the rest.)
pub fn write_float(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        write_shortest(ryu::Buffer::new().format_finite(value), out);
    } else {
        out.push(b'0');
    }
}

/// Lays out ryu's digits anew.
fn write_shortest(text: &str, out: &mut Vec<u8>) {
    let text = text.strip_prefix('-').map_or(text, |rest| {
        out.push(b'-');
        rest
    });
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // The digits without zeros around them, and the place of the point after the first of them.
    let mut digits = [0u8; 40];
    let mut len = 0usize;
    for (slot, digit) in digits.iter_mut().zip(whole.bytes().chain(fraction.bytes())) {
        *slot = digit;
        len = len.saturating_add(1);
    }
    let all = digits.get(..len).unwrap_or_default();
    let leading = all.iter().take_while(|d| **d == b'0').count();
    let all = all.get(leading..).unwrap_or_default();
    let trailing = all.iter().rev().take_while(|d| **d == b'0').count();
    let digits = all.get(..all.len().saturating_sub(trailing)).unwrap_or_default();
    if digits.is_empty() {
        out.push(b'0');
        return;
    }
    let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = exponent.saturating_add(int(whole.len())).saturating_sub(int(leading));
    let zeros = |n: i32| core::iter::repeat_n(b'0', usize::try_from(n).unwrap_or(0));

    if point > -PLAIN_DIGITS && (point <= PLAIN_DIGITS || int(digits.len()) > point) {
        if point <= 0 {
            out.extend_from_slice(b"0.");
            out.extend(zeros(point.saturating_neg()));
            out.extend_from_slice(digits);
        } else {
            let (before, after) = digits.split_at(usize::try_from(point).unwrap_or(0).min(digits.len()));
            out.extend_from_slice(before);
            out.extend(zeros(point.saturating_sub(int(digits.len()))));
            if !after.is_empty() {
                out.push(b'.');
                out.extend_from_slice(after);
            }
        }
        return;
    }
    let (first, rest) = digits.split_at(1);
    out.extend_from_slice(first);
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
    out.push(b'e');
    out.extend_from_slice(itoa::Buffer::new().format(point.saturating_sub(1)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_as_a_9_7_4_server_printed_them_in_json() {
        for (value, text) in DOUBLES {
            let mut out = Vec::new();
            write_double(*value, &mut out);
            assert_eq!(core::str::from_utf8(&out).unwrap(), *text);
        }
    }

    #[test]
    fn floats_keep_their_own_precision() {
        for (value, text) in
            [(1.1f32, "1.1"), (16_107_050.0, "16107050"), (3.402_823_5e38, "3.4028235e38"), (-0.5, "-0.5")]
        {
            let mut out = Vec::new();
            write_float(value, &mut out);
            assert_eq!(core::str::from_utf8(&out).unwrap(), text);
        }
    }

    const DOUBLES: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (0.1, "0.1"),
        (100000000000000.0, "100000000000000"),
        (1000000000000000.0, "1e15"),
        (123456789012345.0, "123456789012345"),
        (1234567890123456.0, "1.234567890123456e15"),
        (1.2345678901234568e16, "1.2345678901234568e16"),
        (1.2345678901234568e17, "1.2345678901234568e17"),
        (1234567890123456.5, "1234567890123456.5"),
        (123456789012345.6, "123456789012345.6"),
        (1e16, "1e16"),
        (1e21, "1e21"),
        (1e22, "1e22"),
        (1e100, "1e100"),
        (1.5e300, "1.5e300"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (5e-324, "5e-324"),
        (1e-5, "0.00001"),
        (1e-13, "0.0000000000001"),
        (1e-14, "0.00000000000001"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (1.5e-14, "0.000000000000015"),
        (1.5e-15, "0.0000000000000015"),
        (1.2345678901234567e-14, "0.000000000000012345678901234567"),
        (1.2345678901234568e-15, "0.0000000000000012345678901234568"),
        (1.234e-5, "0.00001234"),
        (1e-308, "1e-308"),
        (2.5e-10, "0.00000000025"),
        (9007199254740992.0, "9.007199254740992e15"),
        (4503599627370496.0, "4.503599627370496e15"),
        (-1.989032661366619e244, "-1.989032661366619e244"),
        (7.761117632285041e178, "7.761117632285041e178"),
        (3.980498358697587e-249, "3.980498358697587e-249"),
        (-1.5432835417340557e88, "-1.5432835417340557e88"),
        (1.3647584518757569e-192, "1.3647584518757569e-192"),
        (-1.3701135617873088e-206, "-1.3701135617873088e-206"),
        (-1.7160537630466207e197, "-1.7160537630466207e197"),
        (6.294675241195386e-44, "6.294675241195386e-44"),
        (-9250086831.160303, "-9250086831.160303"),
        (-0.0016365569725848106, "-0.0016365569725848106"),
        (-8185739733.122699, "-8185739733.122699"),
        (-8.817789878420217e-11, "-0.00000000008817789878420217"),
        (8.94899401414975e-15, "0.00000000000000894899401414975"),
        (15420589.723499734, "15420589.723499734"),
        (-0.0009008213732204571, "-0.0009008213732204571"),
        (-9.068346387644875e-10, "-0.0000000009068346387644875"),
        (-4.207814273366475e-9, "-0.000000004207814273366475"),
        (8.137177106428496, "8.137177106428496"),
        (1.2051455402562538e-7, "0.00000012051455402562538"),
        (-7.938885751128174e-6, "-0.000007938885751128174"),
        (-2.5520491454853757e17, "-2.5520491454853757e17"),
        (4.2422153149230724e-15, "0.0000000000000042422153149230724"),
        (23801918634710.773, "23801918634710.773"),
        (3607999463.6357183, "3607999463.6357183"),
        (554457549961.614, "554457549961.614"),
        (171123727015.27744, "171123727015.27744"),
        (-0.0027683528811086734, "-0.0027683528811086734"),
        (0.005887589630449823, "0.005887589630449823"),
        (-83.62899784084603, "-83.62899784084603"),
        (503.9300762290288, "503.9300762290288"),
        (4.588905788784352, "4.588905788784352"),
        (2.179180380728072e-14, "0.00000000000002179180380728072"),
    ];
}
