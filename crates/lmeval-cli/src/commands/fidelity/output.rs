//! The report of a comparison: as text, as `fidelity.json`, and token by token.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use lmeval_analysis::fidelity::{Figures, Judgement, TokenFigures};
use lmeval_analysis::read::{Run, parent};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::write_atomically;

use super::findings::{Finding, findings};
use super::requests::Requests;
use super::summary::{Document, Gold, Positions, by_position, by_task, documents, gold};
use super::tokens::{Tokens, Worst};
use super::{FidelityArgs, Found};
use crate::commands::compare::{gate_table, gate_values, number, object, p_value, score_value, signed};
use crate::json_line;
use crate::printer::Printer;
use crate::table::render;
use crate::tokenizer::LazyTokenizer;
use crate::words::counted;

/// The report, in the folder of the new run.
const REPORT: &str = lmeval_analysis::fidelity::REPORT;
/// The figures of every token, beside it.
const TOKENS: &str = "fidelity_tokens.jsonl";

/// Divergences below this are rounding, and not listed.
const NOISE: f64 = 1e-6;

/// Everything that is printed and written.
struct Report<'a> {
    found: &'a Found,
    arguments: &'a FidelityArgs,
    tokenizer: &'a LazyTokenizer,
    findings: Vec<Finding>,
    /// Sorted: those that differ most come first.
    documents: Vec<Document>,
    figures: Vec<(&'a str, Figures)>,
    golds: Vec<(&'a str, Gold)>,
    positions: Vec<Positions>,
}

/// Writes the files, and prints the report.
pub(super) fn publish(
    found: &Found,
    arguments: &FidelityArgs,
    tokenizer: &LazyTokenizer,
    folder: &Path,
    printer: &mut Printer,
) -> Result<()> {
    let mut documents = documents(found);
    let figures = by_task(found, &documents);
    documents.sort_by(|a, b| b.kl().total_cmp(&a.kl()));
    let report = Report {
        found,
        arguments,
        tokenizer,
        findings: findings(found, tokenizer),
        documents,
        figures,
        golds: gold(found),
        positions: by_position(found),
    };
    let beside = parent(&found.new.path);
    let mut json = String::new();
    json_line::write(&mut json, &finite(report.value()))?;
    write_atomically(&beside.join(REPORT), json.as_bytes())?;
    if let Some(tokens) = &found.tokens {
        write_atomically(&beside.join(TOKENS), lines(&found.requests, tokens)?.as_bytes())?;
    }
    if arguments.json {
        return Ok(printer.exact(&json)?);
    }
    report.print(printer)?;
    printer.result(&format!(
        "\nThe report is in {}. Side by side: lm-eval view {}\n",
        beside.join(REPORT).display(),
        folder.display()
    ))?;
    Ok(printer.flush()?)
}

/// A value without NaN and infinity, which many programs do not read: null instead.
fn finite(value: Value) -> Value {
    match value {
        Value::Float(number) if !number.is_finite() => Value::None,
        Value::List(items) => Value::list(items.iter().cloned().map(finite)),
        Value::Dict(dict) => Value::from(
            dict.iter().map(|(key, value)| (key.clone(), finite(value.clone()))).collect::<Dict>(),
        ),
        other => other,
    }
}

/// The figures of every token, one request per line.
fn lines(requests: &Requests, tokens: &Tokens) -> Result<String> {
    let mut text = String::new();
    for (asked, of_request) in requests.all.iter().zip(&tokens.requests) {
        let numbers = |pick: &dyn Fn(&lmeval_analysis::fidelity::Measured) -> f64| {
            Value::list(of_request.measured.iter().map(|measured| Value::Float(pick(measured))))
        };
        let ids = of_request.scored.iter().map(|token| Value::from(i64::from(*token)));
        let line = object([
            ("task", Value::str(requests.tasks[asked.task].as_str())),
            ("doc_id", Value::Int(asked.doc_id)),
            ("request", Value::Int(asked.index as i64)),
            ("context", Value::Int(of_request.contexts.1.len() as i64)),
            ("tokens", Value::list(ids)),
            ("kl", numbers(&|measured| measured.kl)),
            ("kl_high", numbers(&|measured| measured.kl_high)),
            ("reverse", numbers(&|measured| measured.reverse)),
            ("agrees", Value::list(of_request.measured.iter().map(|measured| Value::Bool(measured.agrees)))),
            ("base", numbers(&|measured| measured.base)),
            ("new", numbers(&|measured| measured.new)),
        ]);
        json_line::write(&mut text, &finite(line))?;
    }
    Ok(text)
}

impl Report<'_> {
    fn print(&self, printer: &mut Printer) -> Result<()> {
        let Found { base, new, comparison, refused, decisions, .. } = self.found;
        printer.result(&format!("{} against the reference {}\n\n", of_run(new), of_run(base)))?;
        for note in &comparison.notes {
            printer.note(&format!("note: {note}"));
        }
        printer.table(&self.score_table())?;
        if !self.figures.is_empty() {
            printer.result("\n")?;
            printer.table(&self.token_table())?;
            printer.result(&self.size())?;
        }
        if let Some(refused) = refused {
            printer.result(&format!("\nNo distributions: {refused}\n"))?;
        }
        if !decisions.is_empty() {
            printer.result("\n")?;
            printer.table(&gate_table(decisions)?)?;
        }
        printer.result(&self.details())?;
        printer.result(&format!("\nVerdict: {}\n", self.verdict()))?;
        Ok(())
    }

    fn score_table(&self) -> String {
        let headers = [
            "Task",
            "Filter",
            "Metric",
            "Reference",
            "Checked",
            "Difference",
            "95% CI",
            "p Holm",
            "n",
            "Flips",
            "P(gold)",
            "",
        ];
        let scores = self.found.comparison.scores.iter().zip(&self.found.judgements);
        let rows = scores.map(|(score, judgement)| {
            let outcome = &score.outcome;
            let gold = self.golds.iter().find(|(task, _)| *task == score.task && !score.is_group);
            vec![
                if score.is_group { format!("{} (group)", score.task) } else { score.task.clone() },
                score.filter.clone(),
                score.metric.clone(),
                number(outcome.base, 4),
                number(outcome.new, 4),
                signed(outcome.difference),
                format!("[{}, {}]", signed(outcome.interval.low), signed(outcome.interval.high)),
                p_value(score.holm),
                outcome.count.to_string(),
                format!("+{} −{}", outcome.up, outcome.down),
                gold.map_or_else(String::new, |(_, gold)| format!("{:.4} → {:.4}", gold.base, gold.new)),
                judgement.name().to_owned(),
            ]
        });
        render(&headers.map(str::to_owned), &rows.collect::<Vec<_>>(), 3)
    }

    fn token_table(&self) -> String {
        let headers = [
            "Task",
            "Tokens",
            "KL",
            "median",
            "99%",
            "largest",
            "Reverse KL",
            "Top-1",
            "Perplexity",
            "ratio",
            "Δp RMS",
        ];
        let rows = self.figures.iter().map(|(task, figures)| {
            vec![
                (*task).to_owned(),
                figures.tokens.to_string(),
                format!("{} ± {}", short(figures.kl.mean), short(figures.kl.stderr)),
                short(figures.kl.median),
                short(figures.kl.most),
                short(figures.kl.largest),
                short(figures.reverse.mean),
                format!("{:.2}%", 100.0 * figures.agreement),
                format!("{} → {}", number(figures.base_perplexity, 4), number(figures.new_perplexity, 4)),
                format!("{:.4}", figures.new_perplexity / figures.base_perplexity),
                short(figures.probability_rms),
            ]
        });
        render(&headers.map(str::to_owned), &rows.collect::<Vec<_>>(), 1)
    }

    /// How exact the divergences are, and what the distributions cost.
    fn size(&self) -> String {
        let Some(tokens) = &self.found.tokens else { return String::new() };
        let size = tokens.size;
        let per = |total: u64| total as f64 / size.distributions.max(1) as f64;
        let over_tokens = |pick: fn(&Figures) -> f64| {
            let total: usize = self.figures.iter().map(|(_, figures)| figures.tokens).sum();
            self.figures.iter().map(|(_, figures)| pick(figures) * figures.tokens as f64).sum::<f64>()
                / total as f64
        };
        let (low, high) = (over_tokens(|figures| figures.kl.mean), over_tokens(|figures| figures.kl_high));
        let exactness = if high - low <= 1e-9 {
            "KL is exact".to_owned()
        } else {
            format!(
                "KL is a lower bound: {} in the mean, at most {} if unlisted tokens differ no more than listed ones",
                short(low),
                short(high)
            )
        };
        format!(
            "{exactness}. The reference's distributions list {:.0} tokens on average and take {:.0} bytes each\n",
            per(size.listed),
            per(size.bytes)
        )
    }

    /// Findings, and the documents and tokens that differ most.
    fn details(&self) -> String {
        let mut text = String::new();
        if !self.findings.is_empty() {
            text.push_str("\nFindings:\n");
        }
        for finding in &self.findings {
            let _ = writeln!(text, "- {}", finding.text);
        }
        if self.positions.len() > 1 {
            let parts: Vec<String> = self
                .positions
                .iter()
                .map(|positions| {
                    format!(
                        "{} {} ({})",
                        range(positions),
                        short(positions.kl),
                        counted(positions.tokens, "token")
                    )
                })
                .collect();
            let _ = writeln!(text, "\nKL by position in the sequence: {}", parts.join(", "));
        }
        let differ = self.documents.iter().filter(|document| document.kl() > NOISE);
        let worst: Vec<&Document> = differ.take(self.arguments.worst).collect();
        if !worst.is_empty() {
            text.push_str("\nDocuments that differ most:\n");
        }
        for document in worst {
            let task = &self.found.requests.tasks[document.task];
            let changed: Vec<String> = self
                .changes(task, document.doc_id)
                .map(|(metric, base, new)| format!(", {metric} {} → {}", number(base, 4), number(new, 4)))
                .collect();
            let _ = writeln!(
                text,
                "- {task}, document {}: KL {} over {}{}",
                document.doc_id,
                short(document.kl()),
                counted(document.measured.len(), "token"),
                changed.concat()
            );
        }
        let worst = self.found.tokens.iter().flat_map(|tokens| &tokens.worst);
        let worst = worst.filter(|worst| worst.measured.kl > NOISE);
        let shown: Vec<String> = worst.map(|worst| self.worst_line(worst)).collect();
        if !shown.is_empty() {
            text.push_str("\nTokens that differ most:\n");
        }
        text.extend(shown);
        text
    }

    fn worst_line(&self, worst: &Worst) -> String {
        let token = self.token_of(worst);
        let best = |likely: &[(u32, f64)]| {
            let best = likely.first();
            best.map_or_else(String::new, |(token, logprob)| {
                format!("{} {:.4}", self.shown(*token), logprob.exp())
            })
        };
        format!(
            "- {}, token {}: {}, p {:.4} → {:.4}, most likely {} → {}, KL {}\n",
            self.found.requests.name(worst.request),
            worst.position,
            token.map_or_else(String::new, |token| self.shown(token)),
            worst.measured.base.exp(),
            worst.measured.new.exp(),
            best(&worst.likely[0]),
            best(&worst.likely[1]),
            short(worst.measured.kl)
        )
    }

    fn token_of(&self, worst: &Worst) -> Option<u32> {
        let tokens = self.found.tokens.as_ref()?;
        tokens.requests[worst.request].scored.get(worst.position).copied()
    }

    /// A token as reports show it: its text, or its id.
    fn shown(&self, token: u32) -> String {
        let text = self.tokenizer.get().and_then(|tokenizer| tokenizer.decode_plain(&[token]).ok());
        text.map_or_else(|| token.to_string(), |text| format!("{text:?}"))
    }

    /// The metrics of a document whose values the models disagree on.
    fn changes(&self, task: &str, doc_id: i64) -> impl Iterator<Item = (&str, f64, f64)> {
        let scores =
            self.found.comparison.scores.iter().filter(move |score| score.task == task && !score.is_group);
        scores.flat_map(move |score| {
            let own = score.flips.iter().filter(move |flip| flip.doc_id == doc_id);
            own.map(|flip| (score.metric.as_str(), flip.base, flip.new))
        })
    }

    /// The verdict with its reason.
    fn verdict(&self) -> String {
        let judgements = &self.found.judgements;
        let count = |wanted| judgements.iter().filter(|judgement| **judgement == wanted).count();
        let margin = number(self.arguments.margin, 6);
        let scores = judgements.len();
        match self.found.verdict() {
            Judgement::Same => "same. No document has another score".to_owned(),
            Judgement::Equivalent => {
                format!("equivalent. Every difference is within ±{margin}, with 95% confidence")
            }
            Judgement::Different => format!(
                "different. The paired test finds a difference in {} of {}",
                count(Judgement::Different),
                counted(scores, "score")
            ),
            Judgement::Undecided => format!(
                "undecided. For {} of {}, the documents tell neither a difference nor that it is within ±{margin}",
                count(Judgement::Undecided),
                counted(scores, "score")
            ),
        }
    }

    /// The report as JSON.
    fn value(&self) -> Value {
        let Found { base, new, comparison, judgements, decisions, refused, tokens, .. } = self.found;
        let scores = comparison.scores.iter().zip(judgements).map(|(score, judgement)| {
            let mut entries = score_value(score).as_dict().cloned().unwrap_or_default();
            entries.insert("judgement", judgement.name());
            Value::from(entries)
        });
        let named = |entries: Vec<(&str, Value)>| -> Value {
            Value::from(entries.into_iter().map(|(name, value)| (Value::str(name), value)).collect::<Dict>())
        };
        let figures = self.figures.iter().map(|(task, figures)| (*task, figures_value(figures)));
        let golds = self.golds.iter().map(|(task, gold)| {
            let entries = [("base", gold.base), ("new", gold.new), ("stderr", gold.stderr)];
            let mut entries: Vec<(&'static str, Value)> =
                entries.map(|(name, value)| (name, Value::Float(value))).to_vec();
            entries.push(("questions", Value::Int(gold.questions as i64)));
            (*task, object(entries))
        });
        let findings = self.findings.iter().map(|finding| {
            object([
                ("kind", Value::str(finding.kind)),
                ("requests", Value::Int(finding.requests as i64)),
                ("text", Value::str(finding.text.as_str())),
            ])
        });
        let positions = self.positions.iter().map(|positions| {
            object([
                ("from", Value::Int(positions.from as i64)),
                ("to", positions.to.map_or(Value::None, |to| Value::Int(to as i64))),
                ("tokens", Value::Int(positions.tokens as i64)),
                ("kl", Value::Float(positions.kl)),
            ])
        });
        let worst = tokens.iter().flat_map(|tokens| &tokens.worst);
        object([
            ("base", run_value(base)),
            ("new", run_value(new)),
            ("verdict", Value::str(self.found.verdict().name())),
            ("margin", Value::Float(self.arguments.margin)),
            ("scores", Value::list(scores)),
            ("gates", gate_values(decisions)),
            ("tokens", named(figures.collect())),
            ("gold", named(golds.collect())),
            ("no_distributions", refused.as_deref().map_or(Value::None, Value::str)),
            ("kept", self.kept()),
            ("findings", Value::list(findings)),
            ("by_position", Value::list(positions)),
            ("documents", Value::list(self.documents.iter().map(|document| self.document_value(document)))),
            ("worst_tokens", Value::list(worst.map(|worst| self.worst_value(worst)))),
        ])
    }

    /// How much of each distribution was kept, and its size.
    fn kept(&self) -> Value {
        let Some(tokens) = &self.found.tokens else { return Value::None };
        let per = |total: u64| Value::Float(total as f64 / tokens.size.distributions.max(1) as f64);
        object([
            ("share", Value::Float(self.arguments.keep)),
            ("most", Value::Int(self.arguments.keep_most as i64)),
            ("top_logprobs", Value::Int(self.arguments.top_logprobs as i64)),
            ("distributions", Value::Int(tokens.size.distributions as i64)),
            ("listed_per_token", per(tokens.size.listed)),
            ("bytes_per_token", per(tokens.size.bytes)),
        ])
    }

    fn document_value(&self, document: &Document) -> Value {
        let task = &self.found.requests.tasks[document.task];
        let changes = self.changes(task, document.doc_id).map(|(metric, base, new)| {
            object([("metric", Value::str(metric)), ("base", Value::Float(base)), ("new", Value::Float(new))])
        });
        let largest = document.measured.iter().map(|measured| measured.kl).fold(0.0, f64::max);
        object([
            ("task", Value::str(task.as_str())),
            ("doc_id", Value::Int(document.doc_id)),
            ("filter", Value::str(self.found.requests.filters[document.task].as_str())),
            ("offsets", Value::list(document.offsets.map(|offset| Value::Int(offset as i64)))),
            ("tokens", Value::Int(document.measured.len() as i64)),
            ("kl", Value::Float(document.kl())),
            ("kl_largest", Value::Float(largest)),
            ("changes", Value::list(changes)),
        ])
    }

    /// A token with everything that is needed to see it elsewhere: the ids before it, and what both models find likely.
    fn worst_value(&self, worst: &Worst) -> Value {
        let asked = &self.found.requests.all[worst.request];
        let ids = |tokens: &[u32]| -> Vec<Value> {
            tokens.iter().map(|token| Value::Int(i64::from(*token))).collect()
        };
        let mut input = Vec::new();
        if let Some(tokens) = &self.found.tokens {
            let of_request = &tokens.requests[worst.request];
            input = ids(&of_request.contexts.1);
            input.extend(ids(&of_request.scored[..worst.position.min(of_request.scored.len())]));
        }
        let likely = |likely: &[(u32, f64)]| {
            Value::list(likely.iter().map(|(token, logprob)| {
                object([
                    ("token", Value::Int(i64::from(*token))),
                    ("text", Value::from(self.shown(*token))),
                    ("logprob", Value::Float(*logprob)),
                ])
            }))
        };
        let token = self.token_of(worst);
        object([
            ("task", Value::str(self.found.requests.tasks[asked.task].as_str())),
            ("doc_id", Value::Int(asked.doc_id)),
            ("request", Value::Int(asked.index as i64)),
            ("position", Value::Int(worst.position as i64)),
            ("token", token.map_or(Value::None, |token| Value::Int(i64::from(token)))),
            ("text", token.map_or(Value::None, |token| Value::from(self.shown(token)))),
            ("kl", Value::Float(worst.measured.kl)),
            ("base_logprob", Value::Float(worst.measured.base)),
            ("new_logprob", Value::Float(worst.measured.new)),
            ("base_likely", likely(&worst.likely[0])),
            ("new_likely", likely(&worst.likely[1])),
            ("input", Value::list(input)),
        ])
    }
}

fn figures_value(figures: &Figures) -> Value {
    let of = |quantity: &TokenFigures| {
        object([
            ("mean", Value::Float(quantity.mean)),
            ("stderr", Value::Float(quantity.stderr)),
            ("median", Value::Float(quantity.median)),
            ("p99", Value::Float(quantity.most)),
            ("largest", Value::Float(quantity.largest)),
        ])
    };
    object([
        ("documents", Value::Int(figures.documents as i64)),
        ("tokens", Value::Int(figures.tokens as i64)),
        ("kl", of(&figures.kl)),
        ("kl_high", Value::Float(figures.kl_high)),
        ("reverse", of(&figures.reverse)),
        ("reverse_high", Value::Float(figures.reverse_high)),
        ("agreement", Value::Float(figures.agreement)),
        ("logprob_difference", of(&figures.logprob)),
        ("probability_rms", Value::Float(figures.probability_rms)),
        ("base_perplexity", Value::Float(figures.base_perplexity)),
        ("new_perplexity", Value::Float(figures.new_perplexity)),
    ])
}

/// A run with what made it, as its results file has it.
fn run_value(run: &Run) -> Value {
    let config = |name: &str| {
        run.section("config").and_then(|config| config.get_str(name)).cloned().unwrap_or_default()
    };
    object([
        ("name", Value::str(run.name.as_str())),
        ("path", Value::from(run.path.display().to_string())),
        ("model", config("model")),
        ("model_args", config("model_args")),
    ])
}

/// A run as the report names it: the model, and the backend that computed it.
fn of_run(run: &Run) -> String {
    let model = run.section("config").and_then(|config| config.get_str("model")?.as_str());
    model.map_or_else(|| run.name.clone(), |model| format!("{} ({model})", run.name))
}

fn range(positions: &Positions) -> String {
    match positions.to {
        Some(to) => format!("{} to {}", positions.from, to - 1),
        None => format!("from {}", positions.from),
    }
}

/// A number with four digits, in the form that is shorter.
fn short(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if !value.is_finite() || value.abs() >= 1e-3 {
        number(value, 4)
    } else {
        format!("{value:.1e}")
    }
}
