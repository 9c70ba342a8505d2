//! CREATE TABLE in the form of doris.md section 8, with the rules of that section.

use super::lex::Token;
use super::parse::Parser;
use crate::doris::table::{Column, DELETE_SIGN, Model, SEQUENCE_COL, Schema};
use crate::doris::types::{ColType, VARCHAR_MAX};

/// Properties the simulator takes; others are refused, as Doris refuses what it does not know.
const PROPERTIES: &[&str] = &[
    "replication_num",
    "replication_allocation",
    "enable_unique_key_merge_on_write",
    "light_schema_change",
    "function_column.sequence_type",
    "function_column.sequence_col",
    "enable_duplicate_without_keys_by_default",
    "storage_format",
    "compression",
    "in_memory",
    "disable_auto_compaction",
    "group_commit_interval_ms",
    "group_commit_mode",
    "group_commit_data_bytes",
    "store_row_column",
    "estimate_partition_size",
];

/// From the opening parenthesis to the properties.
pub(super) fn table_body(p: &mut Parser, name: &str) -> Result<Schema, String> {
    check_table_name(name)?;
    p.expect_symbol("(")?;
    let mut columns = Vec::new();
    loop {
        let column = column(p)?;
        if columns.iter().any(|c: &Column| c.name.eq_ignore_ascii_case(&column.name)) {
            return Err(format!("Duplicate column name '{}'", column.name));
        }
        columns.push(column);
        if !p.symbol(",") {
            break;
        }
    }
    p.expect_symbol(")")?;
    if p.word("ENGINE") {
        p.expect_symbol("=")?;
        let engine = p.name()?;
        if !engine.eq_ignore_ascii_case("olap") {
            return Err(format!("Unknown storage engine '{engine}'"));
        }
    }
    let (model, keys) = if p.words("UNIQUE KEY") {
        (Model::Unique, name_list(p)?)
    } else if p.words("DUPLICATE KEY") {
        (Model::Duplicate, name_list(p)?)
    } else if p.words("AGGREGATE KEY") {
        return Err("the simulator has no AGGREGATE KEY tables".into());
    } else {
        (Model::Duplicate, Vec::new())
    };
    let comment = if p.word("COMMENT") { p.text()? } else { String::new() };
    if p.words("PARTITION BY") || p.words("AUTO PARTITION BY") {
        return Err("the simulator has no partitioned tables".into());
    }
    if !p.words("DISTRIBUTED BY") {
        return p.fail("DISTRIBUTED BY");
    }
    let distribution = if p.word("HASH") {
        name_list(p)?
    } else if p.word("RANDOM") {
        if model == Model::Unique {
            return Err("Create unique keys table should not contain random distribution desc".into());
        }
        Vec::new()
    } else {
        return p.fail("HASH");
    };
    let mut buckets = Some(10);
    if p.word("BUCKETS") {
        buckets = if p.word("AUTO") { None } else { Some(p.uint()?) };
        if buckets == Some(0) {
            return Err("Number of hash distribution should be greater than zero.".into());
        }
    }
    let mut properties = Vec::new();
    if p.word("PROPERTIES") {
        p.expect_symbol("(")?;
        loop {
            let key = p.text()?;
            p.expect_symbol("=")?;
            let value = p.text()?;
            if !PROPERTIES.contains(&key.as_str()) {
                return Err(format!("Unknown properties: {{{key}={value}}}"));
            }
            properties.push((key, value));
            if !p.symbol(",") {
                break;
            }
        }
        p.expect_symbol(")")?;
    }
    let schema = Schema {
        name: name.to_owned(),
        model,
        columns,
        keys: keys.len(),
        distribution,
        buckets,
        properties,
        comment,
        sequence: None,
    };
    check(schema, &keys)
}

fn check(mut s: Schema, keys: &[String]) -> Result<Schema, String> {
    let no_keys = s.property("enable_duplicate_without_keys_by_default") == Some("true");
    if keys.is_empty() && !(s.model == Model::Duplicate && no_keys) {
        return Err(
            "the simulator wants UNIQUE KEY or DUPLICATE KEY, or enable_duplicate_without_keys_by_default".into()
        );
    }
    for (i, key) in keys.iter().enumerate() {
        match s.columns.get(i) {
            Some(c) if c.name.eq_ignore_ascii_case(key) => {}
            _ if s.column(key).is_none() => return Err(format!("Key column[{key}] doesn't exist.")),
            _ => return Err("Key columns should be a ordered prefix of the schema.".into()),
        }
        let column = &mut s.columns[i];
        if !column.ty.may_be_key() {
            let ty = column.ty.base_name().replace("text", "string");
            return Err(format!("{} Type should not be used in key column[{}].", uppercase_first(&ty), column.name));
        }
        column.key = true;
    }
    for name in &s.distribution {
        let Some(i) = s.column(name) else {
            return Err(format!("Distribution column({name}) doesn't exist."));
        };
        if !s.columns[i].key && !keys.is_empty() {
            return Err(format!("Distribution column[{name}] is not key column"));
        }
        if !s.columns[i].ty.may_be_key() {
            return Err(format!("{} Type should not be used in distribution column[{name}].", s.columns[i].ty.name()));
        }
    }
    for (key, value) in &s.properties {
        let boolean = matches!(
            key.as_str(),
            "enable_unique_key_merge_on_write" | "light_schema_change" | "enable_duplicate_without_keys_by_default"
        );
        if boolean && value != "true" && value != "false" {
            return Err(format!("{key} must be `true` or `false`"));
        }
        if key == "replication_num" && value.parse::<u16>().ok().is_none_or(|n| n == 0) {
            return Err(format!("Replication num should larger than 0: {value}"));
        }
    }
    let mow = s.property("enable_unique_key_merge_on_write");
    if mow.is_some() && s.model != Model::Unique {
        return Err("enable_unique_key_merge_on_write property only support unique key table".into());
    }
    let sequence_type = s.property("function_column.sequence_type").map(str::to_owned);
    let sequence_col = s.property("function_column.sequence_col").map(str::to_owned);
    if s.model != Model::Unique {
        if sequence_type.is_some() || sequence_col.is_some() {
            return Err("sequence column only support UNIQUE_KEYS".into());
        }
        return Ok(s);
    }
    let hidden = |name: &str, ty, nullable, default| Column {
        name: name.into(),
        ty,
        nullable,
        key: false,
        default,
        comment: String::new(),
        hidden: true,
    };
    s.columns.push(hidden(DELETE_SIGN, ColType::TinyInt, false, Some(Some("0".into()))));
    match (sequence_type, sequence_col) {
        (Some(_), Some(_)) => return Err("sequence_type and sequence_col cannot be set at the same time".into()),
        (Some(ty), None) => {
            let ty = type_of_name(&ty).filter(ColType::may_be_sequence).ok_or_else(|| {
                format!("sequence type only support integer types and date types, not {ty} (LARGEINT was not verified)")
            })?;
            s.sequence = Some(s.columns.len());
            s.columns.push(hidden(SEQUENCE_COL, ty, true, None));
        }
        (None, Some(name)) => {
            let i = s.column(&name).ok_or_else(|| format!("The specified sequence column[{name}] not exists"))?;
            if !s.columns[i].ty.may_be_sequence() {
                return Err(format!("sequence column[{name}] only support integer types and date types"));
            }
            s.sequence = Some(i);
        }
        (None, None) => {}
    }
    Ok(s)
}

fn uppercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

pub(crate) fn check_table_name(name: &str) -> Result<(), String> {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    if !first || !chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return Err(format!("Incorrect table name '{name}'. Table name regex is '^[a-zA-Z][a-zA-Z0-9-_]*$'"));
    }
    if name.len() > 64 {
        return Err(format!("Table name length exceeds limit: '{name}' has {} bytes, at most 64", name.len()));
    }
    Ok(())
}

fn name_list(p: &mut Parser) -> Result<Vec<String>, String> {
    p.expect_symbol("(")?;
    let mut names = Vec::new();
    loop {
        names.push(p.name()?);
        if !p.symbol(",") {
            break;
        }
    }
    p.expect_symbol(")")?;
    Ok(names)
}

fn column(p: &mut Parser) -> Result<Column, String> {
    let name = p.name()?;
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || name.chars().count() > 256 || ["mv_", "mva_", "__doris_"].iter().any(|x| lower.starts_with(x))
    {
        return Err(format!("Incorrect column name '{name}'"));
    }
    let ty = column_type(p)?;
    // A bare KEY is allowed and says what the key clause says.
    p.word("KEY");
    let mut nullable = true;
    if p.words("NOT NULL") {
        nullable = false;
    } else {
        p.word("NULL");
    }
    let mut default = None;
    if p.word("DEFAULT") {
        default = Some(if p.word("CURRENT_TIMESTAMP") {
            if p.symbol("(") {
                if let Some(Token::Number(_)) = p.peek() {
                    p.at += 1;
                }
                p.expect_symbol(")")?;
            }
            if !matches!(ty, ColType::DateTime(_)) {
                return Err(format!("DEFAULT CURRENT_TIMESTAMP is only for DATETIME, column {name}"));
            }
            Some("CURRENT_TIMESTAMP".to_owned())
        } else {
            p.literal()?
        });
        match &default {
            Some(None) if !nullable => {
                return Err(format!("Can not set null default value to non nullable column: {name}"));
            }
            Some(Some(v)) if v != "CURRENT_TIMESTAMP" && ty.cast(v.as_bytes(), &mut Vec::new()).is_err() => {
                return Err(format!("Invalid default value '{v}' for column {name} of type {}", ty.name()));
            }
            _ => {}
        }
    }
    let comment = if p.word("COMMENT") { p.text()? } else { String::new() };
    Ok(Column { name, ty, nullable, key: false, default, comment, hidden: false })
}

fn type_of_name(name: &str) -> Option<ColType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "boolean" | "bool" => ColType::Boolean,
        "tinyint" => ColType::TinyInt,
        "smallint" => ColType::SmallInt,
        "int" | "integer" => ColType::Int,
        "bigint" => ColType::BigInt,
        "largeint" => ColType::LargeInt,
        "float" => ColType::Float,
        "double" => ColType::Double,
        "date" | "datev2" => ColType::Date,
        "datetime" | "datetimev2" => ColType::DateTime(0),
        "string" | "text" => ColType::String,
        "json" | "jsonb" => ColType::Json,
        _ => return None,
    })
}

fn column_type(p: &mut Parser) -> Result<ColType, String> {
    let name = p.name()?;
    let mut args: Vec<u32> = Vec::new();
    if p.symbol("(") {
        loop {
            args.push(p.uint()?);
            if !p.symbol(",") {
                break;
            }
        }
        p.expect_symbol(")")?;
    }
    match (name.to_ascii_lowercase().as_str(), args.as_slice()) {
        ("decimal" | "decimalv3", args) => {
            let (precision, scale) = match args {
                [] => (38, 9),
                [p] => (*p, 0),
                [p, s] => (*p, *s),
                _ => return Err("DECIMAL takes precision and scale".into()),
            };
            let Some(precision) = u8::try_from(precision).ok().filter(|n| (1..=38).contains(n)) else {
                return Err(format!("decimal precision must be between 1 and 38, precision was: {precision}"));
            };
            let Some(scale) = u8::try_from(scale).ok().filter(|n| *n <= precision) else {
                return Err(format!("decimal scale must be between 0 and precision {precision}, scale was: {scale}"));
            };
            Ok(ColType::Decimal { precision, scale })
        }
        ("datetime" | "datetimev2", [f]) => match u8::try_from(*f) {
            Ok(f @ 0..=6) => Ok(ColType::DateTime(f)),
            _ => Err(format!("Scale of Datetime must between 0 and 6. Scale was set to: {f}")),
        },
        ("varchar", []) => Ok(ColType::Varchar(VARCHAR_MAX)),
        ("varchar", [n]) if (1..=VARCHAR_MAX).contains(n) => Ok(ColType::Varchar(*n)),
        ("varchar", [n]) => Err(format!("Varchar size must be <= {VARCHAR_MAX}: {n}")),
        ("char", []) => Ok(ColType::Char(1)),
        ("char", [n]) if (1..=255).contains(n) => Ok(ColType::Char(*n)),
        ("char", [n]) => Err(format!("Char size must be <= 255: {n}")),
        (other, []) => type_of_name(other).ok_or_else(|| format!("the simulator does not know the type {name}")),
        _ => Err(format!("the type {name} takes no such parameters")),
    }
}
