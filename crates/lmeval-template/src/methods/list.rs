//! Methods of lists, tuples and sets.

use std::rc::Rc;

use lmeval_pycompat::Value;

use super::unknown;
use crate::arguments::{Args, integer};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Items, Iter, OwnList, Val, equals, less_than, sort_by};

pub(super) const LIST_NAMES: [&str; 11] =
    ["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"];
pub(super) const TUPLE_NAMES: [&str; 2] = ["count", "index"];
pub(super) const SET_NAMES: [&str; 8] = [
    "copy",
    "difference",
    "intersection",
    "isdisjoint",
    "issubset",
    "issuperset",
    "symmetric_difference",
    "union",
];

/// Calls a method of a list or tuple.
pub(super) fn call(
    vm: &mut Vm<'_>,
    receiver: &Val,
    items: &Items,
    name: &str,
    args: Args,
) -> Result<Val, Error> {
    match name {
        "index" => {
            let [wanted, start, stop] = args.bind_positional(name, 1)?;
            return index(items, &wanted.unwrap_or(Val::None), start.as_ref(), stop.as_ref());
        }
        "count" => {
            let [wanted] = args.bind_positional(name, 1)?;
            let wanted = wanted.unwrap_or(Val::None);
            let mut count = 0;
            for item in items.iter() {
                count += i64::from(equals(&item, &wanted)?);
            }
            return Ok(Val::Int(count));
        }
        "copy" => {
            args.none(name)?;
            return Ok(Val::list(items.to_vec()));
        }
        _ => {}
    }
    let Items::Own(list) = items else {
        // Documents are only changed through copies, which the compiler requests.
        return Err(Error::type_error(format!("`{name}` would change the document")));
    };
    change(vm, receiver, list, name, args)
}

fn index(items: &Items, wanted: &Val, start: Option<&Val>, stop: Option<&Val>) -> Result<Val, Error> {
    let length = items.len() as i64;
    let position = |value: Option<&Val>, default: i64| -> Result<i64, Error> {
        let number = value.map_or(Ok(default), integer)?;
        Ok(if number < 0 { number.saturating_add(length).max(0) } else { number })
    };
    let (start, stop) = (position(start, 0)?, position(stop, i64::MAX)?);
    for (position, item) in items.iter().enumerate() {
        let position = position as i64;
        if position >= start && position < stop && equals(&item, wanted)? {
            return Ok(Val::Int(position));
        }
    }
    Err(Error::value_error(format!("The list does not contain {}", crate::value::repr_of(wanted)?)))
}

fn change(vm: &mut Vm<'_>, receiver: &Val, list: &Rc<OwnList>, name: &str, args: Args) -> Result<Val, Error> {
    match name {
        "append" => {
            let [item] = args.bind_positional(name, 1)?;
            list.items.borrow_mut().push(item.unwrap_or(Val::None));
        }
        "clear" => {
            args.none(name)?;
            let removed = std::mem::take(&mut *list.items.borrow_mut());
            drop(removed);
        }
        "extend" => {
            let [source] = args.bind_positional(name, 1)?;
            let more = Iter::over(&source.unwrap_or(Val::None))?.collect(vm)?;
            Vm::check_size(list.items.borrow().len().checked_add(more.len()))?;
            list.items.borrow_mut().extend(more);
        }
        "insert" => {
            let [position, item] = args.bind_positional(name, 2)?;
            let position = integer(&position.unwrap_or(Val::None))?;
            let mut items = list.items.borrow_mut();
            let length = items.len() as i64;
            let position =
                if position < 0 { position.saturating_add(length).max(0) } else { position.min(length) };
            items.insert(position as usize, item.unwrap_or(Val::None));
        }
        "pop" => {
            let [position] = args.bind_positional(name, 0)?;
            let position = position.map_or(Ok(-1), |position| integer(&position))?;
            let mut items = list.items.borrow_mut();
            let length = items.len() as i64;
            let position = if position < 0 { position.saturating_add(length) } else { position };
            if !(0..length).contains(&position) {
                return Err(Error::value_error("The list has no item to pop at this index"));
            }
            return Ok(items.remove(position as usize));
        }
        "remove" => {
            let [wanted] = args.bind_positional(name, 1)?;
            let wanted = wanted.unwrap_or(Val::None);
            let items = list.items.borrow().clone();
            for (position, item) in items.iter().enumerate() {
                if equals(item, &wanted)? {
                    list.items.borrow_mut().remove(position);
                    return Ok(Val::None);
                }
            }
            return Err(Error::value_error("The list does not contain the value to remove"));
        }
        "reverse" => {
            args.none(name)?;
            list.items.borrow_mut().reverse();
        }
        "sort" => {
            let [key, reverse] = args.bind(name, ["key", "reverse"], 0)?;
            let reverse = reverse.map_or(Ok(false), |reverse| reverse.truth())?;
            let items = list.items.borrow().clone();
            vm.spend(items.len() as u64)?;
            let mut keyed = Vec::with_capacity(items.len());
            for item in items {
                let sort_key = match &key {
                    None | Some(Val::None) => item.clone(),
                    Some(function) => vm.call(function, Args::positional(vec![item.clone()]))?,
                };
                keyed.push((sort_key, item));
            }
            let sorted = sort_by(keyed, &mut |left, right| {
                if reverse { less_than(&right.0, &left.0) } else { less_than(&left.0, &right.0) }
            })?;
            *list.items.borrow_mut() = sorted.into_iter().map(|(_, item)| item).collect();
        }
        _ => return Err(unknown(receiver, name)),
    }
    Ok(Val::None)
}

/// Calls a method of a set.
pub(super) fn call_set(vm: &mut Vm<'_>, items: &[Value], name: &str, args: Args) -> Result<Val, Error> {
    if name == "copy" {
        args.none(name)?;
        return Ok(Val::from(&Value::set(items.iter().cloned())));
    }
    let [other] = args.bind_positional(name, 1)?;
    let other = Iter::over(&other.unwrap_or(Val::None))?.collect(vm)?;
    let other: Result<Vec<Value>, Error> = other.iter().map(Val::to_key).collect();
    let other = other?;
    let make = |items: Vec<Value>| Val::from(&Value::set(items));
    Ok(match name {
        "union" => make(items.iter().cloned().chain(other).collect()),
        "intersection" => make(items.iter().filter(|item| other.contains(item)).cloned().collect()),
        "difference" => make(items.iter().filter(|item| !other.contains(item)).cloned().collect()),
        "symmetric_difference" => {
            let left = items.iter().filter(|item| !other.contains(item));
            let right = other.iter().filter(|item| !items.contains(item));
            make(left.chain(right).cloned().collect())
        }
        "isdisjoint" => Val::Bool(!items.iter().any(|item| other.contains(item))),
        "issubset" => Val::Bool(items.iter().all(|item| other.contains(item))),
        _ => Val::Bool(other.iter().all(|item| items.contains(item))),
    })
}
