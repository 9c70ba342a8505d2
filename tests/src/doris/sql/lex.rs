//! Tokens of the SQL the simulator knows.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A bare word, as written.
    Word(String),
    /// A name in back quotes.
    Quoted(String),
    /// A string in single or double quotes, unescaped.
    Text(String),
    /// A number without sign, as written.
    Number(String),
    /// `@@name`
    Variable(String),
    /// Punctuation and operators.
    Symbol(&'static str),
}

const SYMBOLS: &[&str] =
    &["<=>", "<=", ">=", "<>", "!=", "(", ")", ",", ".", "=", "<", ">", "*", ";", "-", "+", "?", "/"];

/// Splits a statement; an unknown character or an open quote is an error.
pub(crate) fn tokens(sql: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = sql;
    loop {
        rest = rest.trim_start();
        let Some(c) = rest.chars().next() else { return Ok(out) };
        if let Some(comment) = rest.strip_prefix("/*") {
            (_, rest) = comment.split_once("*/").ok_or("an open comment")?;
        } else if rest.starts_with("-- ") || c == '#' {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if matches!(c, '\'' | '"' | '`') {
            let (text, after) = quoted(rest, c)?;
            out.push(if c == '`' { Token::Quoted(text) } else { Token::Text(text) });
            rest = after;
        } else if let Some(name) = rest.strip_prefix("@@") {
            let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            let lower = name.to_ascii_lowercase();
            let bare = lower.trim_start_matches("session.").trim_start_matches("global.");
            out.push(Token::Variable(bare.to_owned()));
            rest = after;
        } else if c.is_ascii_digit() {
            let (number, after) = rest.split_at(number_end(rest));
            out.push(Token::Number(number.to_owned()));
            rest = after;
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'))).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            out.push(Token::Word(word.to_owned()));
            rest = after;
        } else if let Some((s, after)) = SYMBOLS.iter().find_map(|s| Some((s, rest.strip_prefix(s)?))) {
            out.push(Token::Symbol(s));
            rest = after;
        } else {
            return Err(format!("an unexpected character {c:?}"));
        }
    }
}

fn number_end(text: &str) -> usize {
    let b = text.as_bytes();
    let mut at = 0;
    let digit = |at: usize| b.get(at).is_some_and(u8::is_ascii_digit);
    while digit(at) {
        at += 1;
    }
    if b.get(at) == Some(&b'.') && digit(at + 1) {
        at += 1;
        while digit(at) {
            at += 1;
        }
    }
    if matches!(b.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(at + 1), Some(b'+' | b'-')));
        if digit(at + 1 + sign) {
            at += 1 + sign;
            while digit(at) {
                at += 1;
            }
        }
    }
    at
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut chars = text.chars();
    chars.next();
    while let Some(c) = chars.next() {
        if c == quote {
            if chars.as_str().starts_with(quote) {
                chars.next();
                out.push(quote);
                continue;
            }
            return Ok((out, chars.as_str()));
        }
        if c == '\\' && quote != '`' {
            match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('0') => out.push('\0'),
                // In LIKE patterns the backslash stays.
                Some(c @ ('%' | '_')) => out.extend(['\\', c]),
                Some(c) => out.push(c),
                None => break,
            }
            continue;
        }
        out.push(c);
    }
    Err("an open quote".into())
}

/// MySQL's LIKE, with `\` as escape.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    fn go(p: &[char], t: &[char]) -> bool {
        match (p, t) {
            ([], []) => true,
            (['%', rest @ ..], _) => (0..=t.len()).any(|n| go(rest, &t[n..])),
            (['_', p @ ..], [_, t @ ..]) => go(p, t),
            (['\\', c, p @ ..], [x, t @ ..]) => c == x && go(p, t),
            ([c, p @ ..], [x, t @ ..]) => c == x && go(p, t),
            _ => false,
        }
    }
    go(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_split() {
        let t = tokens("SELECT `a``b`, 'it''s\\n' /* c */ <> -1.5e3 @@session.Version -- end").unwrap();
        let want = [
            Token::Word("SELECT".into()),
            Token::Quoted("a`b".into()),
            Token::Symbol(","),
            Token::Text("it's\n".into()),
            Token::Symbol("<>"),
            Token::Symbol("-"),
            Token::Number("1.5e3".into()),
            Token::Variable("version".into()),
        ];
        assert_eq!(t, want);
        assert!(tokens("select 'x").is_err());
    }

    #[test]
    fn like_matches() {
        for (p, t, want) in [
            ("ms1\\_%", "ms1_a", true),
            ("ms1\\_%", "ms1xa", false),
            ("a_c%", "abcd", true),
            ("%", "", true),
            ("a", "A", false),
        ] {
            assert_eq!(like(p, t), want, "{p} {t}");
        }
    }
}
