//! Descriptions of tensors, as torch pickles them.
//!
//! A pickle is a program that may name any function and call it. Here it is a list of steps of which those are known that
//! dictionaries of tensors are made of; nothing is called, and any other name is an error. Values refer to each other by number and
//! share what is long, so that what is made is no larger than a fixed number of times the pickle: texts are stored once, and a
//! tensor has no more than [`DIMENSIONS`] dimensions.

use std::rc::Rc;

use candle_core::DType;
use rustc_hash::FxHashMap;

/// How many dimensions a tensor has at most.
const DIMENSIONS: usize = 8;
/// How many bytes a name has at most; longer texts are none.
const NAME: usize = 4096;

/// A tensor, as it is described.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub(super) dtype: DType,
    /// The name of the numbers that it is part of.
    pub(super) storage: Rc<str>,
    /// Where the first number is.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// A tensor and its name.
type Named = (Rc<str>, Rc<Described>);

/// Numbers of a type, by the name of their class.
const STORAGES: [(&str, DType); 10] = [
    ("FloatStorage", DType::F32),
    ("HalfStorage", DType::F16),
    ("BFloat16Storage", DType::BF16),
    ("DoubleStorage", DType::F64),
    ("LongStorage", DType::I64),
    ("IntStorage", DType::I32),
    ("ShortStorage", DType::I16),
    ("ByteStorage", DType::U8),
    ("CharStorage", DType::U8),
    ("BoolStorage", DType::U8),
];

/// What may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    OrderedDict,
    Tensor,
    Parameter,
    TypedTensor,
    ParameterClass,
    Storage(DType),
}

type Number = usize;

#[derive(Clone, Debug)]
enum Value {
    Other,
    Whole(i64),
    Text(Rc<str>),
    Tuple(Vec<Number>),
    Dict(Vec<(Number, Number)>),
    Name(Name),
    Numbers { dtype: DType, storage: Rc<str> },
    Tensor(Rc<Described>),
}

/// The tensors of a pickled dictionary.
pub(super) fn read(pickle: &[u8]) -> Result<Vec<Named>, String> {
    let mut machine = Machine { rest: pickle, ..Machine::default() };
    let whole = machine.run()?;
    let Value::Dict(entries) = &machine.values[whole] else {
        return Err("it does not hold a dictionary of tensors".into());
    };
    let named =
        entries.iter().filter_map(|(name, value)| match (&machine.values[*name], &machine.values[*value]) {
            (Value::Text(name), Value::Tensor(tensor)) => Some((Rc::clone(name), Rc::clone(tensor))),
            _ => None,
        });
    let tensors: Vec<Named> = named.collect();
    if tensors.is_empty() { Err("its dictionary has no tensors".into()) } else { Ok(tensors) }
}

#[derive(Default)]
struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Number>,
    /// Heights of the stack that were marked.
    marks: Vec<usize>,
    memo: FxHashMap<u32, Number>,
}

fn damaged() -> String {
    "its description of tensors is damaged".into()
}

impl Machine<'_> {
    /// Goes through all steps and returns what is left at the end.
    fn run(&mut self) -> Result<Number, String> {
        loop {
            let [step] = self.array()?;
            match step {
                b'.' => return self.pop(),
                0x80 => drop(self.array::<1>()?),
                0x95 => drop(self.array::<8>()?),
                b'(' => self.marks.push(self.stack.len()),
                b'0' => drop(self.pop()?),
                b'2' => {
                    let top = self.top()?;
                    self.stack.push(top);
                }
                b'N' | 0x88 | 0x89 => self.push(Value::Other),
                b'G' => {
                    self.array::<8>()?;
                    self.push(Value::Other);
                }
                b'K' => {
                    let [number] = self.array()?;
                    self.push(Value::Whole(number.into()));
                }
                b'M' => {
                    let number = u16::from_le_bytes(self.array()?);
                    self.push(Value::Whole(number.into()));
                }
                b'J' => {
                    let number = i32::from_le_bytes(self.array()?);
                    self.push(Value::Whole(number.into()));
                }
                0x8a => self.long()?,
                b'X' | b'T' => {
                    let length = u32::from_le_bytes(self.array()?);
                    self.text(length as usize)?;
                }
                0x8c | b'U' => {
                    let [length] = self.array()?;
                    self.text(length.into())?;
                }
                b'q' => {
                    let [place] = self.array()?;
                    self.keep(place.into())?;
                }
                b'r' => {
                    let place = u32::from_le_bytes(self.array()?);
                    self.keep(place)?;
                }
                0x94 => self.keep(u32::try_from(self.memo.len()).map_err(|_| damaged())?)?,
                b'h' => {
                    let [place] = self.array()?;
                    self.recall(place.into())?;
                }
                b'j' => {
                    let place = u32::from_le_bytes(self.array()?);
                    self.recall(place)?;
                }
                _ => self.build(step)?,
            }
        }
    }

    /// Steps that make values of others.
    fn build(&mut self, step: u8) -> Result<(), String> {
        match step {
            b')' => self.push(Value::Tuple(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' => self.push(Value::Other),
            b't' => {
                let members = self.marked()?;
                self.push(Value::Tuple(members));
            }
            0x85..=0x87 => {
                let mut members = Vec::new();
                for _ in 0x84..step {
                    members.push(self.pop()?);
                }
                members.reverse();
                self.push(Value::Tuple(members));
            }
            // What is in lists is of no interest.
            b'a' => drop(self.pop()?),
            b'e' => drop(self.marked()?),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let entries = self.marked()?;
                self.set(&entries)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Name(name_of(&module, &name)?));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(name), Value::Text(module)) = (&self.values[name], &self.values[module])
                else {
                    return Err(damaged());
                };
                let name = name_of(module, name)?;
                self.push(Value::Name(name));
            }
            b'Q' => {
                let described = self.pop()?;
                let numbers = self.numbers(described)?;
                self.push(numbers);
            }
            b'R' => {
                let (arguments, name) = (self.pop()?, self.pop()?);
                let made = self.call(name, arguments)?;
                self.push(made);
            }
            // Attributes of dictionaries, such as the versions of their modules.
            b'b' => drop(self.pop()?),
            other => {
                return Err(format!(
                    "its description has the step {other:#04x}, which dictionaries of tensors do not have"
                ));
            }
        }
        Ok(())
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], String> {
        let (first, rest) = self.rest.split_first_chunk().ok_or_else(damaged)?;
        self.rest = rest;
        Ok(*first)
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    fn top(&self) -> Result<Number, String> {
        let bottom = self.marks.last().copied().unwrap_or_default();
        self.stack.get(bottom..).and_then(<[Number]>::last).copied().ok_or_else(damaged)
    }

    fn pop(&mut self) -> Result<Number, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// What stands above the last mark.
    fn marked(&mut self) -> Result<Vec<Number>, String> {
        let height = self.marks.pop().ok_or_else(damaged)?;
        if height > self.stack.len() {
            return Err(damaged());
        }
        Ok(self.stack.split_off(height))
    }

    fn keep(&mut self, place: u32) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Result<(), String> {
        let kept = *self.memo.get(&place).ok_or_else(damaged)?;
        self.stack.push(kept);
        Ok(())
    }

    fn text(&mut self, length: usize) -> Result<(), String> {
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(damaged)?;
        self.rest = rest;
        let is_name = length <= NAME;
        self.push(if is_name { Value::Text(String::from_utf8_lossy(text).into()) } else { Value::Other });
        Ok(())
    }

    fn long(&mut self) -> Result<(), String> {
        let [length] = self.array()?;
        let (bytes, rest) = self.rest.split_at_checked(length.into()).ok_or_else(damaged)?;
        self.rest = rest;
        // Larger numbers are none of a tensor.
        let mut wide = [if bytes.last().is_some_and(|last| *last > 127) { 0xff } else { 0 }; 8];
        let value = match wide.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                Value::Whole(i64::from_le_bytes(wide))
            }
            None => Value::Other,
        };
        self.push(value);
        Ok(())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let line = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end + 1..];
        Ok(line)
    }

    /// Adds keys and values to the dictionary on top of the stack.
    fn set(&mut self, entries: &[Number]) -> Result<(), String> {
        let top = self.top()?;
        let Value::Dict(dict) = &mut self.values[top] else { return Err(damaged()) };
        let (pairs, []) = entries.as_chunks::<2>() else { return Err(damaged()) };
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn tuple(&self, number: Number) -> Result<&[Number], String> {
        match &self.values[number] {
            Value::Tuple(members) => Ok(members),
            _ => Err(damaged()),
        }
    }

    /// Numbers that stand elsewhere in the file: `("storage", class, name, device, count)`.
    fn numbers(&self, described: Number) -> Result<Value, String> {
        let &[_, class, storage, ..] = self.tuple(described)? else { return Err(damaged()) };
        match (&self.values[class], &self.values[storage]) {
            (Value::Name(Name::Storage(dtype)), Value::Text(storage)) => {
                Ok(Value::Numbers { dtype: *dtype, storage: Rc::clone(storage) })
            }
            _ => Err(damaged()),
        }
    }

    /// What a call of a known name makes.
    fn call(&self, name: Number, arguments: Number) -> Result<Value, String> {
        let Value::Name(name) = self.values[name] else { return Err(damaged()) };
        let arguments = self.tuple(arguments)?;
        match (name, arguments) {
            (Name::OrderedDict, []) => Ok(Value::Dict(Vec::new())),
            (Name::Tensor, _) => self.tensor(arguments),
            (Name::Parameter, [tensor, ..]) => match &self.values[*tensor] {
                Value::Tensor(tensor) => Ok(Value::Tensor(Rc::clone(tensor))),
                _ => Err(damaged()),
            },
            (Name::TypedTensor, [function, _, arguments, ..]) => {
                if !matches!(self.values[*function], Value::Name(Name::Tensor)) {
                    return Err(damaged());
                }
                self.tensor(self.tuple(*arguments)?)
            }
            _ => Err(damaged()),
        }
    }

    /// A tensor: `(numbers, offset, shape, strides, needs gradients, hooks, metadata)`, of which the last may be missing.
    fn tensor(&self, arguments: &[Number]) -> Result<Value, String> {
        let &[numbers, offset, shape, strides, ..] = arguments else { return Err(damaged()) };
        let whole = |number: Number| match self.values[number] {
            Value::Whole(whole) => usize::try_from(whole).map_err(|_| damaged()),
            _ => Err(damaged()),
        };
        if let Some(metadata) = arguments.get(6) {
            match &self.values[*metadata] {
                Value::Other => {}
                Value::Dict(entries) if entries.is_empty() => {}
                _ => return Err("it has a tensor that is a negative or conjugate view of its numbers".into()),
            }
        }
        let sizes = |number: Number| {
            let sizes = self.tuple(number)?;
            if sizes.len() > DIMENSIONS {
                return Err(format!("it has a tensor of {} dimensions", sizes.len()));
            }
            sizes.iter().map(|size| whole(*size)).collect::<Result<Vec<usize>, String>>()
        };
        let (shape, strides) = (sizes(shape)?, sizes(strides)?);
        match &self.values[numbers] {
            Value::Numbers { dtype, storage } if shape.len() == strides.len() => {
                let (dtype, storage) = (*dtype, Rc::clone(storage));
                Ok(Value::Tensor(Rc::new(Described {
                    dtype,
                    storage,
                    offset: whole(offset)?,
                    shape,
                    strides,
                })))
            }
            _ => Err(damaged()),
        }
    }
}

/// A name that dictionaries of tensors may have.
fn name_of(module: &str, name: &str) -> Result<Name, String> {
    match (module, name) {
        ("collections", "OrderedDict") => return Ok(Name::OrderedDict),
        ("torch._utils", "_rebuild_tensor_v2") => return Ok(Name::Tensor),
        ("torch._utils", "_rebuild_parameter") => return Ok(Name::Parameter),
        ("torch._tensor", "_rebuild_from_type_v2") => return Ok(Name::TypedTensor),
        ("torch.nn.parameter", "Parameter") | ("torch", "Tensor") => return Ok(Name::ParameterClass),
        _ => {}
    }
    let storage = STORAGES.iter().find(|(known, _)| module == "torch" && *known == name);
    storage.map(|(_, dtype)| Name::Storage(*dtype)).ok_or_else(|| {
        format!("it asks for `{module}.{name}`, which weights do not need; nothing in it is run")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dictionary with the tensor `w`, as protocol 2 writes it.
    fn pickle() -> Vec<u8> {
        let text =
            |text: &str| [b"X".as_slice(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        [
            b"\x80\x02}q\x00(".to_vec(),
            text("w"),
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            b"ctorch\nHalfStorage\n".to_vec(),
            text("0"),
            text("cpu"),
            b"K\x06tQK\x02K\x02K\x01\x86K\x01K\x01\x86\x89N".to_vec(),
            b"tRu.".to_vec(),
        ]
        .concat()
    }

    #[test]
    fn tensors_are_described() {
        let expected = Described {
            dtype: DType::F16,
            storage: "0".into(),
            offset: 2,
            shape: vec![2, 1],
            strides: vec![1, 1],
        };
        assert_eq!(read(&pickle()).unwrap(), [("w".into(), Rc::new(expected))]);
    }

    #[test]
    fn calls_are_refused() {
        let hostile = b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R.";
        assert!(read(hostile).unwrap_err().contains("`posix.system`"));
        let later = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x01x\x85R.";
        assert!(read(later).unwrap_err().contains("`builtins.eval`"));
        // A class of the standard library that no weights have.
        assert!(read(b"csubprocess\nPopen\n)R.").unwrap_err().contains("`subprocess.Popen`"));
        assert!(read(b"ccollections\nOrderedDict\n(K\x01K\x02dtR.").unwrap_err().contains("the step 0x64"));
    }

    #[test]
    fn damaged_pickles_are_refused() {
        let whole = pickle();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        for place in 0..whole.len() {
            for byte in [0, 1, b'(', b')', b'.', b'R', b'Q', b'u', b't', b'q', b'h', b'X', 0x8a, 0x87, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                // Whatever comes of it, it is no panic.
                let _ = read(&changed);
            }
        }
        assert!(read(b"\x80\x02}.").unwrap_err().contains("no tensors"));
        assert!(read(b"K\x01.").unwrap_err().contains("not hold a dictionary"));
        // Each value is the pair of the one before with itself: no more is kept than was read.
        let mut doubled = b"K\x01q\x00".to_vec();
        for _ in 0..10_000 {
            doubled.extend(b"h\x00h\x00\x86q\x00");
        }
        doubled.push(b'.');
        assert!(read(&doubled).unwrap_err().contains("not hold a dictionary"));
    }

    /// Numbers of a name, as protocol 2 writes them.
    fn storage(name: &[u8]) -> Vec<u8> {
        let name = [b"X".as_slice(), &(name.len() as u32).to_le_bytes(), name].concat();
        [b"(K\x00ctorch\nFloatStorage\n".as_slice(), &name, b"K\x00K\x04t"].concat()
    }

    #[test]
    fn nothing_long_is_copied() {
        // A name of the longest kind, whose copies would be 800 MB.
        let mut names = [b"\x80\x02", storage(&[b'a'; NAME]).as_slice(), b"q\x01"].concat();
        names.extend(b"h\x01Q0".repeat(200_000));
        names.extend(b"}.");
        assert!(read(&names).unwrap_err().contains("no tensors"));
        let longer = [b"\x80\x02", storage(&[b'a'; NAME + 1]).as_slice(), b"Q}."].concat();
        assert_eq!(read(&longer).unwrap_err(), damaged());
        // A shape of many sizes, used by many tensors.
        let mut shapes = [b"\x80\x02", storage(b"0").as_slice(), b"Qq\x01("].concat();
        shapes.extend(b"K\x01".repeat(500_000));
        shapes.extend(b"tq\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03");
        shapes.extend(b"h\x03(h\x01K\x00h\x02h\x02tR0".repeat(20_000));
        shapes.extend(b"}.");
        assert_eq!(read(&shapes).unwrap_err(), "it has a tensor of 500000 dimensions");
    }

    #[test]
    fn views_of_numbers_are_refused() {
        let whole = pickle();
        let end = whole.len() - b"tRu.".len();
        let with = |metadata: &[u8]| read(&[&whole[..end], b"N", metadata, b"tRu."].concat());
        // `None`, an empty dictionary, and one that says something; hooks stand before it.
        assert_eq!(with(b"").unwrap(), read(&whole).unwrap());
        assert_eq!(with(b"N").unwrap(), read(&whole).unwrap());
        let some = read(&[&whole[..end], b"}tRu."].concat());
        assert_eq!(some.unwrap(), read(&whole).unwrap());
        let view = read(&[&whole[..end], b"}X\x03\0\0\0neg\x88stRu."].concat());
        assert!(view.unwrap_err().contains("negative or conjugate"));
    }
}
