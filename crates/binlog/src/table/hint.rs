use millstream_wire::codec::{ParseError, Reader};

use super::metadata::Definition;
use super::physical::code;

/// What a TABLE_MAP says of a column beyond what its values need; `None` where it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ColumnHint {
    /// Whether `SELECT *` shows the column. Row images carry it in any case.
    pub visible: Option<bool>,
    /// Of a spatial column (`Field::geometry_type`): 0 GEOMETRY, 1 POINT, 2 LINESTRING, 3 POLYGON, 4 MULTIPOINT,
    /// 5 MULTILINESTRING, 6 MULTIPOLYGON, 7 GEOMETRYCOLLECTION.
    pub geometry_type: Option<u64>,
    /// Of a VECTOR column: its elements at most.
    pub dimensions: Option<u64>,
}

/// Of each column.
pub(crate) fn hints(definition: &Definition<'_>) -> Result<Vec<ColumnHint>, ParseError> {
    let mut geometry = definition.geometry_types.map(Reader::new);
    let mut dimensions = definition.dimensions.map(Reader::new);
    let mut out = Vec::new();
    for (i, ty) in definition.codes().enumerate() {
        let mut hint = ColumnHint::default();
        // A bit per column, most significant first.
        if let Some(bits) = definition.visible {
            let byte = Reader::new(bits.get(i >> 3..).unwrap_or_default()).u8("column visibility")?;
            hint.visible = Some((byte >> (7 & !i)) & 1 == 1);
        }
        if ty == code::GEOMETRY {
            hint.geometry_type = geometry.as_mut().map(|r| r.lenenc("geometry type")).transpose()?;
        }
        if ty == code::VECTOR {
            hint.dimensions = dimensions.as_mut().map(|r| r.lenenc("vector dimensions")).transpose()?;
        }
        out.push(hint);
    }
    for (rest, field) in [(geometry, "geometry types"), (dimensions, "vector dimensions")] {
        rest.map_or(Ok(()), |r| r.finish(field))?;
    }
    Ok(out)
}
