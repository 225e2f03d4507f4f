//! Typed reading of YAML files, with errors that name the file, the line and the key.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Diagnostic, Location, nearest};
use lmeval_pycompat::yaml::{self, Marks, Segment};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_tasks::source::SourceFile;

use crate::Error;

/// A YAML file, or a value without one.
#[derive(Clone, Debug)]
pub struct Document {
    value: Value,
    origin: Option<(Arc<SourceFile>, Marks)>,
}

impl Document {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = fs_err::read(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
        Self::parse(path, &bytes)
    }

    /// Reads the content of a file. The path is for messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let text = yaml::decode_lossy(bytes);
        let file = |marks| Arc::new(SourceFile::new(path.to_owned(), path.to_owned(), &text, marks));
        let loaded = yaml::load_bytes(bytes).map_err(|error| {
            let position = error.position();
            let location =
                file(Marks::default()).location(position.offset..position.offset, position.line as usize + 1);
            Diagnostic::new(format!("`{}` is not valid YAML: {}", path.display(), error.message()))
                .at(Some(location))
        })?;
        let origin = Some((file(loaded.marks.clone()), loaded.marks));
        Ok(Self { value: loaded.value, origin })
    }

    /// A value that has no file.
    pub fn of_value(value: Value) -> Self {
        Self { value, origin: None }
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The whole document.
    pub fn root(&self) -> Node<'_> {
        Node { document: self, path: Vec::new(), value: &self.value }
    }

    /// The location of a value by its path.
    pub fn locate(&self, path: &[Step]) -> Option<Location> {
        let (file, marks) = self.origin.as_ref()?;
        let segments: Vec<Segment<'_>> = path.iter().map(Step::segment).collect();
        let mark = marks.find(&segments)?;
        let span = mark.key.unwrap_or(mark.value);
        Some(file.location(span.range(), span.start.line as usize + 1))
    }
}

/// One step into a document.
#[derive(Clone, Debug)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an item of a list.
    Index(usize),
}

impl Step {
    fn segment(&self) -> Segment<'_> {
        match self {
            Self::Key(key) => Segment::Key(key),
            Self::Index(index) => Segment::Index(*index),
        }
    }
}

/// A value in a document, which knows where it is.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    document: &'a Document,
    path: Vec<Step>,
    value: &'a Value,
}

impl<'a> Node<'a> {
    /// The value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// Where the value is.
    pub fn location(&self) -> Option<Location> {
        self.document.locate(&self.path)
    }

    /// An error about this value.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Diagnostic::new(message).at(self.location()).into()
    }

    /// The last key on the way here, for messages.
    fn name(&self) -> &str {
        let key = self.path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        key.unwrap_or("the file")
    }

    fn wrong(&self, expected: &str) -> Diagnostic {
        let found = self.value.type_name();
        Diagnostic::new(format!("`{}` must be {expected}, not {found}", self.name())).at(self.location())
    }

    fn mapping(&self) -> Result<&'a Dict, Error> {
        self.value.as_dict().ok_or_else(|| self.wrong("a mapping").into())
    }

    fn child(&self, step: Step, value: &'a Value) -> Self {
        let mut path = self.path.clone();
        path.push(step);
        Self { document: self.document, path, value }
    }

    /// Fails for keys of a mapping that are not in the list.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), Error> {
        for (key, value) in self.mapping()?.iter() {
            let name = repr::str(key);
            if known.contains(&name.as_str()) {
                continue;
            }
            let near = nearest(&name, known.iter().copied());
            let error = Diagnostic::new(format!("Unknown key `{name}`"));
            let error = if near.is_empty() {
                error.hint(format!("The keys here are `{}`", known.join("`, `")))
            } else {
                error.did_you_mean(&near)
            };
            return Err(error.at(self.child(Step::Key(name), value).location()).into());
        }
        Ok(())
    }

    /// The value of a key; `None` if it is missing or null.
    pub fn get(&self, key: &str) -> Result<Option<Self>, Error> {
        let value = self.mapping()?.get_str(key).filter(|value| !value.is_none());
        Ok(value.map(|value| self.child(Step::Key(key.to_owned()), value)))
    }

    /// The value of a key that must be there.
    pub fn need(&self, key: &str) -> Result<Self, Error> {
        let missing = || {
            let here = if self.path.is_empty() {
                "The file".to_owned()
            } else {
                format!("This entry of `{}`", self.name())
            };
            self.error(format!("{here} has no `{key}`"))
        };
        self.get(key)?.ok_or_else(missing)
    }

    /// The entries of a mapping.
    pub fn entries(&self) -> Result<Vec<(String, Self)>, Error> {
        let entries = self.mapping()?.iter();
        Ok(entries
            .map(|(key, value)| (repr::str(key), self.child(Step::Key(repr::str(key)), value)))
            .collect())
    }

    /// The items of a list.
    pub fn items(&self) -> Result<Vec<Self>, Error> {
        let items = self.value.as_list().ok_or_else(|| self.wrong("a list"))?;
        Ok(items.iter().enumerate().map(|(index, item)| self.child(Step::Index(index), item)).collect())
    }

    /// The items of a list, or the value itself.
    pub fn items_or_one(&self) -> Result<Vec<Self>, Error> {
        if self.value.as_list().is_some() { self.items() } else { Ok(vec![self.clone()]) }
    }

    /// A string. Numbers are read as they are written, so that names such as `1` need no quotes.
    pub fn text(&self) -> Result<String, Error> {
        match self.value {
            Value::Str(text) if !text.trim().is_empty() => Ok(text.to_string()),
            Value::Str(_) => Err(self.error(format!("`{}` is empty", self.name()))),
            Value::Int(_) | Value::Float(_) => Ok(repr::str(self.value)),
            _ => Err(self.wrong("a string").into()),
        }
    }

    /// A string that may be empty.
    pub fn text_or_empty(&self) -> Result<String, Error> {
        match self.value {
            Value::Str(text) => Ok(text.to_string()),
            _ => self.text(),
        }
    }

    /// A finite number. YAML 1.1 reads `1e-5` as a string, and `1/6` is a fraction.
    pub fn number(&self) -> Result<f64, Error> {
        let number = match self.value {
            Value::Int(_) | Value::Float(_) => self.value.to_f64(),
            Value::Str(text) => match text.split_once('/') {
                Some((above, below)) => above
                    .trim()
                    .parse::<f64>()
                    .ok()
                    .zip(below.trim().parse::<f64>().ok())
                    .map(|(above, below)| above / below),
                None => text.trim().parse().ok(),
            },
            _ => None,
        };
        match number {
            Some(number) if number.is_finite() => Ok(number),
            Some(_) => Err(self.error(format!("`{}` must be finite", self.name()))),
            None => Err(self.wrong("a number").into()),
        }
    }

    /// An integer of at least `least`.
    pub fn count(&self, least: i64) -> Result<i64, Error> {
        match self.value {
            Value::Int(number) if *number >= least => Ok(*number),
            Value::Int(number) => {
                Err(self.error(format!("`{}` must be at least {least}, not {number}", self.name())))
            }
            _ => Err(self.wrong("an integer").into()),
        }
    }

    /// True or false.
    pub fn truth(&self) -> Result<bool, Error> {
        match self.value {
            Value::Bool(truth) => Ok(*truth),
            _ => Err(self.wrong("true or false").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(Path::new("a.yaml"), text.as_bytes()).unwrap()
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let document = document("name: x\nlist:\n- {value: 1/4}\n- {value: often}\n- {valeu: 1}\n");
        let items = document.root().need("list").unwrap().items().unwrap();
        assert_eq!(items[0].need("value").unwrap().number().unwrap().to_bits(), 0.25_f64.to_bits());
        let error = items[1].need("value").unwrap().number().unwrap_err();
        assert_eq!(error.message, "`value` must be a number, not str");
        assert_eq!(error.location.clone().unwrap().to_string(), "a.yaml:4");
        let error = items[2].check_keys(&["value"]).unwrap_err();
        assert!(error.to_string().contains("Unknown key `valeu`") && error.hints[0].contains("`value`"));
        assert_eq!(error.location.clone().unwrap().to_string(), "a.yaml:5");
        let error = items[2].need("value").unwrap_err();
        assert_eq!(error.message, "This entry of `list` has no `value`");
    }

    #[test]
    fn values_of_other_types_are_refused() {
        let document = document("a: [1]\nb: {}\nc: -1\nd: .inf\ne: yes\nf: ''\n");
        let node = |key: &str| document.root().need(key).unwrap();
        assert!(node("a").text().is_err() && node("a").count(0).is_err());
        assert!(node("b").items().is_err() && node("b").truth().is_err());
        assert!(node("c").count(0).unwrap_err().message.contains("at least 0, not -1"));
        assert!(node("d").number().unwrap_err().message.contains("finite"));
        assert!(node("e").truth().unwrap());
        assert!(node("f").text().unwrap_err().message.contains("empty"));
        assert!(Document::parse(Path::new("a.yaml"), b"a: [").unwrap_err().location.is_some());
    }
}
