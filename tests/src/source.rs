//! Reads a source table as the text that Doris is to show, for comparison.
//!
//! The conversion is written as SQL and done by the server itself, read through the server's own
//! client: nothing of the engine's decoding takes part. What a value should look like follows the
//! defaults of the type mapping: bytes as lower-case hex, BIT(1) as 0 or 1, BIT(n) as a number,
//! TIME as text, ENUM and SET as labels, JSON as the server prints it, TIMESTAMP in UTC.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use crate::server::{Endpoint, Flavor, SessionError, unescape};

/// A row: one text per column in the table's own order, nothing for NULL.
pub type TextRow = Vec<Option<String>>;

/// A table of the source.
#[derive(Clone, Debug)]
pub struct SourceTable {
    /// The database.
    pub database: String,
    /// The table's name.
    pub name: String,
    /// The columns in the table's order.
    pub columns: Vec<SourceColumn>,
    /// Indexes into `columns` of the key's columns, in key order: the primary key's, or those of the first unique index
    /// without a nullable column.
    pub key: Vec<usize>,
}

/// A column of a [`SourceTable`].
#[derive(Clone, Debug)]
pub struct SourceColumn {
    /// The name.
    pub name: String,
    /// The type as information_schema prints it, such as `int unsigned`.
    pub mysql_type: String,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Signed,
    Unsigned,
    Text,
    Hex,
    Float,
    Double,
}

impl SourceTable {
    /// Reads the table's columns and key from the catalog.
    pub fn describe(endpoint: &Endpoint, database: &str, name: &str) -> Result<Self, SessionError> {
        let place = format!("table_schema = '{database}' AND table_name = '{name}'");
        let mut session = endpoint.session()?;
        let columns = session.sql(&format!(
            "SELECT column_name, data_type, column_type FROM information_schema.columns \
             WHERE {place} ORDER BY ordinal_position"
        ))?;
        let columns = columns
            .into_iter()
            .map(|row| {
                let [name, data_type, mysql_type]: [String; 3] =
                    row.try_into().map_err(|row| SessionError::new(format!("not a column: {row:?}")))?;
                let form = form(&data_type, &mysql_type)
                    .ok_or_else(|| SessionError::new(format!("no text form for {name} {mysql_type}")))?;
                Ok(SourceColumn { name, mysql_type, form })
            })
            .collect::<Result<Vec<_>, SessionError>>()?;
        if columns.is_empty() {
            return Err(SessionError::new(format!("no table {database}.{name}")));
        }
        let keys = session.sql(&format!(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE {place} AND non_unique = 0 \
             AND index_name NOT IN (SELECT index_name FROM information_schema.statistics WHERE {place} AND nullable = 'YES') \
             ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
        ))?;
        let first = keys.first().and_then(|row| row.first());
        let key = keys.iter().filter(|row| row.first() == first).filter_map(|row| row.get(1));
        let key = key.filter_map(|key| columns.iter().position(|column| column.name == *key)).collect();
        Ok(Self { database: database.to_owned(), name: name.to_owned(), columns, key })
    }

    /// Streams all rows in the order of the key.
    pub fn rows(&self, endpoint: &Endpoint) -> Result<Rows, SessionError> {
        let query = self.query(endpoint);
        let mut program = endpoint
            .batch()
            .args(["-e", &query])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = program.stdout.take().map(|pipe| BufReader::with_capacity(1 << 20, pipe));
        let forms = self.columns.iter().map(|column| column.form).collect();
        Ok(Rows { program, output, forms, line: Vec::new() })
    }

    fn query(&self, endpoint: &Endpoint) -> String {
        let flavor = endpoint.flavor();
        let columns: Vec<String> = self.columns.iter().map(|column| column.expression(flavor)).collect();
        let mut query =
            format!("SET time_zone = '+00:00'; SELECT {} FROM `{}`.`{}`", columns.join(", "), self.database, self.name);
        for (n, &index) in self.key.iter().enumerate() {
            query.push_str(if n == 0 { " ORDER BY " } else { ", " });
            // With the table's name: an expression's alias must not be meant.
            query.push_str(&format!("`{}`.`{}`", self.name, self.columns[index].name));
        }
        query
    }

    /// All rows in the order of the key.
    pub fn read(&self, endpoint: &Endpoint) -> Result<Vec<TextRow>, SessionError> {
        if endpoint.flavor().has_client_programs() {
            return self.rows(endpoint)?.collect();
        }
        // A server whose own client is not here: this project's, with the conversion still the server's.
        let value =
            |(column, text): (&SourceColumn, String)| text.strip_prefix('=').map(|t| column.normal(t.to_owned()));
        let rows = endpoint.session()?.sql(&self.query(endpoint))?;
        Ok(rows.into_iter().map(|row| self.columns.iter().zip(row).map(value).collect()).collect())
    }

    /// The texts of the key's columns in `row`, in key order.
    pub fn key_of<'r>(&self, row: &'r TextRow) -> Vec<&'r str> {
        self.key.iter().filter_map(|&index| row.get(index)?.as_deref()).collect()
    }
}

impl SourceColumn {
    /// A value marked by `=`, or `-` for NULL: the client prints NULL like the text `NULL`.
    fn expression(&self, flavor: Flavor) -> String {
        let name = format!("`{}`", self.name);
        let text = match self.form {
            Form::Signed => format!("CAST({name} AS SIGNED)"),
            Form::Unsigned => format!("CAST({name} AS UNSIGNED)"),
            Form::Text => format!("CONVERT({name} USING utf8mb4)"),
            Form::Hex => format!("LOWER(HEX({name}))"),
            Form::Float | Form::Double if flavor != Flavor::Mysql97 => format!("({name} + 0e0)"),
            // A FLOAT printed as such loses digits, and a DOUBLE made text by itself is cut to the column's width;
            // in JSON it has all of them.
            Form::Float | Form::Double => format!(
                "IF({name} IS NULL, NULL, TRIM(BOTH ']' FROM TRIM(BOTH '[' FROM \
                 CAST(JSON_ARRAY(CAST({name} AS DOUBLE)) AS CHAR))))"
            ),
        };
        format!("IFNULL(CONCAT('=', {text}), '-')")
    }

    /// Brings a text of this column, as some reader printed it, to the form of [`TextRow`]: floats
    /// are the only type of which one value has several usual texts.
    pub fn normal(&self, text: String) -> String {
        normal(self.form, text)
    }
}

fn normal(form: Form, text: String) -> String {
    match form {
        Form::Float => text.parse::<f32>().map_or(text, |value| value.to_string()),
        Form::Double => text.parse::<f64>().map_or(text, |value| value.to_string()),
        _ => text,
    }
}

fn form(data_type: &str, mysql_type: &str) -> Option<Form> {
    Some(match data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
            if mysql_type.contains("unsigned") {
                Form::Unsigned
            } else {
                Form::Signed
            }
        }
        "bit" | "year" => Form::Unsigned,
        "float" => Form::Float,
        "double" => Form::Double,
        "decimal" | "date" | "time" | "datetime" | "timestamp" | "json" | "enum" | "set" => Form::Text,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Form::Text,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Form::Hex,
        _ => return None,
    })
}

/// The rows of a table, read as they come.
#[derive(Debug)]
pub struct Rows {
    program: Child,
    output: Option<BufReader<ChildStdout>>,
    forms: Vec<Form>,
    line: Vec<u8>,
}

impl Iterator for Rows {
    type Item = Result<TextRow, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let output = self.output.as_mut()?;
        self.line.clear();
        match output.read_until(b'\n', &mut self.line) {
            Ok(0) => {
                self.output = None;
                self.ended().err().map(Err)
            }
            Ok(_) => Some(self.row()),
            Err(error) => {
                self.output = None;
                Some(Err(error.into()))
            }
        }
    }
}

impl Rows {
    fn row(&self) -> Result<TextRow, SessionError> {
        let line =
            str::from_utf8(&self.line).map_err(|error| SessionError::new(format!("the mysql program: {error}")))?;
        let row: TextRow = line
            .trim_end_matches('\n')
            .split('\t')
            .zip(&self.forms)
            .map(|(field, &form)| Some(normal(form, unescape(field.strip_prefix('=')?))))
            .collect();
        if row.len() != self.forms.len() {
            return Err(SessionError::new(format!("a row of {} columns", row.len())));
        }
        Ok(row)
    }

    fn ended(&mut self) -> Result<(), SessionError> {
        use std::io::Read;
        let mut text = String::new();
        if let Some(mut stderr) = self.program.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        if self.program.wait()?.success() {
            return Ok(());
        }
        Err(SessionError::new(text.trim().to_owned()))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server;

    #[test]
    fn every_type_reads_as_doris_shows_it() {
        let Some(server) = server::shared() else { return };
        let table = [
            ("id INT ZEROFILL", "7", Some("7")),
            ("a TINYINT", "-128", Some("-128")),
            ("b BIGINT UNSIGNED", "18446744073709551615", Some("18446744073709551615")),
            ("c DECIMAL(10,3)", "'-1.5'", Some("-1.500")),
            ("d FLOAT", "16107050", Some("16107050")),
            ("e DOUBLE", "1e-7", Some("0.0000001")),
            ("f BIT(1)", "b'1'", Some("1")),
            ("g BIT(40)", "b'100000001'", Some("257")),
            ("h BIT(64)", "0xffffffffffffffff", Some("18446744073709551615")),
            ("i DATE", "'2024-02-29'", Some("2024-02-29")),
            ("j DATETIME(3)", "'2024-02-29 01:02:03.04'", Some("2024-02-29 01:02:03.040")),
            ("k TIMESTAMP(6) NULL", "'2024-02-29 01:02:03+02:00'", Some("2024-02-28 23:02:03.000000")),
            ("l TIME(2)", "'-838:59:59'", Some("-838:59:59.00")),
            ("m YEAR", "0", Some("0")),
            ("n CHAR(4)", "'a  '", Some("a")),
            ("o VARCHAR(9)", r"'\t\n\\''N'", Some("\t\n\\'N")),
            ("p VARCHAR(9) CHARACTER SET latin1", "'é€'", Some("é€")),
            ("q TEXT", "'NULL'", Some("NULL")),
            ("r BINARY(4)", "0x0aff", Some("0aff0000")),
            ("s BLOB", "''", Some("")),
            ("t ENUM('x','ü')", "2", Some("ü")),
            ("u SET('x','y z')", "3", Some("x,y z")),
            ("v JSON", r#"'{"b":1,"a":[1.0,"\\u00e9"]}'"#, Some(r#"{"a": [1.0, "é"], "b": 1}"#)),
            ("w INT", "NULL", None),
            ("x VARBINARY(3)", "0x00", Some("00")),
            ("y MEDIUMINT UNSIGNED", "1", Some("1")),
        ];
        let columns: Vec<&str> = table.iter().map(|(column, ..)| *column).collect();
        let values: Vec<&str> = table.iter().map(|(_, value, _)| *value).collect();
        let expected: TextRow = table.iter().map(|(.., text)| text.map(str::to_owned)).collect();
        server.sql(&format!(
            "CREATE DATABASE types; CREATE TABLE types.t ({}, PRIMARY KEY (r, id)); \
             INSERT INTO types.t VALUES ({});",
            columns.join(", "),
            values.join(", "),
        ));
        let endpoint = server.endpoint();
        let source = SourceTable::describe(&endpoint, "types", "t").unwrap();
        let rows = source.read(&endpoint).unwrap();
        assert_eq!(rows, [expected]);
        assert_eq!(source.key_of(&rows[0]), ["0aff0000", "7"]);
        assert_eq!(source.columns[4].normal("1.610705e+07".to_owned()), "16107050");

        assert!(SourceTable::describe(&endpoint, "types", "nothing").is_err());
        server.sql("CREATE TABLE types.gone (id INT PRIMARY KEY)");
        let gone = SourceTable::describe(&endpoint, "types", "gone").unwrap();
        assert_eq!(gone.read(&endpoint).unwrap(), Vec::<TextRow>::new());
        server.sql("DROP TABLE types.gone");
        assert!(gone.read(&endpoint).unwrap_err().to_string().contains("ERROR 1146"));
    }
}
