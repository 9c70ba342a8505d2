//! Passwords and their hashes in statements about accounts and servers are not printed.

use std::borrow::Cow;

/// The statement with the strings that follow `BY`, `AS`, `USING`, `REPLACE`, `PASSWORD` or `=` replaced by `'***'`. For
/// account and server statements only: elsewhere such words stand before other things.
pub(super) fn redacted(sql: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut rest = sql;
    let mut secret_next = false;
    let mut changed = false;
    while let Some((&first, tail)) = rest.split_first() {
        let length = match first {
            b'\'' | b'"' => quoted_len(rest),
            b if is_word(b) => rest.iter().take_while(|b| is_word(**b)).count(),
            _ => 1,
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        let is_text = matches!(first, b'\'' | b'"') || token.get(..2).is_some_and(|p| p.eq_ignore_ascii_case(b"0x"));
        if is_text {
            if secret_next {
                out.extend_from_slice(b"'***'");
                changed = true;
            } else {
                out.extend_from_slice(token);
            }
            secret_next = false;
        } else {
            out.extend_from_slice(token);
            if is_word(first) {
                secret_next = [&b"BY"[..], b"AS", b"USING", b"REPLACE", b"PASSWORD"]
                    .iter()
                    .any(|word| token.eq_ignore_ascii_case(word));
            } else if first == b'=' {
                secret_next = true;
            } else if !first.is_ascii_whitespace() && first != b'(' {
                secret_next = false;
            }
        }
        rest = if after.len() < rest.len() { after } else { tail };
    }
    if changed { Cow::Owned(out) } else { Cow::Borrowed(sql) }
}

const fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || b >= 0x80
}

/// Bytes of the string at the front with both quotes; all of the rest when it is not closed.
fn quoted_len(text: &[u8]) -> usize {
    let Some((quote, inside)) = text.split_first() else { return 0 };
    let mut bytes = inside.iter().enumerate();
    while let Some((i, b)) = bytes.next() {
        let doubled = b == quote && bytes.clone().next().map(|(_, next)| next) == Some(quote);
        if *b == b'\\' || doubled {
            bytes.next();
        } else if b == quote {
            return i.saturating_add(2);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (sql, want) in [
            (
                "CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$it''s' REQUIRE NONE",
                "CREATE USER 'u'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '***' REQUIRE NONE",
            ),
            ("ALTER USER u IDENTIFIED BY 'a\\'b' REPLACE \"old\"", "ALTER USER u IDENTIFIED BY '***' REPLACE '***'"),
            ("SET PASSWORD FOR 'u'@'h'='*94BDC'", "SET PASSWORD FOR 'u'@'h'='***'"),
            ("CREATE USER u IDENTIFIED WITH x AS 0x2441", "CREATE USER u IDENTIFIED WITH x AS '***'"),
            (
                "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD('x')",
                "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD('***')",
            ),
            (
                "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'r', PASSWORD 'pw', HOST 'h')",
                "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'r', PASSWORD '***', HOST 'h')",
            ),
            ("GRANT SELECT ON `a`.* TO 'u'@'h'", "GRANT SELECT ON `a`.* TO 'u'@'h'"),
            ("CREATE USER u IDENTIFIED BY 'open", "CREATE USER u IDENTIFIED BY '***'"),
            ("", ""),
        ] {
            let got = String::from_utf8(redacted(sql.as_bytes()).into_owned()).unwrap();
            assert_eq!(got, want, "{sql}");
        }
    }
}
