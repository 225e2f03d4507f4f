//! Python's three string formatting methods: `%`, `str.format` and format specifications.

mod fields;
mod number;
mod percent;
mod specification;

pub(crate) use fields::format_fields;
pub(crate) use percent::percent;
