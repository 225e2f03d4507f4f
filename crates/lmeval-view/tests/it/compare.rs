//! Comparisons and changed documents.

use crate::{Fixture, generated, lines, write_run};

fn runs(fixture: &Fixture) -> (String, String) {
    let list = fixture.get("/api/runs");
    let id = |name: &str| {
        let runs = list["runs"].as_array().unwrap();
        runs.iter().find(|run| run["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    (id("base"), id("new"))
}

fn fixture(prompt: &str) -> Fixture {
    let samples = |wrong: &[i64], prompt: &str| {
        let samples: Vec<_> = (0..10)
            .map(|id| {
                let is_wrong = wrong.contains(&id);
                let answer = if is_wrong { "no" } else { "yes" };
                let mut sample = generated(id, prompt, answer, "yes", if is_wrong { 0.0 } else { 1.0 });
                if prompt != "Q" {
                    sample["prompt_hash"] = format!("9{:063}", 0).into();
                }
                sample
            })
            .collect();
        lines(&samples)
    };
    Fixture::new(|folder| {
        write_run(folder, "base", &samples(&[1, 2, 3], "Q"));
        write_run(folder, "new", &samples(&[3, 4], prompt));
    })
}

#[test]
fn compares_runs_and_lists_flips() {
    let fixture = fixture("Q");
    let (base, new) = runs(&fixture);
    let compared = fixture.get(&format!("/api/compare?base={base}&new={new}&by=subject"));
    let score = &compared["comparisons"][0]["scores"][0];
    assert_eq!((score["base_score"].as_f64(), score["new_score"].as_f64()), (Some(0.7), Some(0.8)));
    assert_eq!(
        (score["up"].as_u64(), score["down"].as_u64(), score["flips"].as_u64()),
        (Some(2), Some(1), Some(3))
    );
    assert_eq!(score["by"].as_array().unwrap().len(), 2);
    let query = format!("base={base}&new={new}&task=quiz&filter=none&metric=exact_match");
    let flips = fixture.get(&format!("/api/flips?{query}"));
    assert_eq!(
        (flips["total"].as_u64(), flips["up"].as_u64(), flips["down"].as_u64()),
        (Some(3), Some(2), Some(1))
    );
    let down = fixture.get(&format!("/api/flips?{query}&direction=down"));
    let flip = &down["rows"][0];
    assert_eq!(
        (flip["doc_id"].as_i64(), flip["base_row"].as_u64(), flip["new_row"].as_u64()),
        (Some(4), Some(4), Some(4))
    );
    assert_eq!(
        (flip["base_answer"]["text"].as_str(), flip["new_answer"]["text"].as_str()),
        (Some("yes"), Some("no"))
    );
    let (status, _) =
        fixture.refused(&format!("/api/flips?base={base}&new={new}&task=quiz&filter=none&metric=other"));
    assert_eq!(status, 404);
}

#[test]
fn different_prompts_are_a_conflict_that_can_be_overruled() {
    let fixture = fixture("Another");
    let (base, new) = runs(&fixture);
    let (status, error) = fixture.refused(&format!("/api/compare?base={base}&new={new}"));
    assert_eq!(status, 409, "{error}");
    assert!(error.contains("different prompts"), "{error}");
    fixture.get(&format!("/api/compare?base={base}&new={new}&allow=1"));
}

#[test]
fn a_wrong_field_is_an_error() {
    let fixture = fixture("Q");
    let (base, new) = runs(&fixture);
    let (status, error) = fixture.refused(&format!("/api/compare?base={base}&new={new}&by=nothing"));
    assert_eq!(status, 422);
    assert!(error.contains("nothing"), "{error}");
    // A breakdown of one task reads no other.
    let one = fixture.get(&format!("/api/compare?base={base}&new={new}&by=subject&task=quiz"));
    assert_eq!(one["comparisons"][0]["scores"][0]["by"].as_array().unwrap().len(), 2);
}
