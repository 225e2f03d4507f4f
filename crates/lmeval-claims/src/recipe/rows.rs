//! Rows that a recipe computes from scores: normalised by chance, averaged, or the better one of two.

use lmeval_analysis::stats::Sampled;
use lmeval_core::nearest;
use lmeval_pycompat::{Dict, Value};

use super::Recipe;
use crate::Error;
use crate::document::{Document, Node};
use crate::scores::Scores;

/// The key of a results file with the recipe of the run.
pub const RECIPE: &str = "recipe";

/// The metric of a row that names none.
const SCORE: &str = "score";

/// The rows of a recipe, in the order in which they are computed.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// The score of the recipe as a whole; the rows are listed below it.
    total: Option<Row>,
}

/// A score that is computed from others.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The metric in the results.
    pub metric: String,
    /// What it is computed from.
    pub of: Vec<Term>,
    combine: Combine,
    scale: f64,
    /// Whether scores below chance count as chance.
    clip: bool,
}

/// One score that a row is computed from.
#[derive(Clone, Debug)]
pub enum Term {
    /// The score of a task or group.
    Score {
        /// The task, as the recipe lists it, or a task of one of its groups.
        task: String,
        /// The metric.
        metric: String,
        /// The filter pipeline; `None` for the only one.
        filter: Option<String>,
        /// The score of guessing, which becomes 0 while 1 stays 1.
        chance: Option<f64>,
        /// Whether each task of the group counts by itself.
        each: bool,
    },
    /// A row above.
    Row(String),
}

/// How several scores become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    /// Each counts the same.
    Mean,
    /// Each document counts the same.
    Weighted,
    /// The best one.
    Max,
}

impl Row {
    /// The tasks that the row is computed from, with their metrics.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.of.iter().filter_map(|term| match term {
            Term::Score { task, metric, .. } => Some((task.as_str(), metric.as_str())),
            Term::Row(_) => None,
        })
    }

    /// The computation in words.
    pub fn formula(&self) -> String {
        const SHOWN: usize = 8;
        let mut terms: Vec<String> = self.of.iter().take(SHOWN).map(Term::formula).collect();
        if self.of.len() > SHOWN {
            terms.push(format!("and {} more", self.of.len() - SHOWN));
        }
        let inner = match (terms.as_slice(), self.combine) {
            ([one], Combine::Mean)
                if !self.of.iter().any(|term| matches!(term, Term::Score { each: true, .. })) =>
            {
                one.clone()
            }
            (several, Combine::Mean) => format!("mean({})", several.join(", ")),
            (several, Combine::Weighted) => format!("mean by documents({})", several.join(", ")),
            (several, Combine::Max) => format!("max({})", several.join(", ")),
        };
        let clipped = if self.clip { ", at least 0" } else { "" };
        if self.scale.to_bits() == 1.0_f64.to_bits() {
            format!("{inner}{clipped}")
        } else {
            format!("{} × {inner}{clipped}", self.scale)
        }
    }

    fn read(node: &Node<'_>, name: Option<&str>) -> Result<Self, Error> {
        node.check_keys(&["name", "metric", "of", "combine", "scale", "clip"])?;
        let combine = match node.get("combine")? {
            None => Combine::Mean,
            Some(combine) => match combine.text()?.as_str() {
                "mean" => Combine::Mean,
                "weighted" => Combine::Weighted,
                "max" => Combine::Max,
                other => {
                    let known = ["mean", "weighted", "max"];
                    let error = combine
                        .error(format!("`combine` must be one of `{}`, not `{other}`", known.join("`, `")));
                    return Err((*error).did_you_mean(&nearest(other, known)).into());
                }
            },
        };
        let clip = node.get("clip")?.map_or(Ok(false), |clip| clip.truth())?;
        let of = node.need("of")?.items_or_one()?;
        let of: Vec<Term> = of.iter().map(Term::read).collect::<Result<_, _>>()?;
        if of.is_empty() {
            return Err(node.error("A row needs at least one score in `of`"));
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => node.need("name")?.text()?,
        };
        Ok(Self {
            name,
            metric: node.get("metric")?.map_or(Ok(SCORE.to_owned()), |metric| metric.text())?,
            of,
            combine,
            scale: node.get("scale")?.map_or(Ok(1.0), |scale| scale.number())?,
            clip,
        })
    }

    fn compute(&self, scores: Scores<'_>, above: &[(String, Option<Sampled>)]) -> Result<Sampled, String> {
        let mut numbers = Vec::new();
        for term in &self.of {
            match term {
                Term::Row(name) => {
                    let found = above.iter().find(|(known, _)| known == name).and_then(|(_, number)| *number);
                    numbers.push(found.ok_or_else(|| format!("the row `{name}` could not be computed"))?);
                }
                Term::Score { task, metric, filter, chance, each } => {
                    let keys = if *each { scores.leaves(task)? } else { vec![scores.key(task)?] };
                    for key in keys {
                        let mut number = scores.number(&key, metric, filter.as_deref())?;
                        if let Some(chance) = chance {
                            number = centre(number, *chance, self.clip);
                        }
                        numbers.push(number);
                    }
                }
            }
        }
        let combined = self.combine.apply(&numbers)?;
        let scaled = |value: f64| value * self.scale;
        Ok(Sampled {
            value: scaled(combined.value),
            stderr: combined.stderr.map(|stderr| stderr * self.scale.abs()),
            ..combined
        })
    }
}

/// Moves the score of guessing to 0 and leaves 1 where it is.
fn centre(number: Sampled, chance: f64, clip: bool) -> Sampled {
    let value = (number.value - chance) / (1.0 - chance);
    let value = if clip { value.max(0.0) } else { value };
    Sampled { value, stderr: number.stderr.map(|stderr| stderr / (1.0 - chance)), ..number }
}

impl Combine {
    fn apply(self, numbers: &[Sampled]) -> Result<Sampled, String> {
        let count = numbers.len() as f64;
        let documents: Option<f64> = numbers.iter().map(|number| number.documents).sum();
        let weights: Vec<f64> = match self {
            Self::Mean => vec![1.0 / count; numbers.len()],
            Self::Weighted => {
                let all = documents.filter(|all| *all > 0.0);
                let all = all.ok_or("the numbers of documents are not known")?;
                numbers.iter().map(|number| number.documents.unwrap_or_default() / all).collect()
            }
            Self::Max => {
                let best = numbers.iter().max_by(|left, right| left.value.total_cmp(&right.value));
                return best.copied().ok_or_else(|| "there is no score".to_owned());
            }
        };
        // Reference: a plain mean is the sum over the count, which rounds otherwise than a sum of shares.
        let value = match self {
            Self::Mean => numbers.iter().map(|number| number.value).sum::<f64>() / count,
            _ => numbers.iter().zip(&weights).map(|(number, weight)| number.value * weight).sum(),
        };
        let squares: Option<f64> = numbers
            .iter()
            .zip(&weights)
            .map(|(number, weight)| Some((number.stderr? * weight).powi(2)))
            .sum();
        Ok(Sampled { value, stderr: squares.map(f64::sqrt), documents })
    }
}

impl Term {
    fn formula(&self) -> String {
        match self {
            Self::Row(name) => name.clone(),
            Self::Score { task, metric, filter, chance, each } => {
                let filter = filter.as_ref().map(|filter| format!(",{filter}")).unwrap_or_default();
                let each = if *each { "each of " } else { "" };
                let chance = chance.map(|chance| format!(" above {chance:.4}")).unwrap_or_default();
                format!("{each}{task} {metric}{filter}{chance}")
            }
        }
    }

    fn read(node: &Node<'_>) -> Result<Self, Error> {
        node.check_keys(&["row", "task", "metric", "filter", "chance", "each"])?;
        if let Some(row) = node.get("row")? {
            return row.text().map(Self::Row);
        }
        let chance = node.get("chance")?;
        let number = chance.as_ref().map(Node::number).transpose()?;
        if let (Some(node), Some(number)) = (&chance, number)
            && !(0.0..1.0).contains(&number)
        {
            return Err(node.error(format!("`chance` must be at least 0 and below 1, not {number}")));
        }
        Ok(Self::Score {
            task: node.need("task")?.text()?,
            metric: node.need("metric")?.text()?,
            filter: node.get("filter")?.map(|filter| filter.text()).transpose()?,
            chance: number,
            each: node.get("each")?.map_or(Ok(false), |each| each.truth())?,
        })
    }
}

impl Rows {
    /// Reads `rows` and `total`.
    pub(super) fn read(root: &Node<'_>) -> Result<Self, Error> {
        let rows = root.get("rows")?.map(|rows| rows.items()).transpose()?.unwrap_or_default();
        let total = root.get("total")?;
        Ok(Self {
            rows: rows.iter().map(|row| Row::read(row, None)).collect::<Result<_, _>>()?,
            total: total.map(|total| Row::read(&total, Some("total"))).transpose()?,
        })
    }

    /// All rows, the total last.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(&self.total)
    }

    /// The key of a row in results.
    pub fn key(&self, recipe: &str, row: &str) -> String {
        match &self.total {
            Some(total) if total.name == row => recipe.to_owned(),
            _ => format!("{recipe}::{row}"),
        }
    }
}

/// What a results file records about a recipe: enough to compute its rows again.
pub fn definition(recipe: &Recipe) -> Value {
    let mut definition = Dict::new();
    definition.insert("name", recipe.name.as_str());
    definition.insert("version", recipe.version);
    definition.insert("digest", recipe.digest());
    for key in ["rows", "total"] {
        if let Some(value) = recipe.document.value().as_dict().and_then(|root| root.get_str(key)) {
            definition.insert(key, value.clone());
        }
    }
    Value::from(definition)
}

/// Computes the rows of the recipe that a results object names and adds them to its results. Returns why rows are missing.
pub fn add_rows(object: &mut Dict) -> Result<Vec<String>, Error> {
    let Some(definition) = object.get_str(RECIPE).cloned() else { return Ok(Vec::new()) };
    let name = definition
        .as_dict()
        .and_then(|recipe| recipe.get_str("name")?.as_str())
        .unwrap_or_default()
        .to_owned();
    let version =
        definition.as_dict().and_then(|recipe| recipe.get_str("version").cloned()).unwrap_or_default();
    let document = Document::of_value(definition);
    let rows = Rows::read(&document.root())?;
    let (mut computed, mut missing) = (Vec::new(), Vec::new());
    for row in rows.all() {
        let number = match row.compute(Scores::new(object), &computed) {
            Ok(number) => Some(number),
            Err(reason) => {
                missing.push(format!("No row `{}`: {reason}", row.name));
                None
            }
        };
        computed.push((row.name.clone(), number));
    }
    let mut keys = Vec::new();
    for (row, (_, number)) in rows.all().zip(&computed) {
        let Some(number) = number else { continue };
        let key = rows.key(&name, &row.name);
        let alias = if key == name { &name } else { &row.name };
        insert(object, &key, alias, row, *number, &version);
        if key != name {
            keys.push(key);
        }
    }
    let has_total = rows.total.is_some() && computed.last().is_some_and(|(_, number)| number.is_some());
    if has_total && let Some(Value::Dict(members)) = object.get_str("group_subtasks").cloned() {
        let mut members = Dict::clone(&members);
        members.insert(name.as_str(), Value::list(keys.into_iter().map(Value::from)));
        object.insert("group_subtasks", members);
    }
    Ok(missing)
}

fn insert(object: &mut Dict, key: &str, alias: &str, row: &Row, number: Sampled, version: &Value) {
    let mut entry = Dict::new();
    entry.insert("name", key);
    entry.insert("alias", alias);
    entry.insert(format!("{},none", row.metric), number.value);
    let stderr = number.stderr.map_or_else(|| Value::str("N/A"), Value::Float);
    entry.insert(format!("{}_stderr,none", row.metric), stderr);
    let mut direction = Dict::new();
    direction.insert(row.metric.as_str(), true);
    for (section, value) in [
        ("results", Value::from(entry)),
        ("versions", version.clone()),
        ("higher_is_better", Value::from(direction)),
    ] {
        let mut all = object.get_str(section).and_then(Value::as_dict).cloned().unwrap_or_default();
        all.insert(key, value);
        object.insert(section, all);
    }
}
