//! What the server says about the collations of key columns.

use std::collections::{BTreeMap, BTreeSet};

use millstream_binlog::{Charset, ColumnType, TableSchema};
use millstream_wire::{Connection, Error, Flavor};

use super::kind::{Order, order};

/// The weight of a space, 1 to 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceWeight {
    bytes: [u8; 8],
    len: u8,
}

impl SpaceWeight {
    pub(crate) fn new(weight: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..weight.len())?.copy_from_slice(weight);
        (!weight.is_empty()).then_some(Self { bytes, len: u8::try_from(weight.len()).ok()? })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// A collation by whose weights keys are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    /// The server's name.
    pub name: String,
    /// The weight of a space, if spaces at the end do not count (PAD SPACE).
    space: Option<SpaceWeight>,
}

impl Collation {
    /// A collation. `space` is the weight of a space for PAD SPACE, `None` for NO PAD.
    ///
    /// `None` if that weight is none that text can be padded with.
    #[must_use]
    pub fn new(name: &str, space: Option<&[u8]>) -> Option<Self> {
        let space = match space {
            Some(weight) => Some(SpaceWeight::new(weight)?),
            None => None,
        };
        Some(Self { name: name.to_owned(), space })
    }

    pub(super) const fn space(&self) -> Option<SpaceWeight> {
        self.space
    }
}

/// latin2_czech_cs and cp1250_czech_cs: their weights come in several passes, and what a space weighs depends on where it is.
const SEVERAL_PASSES: [u16; 2] = [2, 34];

/// The collations whose order only the server knows, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collations(BTreeMap<u16, Collation>);

impl Collations {
    /// Asks for the collations of the key columns of `tables`: as far as their order is not known without.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn read<'t>(
        connection: &mut Connection,
        tables: impl IntoIterator<Item = &'t TableSchema>,
    ) -> Result<Self, Error> {
        let wanted: BTreeSet<u16> = tables
            .into_iter()
            .flat_map(|t| t.key.iter().filter_map(|i| t.columns.get(*i)))
            .filter(|c| matches!(c.ty, ColumnType::Char { .. } | ColumnType::VarChar { .. }))
            .filter(|c| order(c.collation, c.charset) == Order::Weights)
            .map(|c| c.collation)
            .collect();
        let mut collations = Self::default();
        for id in wanted.into_iter().filter(|id| !SEVERAL_PASSES.contains(id)) {
            collations.ask(connection, id).await?;
        }
        Ok(collations)
    }

    async fn ask(&mut self, connection: &mut Connection, id: u16) -> Result<(), Error> {
        // A MariaDB's UCA collations are there for many character sets, under one short name.
        let place = if connection.version().is_at_least(Flavor::MariaDb, (10, 10, 0)) {
            "FULL_COLLATION_NAME AS n, CHARACTER_SET_NAME AS c FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        } else {
            "COLLATION_NAME AS n, CHARACTER_SET_NAME AS c FROM information_schema.COLLATIONS"
        };
        let named = connection.query_all(&format!("SELECT {place} WHERE ID = {id}")).await?;
        let (Some(name), Some(charset)) = (named.text(0, "n"), named.text(0, "c")) else { return Ok(()) };
        // A name from the catalog is letters, digits and underscores; anything else is left out, and refused as unknown.
        if ![name, charset].iter().all(|n| n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')) {
            return Ok(());
        }
        let text = |text: &str| format!("CONVERT('{text}' USING {charset}) COLLATE {name}");
        let facts = connection
            .query_all(&format!("SELECT {} = {} AS pads, WEIGHT_STRING({}) AS space", text("a"), text("a "), text(" ")))
            .await?;
        let space = facts.value(0, "space").filter(|_| facts.text(0, "pads") == Some("1"));
        if let Some(collation) = Collation::new(name, space) {
            self.insert(id, collation);
        }
        Ok(())
    }

    /// Adds or replaces one.
    pub fn insert(&mut self, id: u16, collation: Collation) {
        self.0.insert(id, collation);
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: u16) -> Option<&Collation> {
        self.0.get(&id)
    }

    /// The expression whose value is the weight of a text, given by its bytes.
    #[must_use]
    pub fn weight_of(&self, id: u16, charset: Charset, text: &[u8]) -> Option<String> {
        let name = &self.get(id)?.name;
        let literal = super::literal(&super::KeyValue::Text { bytes: text.to_vec(), charset });
        Some(format!("WEIGHT_STRING({literal} COLLATE {name})"))
    }
}
