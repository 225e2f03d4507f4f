//! Folders of images or sounds: one row per file, or the rows of metadata files that name files.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Media, MediaKind, Value};

use crate::error::{Error, ErrorKind};
use crate::source::{Opened, Source};
use crate::tree::Location;
use crate::types::{Fields, Schema, Type};

/// The column of metadata files that names the file of a row.
const FILE_NAME: &str = "file_name";

/// Whether a file describes the others of its folder.
pub(crate) fn is_metadata(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "metadata.csv" | "metadata.jsonl" | "metadata.parquet")
}

/// The name of the column of files.
fn column(kind: MediaKind) -> &'static str {
    kind.name()
}

/// The classes of files: their folders, if there are several and all are equally deep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(Vec<Arc<str>>);

impl Labels {
    /// Reference: by default, files have labels if that tells them apart and no metadata describes them.
    pub(crate) fn new<'p>(files: impl Iterator<Item = &'p str> + Clone, drop: Option<bool>) -> Self {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut depths: Vec<usize> = Vec::new();
        for path in files {
            let depth = path.matches('/').count();
            if !depths.contains(&depth) {
                depths.push(depth);
            }
            names.push(folder_of(path).into());
        }
        names.sort();
        names.dedup();
        let wanted = match drop {
            Some(drop) => !drop,
            None => names.len() > 1 && depths.len() == 1,
        };
        Self(if wanted { names } else { Vec::new() })
    }

    fn of(&self, path: &str) -> Option<i64> {
        let folder = folder_of(path);
        self.0.iter().position(|name| **name == *folder).and_then(|index| i64::try_from(index).ok())
    }
}

/// The name of the folder that has a file.
fn folder_of(path: &str) -> &str {
    path.rsplit('/').nth(1).unwrap_or_default()
}

/// Opens the files of a split: one row per file.
pub(crate) fn open_files(kind: MediaKind, files: Vec<Location>, labels: &Labels) -> Opened {
    let mut columns: Fields = vec![(column(kind).into(), Type::Media(kind, None))];
    if !labels.0.is_empty() {
        columns.push(("label".into(), Type::ClassLabel(labels.0.clone().into())));
    }
    let schema = Arc::new(Schema::new(columns));
    let source = Files { kind, all: files, labels: labels.clone() };
    Opened { source: Arc::new(source), schemas: vec![schema] }
}

/// One row per file.
struct Files {
    kind: MediaKind,
    all: Vec<Location>,
    labels: Labels,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Files({:?}, {})", self.kind, self.all.len())
    }
}

impl Source for Files {
    fn len(&self) -> u64 {
        self.all.len() as u64
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let Some(file) = usize::try_from(index).ok().and_then(|index| self.all.get(index)) else {
            return Ok(Dict::new());
        };
        let mut row = Dict::new();
        row.insert(column(self.kind), media(self.kind, file.local()?));
        if let Some(label) = self.labels.of(&file.name()) {
            row.insert("label", Value::Int(label));
        }
        target.convert(row, target).map_err(|(column, message)| {
            ErrorKind::Value { file: file.name(), row: index, column: column.to_string(), message }.into()
        })
    }
}

fn media(kind: MediaKind, path: PathBuf) -> Value {
    Value::Media(Arc::new(Media::from_file(kind, path)))
}

/// Makes the columns of a metadata file that name files, `file_name`, `NAME_file_name` and `NAME_file_names`, columns of those
/// files.
pub(crate) fn open_metadata(kind: MediaKind, opened: Opened, metadata: Location) -> Opened {
    let schemas = opened.schemas.iter().map(|schema| Arc::new(with_files(schema, kind))).collect();
    let stored = opened.schemas.first().cloned().unwrap_or_default();
    let source = Described { kind, rows: opened.source, stored, metadata };
    Opened { source: Arc::new(source), schemas }
}

/// The name and the type of a column whose values are names of files, by the name of the column.
fn file_column(name: &str, kind: MediaKind) -> Option<(Arc<str>, Type)> {
    let media = Type::Media(kind, None);
    if name == FILE_NAME {
        return Some((column(kind).into(), media));
    }
    if let Some(name) = name.strip_suffix("_file_names") {
        return Some((name.into(), Type::List(Box::new(media))));
    }
    name.strip_suffix("_file_name").map(|name| (name.into(), media))
}

fn with_files(schema: &Schema, kind: MediaKind) -> Schema {
    let columns = schema.columns.iter();
    Schema::new(
        columns
            .map(|(name, own)| file_column(name, kind).unwrap_or_else(|| (Arc::clone(name), own.clone())))
            .collect(),
    )
}

/// The rows of a metadata file.
struct Described {
    kind: MediaKind,
    rows: Arc<dyn Source>,
    stored: Arc<Schema>,
    metadata: Location,
}

impl std::fmt::Debug for Described {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Described({:?}, {:?})", self.kind, self.rows)
    }
}

impl Described {
    fn file(&self, name: &Value) -> Result<Value, String> {
        match name {
            Value::None => Ok(Value::None),
            Value::Str(name) => {
                let file = self.metadata.beside(name);
                let path = file.local().map_err(|error| error.to_string())?;
                if !path.is_file() {
                    return Err(format!("the file `{}` does not exist", file.name()));
                }
                Ok(media(self.kind, path))
            }
            other => Err(format!("expected the name of a file, found a value of type {}", other.type_name())),
        }
    }

    fn files(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::List(names) => {
                names.iter().map(|name| self.file(name)).collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            single => self.file(single),
        }
    }
}

impl Source for Described {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn row(&self, index: u64, target: &Schema) -> Result<Dict, Error> {
        let failed = |column: &str, message: String| -> Error {
            ErrorKind::Value { file: self.metadata.name(), row: index, column: column.to_owned(), message }
                .into()
        };
        let stored = self.rows.row(index, &self.stored)?;
        let mut row = Dict::with_capacity(stored.len());
        for (key, value) in stored.iter() {
            match key.as_str().and_then(|name| Some((name, file_column(name, self.kind)?))) {
                None => {
                    row.insert(key.clone(), value.clone());
                }
                Some((name, (renamed, _))) => {
                    row.insert(
                        Value::Str(renamed),
                        self.files(value).map_err(|message| failed(name, message))?,
                    );
                }
            }
        }
        target.convert(row, target).map_err(|(column, message)| failed(&column, message))
    }
}
