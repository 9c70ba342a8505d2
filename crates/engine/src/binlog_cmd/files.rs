//! Files and standard input, in the order of the log.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use millstream_binlog::{BinlogFile, DecoderOptions, EventType};

use super::error::Error;
use super::filter::Offset;
use super::stats::add;
use super::walk::{Flow, MAX_EVENT, Walk};
use super::{Options, Place};

/// Where a log comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A binlog or relay log file.
    File(PathBuf),
}

impl Input {
    fn name(&self) -> String {
        match self {
            Self::Stdin => "stdin".to_owned(),
            Self::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// What the user typed as inputs: `-` is standard input, an index file (`binlog.index`) stands for the files that it
    /// lists, and files of one log come in the order of their numbers, each once.
    ///
    /// # Errors
    /// An index that cannot be read, or standard input twice.
    pub fn expand(typed: &[PathBuf]) -> Result<Vec<Self>, Error> {
        let mut inputs = Vec::new();
        for path in typed {
            if path.as_os_str() == "-" {
                if inputs.contains(&Self::Stdin) {
                    return Err(Error::Usage("standard input can be read only once".to_owned()));
                }
                inputs.push(Self::Stdin);
            } else if path.extension() == Some(OsStr::new("index")) {
                for file in listed(path)? {
                    push_once(&mut inputs, &file);
                }
            } else {
                push_once(&mut inputs, path);
            }
        }
        let logs: Option<Vec<_>> = inputs.iter().map(numbered).collect();
        if let Some(logs) = logs
            && logs.iter().all(|(stem, _)| Some(stem) == logs.first().map(|(stem, _)| stem))
        {
            inputs.sort_by_key(|input| numbered(input).map(|(_, number)| number));
        }
        Ok(inputs)
    }
}

fn push_once(inputs: &mut Vec<Input>, path: &Path) {
    // Without the `./` that an index has in front.
    let input = Input::File(path.components().collect());
    if !inputs.contains(&input) {
        inputs.push(input);
    }
}

/// The files of an index. Where it was copied away from them, those beside it.
fn listed(index: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read_to_string(index)
        .map_err(|source| Error::Open { file: index.to_string_lossy().into_owned(), source })?;
    let folder = index.parent().unwrap_or_else(|| Path::new(""));
    let files = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let file = folder.join(line);
        match file.file_name() {
            Some(name) if !file.exists() => folder.join(name),
            _ => file,
        }
    });
    Ok(files.collect())
}

/// `binlog.000042` as its stem and number.
fn numbered(input: &Input) -> Option<(String, u64)> {
    let Input::File(path) = input else { return None };
    let (stem, number) = path.file_name()?.to_str()?.rsplit_once('.')?;
    Some((stem.to_owned(), number.parse().ok()?))
}

/// Whether an offset is meant for this input: the one it names, else the one at `default`.
fn applies(offset: Option<&Offset>, input: &Input, is_default: bool) -> Option<u64> {
    let offset = offset?;
    let meant = match (&offset.file, input) {
        (None, _) => is_default,
        (Some(name), Input::File(path)) => path.file_name() == Some(OsStr::new(name)),
        (Some(_), Input::Stdin) => false,
    };
    meant.then_some(offset.pos)
}

pub(super) fn read<W: Write>(options: &Options, walk: &mut Walk<'_, W>) -> Result<(), Error> {
    for offset in [&options.start_pos, &options.stop_pos].into_iter().flatten() {
        if !options.inputs.iter().any(|input| applies(Some(offset), input, offset.file.is_none()).is_some()) {
            let file = offset.file.as_deref().unwrap_or_default();
            return Err(Error::Usage(format!("the offset's file {file} is not among the files to read")));
        }
    }
    let named = |offset: &Option<Offset>| {
        let meant = |input: &Input| applies(offset.as_ref(), input, false).is_some();
        options.inputs.iter().position(meant)
    };
    let first = named(&options.start_pos).unwrap_or(0);
    let last = named(&options.stop_pos).unwrap_or_else(|| options.inputs.len().saturating_sub(1));
    for (i, input) in options.inputs.iter().enumerate().take(last.saturating_add(1)).skip(first) {
        let start = if i == first { options.start_pos.as_ref().map(|o| o.pos) } else { None };
        let stop = if i == last { options.stop_pos.as_ref().map(|o| o.pos) } else { None };
        let name = input.name();
        let next = match input {
            Input::Stdin => file(io::stdin().lock(), &name, start, stop, walk)?,
            Input::File(path) => {
                let opened = File::open(path).map_err(|source| Error::Open { file: name.clone(), source })?;
                file(opened, &name, start, stop, walk)?
            }
        };
        if let (Some(next), Some(Input::File(following)), true) =
            (next, options.inputs.get(i.saturating_add(1)), i < last)
            && following.file_name().and_then(OsStr::to_str).is_some_and(|name| name != next)
        {
            let following = following.to_string_lossy();
            walk.summary.notes.push(format!("{name} goes on in {next}, but {following} was read after it"));
        }
    }
    Ok(())
}

/// Reads one file and returns the name of the one that it says comes next.
fn file<W: Write>(
    input: impl Read,
    name: &str,
    start: Option<u64>,
    stop: Option<u64>,
    walk: &mut Walk<'_, W>,
) -> Result<Option<String>, Error> {
    let failed = |offset, event, source| Error::Event { file: name.to_owned(), offset, event, inner: false, source };
    let mut file = BinlogFile::new(input, MAX_EVENT).map_err(|e| failed(0, None, e))?;
    walk.begin(DecoderOptions::default());
    add(&mut walk.summary.read.bytes, file.offset());
    let mut next = None;
    loop {
        let offset = file.offset();
        if stop.is_some_and(|stop| offset >= stop) {
            break;
        }
        let Some(raw) = file.next().map_err(|e| failed(offset, None, e))? else { break };
        let bytes = raw.bytes.len() as u64;
        let end = offset.saturating_add(bytes);
        let is_shown = start.is_none_or(|start| offset >= start);
        if let Some(start) = start.filter(|start| !is_shown && *start < end) {
            return Err(Error::Usage(format!(
                "{name}: no event begins at {start}: one begins at {offset}, the next at {end}"
            )));
        }
        let place = Place { file: name, offset, end, bytes, inner: false };
        if raw.bytes.get(4) == Some(&EventType::ROTATE.0) {
            next = walk.next_file(raw.bytes);
        }
        if walk.raw(raw.bytes, place, is_shown)? == Flow::Stop {
            break;
        }
    }
    Ok(next)
}
