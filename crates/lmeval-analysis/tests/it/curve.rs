//! Curves: marks of what did not change are rare, and damaged files are errors.

use lmeval_analysis::curve::{Change, Curve, Curves, Selection, read_lines, step_in};
use lmeval_testkit::{Dice, mutate};
use serde_json::{Map, Value, json};

const DOCUMENTS: usize = 400;

/// A curve of independent scores, all of a model that never changes.
fn unchanged(dice: &mut Dice, folder: &std::path::Path) -> Curve {
    let mut lines = String::new();
    for step in 0..30 {
        let mut line = Map::from_iter([("global_step".to_owned(), json!(step))]);
        for task in ["a", "b", "c"] {
            let right = (0..DOCUMENTS).filter(|_| dice.roll(10) < 4).count();
            line.insert(format!("{task}/acc"), json!(right as f64 / DOCUMENTS as f64));
            line.insert(format!("{task}/documents"), json!(DOCUMENTS));
        }
        lines += &Value::from(line).to_string();
        lines.push('\n');
    }
    let path = folder.join("lines.jsonl");
    fs_err::write(&path, lines).unwrap();
    let mut curves = Curves::default();
    for figures in read_lines(&path).unwrap() {
        curves.add_figures(figures);
    }
    curves.build("x", &Selection::default()).unwrap()
}

#[test]
fn curves_without_a_change_rarely_have_marks() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice::new(23);
    let (mut previous, mut best) = (0, 0);
    for _ in 0..200 {
        let curve = unchanged(&mut dice, folder.path());
        let points = || curve.scores.iter().flat_map(|score| score.points.iter().flatten());
        previous +=
            usize::from(points().any(|point| point.previous.as_ref().is_some_and(Change::is_significant)));
        best += usize::from(points().any(|point| point.best.as_ref().is_some_and(Change::is_significant)));
    }
    // 10 of 200 are allowed; without the correction for the choice of the best it is two of five curves.
    assert!(previous <= 18, "{previous} of 200 curves differ from the previous step");
    assert!(best <= 18, "{best} of 200 curves differ from the best step");
}

#[test]
fn drawings_mark_the_steps_that_differ_from_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut curve = unchanged(&mut Dice::new(1), folder.path());
    let score = &mut curve.scores[0];
    score.higher_is_better = Some(true);
    for (at, difference, adjusted) in [(1, 0.2, 0.01), (2, -0.2, 0.01), (3, -0.2, 0.2)] {
        let change = Change {
            difference,
            interval: None,
            p_value: Some(0.001),
            adjusted: Some(adjusted),
            is_paired: true,
        };
        score.points[at].as_mut().unwrap().previous = Some(change);
    }
    for point in score.points.iter_mut().skip(4).flatten() {
        point.previous = None;
    }
    curve.scores.truncate(1);
    let svg = curve.figure().to_svg();
    assert_eq!(
        (svg.matches("fill=\"#1a7f37\"").count(), svg.matches("fill=\"#c62828\"").count()),
        (1, 1),
        "{svg}"
    );
}

#[test]
fn damaged_curves_are_errors_and_no_panics() {
    let folder = tempfile::tempdir().unwrap();
    let curve = unchanged(&mut Dice::new(1), folder.path());
    let text = curve.to_json();
    let path = folder.path().join("curve.steps.json");
    mutate(&[text.as_bytes()], 200, |bytes| {
        fs_err::write(&path, bytes).unwrap();
        if let Ok(curve) = Curve::read(&path) {
            // Lists may have other lengths than there are steps.
            drop((curve.to_json(), curve.to_lines(), curve.figure().to_svg()));
            drop(
                curve
                    .scores
                    .iter()
                    .map(|score| (score.is_at_chance(), score.last().is_some()))
                    .collect::<Vec<_>>(),
            );
        }
    });
    let lines = curve.to_lines();
    let path = folder.path().join("curve.jsonl");
    mutate(&[lines.as_bytes()], 100, |bytes| {
        fs_err::write(&path, bytes).unwrap();
        let Ok(figures) = read_lines(&path) else { return };
        let mut curves = Curves::default();
        for figures in figures {
            curves.add_figures(figures);
        }
        drop(curves.build("x", &Selection::default()));
    });
    mutate(&["runs/global_step_143000k/hf".as_bytes()], 2_000, |bytes| {
        let _ = step_in(&String::from_utf8_lossy(bytes));
    });
}
