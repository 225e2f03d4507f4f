//! Curves as drawings.

use lmeval_plot::{Axis, Figure, Level, Panel, Point as Dot, Scale, Series};

use super::{Curve, ScoreCurve};

impl Curve {
    /// One panel per task: its main score with the 95 % interval, chance, and the smallest difference that its documents show.
    pub fn figure(&self) -> Figure {
        let panels = self.main().map(|score| self.panel(score)).collect();
        Figure { title: format!("{}: score by step", self.name), panels }
    }

    fn panel(&self, score: &ScoreCurve) -> Panel {
        let points = self.steps.iter().zip(&score.points).filter_map(|(step, point)| {
            let point = point.as_ref()?;
            Some(Dot { x: step.step as f64, y: point.value, band: point.interval })
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
