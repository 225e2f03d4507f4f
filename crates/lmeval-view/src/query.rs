//! Which samples a list shows, and in which order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fs_err as fs;
use lmeval_analysis::read::{Run, SamplesFile};
use lmeval_analysis::samples::{Expression, Outcome, SampleReader};
use lmeval_core::Diagnostic;
use rayon::prelude::*;

use crate::Error;
use crate::index::{FileIndex, State};
use crate::scan::FLAGS;
use crate::search::{Needle, Places};

/// Bytes that are searched at a time.
const CHUNK: u64 = 2 << 20;

/// Steps that an expression may take for a document: a hundred thousand times as many as any condition that makes sense.
const STEPS: u64 = 1_000_000;

/// Results of searches that are kept, so that scrolling does not search again.
const KEPT: usize = 16;

/// How long a request waits for the index before it answers with the rows it has.
const PATIENCE: Duration = Duration::from_millis(700);

/// How long a search may take. Its thread is one of a few, and nobody may be waiting for it any more.
const LONGEST: Duration = Duration::from_secs(30);

/// The end of the time that a search may take.
#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

impl Deadline {
    fn new() -> Self {
        Self(Instant::now() + LONGEST)
    }

    /// Fails if the time is over.
    fn check(self) -> Result<(), Error> {
        if Instant::now() < self.0 {
            return Ok(());
        }
        Err(Diagnostic::new(format!("The search takes longer than {} seconds", LONGEST.as_secs()))
            .hint("`lm-eval samples --where` on the command line has no such limit")
            .into())
    }
}

/// A column to sort by.
#[derive(Clone, Debug, PartialEq)]
enum Sort {
    Row,
    DocId,
    PromptLength,
    AnswerLength,
    Outcome,
    Metric(String),
}

/// The parameters of `api/samples` that select and order rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) filter: Option<String>,
    outcome: Option<Outcome>,
    pub(crate) metric: Option<String>,
    flag: u8,
    condition: Option<String>,
    pub(crate) needle: Option<Needle>,
    sort: Option<(Sort, bool)>,
    /// All of it as one string.
    key: String,
}

/// The rows that a query selects, in order.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) filter: usize,
    pub(crate) filter_name: String,
    /// Rows of the filter pipeline.
    pub(crate) total: usize,
    pub(crate) rows: Vec<u32>,
    generation: u64,
}

impl Selection {
    /// The same pipeline with other rows.
    pub(crate) fn with_rows(&self, rows: Vec<u32>) -> Self {
        Self {
            filter: self.filter,
            filter_name: self.filter_name.clone(),
            total: self.total,
            rows,
            generation: self.generation,
        }
    }
}

impl Query {
    /// Reads the parameters. Unknown values are errors, unknown parameters are not.
    pub(crate) fn parse(parameters: &[(String, String)]) -> Result<Self, Error> {
        let get = |name: &str| {
            let found = parameters.iter().find(|(key, value)| key == name && !value.is_empty());
            found.map(|(_, value)| value.as_str())
        };
        let outcome = match get("outcome") {
            Some(name) => Some(Outcome::parse(name).ok_or_else(|| {
                Diagnostic::new(format!("`{name}` is not an outcome"))
                    .hint("Outcomes are right, wrong, partial and unscored")
            })?),
            None => None,
        };
        let flag = match get("flag") {
            Some(name) => FLAGS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, flag)| *flag)
                .ok_or_else(|| Diagnostic::new(format!("`{name}` is not a flag")))?,
            None => 0,
        };
        let needle = match get("text") {
            Some(text) => Some(Needle::new(
                text,
                get("regex") == Some("1"),
                get("case") == Some("1"),
                Places::parse(get("in").unwrap_or("prompt,answer,target"))?,
            )?),
            None => None,
        };
        if let Some(condition) = get("where") {
            // Mistakes are reported before the file is read.
            parse_condition(condition)?;
        }
        let sort = get("sort").map(|sort| {
            let (name, is_descending) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
            let column = match name {
                "row" => Sort::Row,
                "doc_id" => Sort::DocId,
                "prompt_length" => Sort::PromptLength,
                "answer_length" => Sort::AnswerLength,
                "outcome" => Sort::Outcome,
                metric => Sort::Metric(metric.to_owned()),
            };
            (column, is_descending)
        });
        let names = ["filter", "outcome", "metric", "flag", "where", "text", "regex", "case", "in", "sort"];
        let key = names.map(|name| get(name).unwrap_or_default()).join("\0");
        let text = |name: &str| get(name).map(str::to_owned);
        Ok(Self {
            filter: text("filter"),
            outcome,
            metric: text("metric"),
            flag,
            condition: text("where"),
            needle,
            sort,
            key,
        })
    }

    /// The same query on another filter pipeline.
    pub(crate) fn in_filter(mut self, name: Option<String>) -> Self {
        self.key = format!("{}\0{name:?}", self.key);
        self.filter = name;
        self
    }

    fn needs_whole_file(&self) -> bool {
        self.sort.is_some() || self.condition.is_some() || self.needle.is_some()
    }

    /// The rows that need no reading of the file.
    fn by_columns(&self, state: &State) -> Result<Selection, Error> {
        let columns = &state.columns;
        let filter = match &self.filter {
            None => 0,
            Some(name) => match columns.filter_names.iter().position(|known| known == name) {
                Some(position) => position,
                // It may come later in the file.
                None if !state.is_complete => usize::MAX,
                None => {
                    return Err(Diagnostic::new(format!("There is no filter pipeline `{name}`"))
                        .hint(format!("The samples have {}", columns.filter_names.join(", ")))
                        .into());
                }
            },
        };
        let metric = match &self.metric {
            Some(name) => match columns.metrics.iter().find(|(known, _)| known == name) {
                Some((_, values)) => Some(values),
                None if !state.is_complete => None,
                None => return Err(Diagnostic::new(format!("There is no metric `{name}`")).into()),
            },
            None => None,
        };
        let mut total = 0;
        let mut rows = Vec::new();
        for (row, of) in columns.filters.iter().enumerate() {
            if usize::from(*of) != filter {
                continue;
            }
            total += 1;
            let outcome = metric.map_or(columns.outcomes[row], |values| Outcome::decide([Some(values[row])]));
            if self.outcome.is_none_or(|wanted| wanted == outcome)
                && (self.flag == 0 || columns.flags[row] & self.flag != 0)
            {
                rows.push(row as u32);
            }
        }
        self.order(&mut rows, state);
        let filter_name = self.filter.clone().or_else(|| columns.filter_names.first().cloned());
        let filter_name = filter_name.unwrap_or_default();
        Ok(Selection { filter, filter_name, total, rows, generation: state.generation })
    }

    fn order(&self, rows: &mut [u32], state: &State) {
        let Some((column, is_descending)) = &self.sort else { return };
        let columns = &state.columns;
        let turn = |order: std::cmp::Ordering| if *is_descending { order.reverse() } else { order };
        match column {
            Sort::Row => rows.sort_by(|a, b| turn(a.cmp(b))),
            Sort::DocId => {
                rows.sort_by(|a, b| turn(columns.doc_ids[*a as usize].cmp(&columns.doc_ids[*b as usize])));
            }
            Sort::PromptLength => {
                rows.sort_by(|a, b| turn(columns.prompts[*a as usize].cmp(&columns.prompts[*b as usize])));
            }
            Sort::AnswerLength => {
                rows.sort_by(|a, b| turn(columns.answers[*a as usize].cmp(&columns.answers[*b as usize])));
            }
            Sort::Outcome => {
                rows.sort_by(|a, b| turn(columns.outcomes[*a as usize].cmp(&columns.outcomes[*b as usize])));
            }
            Sort::Metric(name) => {
                let Some((_, values)) = columns.metrics.iter().find(|(known, _)| known == name) else {
                    return;
                };
                // NaN last, in both directions.
                rows.sort_by(|a, b| {
                    let (a, b) = (values[*a as usize], values[*b as usize]);
                    a.is_nan().cmp(&b.is_nan()).then_with(|| turn(a.total_cmp(&b)))
                });
            }
        }
    }
}

/// Evaluates queries and remembers the last results.
#[derive(Default)]
pub(crate) struct Queries {
    kept: Mutex<Vec<(u64, String, Arc<Selection>)>>,
}

impl Queries {
    /// The rows that a query selects. Waits for `rows` of them, or for the whole file where the order or the text of
    /// samples matters.
    pub(crate) fn select(
        &self,
        index: &FileIndex,
        query: &Query,
        (run, file): (&Run, &SamplesFile),
        rows: usize,
    ) -> Result<Arc<Selection>, Error> {
        let all = query.needs_whole_file();
        let (selection, places) = {
            let state = index.wait(PATIENCE, |state| !all && state.columns.len() >= rows);
            if let Some(found) = self.kept(index.id, &query.key, state.generation) {
                return Ok(found);
            }
            let selection = query.by_columns(&state)?;
            let columns = &state.columns;
            let place = |row: &u32| (*row, columns.offsets[*row as usize], columns.lengths[*row as usize]);
            let places: Vec<(u32, u64, u32)> =
                if all { selection.rows.iter().map(place).collect() } else { Vec::new() };
            (selection, places)
        };
        let (mut selection, mut places) = (selection, places);
        let deadline = Deadline::new();
        if let Some(needle) = &query.needle {
            let kept = search(index, &places, deadline, |line| Ok(needle.is_in(line)))?;
            places.retain(|(row, ..)| kept.binary_search(row).is_ok());
        }
        if let Some(condition) = &query.condition {
            let kept = conditions(run, file, query.metric.as_deref(), &places, (condition, deadline))?;
            places.retain(|(row, ..)| kept.binary_search(row).is_ok());
        }
        if all {
            // Places are in the order of the rows.
            selection.rows = places.into_iter().map(|(row, ..)| row).collect();
        }
        let selection = Arc::new(selection);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, key, _)| *of != index.id || *key != query.key);
        kept.insert(0, (index.id, query.key.clone(), Arc::clone(&selection)));
        kept.truncate(KEPT);
        Ok(selection)
    }

    fn kept(&self, id: u64, key: &str, generation: u64) -> Option<Arc<Selection>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept
            .iter()
            .find(|(of, known, found)| *of == id && known == key && found.generation == generation);
        found.map(|(.., found)| Arc::clone(found))
    }
}

/// Groups of lines that are read at once: neighbours in the file, at most [`CHUNK`] bytes unless one line is longer.
fn chunks(places: &[(u32, u64, u32)]) -> Vec<Vec<(u32, u64, u32)>> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable_by_key(|(_, offset, _)| *offset);
    let mut chunks: Vec<Vec<(u32, u64, u32)>> = Vec::new();
    for place in sorted {
        match chunks.last_mut() {
            Some(chunk) if place.1 + u64::from(place.2) - chunk[0].1 <= CHUNK => chunk.push(place),
            _ => chunks.push(vec![place]),
        }
    }
    chunks
}

/// The rows whose line satisfies a condition, sorted. Lines are read in parallel, a bounded number at a time.
fn search(
    index: &FileIndex,
    places: &[(u32, u64, u32)],
    deadline: Deadline,
    holds: impl Fn(&str) -> Result<bool, Error> + Sync,
) -> Result<Vec<u32>, Error> {
    let file = fs::File::open(&index.path).map_err(|error| Diagnostic::new(error.to_string()))?;
    let found: Vec<Vec<u32>> = chunks(places)
        .par_iter()
        .map(|chunk| {
            let (start, last) = (chunk[0].1, chunk[chunk.len() - 1]);
            let length = last.1 + u64::from(last.2) - start;
            let block = crate::index::read_bytes(&file, start, length)?;
            let mut rows = Vec::new();
            for (row, offset, length) in chunk {
                deadline.check()?;
                let from = (offset - start) as usize;
                let line = std::str::from_utf8(&block[from..from + *length as usize]).unwrap_or_default();
                if holds(line)? {
                    rows.push(*row);
                }
            }
            Ok(rows)
        })
        .collect::<Result<_, Error>>()?;
    let mut rows = found.concat();
    rows.sort_unstable();
    Ok(rows)
}

/// Compiles an expression of the language of `lm-eval samples --where`.
fn parse_condition(text: &str) -> Result<Expression, Error> {
    Expression::parse_limited(text, "where", STEPS)
}

/// The rows for which an expression is true, sorted.
fn conditions(
    run: &Run,
    file: &SamplesFile,
    metric: Option<&str>,
    places: &[(u32, u64, u32)],
    (condition, deadline): (&str, Deadline),
) -> Result<Vec<u32>, Error> {
    let found: Vec<Vec<u32>> = chunks(places)
        .par_iter()
        .map(|chunk| {
            let (expression, mut rows) = (parse_condition(condition)?, Vec::new());
            let mut reader = SampleReader::open(run, file, metric)?;
            for (row, offset, _) in chunk {
                deadline.check()?;
                if expression.is_true(&reader.read_at(*offset)?)? {
                    rows.push(*row);
                }
            }
            Ok(rows)
        })
        .collect::<Result<_, Error>>()?;
    let mut rows = found.concat();
    rows.sort_unstable();
    Ok(rows)
}
