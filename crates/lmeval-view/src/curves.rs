//! Curves as pages show them.

use std::path::Path;

use lmeval_analysis::curve::{Change, Curve, Point, ScoreCurve};

use crate::Error;
use crate::api::{BudgetChart, CurveHead, CurvePage, CurveScore, CurveStep, CurveWaiting};
use crate::catalog::{Catalog, FoundCurve, run_id};
use crate::wire::Num;

/// A curve in a list; `None` for a file that cannot be read.
pub(crate) fn head(found: &FoundCurve) -> Result<CurveHead, Error> {
    Ok(of_curve(found, &Curve::read(&found.path)?))
}

fn of_curve(found: &FoundCurve, curve: &Curve) -> CurveHead {
    CurveHead {
        id: found.id.clone(),
        name: curve.name.clone(),
        path: found.shown.clone(),
        count: curve.steps.len(),
        live: curve.is_live,
    }
}

/// The page of a curve. Steps link to runs that the catalog has.
pub(crate) fn page(found: &FoundCurve, catalog: &Catalog) -> Result<CurvePage, Error> {
    let curve = Curve::read(&found.path)?;
    let run =
        |index: usize, path: &Path| run_id(&curve.results_of(index, path)?).filter(|id| catalog.has(id));
    let steps = curve.steps.iter().enumerate().map(|(index, step)| CurveStep {
        step: step.step,
        checkpoint: step.checkpoint.clone(),
        run: run(index, &found.path),
        failed_requests: step.failed_requests,
    });
    let waiting = curve.waiting.iter().map(|waiting| CurveWaiting {
        checkpoint: waiting.checkpoint.clone(),
        step: waiting.step,
        reason: waiting.reason.clone(),
    });
    Ok(CurvePage {
        head: of_curve(found, &curve),
        steps: steps.collect(),
        scores: curve.scores.iter().map(score).collect(),
        waiting: waiting.collect(),
        notes: curve.notes.clone(),
    })
}

/// The main scores as a drawing.
pub(crate) fn drawing(found: &FoundCurve) -> Result<BudgetChart, Error> {
    let curve = Curve::read(&found.path)?;
    let figure = curve.figure();
    let (width, height) = figure.size();
    Ok(BudgetChart { svg: figure.to_svg(), width, height, notes: curve.notes })
}

fn score(score: &ScoreCurve) -> CurveScore {
    let list = |of: &dyn Fn(&Point) -> Option<f64>| {
        score.points.iter().map(|point| point.as_ref().and_then(of).map(short)).collect::<Vec<_>>()
    };
    let changes = |which: fn(&Point) -> &Option<Change>, of: fn(&Change) -> Option<f64>| {
        list(&|point| which(point).as_ref().and_then(of))
    };
    let difference = |change: &Change| Some(change.difference);
    let adjusted = |change: &Change| change.adjusted;
    CurveScore {
        task: score.task.clone(),
        metric: score.metric.clone(),
        filter: score.filter.clone(),
        is_group: score.is_group,
        is_main: score.is_main,
        higher_is_better: score.higher_is_better,
        documents: score.documents,
        chance: score.chance.map(Num),
        at_chance: score.is_at_chance(),
        detectable: score.detectable.map(short),
        best: score.best,
        values: list(&|point| Some(point.value)),
        low: list(&|point| point.interval.map(|(low, _)| low)),
        high: list(&|point| point.interval.map(|(_, high)| high)),
        from_previous: changes(|point| &point.previous, difference),
        previous_p: changes(|point| &point.previous, adjusted),
        from_best: changes(|point| &point.best, difference),
        best_p: changes(|point| &point.best, adjusted),
    }
}

/// A number with the digits that a page can show: hundreds of steps of twenty tasks have many.
fn short(number: f64) -> Num {
    Num(format!("{number:.6e}").parse().unwrap_or(number))
}
