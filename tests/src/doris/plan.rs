//! The headers of a Stream Load: the checks before and after its transaction begins (doris.md 3, 12.2), and the plan
//! that says where each column's value comes from.

use super::http1::Head;
use super::partial::{Partial, partial};
use super::table::{DELETE_SIGN, Model, SEQUENCE_COL, Schema};
use super::types::ColType;

/// A refusal: Doris' code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) text: String,
}

pub(crate) fn refuse<T>(code: &'static str, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, text: text.into() })
}

/// The formats of doris.md 3 the simulator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Json,
}

/// A header that is a boolean: only `true`, in any case, is true.
fn flag(head: &Head, name: &str) -> bool {
    head.header(name).is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// `two_phase_commit` is the literal `true`.
pub(crate) fn two_phase(head: &Head) -> bool {
    head.header("two_phase_commit") == Some("true")
}

/// By-line JSON is the default when neither header is sent.
pub(crate) fn by_line(head: &Head) -> bool {
    match (head.header("read_json_by_line"), head.header("strip_outer_array")) {
        (None, None) => true,
        _ => flag(head, "read_json_by_line"),
    }
}

/// How a load is gathered with others (doris.md 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupCommit {
    Off,
    /// The reply comes when the group is visible.
    Sync,
    /// The reply comes before the group is.
    Async,
}

/// The header check of group commit, which comes before all others. `table` is the table's own mode, which counts where
/// the header is missing.
pub(crate) fn group_commit(head: &Head, table: Option<&str>) -> Result<GroupCommit, Refusal> {
    let given = head.header("group_commit");
    let mode = given.or(table).unwrap_or("off_mode").to_ascii_lowercase();
    let whole = ["partitions", "temporary_partitions", "partial_columns"].iter().all(|n| head.header(n).is_none());
    let has_body = head.chunked() || matches!(head.content_length(), Some(Ok(n)) if n > 0);
    match mode.as_str() {
        "off_mode" => Ok(GroupCommit::Off),
        "sync_mode" | "async_mode" if two_phase(head) || !whole || !has_body => Ok(GroupCommit::Off),
        "sync_mode" | "async_mode" if head.header("label").is_some() => {
            refuse("INVALID_ARGUMENT", "label and group_commit can't be set at the same time")
        }
        "async_mode" if !head.chunked() => Ok(GroupCommit::Async),
        "sync_mode" | "async_mode" => Ok(GroupCommit::Sync),
        _ => refuse("INVALID_ARGUMENT", "Header `group_commit` can only be `sync_mode`, `async_mode` or `off_mode`."),
    }
}

/// The checks between Basic auth and the begin: format, size limits, framing, timeout.
pub(crate) fn before_begin(head: &Head) -> Result<(Format, i64), Refusal> {
    let format = match head.header("format").map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "csv") => Format::Csv,
        Some("json") => Format::Json,
        Some("csv_with_names" | "csv_with_names_and_types" | "parquet" | "orc" | "arrow") => {
            return refuse(
                "NOT_IMPLEMENTED_ERROR",
                format!("the simulator does not read format={}", head.header("format").unwrap_or("")),
            );
        }
        Some(other) => return refuse("DATA_FILE_TYPE_ERROR", format!("unknown data format, format={other}")),
    };
    let chunked = head.chunked();
    if let Some(length) = head.content_length() {
        let Ok(n) = length else {
            return refuse("INVALID_ARGUMENT", "content-length is not a number");
        };
        if n > 10240 << 20 {
            return refuse(
                "EXCEEDED_LIMIT",
                format!("body size {n} exceed BE's conf `streaming_load_max_mb` {}", 10240u64 << 20),
            );
        }
        if format == Format::Json && !by_line(head) && n > 100 << 20 {
            return refuse(
                "EXCEEDED_LIMIT",
                format!("json body size {n} exceed BE's conf `streaming_load_json_max_mb` {}", 100u64 << 20),
            );
        }
        if chunked {
            return refuse("INVALID_ARGUMENT", "please do not set both content_length and transfer-encoding");
        }
    } else if !chunked {
        return refuse(
            "INVALID_ARGUMENT",
            "content_length is empty and transfer-encoding!=chunked, please set content_length or \
             transfer-encoding=chunked",
        );
    }
    let timeout = match head.header("timeout") {
        None => 259_200,
        Some(t) => match t.trim().parse::<i64>() {
            Ok(t) if (1..=259_200).contains(&t) => t,
            Ok(t) => {
                return refuse("INVALID_ARGUMENT", format!("timeout {t} is not within 1 and 259200 seconds"));
            }
            Err(_) => return refuse("INVALID_ARGUMENT", format!("Invalid timeout format, {t}")),
        },
    };
    Ok((format, timeout))
}

/// Where a column's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The source field of that index.
    Field(usize),
    /// Always this text (None: NULL).
    Constant(Option<String>),
    /// The time of the load.
    Now,
    /// Not given, and the column has no default: never reached, the plan refuses it.
    Nothing,
}

/// How to make rows of a body.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) format: Format,
    /// Names of the source fields, in order.
    pub(crate) fields: Vec<String>,
    /// Per column of the schema.
    pub(crate) sources: Vec<Source>,
    pub(crate) by_line: bool,
    pub(crate) strip_outer_array: bool,
    pub(crate) strict: bool,
    pub(crate) max_filter_ratio: f64,
    pub(crate) column_separator: Vec<u8>,
    pub(crate) line_delimiter: Vec<u8>,
    pub(crate) skip_lines: u64,
    /// The load has some columns only.
    pub(crate) partial: Option<Partial>,
}

/// The header value checks after the begin, then the plan.
pub(crate) fn plan(head: &Head, format: Format, schema: &Schema, reject_unknown: bool) -> Result<Plan, Refusal> {
    for name in ["enclose", "escape"] {
        if let Some(v) = head.header(name) {
            if v.len() != 1 {
                return refuse("INVALID_ARGUMENT", format!("{name} must be single-char, actually is {v}"));
            }
            return refuse("NOT_IMPLEMENTED_ERROR", format!("the simulator does not read {name}"));
        }
    }
    let strict = match head.header("strict_mode") {
        None => false,
        Some(v) if v.eq_ignore_ascii_case("true") => true,
        Some(v) if v.eq_ignore_ascii_case("false") => false,
        Some(_) => return refuse("INVALID_ARGUMENT", "Invalid strict mode format. Must be bool type"),
    };
    if let Some(v) = head.header("exec_mem_limit")
        && v.parse::<i64>().is_err()
    {
        return refuse("INVALID_ARGUMENT", "Invalid mem limit format");
    }
    let max_filter_ratio = match head.header("max_filter_ratio").map(str::parse::<f64>) {
        None => 0.0,
        Some(Ok(r)) if (0.0..=1.0).contains(&r) => r,
        Some(_) => return refuse("INVALID_ARGUMENT", "max_filter_ratio must be between 0 and 1"),
    };
    let skip_lines = match head.header("skip_lines").map(str::parse::<i64>) {
        None => 0,
        Some(Ok(n)) if n >= 0 => n.cast_unsigned(),
        Some(_) => return refuse("INVALID_ARGUMENT", "Invalid 'skip_lines'"),
    };
    let merge = merge_type(head)?;
    for name in ["where", "jsonpaths", "json_root", "partitions", "temporary_partitions"] {
        if head.header(name).is_some_and(|v| !v.eq_ignore_ascii_case("false")) {
            return refuse("NOT_IMPLEMENTED_ERROR", format!("the simulator does not do header {name}"));
        }
    }
    for name in ["compress_type", "unique_key_update_mode"] {
        if head.header(name).is_some_and(|v| !v.is_empty() && !v.eq_ignore_ascii_case("false")) {
            return refuse("NOT_IMPLEMENTED_ERROR", format!("the simulator does not do header {name}"));
        }
    }
    if merge != Merge::Append && schema.model != Model::Unique {
        return refuse("ANALYSIS_ERROR", "load by MERGE or DELETE is only supported in unique tables.");
    }
    let (fields, constants) = fields(head, format, schema, reject_unknown)?;
    let given =
        |name: &str| fields.iter().chain(constants.iter().map(|(n, _)| n)).any(|f| f.eq_ignore_ascii_case(name));
    let partial = partial(head, schema, strict, given)?;
    let mut sources = Vec::with_capacity(schema.columns.len());
    for column in &schema.columns {
        // Source names meet column names in any case (doris.md 8); JSON keys meet source names exactly (7.1).
        let field = fields.iter().position(|f| f.eq_ignore_ascii_case(&column.name));
        let constant = constants.iter().find(|(n, _)| n.eq_ignore_ascii_case(&column.name));
        sources.push(match (constant, field) {
            (Some((_, v)), _) => Source::Constant(v.clone()),
            (None, Some(i)) => Source::Field(i),
            (None, None) if column.name == DELETE_SIGN => {
                Source::Constant(Some(if merge == Merge::Delete { "1" } else { "0" }.to_owned()))
            }
            // The stored row's, in the end.
            (None, None) if partial.is_some() => {
                default_of(column.nullable, column.default.as_ref()).unwrap_or(Source::Constant(None))
            }
            (None, None) if column.name == SEQUENCE_COL => Source::Nothing,
            (None, None) => match default_of(column.nullable, column.default.as_ref()) {
                Some(source) => source,
                None => {
                    return refuse("ANALYSIS_ERROR", format!("Column has no default value, column={}", column.name));
                }
            },
        });
    }
    if merge == Merge::Delete
        && let Some(i) = schema.delete_sign()
    {
        sources[i] = Source::Constant(Some("1".into()));
    }
    if let Some(i) = schema.sequence {
        if let Some(name) = head.header("function_column.sequence_col") {
            let Some(f) = fields.iter().position(|f| f.eq_ignore_ascii_case(name)) else {
                return refuse("ANALYSIS_ERROR", format!("There is no sequence column {name} in the columns"));
            };
            sources[i] = Source::Field(f);
        }
        if sources[i] == Source::Nothing {
            return refuse(
                "ANALYSIS_ERROR",
                format!("Table {} has sequence column, need to specify the sequence column", schema.name),
            );
        }
    } else if head.header("function_column.sequence_col").is_some() {
        return refuse("ANALYSIS_ERROR", format!("Table {} has no sequence column", schema.name));
    }
    let line_delimiter = delimiter(head, "line_delimiter", b"\n")?;
    Ok(Plan {
        format,
        fields,
        sources,
        by_line: by_line(head),
        strip_outer_array: flag(head, "strip_outer_array"),
        strict,
        max_filter_ratio,
        column_separator: delimiter(head, "column_separator", b"\t")?,
        line_delimiter,
        skip_lines,
        partial,
    })
}

/// What stands for a column that the load does not give.
pub(crate) fn default_of(nullable: bool, default: Option<&Option<String>>) -> Option<Source> {
    match default {
        Some(Some(v)) if v.to_ascii_uppercase().starts_with("CURRENT_TIMESTAMP") => Some(Source::Now),
        Some(v) => Some(Source::Constant(v.clone())),
        None if nullable => Some(Source::Constant(None)),
        None => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    Append,
    Delete,
}

fn merge_type(head: &Head) -> Result<Merge, Refusal> {
    let merge = head.header("merge_type").unwrap_or("APPEND").to_ascii_uppercase();
    let delete = head.header("delete").is_some_and(|v| !v.is_empty());
    match (merge.as_str(), delete) {
        ("APPEND", false) => Ok(Merge::Append),
        ("DELETE", false) => Ok(Merge::Delete),
        ("MERGE", false) => refuse("INVALID_ARGUMENT", "Excepted DELETE ON clause when merge type is MERGE."),
        ("APPEND" | "DELETE", true) => {
            refuse("INVALID_ARGUMENT", "Not support DELETE ON clause when merge type is not MERGE.")
        }
        ("MERGE", true) => refuse("NOT_IMPLEMENTED_ERROR", "the simulator evaluates no delete expression"),
        _ => refuse("INVALID_ARGUMENT", format!("Invalid merge type {merge}")),
    }
}

type Fields = (Vec<String>, Vec<(String, Option<String>)>);

/// Source fields in order, and columns set to a constant.
fn fields(head: &Head, format: Format, schema: &Schema, reject_unknown: bool) -> Result<Fields, Refusal> {
    let mut constants = Vec::new();
    let mut fields: Vec<String> = Vec::new();
    match head.header("columns").filter(|c| !c.trim().is_empty()) {
        Some(columns) => {
            for part in split_outside_quotes(columns, ',') {
                let halves = split_outside_quotes(part, '=');
                let name = halves[0];
                let expr = part.get(name.len() + 1..).map(str::trim);
                let name = unquote(name.trim());
                if name.is_empty() {
                    return refuse("ANALYSIS_ERROR", format!("Syntax error in columns: {columns}"));
                }
                match expr {
                    None => {
                        if fields.iter().any(|f| f.eq_ignore_ascii_case(&name)) {
                            return refuse("ANALYSIS_ERROR", format!("Duplicate column: {name}"));
                        }
                        let sequence_source =
                            head.header("function_column.sequence_col").is_some_and(|s| s.eq_ignore_ascii_case(&name));
                        if schema.column(&name).is_none()
                            && reject_unknown
                            && format == Format::Json
                            && !sequence_source
                        {
                            return refuse("ANALYSIS_ERROR", format!("Unknown column '{name}' in '{}'", schema.name));
                        }
                        fields.push(name);
                    }
                    Some(expr) => {
                        if schema.column(&name).is_none() {
                            return refuse("ANALYSIS_ERROR", format!("Unknown column '{name}' in '{}'", schema.name));
                        }
                        constants.push((name, constant(expr)?));
                    }
                }
            }
        }
        None => {
            fields = schema.visible().map(|c| c.name.clone()).collect();
            for name in head.header("hidden_columns").unwrap_or("").split(',').map(str::trim) {
                if name.is_empty() {
                    continue;
                }
                if schema.column(name).is_none_or(|i| !schema.columns[i].hidden) {
                    return refuse("ANALYSIS_ERROR", format!("Unknown column '{name}' in '{}'", schema.name));
                }
                fields.push(name.to_owned());
            }
        }
    }
    Ok((fields, constants))
}

/// Splits at a character that is not inside back quotes.
fn split_outside_quotes(text: &str, at: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c| {
        quoted ^= c == '`';
        c == at && !quoted
    })
    .collect()
}

fn unquote(name: &str) -> String {
    name.strip_prefix('`').and_then(|n| n.strip_suffix('`')).map_or_else(|| name.to_owned(), |n| n.replace("``", "`"))
}

fn constant(expr: &str) -> Result<Option<String>, Refusal> {
    if expr.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    for q in ['\'', '"'] {
        if let Some(text) = expr.strip_prefix(q).and_then(|e| e.strip_suffix(q)) {
            return Ok(Some(text.to_owned()));
        }
    }
    if expr.parse::<f64>().is_ok() {
        return Ok(Some(expr.to_owned()));
    }
    refuse("NOT_IMPLEMENTED_ERROR", format!("the simulator evaluates no expression but constants: {expr}"))
}

fn delimiter(head: &Head, name: &str, default: &[u8]) -> Result<Vec<u8>, Refusal> {
    let Some(text) = head.header(name) else { return Ok(default.to_vec()) };
    let bytes = match text.strip_prefix("\\x").or_else(|| text.strip_prefix("\\X")) {
        Some(hex) if !hex.is_empty() && hex.len().is_multiple_of(2) && hex.is_ascii() => (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok())
            .collect::<Option<Vec<u8>>>(),
        Some(_) => None,
        None => Some(text.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r").into_bytes()),
    };
    match bytes {
        Some(b) if !b.is_empty() => Ok(b),
        _ => refuse("INVALID_ARGUMENT", format!("Invalid {name}: {text}")),
    }
}

/// The reason a value is filtered for, as an error page says it.
pub(crate) fn too_long(column: &str, value: &[u8], max: usize) -> String {
    let shown = String::from_utf8_lossy(&value[..value.len().min(32)]).into_owned();
    format!(
        "column_name[{column}], the length of input is too long than schema. first 32 bytes of input str: [{shown}] \
         schema length: {max}; actual length: {}; ",
        value.len()
    )
}

pub(crate) fn null_refused(column: &str, ty: &ColType) -> String {
    format!("column_name[{column}], null value for not null column, type={}", ty.base_name().to_uppercase())
}

pub(crate) fn cast_refused(column: &str, ty: &ColType, value: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&value[..value.len().min(64)]).into_owned();
    format!("column({column}) value is incorrect while strict mode is {{}}, src value is {shown}, type={}", ty.name())
}
