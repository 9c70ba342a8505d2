//! Bodies of the fuzz targets over this crate. The targets and the test `generated` run the same code.

pub(crate) mod event;
pub(crate) mod rows;
pub(crate) mod touch;
