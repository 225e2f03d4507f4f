//! Filters: what may stand after `|`.
use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::Val;

/// A filter: the value and the arguments in, a value out.
pub(crate) type FilterFunction = fn(&mut Vm<'_>, Val, Args) -> Result<Val, Error>;

const NAMES: [&str; 57] = ["abs","answer_key_to_index","attr","batch","capitalize","center","count","d","default","dictsort","e","escape","filesizeformat","first","float","forceescape","format","groupby","indent","int","items","join","last","length","letter_choices","list","lower","map","max","min","pprint","random","regex_replace","reject","rejectattr","replace","reverse","round","safe","select","selectattr","slice","sort","string","striptags","sum","title","tojson","trim","truncate","unique","upper","urlencode","urlize","wordcount","wordwrap","xmlattr"];

pub(crate) fn lookup(name: &str, _chat: bool) -> Option<FilterFunction> {
    NAMES.contains(&name).then_some((|_, value, _| Ok(value)) as FilterFunction)
}
pub(crate) fn names(_chat: bool) -> impl Iterator<Item = &'static str> { NAMES.iter().copied() }
