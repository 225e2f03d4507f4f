//! Filters: the names after `|`.

#![expect(clippy::unnecessary_wraps, reason = "all filters have one signature")]

mod attribute;
mod escaping;
mod harness;
mod json;
mod number;
mod select;
mod sequence;
mod text;
mod unsupported;

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::Val;

pub(crate) use unsupported::{is_unsupported, refusal};

/// A filter of a value with arguments.
pub(crate) type FilterFunction = fn(&mut Vm<'_>, &Val, Args) -> Result<Val, Error>;

/// All filters, sorted by name.
const FILTERS: [(&str, FilterFunction); 51] = [
    ("abs", number::abs),
    ("answer_key_to_index", harness::answer_key_to_index),
    ("attr", attribute::attr),
    ("batch", sequence::batch),
    ("capitalize", text::capitalize),
    ("center", text::center),
    ("count", sequence::length),
    ("d", sequence::default),
    ("default", sequence::default),
    ("dictsort", sequence::dictsort),
    ("e", escaping::escape),
    ("escape", escaping::escape),
    ("first", sequence::first),
    ("float", number::float),
    ("forceescape", escaping::forceescape),
    ("format", text::format),
    ("groupby", sequence::groupby),
    ("indent", text::indent),
    ("int", number::int),
    ("items", sequence::items),
    ("join", text::join),
    ("last", sequence::last),
    ("length", sequence::length),
    ("letter_choices", harness::letter_choices),
    ("list", sequence::list),
    ("lower", text::lower),
    ("map", select::map),
    ("max", sequence::max),
    ("min", sequence::min),
    ("random", sequence::random),
    ("regex_replace", harness::regex_replace),
    ("reject", select::reject),
    ("rejectattr", select::rejectattr),
    ("replace", text::replace),
    ("reverse", sequence::reverse),
    ("round", number::round),
    ("safe", escaping::safe),
    ("select", select::select),
    ("selectattr", select::selectattr),
    ("slice", sequence::slice),
    ("sort", sequence::sort),
    ("string", text::string),
    ("sum", number::sum),
    ("title", text::title),
    ("tojson", json::tojson),
    ("trim", text::trim),
    ("truncate", text::truncate),
    ("unique", select::unique),
    ("upper", text::upper),
    ("urlencode", escaping::urlencode),
    ("wordcount", text::wordcount),
];

/// Filters available only in prompts.
const HARNESS: [&str; 3] = ["answer_key_to_index", "letter_choices", "regex_replace"];

/// Looks up a filter.
pub(crate) fn lookup(name: &str, chat: bool) -> Option<FilterFunction> {
    if chat && HARNESS.contains(&name) {
        return None;
    }
    FILTERS.binary_search_by(|(known, _)| (*known).cmp(name)).ok().map(|index| FILTERS[index].1)
}

/// The names of all filters.
pub(crate) fn names(chat: bool) -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|(name, _)| *name).filter(move |name| !chat || !HARNESS.contains(name))
}
