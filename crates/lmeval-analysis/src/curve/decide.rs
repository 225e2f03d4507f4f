//! Decisions about a growing curve: whether a goal is reached, and which steps are worth keeping.

use lmeval_core::Diagnostic;

use super::{ALPHA, Curve, Curves, ScoreCurve};
use crate::Error;
use crate::stats::Sampled;
use crate::threshold::{Bound, Threshold};

/// A score that training is meant to reach, such as `arc_easy.acc>=0.6`.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal(Threshold);

/// A goal that a step has reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// The index of the step.
    pub step: usize,
    /// The score of that step.
    pub value: f64,
    /// The end of its interval that decided: the lower one where more is better.
    pub bound: f64,
    /// The confidence of the interval.
    pub confidence: f64,
}

/// A step that is worth keeping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The index of the step.
    pub step: usize,
    /// The score of that step.
    pub value: f64,
}

impl Goal {
    /// Reads `TASK.METRIC>=VALUE` or `TASK:METRIC>=VALUE`, with `<=` where lower is better.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Diagnostic::new(format!("`{text}` is not a goal")).hint(
                "Write TASK.METRIC>=VALUE, for example 'arc_easy.acc>=0.6', or <= where lower is better",
            )
        };
        let at = [">=", "<="].into_iter().filter_map(|sign| text.find(sign)).min().ok_or_else(wrong)?;
        let (score, rest) = text.split_at(at);
        let with_colon = match (score.contains(':'), score.rsplit_once('.')) {
            // A filter follows its metric, and neither has a dot; names of tasks may.
            (false, Some((task, metric))) => format!("{task}:{metric}{rest}"),
            _ => text.to_owned(),
        };
        Threshold::parse(&with_colon).map(Self).map_err(|_| wrong().into())
    }

    /// The score that the goal is about.
    pub fn find<'a>(&self, curve: &'a Curve) -> Option<&'a ScoreCurve> {
        let Self(threshold) = self;
        curve
            .scores
            .iter()
            .find(|score| score.task == threshold.task && threshold.is_about(&score.metric, &score.filter))
    }

    /// The first step whose score is beyond the goal by more than chance.
    ///
    /// Every step is another look at the same question, so the k-th one has a part of the error: `α/(k(k+1))`, which all together are at
    /// most `α`. A step reaches the goal if its one-sided interval at that confidence does.
    pub fn reached(&self, curve: &Curve) -> Option<Reached> {
        let Self(threshold) = self;
        let score = self.find(curve)?;
        let known =
            score.points.iter().enumerate().filter_map(|(index, point)| Some((index, point.as_ref()?)));
        for (look, (step, point)) in known.enumerate() {
            let looks = (look + 1) as f64;
            let confidence = 1.0 - ALPHA / (looks * (looks + 1.0));
            let sampled = Sampled { value: point.value, stderr: point.stderr, documents: score.documents };
            // Both tails of the interval have the error of one.
            let Some(interval) = sampled.interval(2.0 * confidence - 1.0) else { continue };
            let bound = if threshold.bound == Bound::AtMost { interval.high } else { interval.low };
            if threshold.passes(bound) {
                return Some(Reached { step, value: point.value, bound, confidence });
            }
        }
        None
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Curves {
    /// The steps that are worth keeping, the best first: at most `count`.
    ///
    /// Steps are taken in order. While there is room, each is kept; after that a step takes the place of the worst kept one if it is better
    /// by more than chance, in the paired test, corrected for the number that it was chosen from. So a kept step is only given up for one
    /// that is better, and not for one that was lucky.
    pub fn best(&mut self, curve: &Curve, score: &ScoreCurve, count: usize) -> Vec<Kept> {
        let Some(higher) = score.higher_is_better else { return Vec::new() };
        let worse = |left: &Kept, right: &Kept| {
            let order = left.value.total_cmp(&right.value);
            if higher { order } else { order.reverse() }
        };
        let mut kept: Vec<Kept> = Vec::new();
        for (step, point) in score.points.iter().enumerate() {
            let Some(point) = point else { continue };
            let new = Kept { step, value: point.value };
            if kept.len() < count {
                kept.push(new);
                continue;
            }
            let Some(worst) = (0..kept.len()).min_by(|left, right| worse(&kept[*left], &kept[*right])) else {
                continue;
            };
            let Some(change) = self.change(curve, score, kept[worst].step, step) else { continue };
            let is_sure = change.p_value.is_some_and(|p_value| p_value * (count as f64) < ALPHA);
            if is_sure && score.is_better(&change) == Some(true) {
                kept[worst] = new;
            }
        }
        // Of equal scores, the earlier step comes first.
        kept.sort_by(|left, right| worse(right, left).then(left.step.cmp(&right.step)));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Point, Step};

    fn curve(values: &[f64], documents: f64) -> Curve {
        let point = |value: &f64| {
            let stderr = (value * (1.0 - value) / (documents - 1.0)).sqrt();
            Some(Point { value: *value, stderr: Some(stderr), interval: None, previous: None, best: None })
        };
        let score = ScoreCurve {
            task: "a.b".to_owned(),
            metric: "acc".to_owned(),
            filter: "none".to_owned(),
            is_group: false,
            is_main: true,
            higher_is_better: Some(true),
            documents: Some(documents),
            chance: None,
            detectable: None,
            best: None,
            points: values.iter().map(point).collect(),
        };
        let steps = (0..values.len()).map(|index| Step { step: index as u64, ..Step::default() });
        Curve { steps: steps.collect(), scores: vec![score], ..Curve::default() }
    }

    #[test]
    fn goals_have_dots_or_colons() {
        for text in ["a.b.acc>=0.6", "a.b:acc>=0.6", "a.b.acc,none >= 0.6"] {
            let goal = Goal::parse(text).unwrap();
            assert!(goal.find(&curve(&[0.5], 10.0)).is_some(), "{text}: {goal}");
        }
        assert!(Goal::parse("wikitext.word_perplexity<=20").is_ok());
        for text in ["", "acc>=0.5", "a.acc", "a.acc>=", "a.acc>=x", "a.acc=0.5", ">=0.5", "a.acc>0.5"] {
            assert!(Goal::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_lucky_step_does_not_reach_a_goal() {
        let goal = Goal::parse("a.b:acc>=0.6").unwrap();
        // The raw maximum is above the goal from the second step on.
        let found = goal.reached(&curve(&[0.5, 0.62, 0.61, 0.7], 1000.0)).unwrap();
        assert_eq!(found.step, 3);
        assert!(found.bound >= 0.6 && found.bound < found.value && found.confidence > 0.997);
        assert_eq!(goal.reached(&curve(&[0.5, 0.62, 0.61, 0.7], 50.0)), None);
        assert_eq!(goal.reached(&curve(&[0.5, 0.2], 1000.0)), None);
        let lower = Goal::parse("a.b:acc<=0.4").unwrap();
        assert_eq!(lower.reached(&curve(&[0.5, 0.2], 1000.0)).unwrap().step, 1);
    }

    #[test]
    fn false_alarms_of_many_looks_are_rare() {
        use lmeval_testkit::Dice;
        let goal = Goal::parse("a.b:acc>=0.5").unwrap();
        let mut dice = Dice::new(5);
        let alarms = (0..400).filter(|_| {
            let draw = |dice: &mut Dice| (0..200).filter(|_| dice.roll(2) == 0).count() as f64 / 200.0;
            let values: Vec<f64> = (0..50).map(|_| draw(&mut dice)).collect();
            goal.reached(&curve(&values, 200.0)).is_some()
        });
        // 5 % are allowed; without the correction it is about 70 %.
        assert!(alarms.count() <= 28);
    }

    #[test]
    fn a_kept_step_is_given_up_for_a_better_one_only() {
        let mut curves = Curves::default();
        for (step, value) in [0.3, 0.5, 0.52, 0.53, 0.7, 0.69].into_iter().enumerate() {
            let figures = super::super::build::Figures {
                task: "a".to_owned(),
                metric: "acc".to_owned(),
                filter: "none".to_owned(),
                value,
                stderr: Some((value * (1.0 - value) / 999.0f64).sqrt()),
                interval: None,
                documents: Some(1000.0),
                higher_is_better: Some(true),
                is_group: false,
            };
            curves.add_figures(super::super::build::StepFigures {
                step: step as u64,
                checkpoint: String::new(),
                results: None,
                failed_requests: 0,
                figures: vec![figures],
                runs: Vec::new(),
            });
        }
        let curve = curves.build("x", &super::super::Selection::default()).unwrap();
        let mut kept = |count| {
            curves.best(&curve, &curve.scores[0], count).iter().map(|kept| kept.step).collect::<Vec<_>>()
        };
        assert_eq!(kept(1), [4]);
        // 0.53 is not better than 0.5 by more than chance, 0.69 is.
        assert_eq!(kept(2), [4, 5]);
        assert_eq!(kept(10), [4, 5, 3, 2, 1, 0]);
        assert!(kept(0).is_empty());
    }
}
