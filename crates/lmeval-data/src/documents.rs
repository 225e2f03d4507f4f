//! Datasets as documents of tasks.

use std::sync::Arc;

use lmeval_core::{DocumentError, Documents, NoSuchDocument, NoSuchSplit, Splits};
use lmeval_pycompat::Dict;

use crate::features;
use crate::split::{DatasetDict, Split};

impl Documents for Split {
    fn len(&self) -> usize {
        usize::try_from(self.len()).unwrap_or(usize::MAX)
    }

    fn columns(&self) -> &[String] {
        self.columns()
    }

    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        match self.get(index as u64) {
            Some(row) => Ok(Arc::new(row?)),
            None => Err(NoSuchDocument { index, length: Documents::len(self) }.into()),
        }
    }

    fn features(&self) -> Option<Dict> {
        Some(features::written(self.schema()))
    }
}

impl Splits for DatasetDict {
    fn split(&self, name: &str) -> Result<Arc<dyn Documents>, DocumentError> {
        match self.get(name) {
            Some(split) => Ok(Arc::new(split.clone())),
            None => {
                let available = self.names().map(str::to_owned).collect();
                Err(NoSuchSplit { name: name.to_owned(), available }.into())
            }
        }
    }
}
