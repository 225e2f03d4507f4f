//! Images and sounds that stay in the files of a dataset until they are needed.

use std::io;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Media, StoredBytes, Value};

use crate::source::Source;
use crate::types::{Schema, Type};

/// A step from a value to one inside it.
#[derive(Clone)]
enum Step {
    Item(usize),
    Field(Arc<str>),
}

/// An image or a sound in a row.
struct Cell {
    source: Arc<dyn Source>,
    row: u64,
    /// The schema of its column alone.
    column: Arc<Schema>,
    path: Vec<Step>,
}

impl StoredBytes for Cell {
    fn read(&self) -> io::Result<Arc<[u8]>> {
        let row = self.source.row(self.row, &self.column).map_err(io::Error::other)?;
        let mut value = row.values().next();
        for step in &self.path {
            value = match (value, step) {
                (Some(Value::List(items)), Step::Item(index)) => items.get(*index),
                (Some(Value::Dict(fields)), Step::Field(name)) => fields.get_str(name),
                _ => None,
            };
        }
        match value {
            Some(Value::Media(media)) => media.bytes(),
            _ => Err(io::Error::other("the dataset has changed since its row was read")),
        }
    }
}

/// The columns of a schema that have images or sounds, each as a schema of its own.
pub(crate) fn media_columns(schema: &Schema) -> Vec<Arc<Schema>> {
    let columns = schema.columns.iter().filter(|(_, kind)| has_media(kind));
    columns.map(|column| Arc::new(Schema::new(vec![column.clone()]))).collect()
}

/// Whether values of a type have images or sounds.
pub(crate) fn has_media(kind: &Type) -> bool {
    match kind {
        Type::Media(..) => true,
        Type::List(item) => has_media(item),
        Type::Struct(fields) => fields.iter().any(|(_, kind)| has_media(kind)),
        _ => false,
    }
}

/// Replaces the images and sounds of a row that are in memory by references to where they are stored.
pub(crate) fn leave_stored(row: &mut Dict, columns: &[Arc<Schema>], source: &Arc<dyn Source>, index: u64) {
    for column in columns {
        let Some(value) = column.columns.first().and_then(|(name, _)| row.get_str_mut(name)) else {
            continue;
        };
        let cell = |path: &[Step]| Cell {
            source: Arc::clone(source),
            row: index,
            column: Arc::clone(column),
            path: path.to_vec(),
        };
        *value = stored(std::mem::take(value), &mut Vec::new(), &cell);
    }
}

fn stored(value: Value, path: &mut Vec<Step>, cell: &impl Fn(&[Step]) -> Cell) -> Value {
    let mut inside = |value: &Value, step: Step| {
        path.push(step);
        let value = stored(value.clone(), path, cell);
        path.pop();
        value
    };
    match &value {
        Value::Media(media) if media.is_in_memory() => {
            Value::Media(Arc::new(Media::stored_as(media, Arc::new(cell(path)))))
        }
        Value::List(items) => {
            let items = items.iter().enumerate();
            Value::list(items.map(|(index, item)| inside(item, Step::Item(index))))
        }
        Value::Dict(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let step = name.as_str().map(|name| Step::Field(Arc::from(name)));
                (name.clone(), step.map_or_else(|| value.clone(), |step| inside(value, step)))
            });
            Value::from(fields.collect::<Dict>())
        }
        _ => value,
    }
}
