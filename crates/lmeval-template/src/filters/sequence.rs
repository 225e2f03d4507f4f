//! Filters on sequences and mappings.

use std::cell::RefCell;
use std::rc::Rc;

use super::attribute::{Path, ignore_case};
use crate::arguments::{Args, integer};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Items, Iter, Object, OwnList, Val, ValueIterator, ViewKind, equals, less_than, sort_by};

fn truth(value: Option<Val>) -> Result<bool, Error> {
    value.map_or(Ok(false), |value| value.truth())
}

/// `default(default_value, boolean)`.
pub(super) fn default(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [default, boolean] = args.bind("default", ["default_value", "boolean"], 0)?;
    let missing = value.is_undefined() || (truth(boolean)? && !value.truth()?);
    Ok(if missing { default.unwrap_or_else(|| Val::str("")) } else { value.clone() })
}

/// `length`.
pub(super) fn length(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("length")?;
    value.length().map(Val::from_usize)
}

/// `list`.
pub(super) fn list(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("list")?;
    Ok(Val::list(Iter::over(value)?.collect(vm)?))
}

/// `first`.
pub(super) fn first(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("first")?;
    match Iter::over(value)?.next(vm)? {
        Some(item) => Ok(item),
        None => Ok(vm.undefined_message("An empty sequence has no first item")),
    }
}

/// The items in reverse order, if Python's `reversed` accepts the value.
fn reversed(vm: &mut Vm<'_>, value: &Val) -> Result<Option<Vec<Val>>, Error> {
    let reversible = match value {
        Val::Str(_) | Val::Markup(_) | Val::Bytes(_) | Val::List(_) | Val::Tuple(_) | Val::Dict(_) => true,
        Val::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
        Val::Undefined(_) => true,
        Val::Object(object) => matches!(&**object, Object::Range { .. } | Object::View(..)),
        _ => false,
    };
    if !reversible {
        return Ok(None);
    }
    let mut items = Iter::over(value)?.collect(vm)?;
    items.reverse();
    Ok(Some(items))
}

/// `last`.
pub(super) fn last(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("last")?;
    if let Val::List(items) | Val::Tuple(items) = value
        && let Some(item) = items.len().checked_sub(1).and_then(|last| items.get(last))
    {
        return Ok(item);
    }
    match reversed(vm, value)? {
        Some(items) => match items.into_iter().next() {
            Some(item) => Ok(item),
            None => Ok(vm.undefined_message("An empty sequence has no last item")),
        },
        None => Err(Error::type_error(format!("A value of type `{}` cannot be reversed", value.type_name()))),
    }
}

/// `reverse`.
pub(super) fn reverse(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("reverse")?;
    if let Val::Str(text) | Val::Markup(text) = value {
        return Ok(Val::text_like(value, text.chars().rev().collect::<String>()));
    }
    if let Some(items) = reversed(vm, value)? {
        let label = match value {
            Val::List(_) => "list_reverseiterator",
            Val::Dict(_) => "dict_reversekeyiterator",
            Val::Object(_) => "range_iterator",
            _ => "reversed",
        };
        let source = RefCell::new(Iter::Owned(items.into_iter()));
        return Ok(Val::object(Object::Iterator { source, label }));
    }
    let mut items = Iter::over(value)?.collect(vm)?;
    items.reverse();
    Ok(Val::list(items))
}

/// `random`: an arbitrary item.
pub(super) fn random(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("random")?;
    let length = value.length()?;
    if length == 0 {
        return Ok(vm.undefined_message("An empty sequence has no random item"));
    }
    let index = (vm.next_random() % length as u64) as i64;
    match Vm::plain_item(value, &Val::Int(index))? {
        Some(item) => Ok(item),
        None => Err(Error::type_error(format!("A value of type `{}` cannot be indexed", value.type_name()))),
    }
}

/// `items`: the pairs of a mapping; nothing for an undefined value.
pub(super) fn items(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    args.none("items")?;
    #[derive(Debug)]
    struct Pairs(Val, Option<Iter>);
    impl ValueIterator for Pairs {
        fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
            if self.1.is_none() {
                self.1 = Some(match &self.0 {
                    Val::Undefined(_) => Iter::Empty,
                    Val::Dict(dict) => Iter::over(&Val::object(Object::View(ViewKind::Items, dict.clone())))?,
                    other => {
                        let message = format!("`items` needs a mapping, not `{}`", other.type_name());
                        return Err(Error::type_error(message));
                    }
                });
            }
            self.1.as_mut().map_or(Ok(None), |iterator| iterator.next(vm))
        }
    }
    Ok(Object::generator(Pairs(value.clone(), None), "generator"))
}

/// Sorts items by keys; stable in reverse order too.
fn sorted(items: Vec<(Val, Val)>, reverse: bool) -> Result<Vec<Val>, Error> {
    let sorted = sort_by(items, &mut |left, right| {
        if reverse { less_than(&right.0, &left.0) } else { less_than(&left.0, &right.0) }
    })?;
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

/// The argument `reverse`, which Python accepts as an integer.
fn is_reverse(reverse: Option<&Val>) -> Result<bool, Error> {
    let Some(value) = reverse else { return Ok(false) };
    match value.as_int() {
        Some(number) => Ok(number != 0),
        None => {
            Err(Error::type_error(format!("`reverse` must be true or false, not `{}`", value.type_name())))
        }
    }
}

/// `sort(reverse, case_sensitive, attribute)`.
pub(super) fn sort(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [reverse, sensitive, attribute] = args.bind("sort", ["reverse", "case_sensitive", "attribute"], 0)?;
    let sensitive = truth(sensitive)?;
    let paths = Path::several(attribute.as_ref());
    let mut keyed = Vec::new();
    for item in Iter::over(value)?.collect(vm)? {
        let mut keys = Vec::with_capacity(paths.len());
        for path in &paths {
            let key = path.get(vm, &item)?;
            keys.push(if sensitive { key } else { ignore_case(key) });
        }
        keyed.push((Val::list(keys), item));
    }
    let reverse = is_reverse(reverse.as_ref())?;
    // Python compares lists of keys by equality first, so a single undefined key is not used.
    sorted(keyed, reverse).map(Val::list)
}

/// `dictsort(case_sensitive, by, reverse)`.
pub(super) fn dictsort(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [sensitive, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"], 0)?;
    let sensitive = truth(sensitive)?;
    let by_value = match by.as_ref().and_then(Val::as_text).map(|by| &**by) {
        None if by.is_none() => false,
        Some("key") => false,
        Some("value") => true,
        _ => return Err(Error::value_error("`by` of `dictsort` must be `key` or `value`")),
    };
    let dict = match value {
        Val::Dict(dict) => dict.clone(),
        Val::Undefined(undefined) => return Err(undefined.error()),
        other => {
            return Err(Error::type_error(format!(
                "`dictsort` needs a mapping, not `{}`",
                other.type_name()
            )));
        }
    };
    vm.spend(dict.len() as u64)?;
    let keyed = dict.entries().map(|(key, value)| {
        let sort_key = if by_value { value.clone() } else { key.clone() };
        let sort_key = if sensitive { sort_key } else { ignore_case(sort_key) };
        (sort_key, Val::tuple(vec![key, value]))
    });
    sorted(keyed.collect(), is_reverse(reverse.as_ref())?).map(Val::list)
}

/// `min(case_sensitive, attribute)`.
pub(super) fn min(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    extreme(vm, value, args, "min", |best, key| less_than(key, best))
}

/// `max(case_sensitive, attribute)`.
pub(super) fn max(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    extreme(vm, value, args, "max", less_than)
}

fn extreme(
    vm: &mut Vm<'_>,
    value: &Val,
    args: Args,
    name: &str,
    better: fn(&Val, &Val) -> Result<bool, Error>,
) -> Result<Val, Error> {
    let [sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"], 0)?;
    let sensitive = truth(sensitive)?;
    let path = Path::new(attribute.as_ref(), None);
    let mut iterator = Iter::over(value)?;
    let mut best: Option<(Val, Val)> = None;
    while let Some(item) = iterator.next(vm)? {
        let key = path.get(vm, &item)?;
        let key = if sensitive { key } else { ignore_case(key) };
        let wins = match &best {
            Some((known, _)) => better(known, &key)?,
            None => true,
        };
        if wins {
            best = Some((key, item));
        }
    }
    Ok(match best {
        Some((_, item)) => item,
        None => vm.undefined_message("An empty sequence has neither a minimum nor a maximum"),
    })
}

/// `groupby(attribute, default, case_sensitive)`.
pub(super) fn groupby(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let names = ["attribute", "default", "case_sensitive"];
    let [attribute, default, sensitive] = args.bind("groupby", names, 1)?;
    let sensitive = truth(sensitive)?;
    let path = Path::new(attribute.as_ref(), default);
    let mut keyed = Vec::new();
    for item in Iter::over(value)?.collect(vm)? {
        let key = path.get(vm, &item)?;
        keyed.push((if sensitive { key } else { ignore_case(key) }, item));
    }
    let keyed = sort_by(keyed, &mut |left, right| less_than(&left.0, &right.0))?;
    let mut groups: Vec<(Val, Vec<Val>)> = Vec::new();
    for (key, item) in keyed {
        let same = match groups.last() {
            Some((known, _)) => equals(known, &key)?,
            None => false,
        };
        match groups.last_mut() {
            Some((_, members)) if same => members.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut result = Vec::with_capacity(groups.len());
    for (key, members) in groups {
        let key = match members.first() {
            // The key as written in the first member, not lowercased.
            Some(first) if !sensitive => path.get(vm, first)?,
            _ => key,
        };
        let group = OwnList { items: RefCell::new(vec![key, Val::list(members)]), group: true };
        result.push(Val::Tuple(Items::Own(Rc::new(group))));
    }
    Ok(Val::list(result))
}

/// `batch(linecount, fill_with)`.
pub(super) fn batch(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    #[derive(Debug)]
    struct Batches {
        value: Val,
        source: Option<Iter>,
        size: i64,
        fill: Option<Val>,
        pending: Vec<Val>,
        done: bool,
    }
    impl ValueIterator for Batches {
        fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
            if self.done {
                return Ok(None);
            }
            if self.source.is_none() {
                self.source = Some(Iter::over(&self.value)?);
            }
            while let Some(item) = self.source.as_mut().map_or(Ok(None), |source| source.next(vm))? {
                if self.pending.len() as i64 == self.size {
                    let full = std::mem::replace(&mut self.pending, vec![item]);
                    return Ok(Some(Val::list(full)));
                }
                self.pending.push(item);
            }
            self.done = true;
            let mut rest = std::mem::take(&mut self.pending);
            if rest.is_empty() {
                return Ok(None);
            }
            if let Some(fill) = &self.fill {
                let size = Vm::check_size(usize::try_from(self.size.max(0)).ok())?;
                while rest.len() < size {
                    rest.push(fill.clone());
                }
            }
            Ok(Some(Val::list(rest)))
        }
    }
    let [size, fill] = args.bind("batch", ["linecount", "fill_with"], 1)?;
    let size = size.unwrap_or(Val::None);
    let size = match &size {
        Val::Float(number) if number.fract() == 0.0 => *number as i64,
        // Reference: a size that no count equals yields one batch of everything.
        other => other.as_int().unwrap_or(-1),
    };
    let fill = fill.filter(|fill| !matches!(fill, Val::None));
    Ok(Object::generator(
        Batches { value: value.clone(), source: None, size, fill, pending: Vec::new(), done: false },
        "generator",
    ))
}

/// `slice(slices, fill_with)`.
pub(super) fn slice(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    #[derive(Debug)]
    struct Slices {
        value: Val,
        count: Val,
        fill: Option<Val>,
        made: Option<std::vec::IntoIter<Val>>,
    }
    impl ValueIterator for Slices {
        fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
            if self.made.is_none() {
                self.made = Some(self.make(vm)?.into_iter());
            }
            Ok(self.made.as_mut().and_then(Iterator::next))
        }
    }
    impl Slices {
        fn make(&self, vm: &mut Vm<'_>) -> Result<Vec<Val>, Error> {
            let items = Iter::over(&self.value)?.collect(vm)?;
            let count = integer(&self.count)?;
            if count == 0 {
                return Err(Error::value_error("`slice` needs at least one slice"));
            }
            let count = Vm::check_size(usize::try_from(count.max(0)).ok())?;
            if count == 0 {
                return Ok(Vec::new());
            }
            vm.spend(count as u64)?;
            let (each, extra) = (items.len() / count, items.len() % count);
            let mut rest = items.into_iter();
            let mut slices = Vec::with_capacity(count);
            for index in 0..count {
                let mut part: Vec<Val> = rest.by_ref().take(each + usize::from(index < extra)).collect();
                if let (Some(fill), true) = (&self.fill, index >= extra) {
                    part.push(fill.clone());
                }
                slices.push(Val::list(part));
            }
            Ok(slices)
        }
    }
    let [count, fill] = args.bind("slice", ["slices", "fill_with"], 1)?;
    let fill = fill.filter(|fill| !matches!(fill, Val::None));
    Ok(Object::generator(
        Slices { value: value.clone(), count: count.unwrap_or(Val::None), fill, made: None },
        "generator",
    ))
}
