//! Global functions.

use std::cell::{Cell, RefCell};

use crate::arguments::{Args, integer, text};
use crate::error::{Error, ErrorKind};
use crate::eval::Vm;
use crate::value::{Cycler, Iter, Joiner, Object, OwnDict, Val, str_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    Range,
    Dict,
    Lipsum,
    Cycler,
    Joiner,
    Namespace,
    Zip,
    RaiseException,
    StrftimeNow,
}

/// Looks up a global function. Chat templates have those of `transformers`, which lacks `zip`.
pub(crate) fn lookup(name: &str, chat: bool) -> Option<Global> {
    Some(match name {
        "range" => Global::Range,
        "dict" => Global::Dict,
        "lipsum" => Global::Lipsum,
        "cycler" => Global::Cycler,
        "joiner" => Global::Joiner,
        "namespace" => Global::Namespace,
        "zip" if !chat => Global::Zip,
        "raise_exception" if chat => Global::RaiseException,
        "strftime_now" if chat => Global::StrftimeNow,
        _ => return None,
    })
}

/// Calls a global function.
pub(crate) fn call(vm: &mut Vm<'_>, global: Global, args: Args) -> Result<Val, Error> {
    match global {
        Global::Range => range(vm, args),
        Global::Dict => Ok(Val::dict(entries(vm, "dict", args)?)),
        Global::Namespace => {
            let entries = entries(vm, "namespace", args)?;
            Ok(Val::object(Object::Namespace(RefCell::new(entries))))
        }
        Global::Zip => zip(vm, &args),
        Global::Cycler => {
            if !args.keywords.is_empty() {
                return Err(Error::type_error("`cycler` accepts no keyword arguments"));
            }
            if args.positional.is_empty() {
                return Err(Error::value_error("`cycler` needs at least one item"));
            }
            Ok(Val::object(Object::Cycler(Cycler { items: args.positional, position: Cell::new(0) })))
        }
        Global::Joiner => {
            let [separator] = args.bind("joiner", ["sep"], 0)?;
            let separator = separator.unwrap_or_else(|| Val::str(", "));
            Ok(Val::object(Object::Joiner(Joiner { separator, used: Cell::new(false) })))
        }
        Global::Lipsum => lipsum(vm, args),
        Global::RaiseException => {
            let [message] = args.bind("raise_exception", ["message"], 1)?;
            let message = message.unwrap_or(Val::None);
            Err(Error::new(ErrorKind::Raised, str_of(&message)?.to_string()))
        }
        Global::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"], 1)?;
            let format = format.unwrap_or(Val::None);
            match &vm.settings.clock {
                Some(clock) => Ok(Val::str(clock(text(&format)?))),
                None => Err(Error::value_error("`strftime_now` is not available here")),
            }
        }
    }
}

fn range(vm: &mut Vm<'_>, args: Args) -> Result<Val, Error> {
    let [first, second, step] = args.bind_positional("range", 1)?;
    let number = |value: Option<Val>, default: i64| match value {
        Some(value) => integer(&value),
        None => Ok(default),
    };
    let step = number(step, 1)?;
    if step == 0 {
        return Err(Error::value_error("`range` needs a nonzero step"));
    }
    let (start, stop) = match second {
        Some(stop) => (number(first, 0)?, integer(&stop)?),
        None => (0, number(first, 0)?),
    };
    let object = Object::Range { start, stop, step };
    // Reference: chat templates run in a sandbox that limits ranges.
    if vm.settings.chat && object.length().unwrap_or_default() > 100_000 {
        return Err(Error::limit("The range has more than 100000 numbers"));
    }
    Ok(Val::object(object))
}

/// Zips iterables up to the shortest one.
fn zip(vm: &mut Vm<'_>, args: &Args) -> Result<Val, Error> {
    if let Some((name, _)) = args.keywords.first() {
        return Err(Error::type_error(format!("`zip` has no parameter `{name}`")));
    }
    let mut columns = args.positional.iter().map(Iter::over).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    while !columns.is_empty() {
        let mut row = Vec::with_capacity(columns.len());
        for column in &mut columns {
            match column.next(vm)? {
                Some(item) => row.push(item),
                None => return Ok(Val::list(rows)),
            }
        }
        rows.push(Val::tuple(row));
    }
    Ok(Val::list(rows))
}

/// The arguments of Python's `dict`.
fn entries(vm: &mut Vm<'_>, function: &str, args: Args) -> Result<OwnDict, Error> {
    let mut dict = OwnDict::default();
    if args.positional.len() > 1 {
        return Err(Error::type_error(format!("`{function}` accepts only one positional argument")));
    }
    if let Some(source) = args.positional.first() {
        merge(vm, &mut dict, source)?;
    }
    for (name, value) in args.keywords {
        dict.insert((&*name).into(), value);
    }
    Ok(dict)
}

/// Adds the entries of a mapping or of pairs, like `dict.update`.
pub(crate) fn merge(vm: &mut Vm<'_>, dict: &mut OwnDict, source: &Val) -> Result<(), Error> {
    if let Val::Dict(other) = source {
        for (key, value) in other.entries() {
            dict.insert(key.to_key()?, value);
        }
        return Ok(());
    }
    if let Val::Undefined(undefined) = source {
        return Err(undefined.error());
    }
    let mut pairs = Iter::over(source)?;
    while let Some(pair) = pairs.next(vm)? {
        let pair = Iter::over(&pair)?.collect(vm)?;
        let [key, value] = pair.as_slice() else {
            return Err(Error::value_error("Every item must be a key-value pair"));
        };
        dict.insert(key.to_key()?, value.clone());
    }
    Ok(())
}

const WORDS: [&str; 32] = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "eiusmod",
    "tempor",
    "incididunt",
    "labore",
    "dolore",
    "magna",
    "aliqua",
    "enim",
    "minim",
    "veniam",
    "quis",
    "nostrud",
    "exercitation",
    "ullamco",
    "laboris",
    "nisi",
    "aliquip",
    "commodo",
    "consequat",
    "duis",
    "aute",
    "irure",
    "velit",
];

/// Filler text; random in Python, so only its shape can match.
fn lipsum(vm: &mut Vm<'_>, args: Args) -> Result<Val, Error> {
    let [count, html, least, most] = args.bind("lipsum", ["n", "html", "min", "max"], 0)?;
    let number = |value: Option<Val>, default: i64| value.map_or(Ok(default), |value| integer(&value));
    let count = number(count, 5)?;
    let html = html.map_or(Ok(true), |value| value.truth())?;
    let least = number(least, 20)?;
    let most = number(most, 100)?.max(least.saturating_add(1));
    // A word with its space takes about eight bytes.
    let bytes = count.max(0).checked_mul(most.max(1)).and_then(|words| words.checked_mul(8));
    Vm::check_size(bytes.and_then(|bytes| usize::try_from(bytes).ok()))?;
    let mut paragraphs = Vec::new();
    for _ in 0..count {
        let length = least + (vm.next_random() % most.abs_diff(least)) as i64;
        vm.spend(length.unsigned_abs())?;
        let mut words = Vec::new();
        for _ in 0..length {
            words.push(WORDS[(vm.next_random() % WORDS.len() as u64) as usize]);
        }
        let sentence = lmeval_pycompat::strings::capitalize(&words.join(" ")) + ".";
        paragraphs.push(if html { format!("<p>{sentence}</p>") } else { sentence });
    }
    Ok(if html { Val::Markup(paragraphs.join("\n").into()) } else { Val::str(paragraphs.join("\n\n")) })
}

impl Vm<'_> {
    /// The next number of a generator that starts with the same seed in every rendering.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
