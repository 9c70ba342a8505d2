//! Reads one table of the file key by key: what is not asked for is unknown, and says so with a suggestion.

use core::time::Duration;

use toml::{Table, Value};

use super::error::Problems;
use super::expand::{self, Context};
use super::units;

/// The environment and the problems found so far.
pub(super) struct Reading<'e> {
    pub(super) env: &'e dyn Fn(&str) -> Option<String>,
    pub(super) problems: Problems,
}

/// One table of the file; `path` is its dotted name, empty at the top.
pub(super) struct Section {
    path: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Section {
    pub(super) fn new(path: impl Into<String>, table: Table) -> Self {
        Self { path: path.into(), table, known: Vec::new() }
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// A string with its variables put in.
    pub(super) fn string(&mut self, r: &mut Reading<'_>, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        string_of(r, &self.key(key), value, Context::Plain)
    }

    /// A string that is a URL: variables are percent-encoded.
    pub(super) fn url(&mut self, r: &mut Reading<'_>, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        string_of(r, &self.key(key), value, Context::Url)
    }

    /// An array of strings; each comes with its own key (`source.tables[2]`).
    pub(super) fn strings(&mut self, r: &mut Reading<'_>, key: &'static str, context: Context) -> Option<Vec<String>> {
        let value = self.take(key)?;
        let name = self.key(key);
        let Value::Array(items) = value else {
            r.problems.push(name, format!("must be an array of strings, not {}", kind(&value)));
            return None;
        };
        let texts = items.into_iter().enumerate();
        Some(texts.filter_map(|(i, v)| string_of(r, &format!("{name}[{i}]"), v, context)).collect())
    }

    /// A string, or an array of them.
    pub(super) fn one_or_more(&mut self, r: &mut Reading<'_>, key: &'static str) -> Option<Vec<String>> {
        match self.table.get(key) {
            Some(Value::Array(_)) => self.strings(r, key, Context::Plain),
            _ => self.string(r, key).map(|one| vec![one]),
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        r: &mut Reading<'_>,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.string(r, key)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let allowed: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let hint = suggest(&text, choices.iter().map(|(name, _)| *name))
                .map_or_else(String::new, |s| format!("; did you mean \"{s}\"?"));
            r.problems.push(self.key(key), format!("\"{text}\" is not allowed: {}{hint}", allowed.join(" | ")));
        }
        found
    }

    /// A whole number within bounds.
    pub(super) fn integer(&mut self, r: &mut Reading<'_>, key: &'static str, min: i64, max: i64) -> Option<i64> {
        match self.take(key)? {
            Value::Integer(n) if (min..=max).contains(&n) => return Some(n),
            Value::Integer(n) => {
                r.problems.push(self.key(key), format!("{n} is not allowed: a whole number from {min} to {max}"));
            }
            other => {
                let message = format!("must be a whole number from {min} to {max}, not {}", kind(&other));
                r.problems.push(self.key(key), message);
            }
        }
        None
    }

    /// `"auto"` or a whole number within bounds; `Some(None)` is auto.
    #[allow(clippy::option_option, reason = "absent, auto and a number are three answers")]
    pub(super) fn auto_or_integer(
        &mut self,
        r: &mut Reading<'_>,
        key: &'static str,
        min: i64,
        max: i64,
    ) -> Option<Option<i64>> {
        match self.take(key)? {
            Value::String(s) if s == "auto" => return Some(None),
            Value::Integer(n) if (min..=max).contains(&n) => return Some(Some(n)),
            _ => r.problems.push(self.key(key), format!("must be \"auto\" or a whole number from {min} to {max}")),
        }
        None
    }

    /// true or false.
    pub(super) fn boolean(&mut self, r: &mut Reading<'_>, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            Value::Boolean(b) => Some(b),
            other => {
                r.problems.push(self.key(key), format!("must be true or false, not {}", kind(&other)));
                None
            }
        }
    }

    /// `"64MiB"`, within bounds, in bytes.
    pub(super) fn size(&mut self, r: &mut Reading<'_>, key: &'static str, min: u64, max: u64) -> Option<u64> {
        let value = match self.take(key)? {
            Value::Integer(n) => u64::try_from(n).ok(),
            other => units::size(&string_of(r, &self.key(key), other, Context::Plain)?),
        };
        match value {
            Some(n) if (min..=max).contains(&n) => return Some(n),
            Some(n) => {
                let (n, min, max) = (units::show_size(n), units::show_size(min), units::show_size(max));
                r.problems.push(self.key(key), format!("{n} is not allowed: from {min} to {max}"));
            }
            None => r.problems.push(self.key(key), format!("must be {}", units::SIZE_FORM)),
        }
        None
    }

    /// `"2s"`, within bounds.
    pub(super) fn duration(
        &mut self,
        r: &mut Reading<'_>,
        key: &'static str,
        min: Duration,
        max: Duration,
    ) -> Option<Duration> {
        let value = self.take(key)?;
        let name = self.key(key);
        let value = match value {
            Value::String(_) => units::duration(&string_of(r, &name, value, Context::Plain)?),
            _ => None,
        };
        match value {
            Some(d) if d >= min && d <= max => return Some(d),
            Some(d) => r.problems.push(name, format!("{d:?} is not allowed: from {min:?} to {max:?}")),
            None => r.problems.push(name, format!("must be {}", units::DURATION_FORM)),
        }
        None
    }

    /// A table within this one; an absent one is empty.
    pub(super) fn section(&mut self, r: &mut Reading<'_>, key: &'static str) -> Self {
        let table = match self.take(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                r.problems.push(self.key(key), format!("must be a table ([{key}]), not {}", kind(&other)));
                Table::new()
            }
        };
        Self::new(self.key(key), table)
    }

    /// An array of tables within this one.
    pub(super) fn sections(&mut self, r: &mut Reading<'_>, key: &'static str) -> Vec<Self> {
        let name = self.key(key);
        let items = match self.take(key) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                r.problems.push(name, format!("must be an array of tables ([[{key}]]), not {}", kind(&other)));
                return Vec::new();
            }
        };
        let mut sections = Vec::new();
        for (i, item) in items.into_iter().enumerate() {
            let path = format!("{name}[{i}]");
            match item {
                Value::Table(table) => sections.push(Self::new(path, table)),
                other => r.problems.push(path, format!("must be a table ([[{key}]]), not {}", kind(&other))),
            }
        }
        sections
    }

    /// Marks keys that exist but not here: the message says where they belong.
    pub(super) fn elsewhere(&mut self, r: &mut Reading<'_>, keys: &[&str], why: &str) {
        for key in keys {
            if self.table.remove(*key).is_some() {
                r.problems.push(self.key(key), why);
            }
        }
    }

    /// Ends the section: keys nobody asked for are unknown.
    pub(super) fn finish(self, r: &mut Reading<'_>) {
        for key in self.table.keys() {
            let hint = match suggest(key, self.known.iter().copied()) {
                Some(s) => format!("did you mean \"{s}\"?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            r.problems.push(self.key(key), format!("unknown key; {hint}"));
        }
    }
}

fn string_of(r: &mut Reading<'_>, key: &str, value: Value, context: Context) -> Option<String> {
    let Value::String(text) = value else {
        r.problems.push(key, format!("must be a string, not {}", kind(&value)));
        return None;
    };
    match expand::expand(&text, context, r.env) {
        Ok(text) => Some(text),
        Err(message) => {
            r.problems.push(key, message);
            None
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

/// The known word nearest to what was typed, if it is near.
fn suggest<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .map(|k| (strsim::jaro_winkler(typed, k), k))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
