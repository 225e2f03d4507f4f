//! Curves as drawings.

use lmeval_plot::{Axis, Figure, Level, Mark, Panel, Point as Dot, Scale, Series};

use super::{Curve, Point, ScoreCurve};

impl Curve {
    /// One panel per task: its main score with the 95 % interval, chance, the smallest difference that its documents show, and a
    /// mark at each step that differs from the previous one by more than chance.
    pub fn figure(&self) -> Figure {
        let panels = self.main().map(|score| self.panel(score)).collect();
        Figure { title: format!("{}: score by step", self.name), panels }
    }

    fn panel(&self, score: &ScoreCurve) -> Panel {
        let points = self.steps.iter().zip(&score.points).filter_map(|(step, point)| {
            let point = point.as_ref()?;
            let mark = mark(point, score.higher_is_better.unwrap_or(true));
            Some(Dot { x: step.step as f64, y: point.value, band: point.interval, mark })
        });
        // The letters of PNG drawings have no arrows.
        let direction = if score.higher_is_better == Some(false) { ", less is better" } else { "" };
        let detectable = score.detectable.map(|size| format!(", detects {size:.3}")).unwrap_or_default();
        let chance = score.chance.map(|value| Level { name: "chance".to_owned(), value });
        Panel {
            title: score.task.clone(),
            x: Axis { label: "step".to_owned(), scale: Scale::Linear },
            y: Axis { label: format!("{}{direction}{detectable}", score.label()), scale: Scale::Linear },
            series: vec![Series { name: score.label(), points: points.collect(), is_dashed: false }],
            levels: chance.into_iter().collect(),
        }
    }
}

/// How a step differs from the previous one, if it does.
fn mark(point: &Point, higher_is_better: bool) -> Option<Mark> {
    let change = point.previous.as_ref().filter(|change| change.is_significant())?;
    let rises = change.difference > 0.0;
    Some(Mark { rises, is_better: rises == higher_is_better })
}
