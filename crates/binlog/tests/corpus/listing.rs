//! What `mysqlbinlog` and `mariadb-binlog` print about a log.

use std::io::Read as _;
use std::path::Path;

/// The tool's text, as far as it says what the events are.
#[derive(Default)]
pub(crate) struct Listing {
    /// `# at OFFSET`, in the order of the text.
    pub(crate) offsets: Vec<u64>,
    /// The line of each event. For some events it comes after the next event's offset.
    pub(crate) heads: Vec<Head>,
    /// `GTID_NEXT` of MySQL's transactions.
    pub(crate) gtids: Vec<String>,
    /// The partitions of row events.
    pub(crate) partitions: Vec<String>,
    /// Rows in the text.
    pub(crate) rows: Vec<ListedRow>,
    /// Rows that may be missing in the text: at a GEOMETRY the tool leaves the rest of the event out, and no event here
    /// has more than one row behind it.
    pub(crate) given_up: usize,
    /// MariaDB's tool wrote it, for a log that may be MySQL's.
    pub(crate) mariadb: bool,
    /// The tool stopped with an error.
    pub(crate) failed: bool,
}

/// `### INSERT INTO TABLE`, then one or two images: `### WHERE` or `### SET`, then `###   @N=VALUE /* TYPE */` for each value.
pub(crate) struct ListedRow {
    /// Quoted names with a point between.
    pub(crate) table: Vec<u8>,
    /// Numbers of the columns from 1 and their values.
    pub(crate) images: Vec<Vec<(usize, Vec<u8>)>>,
}

impl ListedRow {
    /// Whether the tool gives up here: the rest of the event is not in the text.
    pub(crate) fn is_given_up(value: &[u8]) -> bool {
        value.starts_with(b"!! Don't know how to handle column type=255")
    }

    /// A line behind `### `.
    fn line(rows: &mut Vec<Self>, line: &[u8]) {
        let verbs = [&b"INSERT INTO "[..], b"UPDATE ", b"DELETE FROM "];
        if let Some(table) = verbs.iter().find_map(|verb| line.strip_prefix(*verb)) {
            rows.push(Self { table: table.to_vec(), images: Vec::new() });
            return;
        }
        let Some(row) = rows.last_mut() else { return };
        if line == b"WHERE" || line == b"SET" {
            row.images.push(Vec::new());
            return;
        }
        let Some(image) = row.images.last_mut() else { return };
        let value = line.strip_prefix(b"  @").and_then(|v| {
            let at = v.iter().position(|b| *b == b'=')?;
            Some((usize::try_from(number(&v[..at])?).unwrap(), &v[at + 1..]))
        });
        let (column, part) = match (value, image.last_mut()) {
            (Some((column, value)), _) => (column, value),
            // A value of several lines goes on; other lines say something of the event.
            (None, Some(last)) if line.starts_with(b"     ") => {
                last.1.extend_from_slice(without_comment(line));
                return;
            }
            (None, _) => return,
        };
        image.push((column, without_comment(part).to_vec()));
    }
}

/// A value without the words on its type.
fn without_comment(value: &[u8]) -> &[u8] {
    value.windows(4).rposition(|w| w == b" /* ").map_or(value, |at| &value[..at])
}

/// `#YYMMDD HH:MM:SS server id N  end_log_pos N CRC32 0xN <tab> label`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Seconds since 1970.
    pub(crate) timestamp: u32,
    pub(crate) server_id: u32,
    pub(crate) log_pos: u32,
    pub(crate) crc: Option<u32>,
    /// The rest of the line and, of lists of GTIDs, the lines that go on with it.
    pub(crate) label: String,
}

impl Listing {
    /// Reads a text, packed or not.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut text = std::fs::read(path).ok()?;
        if text.starts_with(&[0x1f, 0x8b]) {
            let packed = std::mem::take(&mut text);
            flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
        }
        Some(Self::parse(&text))
    }

    /// Whether it is a whole text, not only what is said of events.
    pub(crate) fn has_values(&self) -> bool {
        self.rows.iter().any(|row| !row.images.is_empty())
    }

    fn parse(text: &[u8]) -> Self {
        let mut this = Self { mariadb: text.starts_with(b"-- mariadb-binlog"), ..Self::default() };
        // Inside the list of GTIDs of the last head.
        let mut list = false;
        for line in text.split(|b| *b == b'\n') {
            if let Some(offset) = line.strip_prefix(b"# at ").and_then(number) {
                list = false;
                this.offsets.push(offset);
            } else if let Some(partition) = line.strip_prefix(b"### Extra row info for partitioning: ") {
                this.partitions.push(String::from_utf8_lossy(partition).into_owned());
            } else if let Some(row) = line.strip_prefix(b"### ") {
                ListedRow::line(&mut this.rows, row);
                let value = row.iter().position(|b| *b == b'=').and_then(|at| row.get(at + 1..));
                this.given_up += usize::from(value.is_some_and(ListedRow::is_given_up));
            } else if let (true, Some(more)) = (list, line.strip_prefix(b"# ")) {
                let head = this.heads.last_mut().unwrap();
                head.label.push_str(&String::from_utf8_lossy(more));
            } else if line.first() == Some(&b'#') {
                if let Some(head) = Head::parse(&String::from_utf8_lossy(line)) {
                    list = head.label.starts_with("Gtid list") || head.label.starts_with("Previous-GTIDs");
                    this.heads.push(head);
                }
            } else if let Some(rest) = line.strip_prefix(b"SET @@SESSION.GTID_NEXT= '") {
                let gtid = rest.split(|b| *b == b'\'').next().unwrap();
                if gtid != b"AUTOMATIC" {
                    this.gtids.push(String::from_utf8_lossy(gtid).into_owned());
                }
            } else if line.starts_with(b"ERROR: ") {
                this.failed = true;
            }
        }
        this
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Head {
    fn parse(line: &str) -> Option<Self> {
        let (when, rest) = line.strip_prefix('#')?.split_once(" server id ")?;
        let (server_id, rest) = rest.split_once("  end_log_pos ")?;
        let (log_pos, rest) = rest.split_once([' ', '\t'])?;
        let (crc, label) = match rest.strip_prefix("CRC32 0x") {
            Some(rest) => (Some(u32::from_str_radix(rest.get(..8)?, 16).ok()?), rest.get(8..)?),
            None => (None, rest),
        };
        let label = label.trim_start_matches([' ', '\t']).to_owned();
        let (server_id, log_pos) = (server_id.parse().ok()?, log_pos.parse().ok()?);
        Some(Self { timestamp: timestamp(when)?, server_id, log_pos, crc, label })
    }
}

/// `YYMMDD [H]H:MM:SS` in UTC, of 1970 to 2069.
fn timestamp(text: &str) -> Option<u32> {
    let (date, time) = text.split_at_checked(6)?;
    let date: i64 = date.parse().ok()?;
    let mut time = time.trim_start().split(':').map(|n| n.parse::<i64>());
    let mut part = || time.next()?.ok();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let year = if year < 70 { 2000 + year } else { 1900 + year };
    // Days since 1970 of a date in the Gregorian calendar, counted from March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    u32::try_from(days * 86_400 + hours * 3600 + minutes * 60 + seconds).ok()
}
