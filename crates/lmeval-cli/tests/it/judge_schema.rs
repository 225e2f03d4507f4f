//! Judges that are asked to follow a JSON schema.

use lmeval_testkit::{Scripted, ServerOptions, StandInServer};
use serde_json::{Value, json};

use crate::context;
use crate::judge::{OUT, arguments, asked, number_after, questions, results, run, server, write_task};

const OBJECT: &str = "role: grader
prompt: 'Grade this. {{ doc.q }} {{ prediction }}'
verdicts: {C: 1, I: 0}
extract:
  json:
    schema: {type: object, properties: {reason: {type: string}, verdict: {enum: [C, I]}}, required: [reason, verdict]}
";

/// Whether a judge was asked to follow the schema.
fn is_guided(body: &Value) -> bool {
    body["response_format"]["json_schema"]["schema"]["required"] == json!(["reason", "verdict"])
}

/// Follows the schema, except for document 2, where the limit of tokens cuts the object off.
fn follows_schema(body: &Value, _: usize) -> Scripted {
    let text = asked(body);
    if !text.contains("Grade this") {
        return Scripted::Text("An answer.".to_owned());
    }
    assert!(is_guided(body) && body.get("optional_fields").is_none(), "{body}");
    Scripted::Text(
        match number_after(text, "Question ") {
            2 => "{\"reason\": \"A long reason, and",
            3 => "{\"reason\": \"No.\", \"verdict\": \"I\"}",
            _ => "{\"reason\": \"Yes.\", \"verdict\": \"C\"}",
        }
        .to_owned(),
    )
}

/// Ignores the schema.
fn ignores_schema(body: &Value, _: usize) -> Scripted {
    let is_judge = asked(body).contains("Grade this");
    Scripted::Text(if is_judge { "My verdict: {\"verdict\": \"C\"}" } else { "An answer." }.to_owned())
}

/// Refuses the schema, in the manner of a server that does not know the field.
fn refuses_schema(body: &Value, count: usize) -> Scripted {
    if body.get("response_format").is_some() {
        return Scripted::Body(400, json!({"error": {"message": "response_format: unknown field"}}));
    }
    ignores_schema(body, count)
}

/// Refuses every question to the judge, whatever its fields.
fn refuses_questions(body: &Value, count: usize) -> Scripted {
    if asked(body).contains("Grade this") {
        return Scripted::Body(400, json!({"error": {"message": "the prompt is too long"}}));
    }
    ignores_schema(body, count)
}

#[test]
fn servers_are_asked_to_follow_the_schema() {
    let (context, server) = (context(), server(follows_schema));
    write_task(&context, 4, OBJECT);
    let output = run(&context, &arguments(&server, &["grader"], &OUT));
    assert_eq!(output.status, 0, "{output}");
    let found = results(&context, "out");
    assert_eq!(found["results"]["judged"]["judge_score,none"], json!(2.0 / 3.0), "{found}");
    let judging = &found["judging"]["judged"]["none"];
    assert_eq!(judging["guided"], "response_format");
    assert_eq!((&judging["outside_schema"], &judging["unparsed"]), (&json!(1), &json!(1)), "{judging}");
    assert!(output.stderr.contains("1 of 4 judgements do not have the form of the schema"), "{output}");
    // The evaluated model is not asked for objects.
    let bodies = server.counts().bodies;
    let guided = |body: &str| is_guided(&serde_json::from_str(body).unwrap());
    assert_eq!(bodies.iter().filter(|(_, body)| guided(body)).count(), 4);
    server.reset();
    let again = run(&context, &arguments(&server, &["grader"], &OUT));
    assert_eq!((again.status, server.total()), (0, 0), "{again}");
    write_task(&context, 4, &format!("{OBJECT}    guided: none\n"));
    let plain = StandInServer::start(ServerOptions {
        chat: Some(ignores_schema),
        keep_bodies: true,
        ..ServerOptions::default()
    });
    let output = run(&context, &arguments(&plain, &["grader"], &["--output_path", "plain"]));
    assert_eq!(output.status, 0, "{output}");
    assert!(plain.counts().bodies.iter().all(|(_, body)| !body.contains("response_format")));
    assert_eq!(results(&context, "plain")["judging"]["judged"]["none"]["guided"], Value::Null);
}

#[test]
fn servers_that_refuse_or_ignore_the_schema_still_judge() {
    for (script, refusals) in
        [(refuses_schema as fn(&Value, usize) -> Scripted, true), (ignores_schema, false)]
    {
        let (context, server) = (context(), server(script));
        write_task(&context, 9, OBJECT);
        let output = run(&context, &arguments(&server, &["grader"], &OUT));
        assert_eq!(output.status, 0, "{output}");
        let found = results(&context, "out");
        assert_eq!(found["results"]["judged"]["judge_score,none"], json!(1.0), "{found}");
        let judging = &found["judging"]["judged"]["none"];
        assert_eq!(
            (&judging["outside_schema"], &judging["unparsed"], &judging["failed"]),
            (&json!(9), &json!(0), &json!(0)),
            "{judging}"
        );
        assert!(output.stderr.contains("9 of 9 judgements do not have the form of the schema"), "{output}");
        let warned = output.stderr.matches("The server refuses `response_format`").count();
        // At once, and again below the results.
        assert_eq!(warned, 2 * usize::from(refusals), "{output}");
        // Questions in flight at the first refusal are refused as well; the others are sent without the schema.
        let asked = questions(&server, "grader-model");
        let most = if refusals { 9 + 3 } else { 9 };
        assert!(asked > 9 - usize::from(!refusals) && asked <= most, "{asked}");
        // Answers without the schema are saved like all others.
        server.reset();
        let again = run(&context, &arguments(&server, &["grader"], &OUT));
        assert_eq!((again.status, server.total()), (0, 0), "{again}");
        assert_eq!(results(&context, "out")["judging"], found["judging"]);
    }
}

#[test]
fn refusals_with_another_cause_are_reported_as_they_are() {
    let (context, server) = (context(), server(refuses_questions));
    write_task(&context, 2, OBJECT);
    let output = run(&context, &arguments(&server, &["grader"], &OUT));
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("the prompt is too long"), "{output}");
    assert!(!output.stderr.contains("refuses `response_format`"), "{output}");
    // Each question is sent with the schema and once without it.
    assert_eq!(questions(&server, "grader-model"), 4);
}
