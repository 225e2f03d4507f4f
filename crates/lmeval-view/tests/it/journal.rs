//! Journals in the viewer.

use lmeval_core::{Answer, ModelIdentity, RequestType, Response};
use lmeval_journal::{Entry, Journal, Key, Outcome, request_hash};
use lmeval_pycompat::Value;

use crate::Fixture;

#[test]
fn shows_the_newest_answers_of_a_journal() {
    let fixture = Fixture::new(|folder| {
        let (journal, _) = Journal::open(&folder.join("answers.journal")).unwrap();
        let identity = ModelIdentity { backend: "dummy".into(), facts: vec![("seed", "1".into())] };
        let model = journal.register_model(&identity).unwrap();
        for doc_id in 0..5 {
            let request = request_hash("generate_until", &[Value::str(format!("Q{doc_id}"))]).unwrap();
            let outcome = if doc_id == 2 {
                Outcome::Failed { message: "busy".to_owned() }
            } else {
                Outcome::Answered(Answer::from(Response::Text(format!("answer {doc_id}").into())))
            };
            let key = Key::new(model, &request, 0, None);
            let kind = RequestType::GenerateUntil;
            let entry = Entry { key, task: "quiz".into(), doc_id, idx: 0, repeat: 0, kind, outcome };
            journal.append_blocking(entry).unwrap();
        }
        journal.close().unwrap();
    });
    let run = fixture.run();
    let detail = fixture.get(&format!("/api/run?run={run}"));
    assert_eq!(detail["kind"], "journal");
    assert_eq!(detail["journal"]["answers"], 4);
    assert_eq!(detail["failed_requests"], 1);
    let page = fixture.get(&format!("/api/answers?run={run}&limit=2"));
    assert_eq!((page["total"].as_u64(), page["rows"].as_array().unwrap().len()), (Some(5), 2));
    assert_eq!(page["rows"][0]["answer"]["text"], "answer 4");
    assert_eq!(page["rows"][0]["task"], "quiz");
    let found = fixture.get(&format!("/api/answers?run={run}&text=answer+%5B13%5D&regex=1"));
    assert_eq!(found["matched"], 2);
    let all = fixture.get(&format!("/api/answers?run={run}"));
    assert_eq!(all["rows"][2]["error"], "busy");
    assert_eq!(fixture.refused(&format!("/api/samples?run={run}&task=quiz")).0, 422);
}
