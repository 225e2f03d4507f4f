//! Filters that lazily apply other filters and tests to a sequence.

use std::sync::Arc;

use lmeval_pycompat::Dict;

use super::attribute::{Path, ignore_case};
use crate::arguments::{Args, text};
use crate::error::{Error, ErrorKind, unknown_name};
use crate::eval::Vm;
use crate::predicates;
use crate::value::{Iter, Object, Val, ValueIterator};

/// The source of a generator, opened when the first item is requested.
#[derive(Debug)]
struct Lazy {
    value: Val,
    source: Option<Iter>,
}

impl Lazy {
    fn new(value: Val) -> Self {
        Self { value, source: None }
    }

    /// Opens the source; an empty or false value has no items and is never opened.
    fn open(&mut self) -> Result<bool, Error> {
        if self.source.is_some() {
            return Ok(false);
        }
        self.source = Some(if self.value.truth()? { Iter::over(&self.value)? } else { Iter::Empty });
        Ok(true)
    }

    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        self.source.as_mut().map_or(Ok(None), |source| source.next(vm))
    }
}

#[derive(Debug)]
enum Mapping {
    Path(Path),
    Filter(Arc<str>, Args),
}

#[derive(Debug)]
struct Mapped {
    source: Lazy,
    args: Args,
    mapping: Option<Mapping>,
}

impl Mapped {
    fn prepare(&self) -> Result<Mapping, Error> {
        let mut args = self.args.clone();
        if args.positional.is_empty() {
            if let Some(position) = args.keywords.iter().position(|(name, _)| **name == *"attribute") {
                let (_, attribute) = args.keywords.remove(position);
                let [default] = args.bind("map", ["default"], 0)?;
                return Ok(Mapping::Path(Path::new(Some(&attribute), default)));
            }
            return Err(Error::type_error("`map` needs a filter or an attribute"));
        }
        let name = args.positional.remove(0);
        Ok(Mapping::Filter(text(&name)?.clone(), args))
    }
}

impl ValueIterator for Mapped {
    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        if self.source.open()? && !matches!(self.source.source, Some(Iter::Empty)) {
            self.mapping = Some(self.prepare()?);
        }
        let Some(item) = self.source.next(vm)? else {
            return Ok(None);
        };
        match &self.mapping {
            Some(Mapping::Path(path)) => path.get(vm, &item).map(Some),
            Some(Mapping::Filter(name, args)) => {
                let Some(function) = super::lookup(name, vm.settings.chat) else {
                    return Err(unknown_name(ErrorKind::UnknownFilter, name, vm.settings.chat));
                };
                function(vm, &item, args.clone()).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// `map(filter, …)` or `map(attribute=…, default=…)`.
pub(super) fn map(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    Ok(Object::generator(Mapped { source: Lazy::new(value.clone()), args, mapping: None }, "generator"))
}

#[derive(Debug)]
struct Selected {
    source: Lazy,
    args: Args,
    path: Option<Path>,
    test: Option<Arc<str>>,
    with_path: bool,
    keep: bool,
}

impl Selected {
    fn prepare(&mut self) -> Result<(), Error> {
        if self.with_path {
            if self.args.positional.is_empty() {
                return Err(Error::type_error("The attribute name is missing"));
            }
            let attribute = self.args.positional.remove(0);
            self.path = Some(Path::new(Some(&attribute), None));
        }
        if !self.args.positional.is_empty() {
            let name = self.args.positional.remove(0);
            self.test = Some(text(&name)?.clone());
        }
        Ok(())
    }

    fn passes(&self, vm: &mut Vm<'_>, item: &Val) -> Result<bool, Error> {
        let value = match &self.path {
            Some(path) => path.get(vm, item)?,
            None => item.clone(),
        };
        let Some(name) = &self.test else {
            return value.truth();
        };
        let Some(function) = predicates::lookup(name) else {
            return Err(unknown_name(ErrorKind::UnknownTest, name, vm.settings.chat));
        };
        function(vm, &value, self.args.clone())
    }
}

impl ValueIterator for Selected {
    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        if self.source.open()? && !matches!(self.source.source, Some(Iter::Empty)) {
            self.prepare()?;
        }
        while let Some(item) = self.source.next(vm)? {
            if self.passes(vm, &item)? == self.keep {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

fn selection(value: Val, args: Args, with_path: bool, keep: bool) -> Val {
    let source = Lazy::new(value);
    Object::generator(Selected { source, args, path: None, test: None, with_path, keep }, "generator")
}

/// `select(test, …)`.
pub(super) fn select(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    Ok(selection(value.clone(), args, false, true))
}

/// `reject(test, …)`.
pub(super) fn reject(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    Ok(selection(value.clone(), args, false, false))
}

/// `selectattr(attribute, test, …)`.
pub(super) fn selectattr(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    Ok(selection(value.clone(), args, true, true))
}

/// `rejectattr(attribute, test, …)`.
pub(super) fn rejectattr(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    Ok(selection(value.clone(), args, true, false))
}

#[derive(Debug)]
struct Unique {
    value: Val,
    source: Option<Iter>,
    sensitive: bool,
    path: Path,
    seen: Dict,
    seen_undefined: bool,
}

impl ValueIterator for Unique {
    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        if self.source.is_none() {
            self.source = Some(Iter::over(&self.value)?);
        }
        while let Some(item) = self.source.as_mut().map_or(Ok(None), |source| source.next(vm))? {
            let key = self.path.get(vm, &item)?;
            let key = if self.sensitive { key } else { ignore_case(key) };
            // Undefined values of chat templates are equal to each other and to nothing else.
            if matches!(&key, Val::Undefined(undefined) if !undefined.strict) {
                if std::mem::replace(&mut self.seen_undefined, true) {
                    continue;
                }
                return Ok(Some(item));
            }
            let key = key.to_key()?;
            if self.seen.get(&key).is_none() {
                self.seen.insert(key, true);
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

/// `unique(case_sensitive, attribute)`.
pub(super) fn unique(_: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let [sensitive, attribute] = args.bind("unique", ["case_sensitive", "attribute"], 0)?;
    let sensitive = sensitive.map_or(Ok(false), |sensitive| sensitive.truth())?;
    let path = Path::new(attribute.as_ref(), None);
    Ok(Object::generator(
        Unique {
            value: value.clone(),
            source: None,
            sensitive,
            path,
            seen: Dict::new(),
            seen_undefined: false,
        },
        "generator",
    ))
}
