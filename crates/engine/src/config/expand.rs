//! `${NAME}` in string values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether a string is a URL, in which a variable's value must not change the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    Plain,
    Url,
}

/// Replaces each `${NAME}` by the variable's value and `$${` by a literal `${`; any other `$` stays. Inside a URL the
/// value is percent-encoded, unless the variable is the whole string: then it is a URL itself.
pub(super) fn expand(text: &str, context: Context, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(kept) = before.strip_suffix('$') {
            out.push_str(kept);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some((name, tail)) = after.split_once('}') else {
            return Err("\"${\" without \"}\"; write \"$${\" for a literal \"${\"".to_owned());
        };
        if !is_name(name) {
            return Err(format!("\"${{{name}}}\" is not a variable's name (letters, digits, _)"));
        }
        let Some(value) = env(name) else {
            return Err(format!("the environment variable {name} is not set"));
        };
        let whole = out.is_empty() && tail.is_empty() && before.is_empty();
        if context == Context::Url && !whole {
            out.extend(utf8_percent_encode(&value, RESERVED));
        } else {
            out.push_str(&value);
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "PW" => Some("p@ss:/w%".to_owned()),
            "HOST" => Some("db-1.example".to_owned()),
            "URL" => Some("mysql://a:b@c:1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_put_in_and_encoded_where_they_must_be() {
        for (text, context, want) in [
            ("${PW}", Context::Plain, Ok("p@ss:/w%")),
            ("mysql://u:${PW}@${HOST}:3306", Context::Url, Ok("mysql://u:p%40ss%3A%2Fw%25@db-1.example:3306")),
            ("${URL}", Context::Url, Ok("mysql://a:b@c:1")),
            ("a$${PW}b", Context::Plain, Ok("a${PW}b")),
            ("$${${PW}}", Context::Plain, Ok("${p@ss:/w%}")),
            ("5$ and $x", Context::Plain, Ok("5$ and $x")),
            ("x${EMPTY}y", Context::Plain, Ok("xy")),
            ("${NOPE}", Context::Plain, Err("the environment variable NOPE is not set")),
            ("${PW", Context::Plain, Err("\"${\" without \"}\"")),
            ("${a b}", Context::Plain, Err("is not a variable's name")),
        ] {
            match (expand(text, context, &env), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
