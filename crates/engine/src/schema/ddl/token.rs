//! SQL as tokens. Comments are skipped, but what stands in `/*! … */` counts, as it does for the server. Never fails:
//! what is not closed becomes [`Token::Bad`].

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An unquoted word: keyword, name or number.
    Word(&'a [u8]),
    /// A name in backticks (or double quotes under ANSI_QUOTES), without them.
    Name(Cow<'a, [u8]>),
    /// A string without its quotes; `X'…'` and `0x…` as the bytes they stand for.
    Text(Cow<'a, [u8]>),
    /// One byte of punctuation.
    Symbol(u8),
    /// A quote or comment that is not closed.
    Bad,
}

impl Token<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub(super) fn is_symbol(&self, symbol: u8) -> bool {
        matches!(self, Self::Symbol(s) if *s == symbol)
    }
}

/// The bits of `sql_mode` that change where quotes end (`sql/system_variables.h`).
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
    ansi_quotes: bool,
    backslash: bool,
    /// Inside `/*! … */`, whose end is to be skipped.
    conditional: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(sql: &'a [u8], sql_mode: u64) -> Self {
        Self {
            rest: sql,
            ansi_quotes: sql_mode & ANSI_QUOTES != 0,
            backslash: sql_mode & NO_BACKSLASH_ESCAPES == 0,
            conditional: false,
        }
    }

    /// Skips white space and comments; false if a comment is not closed.
    fn skip_blanks(&mut self) -> bool {
        loop {
            match self.rest {
                [b, rest @ ..] if b.is_ascii_whitespace() || *b == 0x0b => self.rest = rest,
                [b'#', rest @ ..] => self.rest = after(rest, b"\n").unwrap_or_default(),
                [b'-', b'-'] => self.rest = &[],
                [b'-', b'-', b, rest @ ..] if b.is_ascii_whitespace() || b.is_ascii_control() => {
                    self.rest = if *b == b'\n' { rest } else { after(rest, b"\n").unwrap_or_default() };
                }
                [b'/', b'*', b'!', rest @ ..] => {
                    let digits = rest.iter().take(6).take_while(|b| b.is_ascii_digit()).count();
                    // Six digits from 100000 on are for MariaDB alone; MySQL writes 5 or 6 with a leading zero.
                    if digits == 6 && !matches!(rest, [b'0', ..]) {
                        match after(rest, b"*/") {
                            Some(tail) => self.rest = tail,
                            None => return false,
                        }
                    } else {
                        self.rest = rest.get(digits..).unwrap_or_default();
                        self.conditional = true;
                    }
                }
                [b'*', b'/', rest @ ..] if self.conditional => {
                    self.rest = rest;
                    self.conditional = false;
                }
                [b'/', b'*', rest @ ..] => match after(rest, b"*/") {
                    Some(tail) => self.rest = tail,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// What stands between here and the closing `quote`, doubled quotes and escapes resolved.
    fn quoted(&mut self, quote: u8, backslash: bool) -> Option<Cow<'a, [u8]>> {
        let start = self.rest;
        let mut plain = 0_usize;
        let mut owned: Option<Vec<u8>> = None;
        loop {
            match self.rest {
                [b, c, rest @ ..] if *b == quote && *c == quote => {
                    owned.get_or_insert_with(|| start.get(..plain).unwrap_or_default().to_vec()).push(quote);
                    self.rest = rest;
                }
                [b, rest @ ..] if *b == quote => {
                    self.rest = rest;
                    return Some(match owned {
                        Some(bytes) => Cow::Owned(bytes),
                        None => Cow::Borrowed(start.get(..plain).unwrap_or_default()),
                    });
                }
                [b'\\', c, rest @ ..] if backslash => {
                    let bytes = owned.get_or_insert_with(|| start.get(..plain).unwrap_or_default().to_vec());
                    bytes.push(match c {
                        b'0' => 0,
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'b' => 8,
                        b'Z' => 26,
                        other => *other,
                    });
                    self.rest = rest;
                }
                [b, rest @ ..] => {
                    if let Some(bytes) = &mut owned {
                        bytes.push(*b);
                    }
                    plain = plain.saturating_add(1);
                    self.rest = rest;
                }
                [] => return None,
            }
        }
    }

    /// After a quote or comment that is not closed nothing can be said about the rest.
    fn bad(&mut self) -> Token<'a> {
        self.rest = &[];
        Token::Bad
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if !self.skip_blanks() {
            return Some(self.bad());
        }
        let (first, rest) = self.rest.split_first()?;
        Some(match first {
            b'`' => {
                self.rest = rest;
                self.quoted(b'`', false).map_or_else(|| self.bad(), Token::Name)
            }
            b'"' if self.ansi_quotes => {
                self.rest = rest;
                self.quoted(b'"', false).map_or_else(|| self.bad(), Token::Name)
            }
            b'"' | b'\'' => {
                self.rest = rest;
                self.quoted(*first, self.backslash).map_or_else(|| self.bad(), Token::Text)
            }
            b'x' | b'X' if matches!(rest, [b'\'', ..]) => {
                self.rest = rest.get(1..).unwrap_or_default();
                match self.quoted(b'\'', false).and_then(|digits| unhex(&digits)) {
                    Some(bytes) => Token::Text(Cow::Owned(bytes)),
                    None => self.bad(),
                }
            }
            b if is_word(*b) => {
                let n = self.rest.iter().take_while(|b| is_word(**b)).count();
                let (word, rest) = self.rest.split_at_checked(n).unwrap_or_default();
                self.rest = rest;
                match word.strip_prefix(b"0x").and_then(unhex) {
                    Some(bytes) => Token::Text(Cow::Owned(bytes)),
                    None => Token::Word(word),
                }
            }
            b => {
                self.rest = rest;
                Token::Symbol(*b)
            }
        })
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}

fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(mark.len()).position(|w| w == mark)?;
    bytes.get(at.checked_add(mark.len())?..)
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |b: &u8| char::from(*b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|[a, b]| Some((nibble(a)? << 4) | nibble(b)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(sql: &str, mode: u64) -> String {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let tokens = Tokens::new(sql.as_bytes(), mode).map(|t| match t {
            Token::Word(w) => text(w),
            Token::Name(n) => format!("<{}>", text(&n)),
            Token::Text(t) => format!("'{}'", text(&t)),
            Token::Symbol(s) => char::from(s).to_string(),
            Token::Bad => "BAD".to_owned(),
        });
        tokens.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tokens_are_the_servers() {
        for (sql, want) in [
            ("DROP TABLE `a``b`.c", "DROP TABLE <a`b> . c"),
            ("a/* x */b -- y\nc # z\nd --", "a b c d"),
            ("a--b", "a - - b"),
            ("/*!40000 ALTER */ t /*!050503 x*/ /*!x*/", "ALTER t x x"),
            ("/*!100100 y */ t /*M! z */", "t"),
            ("'it''s' \"a\\\"b\" 'x\\0y'", "'it's' 'a\"b' 'x\0y'"),
            ("X'6162',0x63,x'7", "'ab' , 'c' , BAD"),
            ("a /* never", "a BAD"),
            ("`never", "BAD"),
            ("é.ü=1", "é . ü = 1"),
            ("", ""),
        ] {
            assert_eq!(show(sql, 0), want, "{sql}");
        }
        assert_eq!(show("\"a\"\"b\" 'x\\' y", ANSI_QUOTES | NO_BACKSLASH_ESCAPES), "<a\"b> 'x\\' y");
    }
}
