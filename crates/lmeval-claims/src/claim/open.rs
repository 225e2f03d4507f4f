//! Finds the claims that a word of the command line stands for.

use std::path::Path;

use lmeval_analysis::read::Run;
use lmeval_analysis::stats::Sampled;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value};

use super::{Claim, Claims, settings_of};
use crate::Error;
use crate::expect::{Against, Expectations};
use crate::recipe::{Recipe, Scored};
use crate::scores::Scores;

impl Claims {
    /// Opens `TASK=METRIC=VALUE`, a results file or a folder of them, a file of expectations, or a recipe with the scores that it has
    /// of `model`.
    pub fn open(text: &str, model: Option<&str>) -> Result<Self, Error> {
        let path = Path::new(text);
        if path.is_dir() || path.extension().is_some_and(|end| end == "json") {
            return Self::of_run(path);
        }
        if path.is_file() {
            return match Recipe::open(text) {
                Ok(recipe) => Self::of_recipe(recipe, model),
                Err(error) => Self::of_expectations(path)
                    .map_err(|other| if error.message.contains("not a recipe") { other } else { error }),
            };
        }
        if text.contains('=') {
            let claim = Claim::parse(text)?;
            let mut settings = Dict::new();
            settings.insert("tasks", Value::list([Value::str(claim.task.as_str())]));
            return Ok(Self { claims: vec![claim], settings, ..Self::default() });
        }
        Self::of_recipe(Recipe::open(text.strip_prefix("recipe:").unwrap_or(text))?, model)
    }

    fn of_run(path: &Path) -> Result<Self, Error> {
        let run = Run::open(path)?;
        let empty = Dict::new();
        let object = run.results.as_ref().unwrap_or(&empty);
        let scores = Scores::new(object);
        let claims = scores.all().into_iter().filter_map(|(task, metric, filter)| {
            let score = scores.number(&task, &metric, Some(&filter)).ok()?;
            Some(Claim { task, metric, filter: Some(filter), score, source: run.path.display().to_string() })
        });
        let claims: Vec<Claim> = claims.collect();
        let settings = settings_of(object);
        Ok(Self { claims, run: Some(run), recipe: None, settings })
    }

    fn of_expectations(path: &Path) -> Result<Self, Error> {
        let expectations = Expectations::read(path)?;
        let claims = expectations.checks.iter().filter_map(|check| {
            let score = match check.against {
                Against::Tolerance { value, .. } => Sampled { value, stderr: None, documents: None },
                Against::Score(score) => score,
                Against::Run(_) | Against::Series { .. } => return None,
            };
            Some(Claim {
                task: check.task.clone(),
                metric: check.metric.clone(),
                filter: check.filter.clone(),
                score,
                source: path.display().to_string(),
            })
        });
        Ok(Self {
            claims: claims.collect(),
            run: None,
            recipe: None,
            settings: expectations.settings.clone(),
        })
    }

    fn of_recipe(recipe: Recipe, model: Option<&str>) -> Result<Self, Error> {
        let Some(model) = model else {
            return Err(Diagnostic::new(format!(
                "The recipe `{}` has scores of several models",
                recipe.name
            ))
            .hint("Name one with `--of`")
            .into());
        };
        let mut claims = Vec::new();
        for expected in recipe.expected_of(model) {
            for score in &expected.scores {
                let (task, metric) = match &score.of {
                    Scored::Task(word) => (word.clone(), score.metric.clone()),
                    Scored::Row(row) => {
                        let metric =
                            recipe.rows.all().find(|known| known.name == *row).map(|row| row.metric.clone());
                        (recipe.rows.key(&recipe.name, row), metric)
                    }
                };
                claims.push(Claim {
                    task,
                    metric: metric.unwrap_or_default(),
                    filter: score.filter.clone(),
                    score: Sampled {
                        value: score.value,
                        stderr: score.stderr,
                        documents: score.documents.map(|count| count as f64),
                    },
                    source: format!("{} (grade {})", expected.source, expected.grade.name()),
                });
            }
        }
        if claims.is_empty() {
            let known: Vec<&str> = recipe.expected.iter().map(|expected| expected.model.as_str()).collect();
            return Err(Diagnostic::new(format!("The recipe `{}` has no scores of `{model}`", recipe.name))
                .hint(format!("It has those of `{}`; name one with `--of`", known.join("`, `")))
                .into());
        }
        Ok(Self { claims, run: None, recipe: Some(recipe), settings: Dict::new() })
    }
}
