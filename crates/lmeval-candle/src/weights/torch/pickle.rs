//! Parser for PyTorch's pickled tensor descriptions.
//!
//! A pickle can name and call any Python function. This parser supports only the opcodes and names of dictionaries of tensors; it
//! calls nothing, and any other name is an error. Values refer to each other by id and share long data, so that memory is bounded by
//! a fixed multiple of the pickle: strings are stored once, and a tensor has at most [`DIMENSIONS`] dimensions.

use std::rc::Rc;

use candle_core::DType;
use rustc_hash::FxHashMap;

/// The maximum number of dimensions of a tensor.
const DIMENSIONS: usize = 8;
/// The maximum length of a name in bytes. Longer strings are not names.
const NAME: usize = 4096;

/// A tensor description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub(super) dtype: DType,
    /// The name of its storage.
    pub(super) storage: Rc<str>,
    /// The offset of the first element.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// A tensor and its name.
type Named = (Rc<str>, Rc<Described>);

/// Data types by storage class.
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

/// The names a pickle may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    OrderedDict,
    Tensor,
    Parameter,
    TypedTensor,
    ParameterClass,
    Storage(DType),
}

type ValueId = usize;

#[derive(Clone, Debug)]
enum Value {
    Other,
    Whole(i64),
    String(Rc<str>),
    Tuple(Vec<ValueId>),
    Dict(Vec<(ValueId, ValueId)>),
    Name(Name),
    Storage { dtype: DType, storage: Rc<str> },
    Tensor(Rc<Described>),
}

/// The tensors of a pickled dictionary.
pub(super) fn read(pickle: &[u8]) -> Result<Vec<Named>, String> {
    let mut machine = Machine { rest: pickle, ..Machine::default() };
    let whole = machine.run()?;
    let Value::Dict(entries) = &machine.values[whole] else {
        return Err("it is not a dictionary of tensors".into());
    };
    let named =
        entries.iter().filter_map(|(name, value)| match (&machine.values[*name], &machine.values[*value]) {
            (Value::String(name), Value::Tensor(tensor)) => Some((Rc::clone(name), Rc::clone(tensor))),
            _ => None,
        });
    let tensors: Vec<Named> = named.collect();
    if tensors.is_empty() { Err("its dictionary has no tensors".into()) } else { Ok(tensors) }
}

#[derive(Default)]
struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<ValueId>,
    /// Stack heights of the open marks.
    marks: Vec<usize>,
    memo: FxHashMap<u32, ValueId>,
}

fn damaged() -> String {
    "its pickle is damaged".into()
}

impl Machine<'_> {
    /// Executes all opcodes and returns the final value.
    fn run(&mut self) -> Result<ValueId, String> {
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
                    self.string(length as usize)?;
                }
                0x8c | b'U' => {
                    let [length] = self.array()?;
                    self.string(length.into())?;
                }
                b'q' => {
                    let [slot] = self.array()?;
                    self.memoize(slot.into())?;
                }
                b'r' => {
                    let slot = u32::from_le_bytes(self.array()?);
                    self.memoize(slot)?;
                }
                0x94 => self.memoize(u32::try_from(self.memo.len()).map_err(|_| damaged())?)?,
                b'h' => {
                    let [slot] = self.array()?;
                    self.recall(slot.into())?;
                }
                b'j' => {
                    let slot = u32::from_le_bytes(self.array()?);
                    self.recall(slot)?;
                }
                _ => self.build(step)?,
            }
        }
    }

    /// Opcodes that build values from others.
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
            // The contents of lists are not needed.
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
                let (Value::String(name), Value::String(module)) = (&self.values[name], &self.values[module])
                else {
                    return Err(damaged());
                };
                let name = name_of(module, name)?;
                self.push(Value::Name(name));
            }
            b'Q' => {
                let described = self.pop()?;
                let storage = self.storage(described)?;
                self.push(storage);
            }
            b'R' => {
                let (arguments, name) = (self.pop()?, self.pop()?);
                let made = self.call(name, arguments)?;
                self.push(made);
            }
            // Attributes of dictionaries, such as module versions.
            b'b' => drop(self.pop()?),
            other => {
                return Err(format!("its pickle has the opcode {other:#04x}, which is not supported"));
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

    fn top(&self) -> Result<ValueId, String> {
        let bottom = self.marks.last().copied().unwrap_or_default();
        self.stack.get(bottom..).and_then(<[ValueId]>::last).copied().ok_or_else(damaged)
    }

    fn pop(&mut self) -> Result<ValueId, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Pops everything above the last mark.
    fn marked(&mut self) -> Result<Vec<ValueId>, String> {
        let height = self.marks.pop().ok_or_else(damaged)?;
        if height > self.stack.len() {
            return Err(damaged());
        }
        Ok(self.stack.split_off(height))
    }

    fn memoize(&mut self, slot: u32) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(slot, top);
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<(), String> {
        let id = *self.memo.get(&slot).ok_or_else(damaged)?;
        self.stack.push(id);
        Ok(())
    }

    fn string(&mut self, length: usize) -> Result<(), String> {
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(damaged)?;
        self.rest = rest;
        let is_name = length <= NAME;
        self.push(if is_name { Value::String(String::from_utf8_lossy(text).into()) } else { Value::Other });
        Ok(())
    }

    fn long(&mut self) -> Result<(), String> {
        let [length] = self.array()?;
        let (bytes, rest) = self.rest.split_at_checked(length.into()).ok_or_else(damaged)?;
        self.rest = rest;
        // Tensors have no larger integers.
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
    fn set(&mut self, entries: &[ValueId]) -> Result<(), String> {
        let top = self.top()?;
        let Value::Dict(dict) = &mut self.values[top] else { return Err(damaged()) };
        let (pairs, []) = entries.as_chunks::<2>() else { return Err(damaged()) };
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn tuple(&self, id: ValueId) -> Result<&[ValueId], String> {
        match &self.values[id] {
            Value::Tuple(members) => Ok(members),
            _ => Err(damaged()),
        }
    }

    /// A storage elsewhere in the archive: `("storage", class, name, device, count)`.
    fn storage(&self, described: ValueId) -> Result<Value, String> {
        let &[_, class, storage, ..] = self.tuple(described)? else { return Err(damaged()) };
        match (&self.values[class], &self.values[storage]) {
            (Value::Name(Name::Storage(dtype)), Value::String(storage)) => {
                Ok(Value::Storage { dtype: *dtype, storage: Rc::clone(storage) })
            }
            _ => Err(damaged()),
        }
    }

    /// The result of calling a known name.
    fn call(&self, name: ValueId, arguments: ValueId) -> Result<Value, String> {
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

    /// A tensor: `(storage, offset, shape, strides, requires_grad, hooks, metadata)`; the last is optional.
    fn tensor(&self, arguments: &[ValueId]) -> Result<Value, String> {
        let &[storage, offset, shape, strides, ..] = arguments else { return Err(damaged()) };
        let whole = |id: ValueId| match self.values[id] {
            Value::Whole(whole) => usize::try_from(whole).map_err(|_| damaged()),
            _ => Err(damaged()),
        };
        if let Some(metadata) = arguments.get(6) {
            match &self.values[*metadata] {
                Value::Other => {}
                Value::Dict(entries) if entries.is_empty() => {}
                _ => return Err("it has a tensor that is a negative or conjugate view".into()),
            }
        }
        let sizes = |id: ValueId| {
            let sizes = self.tuple(id)?;
            if sizes.len() > DIMENSIONS {
                return Err(format!("it has a tensor of {} dimensions", sizes.len()));
            }
            sizes.iter().map(|size| whole(*size)).collect::<Result<Vec<usize>, String>>()
        };
        let (shape, strides) = (sizes(shape)?, sizes(strides)?);
        match &self.values[storage] {
            Value::Storage { dtype, storage } if shape.len() == strides.len() => {
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

/// Resolves a name, refusing those that dictionaries of tensors do not need.
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
        format!("it refers to `{module}.{name}`, which weights do not need; nothing was executed")
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
    fn reads_tensor_descriptions() {
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
    fn refuses_calls() {
        let hostile = b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R.";
        assert!(read(hostile).unwrap_err().contains("`posix.system`"));
        let later = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x01x\x85R.";
        assert!(read(later).unwrap_err().contains("`builtins.eval`"));
        // A standard library class that weights do not use.
        assert!(read(b"csubprocess\nPopen\n)R.").unwrap_err().contains("`subprocess.Popen`"));
        assert!(read(b"ccollections\nOrderedDict\n(K\x01K\x02dtR.").unwrap_err().contains("the opcode 0x64"));
    }

    #[test]
    fn refuses_damaged_pickles() {
        let whole = pickle();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        for offset in 0..whole.len() {
            for byte in [0, 1, b'(', b')', b'.', b'R', b'Q', b'u', b't', b'q', b'h', b'X', 0x8a, 0x87, 0xff] {
                let mut changed = whole.clone();
                changed[offset] = byte;
                // Must not panic.
                let _ = read(&changed);
            }
        }
        assert!(read(b"\x80\x02}.").unwrap_err().contains("no tensors"));
        assert!(read(b"K\x01.").unwrap_err().contains("not a dictionary"));
        // Each value is a pair of the previous one with itself: memory must not grow exponentially.
        let mut doubled = b"K\x01q\x00".to_vec();
        for _ in 0..10_000 {
            doubled.extend(b"h\x00h\x00\x86q\x00");
        }
        doubled.push(b'.');
        assert!(read(&doubled).unwrap_err().contains("not a dictionary"));
    }

    /// A storage as protocol 2 writes it.
    fn storage(name: &[u8]) -> Vec<u8> {
        let name = [b"X".as_slice(), &(name.len() as u32).to_le_bytes(), name].concat();
        [b"(K\x00ctorch\nFloatStorage\n".as_slice(), &name, b"K\x00K\x04t"].concat()
    }

    #[test]
    fn does_not_copy_long_values() {
        // A name of maximum length, whose copies would take 800 MB.
        let mut names = [b"\x80\x02", storage(&[b'a'; NAME]).as_slice(), b"q\x01"].concat();
        names.extend(b"h\x01Q0".repeat(200_000));
        names.extend(b"}.");
        assert!(read(&names).unwrap_err().contains("no tensors"));
        let longer = [b"\x80\x02", storage(&[b'a'; NAME + 1]).as_slice(), b"Q}."].concat();
        assert_eq!(read(&longer).unwrap_err(), damaged());
        // A huge shape used by many tensors.
        let mut shapes = [b"\x80\x02", storage(b"0").as_slice(), b"Qq\x01("].concat();
        shapes.extend(b"K\x01".repeat(500_000));
        shapes.extend(b"tq\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03");
        shapes.extend(b"h\x03(h\x01K\x00h\x02h\x02tR0".repeat(20_000));
        shapes.extend(b"}.");
        assert_eq!(read(&shapes).unwrap_err(), "it has a tensor of 500000 dimensions");
    }

    #[test]
    fn refuses_negative_and_conjugate_views() {
        let whole = pickle();
        let end = whole.len() - b"tRu.".len();
        let with = |metadata: &[u8]| read(&[&whole[..end], b"N", metadata, b"tRu."].concat());
        // `None`, an empty dictionary, and a non-empty one, after the hooks.
        assert_eq!(with(b"").unwrap(), read(&whole).unwrap());
        assert_eq!(with(b"N").unwrap(), read(&whole).unwrap());
        let some = read(&[&whole[..end], b"}tRu."].concat());
        assert_eq!(some.unwrap(), read(&whole).unwrap());
        let view = read(&[&whole[..end], b"}X\x03\0\0\0neg\x88stRu."].concat());
        assert!(view.unwrap_err().contains("negative or conjugate"));
    }
}
