//! Images and sounds: folders and rows that have them, what servers get, and what samples and previews show.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_testkit::{Scripted, ServerOptions, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;

/// PNG files with one grey pixel each.
pub(crate) const BLACK: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";
pub(crate) const WHITE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTu2DwAAAABJRU5ErkJggg==";

/// A WAV file with two samples.
pub(crate) const TONE: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQQAAAABAAIA";

pub(crate) const TASK: &str = "\
task: seen
dataset_path: imagefolder
dataset_kwargs: {data_dir: pictures}
test_split: train
output_type: generate_until
doc_to_image: image
doc_to_text: '<image>{{q}}'
doc_to_target: '{{a}}'
generation_kwargs: {until: [], max_gen_toks: 4}
metric_list: [{metric: exact_match}]
";

pub(crate) fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// A folder with two pictures, described by a metadata file, and the task about them.
pub(crate) fn pictures() -> TestContext {
    let context = context();
    context.write("pictures/a/black.png", decoded(BLACK));
    context.write("pictures/b/white.png", decoded(WHITE));
    let rows = "{\"file_name\": \"b/white.png\", \"q\": \"Colour?\", \"a\": \"white\"}\n\
                {\"file_name\": \"a/black.png\", \"q\": \"Colour?\", \"a\": \"black\"}\n";
    context.write("pictures/metadata.jsonl", rows);
    context.write("tasks/seen.yaml", TASK);
    context
}

/// A chat server that answers `white`.
pub(crate) fn server() -> StandInServer {
    let answer = |_: &Value, _| {
        let message = json!({"role": "assistant", "content": "white"});
        Scripted::Body(200, json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    };
    StandInServer::start(ServerOptions { keep_bodies: true, chat: Some(answer), ..ServerOptions::default() })
}

/// The contents of the last messages that a server got, sorted.
pub(crate) fn contents(server: &StandInServer) -> Vec<Value> {
    let content = |(_, body): &(String, String)| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    };
    let mut found: Vec<Value> = server.counts().bodies.iter().map(content).collect();
    found.sort_by_key(ToString::to_string);
    found
}

fn model_args(server: &StandInServer, more: &str) -> String {
    format!("model=m,base_url={}{more}", server.url("/v1/chat/completions"))
}

fn run(context: &TestContext, model_args: &str, more: &[&str]) -> lmeval_testkit::Output {
    let arguments = [
        "run",
        "--model",
        "local-chat-completions",
        "--model_args",
        model_args,
        "--tasks",
        "seen",
        "--include_path",
        "tasks",
        "--apply_chat_template",
    ];
    context.run(&[&arguments[..], more].concat())
}

pub(crate) fn image(content: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{content}"), "detail": "auto"}})
}

#[test]
fn servers_get_the_files_of_a_folder() {
    let context = pictures();
    let server = server();
    let output = run(&context, &model_args(&server, ""), &["--output_path", "out", "--log_samples"]);
    assert!(output.status == 0, "{output}");
    let text = json!({"type": "text", "text": "<image>Colour?"});
    assert_eq!(contents(&server), [json!([image(BLACK), text]), json!([image(WHITE), text])]);
    assert!(output.stdout.contains("|  0.5|"), "{output}");

    let samples = samples(&context);
    assert_eq!(samples.len(), 2);
    let picture = &samples[0]["doc"]["image"];
    assert_eq!(
        (&picture["format"], &picture["width"], &picture["bytes"]),
        (&json!("png"), &json!(1), &json!(67))
    );
    assert!(picture["image"].as_str().unwrap().starts_with("sha256:"), "{picture}");
    assert_eq!(&samples[0]["arguments"]["gen_args_0"]["arg_2"]["visual"], picture);

    // The same prompts with other pictures are other requests.
    let again = run(&context, &model_args(&server, ",interleave=true"), &[]);
    assert!(again.status == 0, "{again}");
    let got = contents(&server);
    assert!(got.contains(&json!([image(WHITE), {"type": "text", "text": "Colour?"}])), "{got:?}");
}

/// The records of the samples file.
fn samples(context: &TestContext) -> Vec<Value> {
    let files = walk(&context.work().join("out"));
    let file = files.iter().find(|path| path.to_string_lossy().contains("samples_")).unwrap();
    let text = fs_err::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn sounds_go_to_chat_servers() {
    let context = context();
    context.write("sounds/one.wav", decoded(TONE));
    let task = TASK
        .replace("imagefolder", "audiofolder")
        .replace("pictures", "sounds")
        .replace("doc_to_image: image", "doc_to_audio: audio")
        .replace("'<image>{{q}}'", "'<audio> Words?'")
        .replace("'{{a}}'", "'white'");
    context.write("tasks/seen.yaml", task);
    let server = server();
    let output = run(&context, &model_args(&server, ",interleave=true"), &[]);
    assert!(output.status == 0, "{output}");
    let sound = json!({"type": "input_audio", "input_audio": {"data": TONE, "format": "wav"}});
    assert_eq!(contents(&server), [json!([sound, {"type": "text", "text": " Words?"}])]);
}

#[test]
fn text_models_refuse_documents_with_images() {
    let context = pictures();
    let output = context.run(&["run", "--model", "ngram", "--tasks", "seen", "--include_path", "tasks"]);
    assert!(output.status != 0, "{output}");
    assert!(output.stderr.contains("the model takes only text"), "{output}");
    assert!(output.stderr.contains("hf-multimodal"), "{output}");
}

#[test]
fn damaged_images_name_document_and_column() {
    let context = pictures();
    let whole = decoded(BLACK);
    // A bitmap that declares a thousand million pixels.
    let mut bomb = b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\x80\0\0\0\x80\0\0\x01\0\x18\0".to_vec();
    bomb.resize(64, 0);
    let cases: [(&[u8], &str); 5] = [
        (&whole[..40], "the png file is damaged"),
        (&whole[..whole.len() - 14], "the png file is damaged: it ends early"),
        (&bomb, "32768×32768 pixels is larger than the limit of 178956970 pixels"),
        (b"no image", "in no known format for images"),
        (b"", "in no known format for images"),
    ];
    for (content, message) in cases {
        context.write("pictures/a/black.png", content);
        let output = context.run(&["run", "--model", "dummy", "--tasks", "seen", "--include_path", "tasks"]);
        assert!(output.status != 0, "{message}: {output}");
        for part in [message, "document 1", "column `image`", "black.png"] {
            assert!(output.stderr.contains(part), "{part}: {output}");
        }
    }
    let missing = context.work().join("pictures/a/black.png");
    fs_err::remove_file(missing).unwrap();
    let output = context.run(&["run", "--model", "dummy", "--tasks", "seen", "--include_path", "tasks"]);
    assert!(output.stderr.contains("the file `a/black.png` does not exist"), "{output}");
    assert!(output.stderr.contains("metadata.jsonl"), "{output}");
}

#[test]
fn labels_of_folders_are_columns() {
    let context = pictures();
    fs_err::remove_file(context.work().join("pictures/metadata.jsonl")).unwrap();
    let task = TASK.replace("'<image>{{q}}'", "'{{label}} of {{image}}'").replace("'{{a}}'", "'{{label}}'");
    context.write("tasks/seen.yaml", task);
    let output = context.run(&["preview", "seen", "--include_path", "tasks", "--limit", "2"]);
    assert!(output.status == 0, "{output}");
    assert!(output.stdout.contains("0 of <image sha256:"), "{output}");
    assert!(output.stdout.contains("1 of <image sha256:"), "{output}");
}

#[test]
fn previews_describe_the_files() {
    let context = pictures();
    let output = context.run(&["preview", "seen", "--include_path", "tasks", "--limit", "1"]);
    assert!(
        output.stdout.contains("\"format\": \"png\", \"width\": 1, \"height\": 1, \"bytes\": 67}"),
        "{output}"
    );
    let output = context.run(&["preview", "seen", "--include_path", "tasks", "--json"]);
    assert_eq!(output.stdout.lines().count(), 2, "{output}");
    let line: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(line["args"][2]["visual"]["format"], "png");
    let output = context.run(&[
        "run",
        "--model",
        "dummy",
        "--tasks",
        "seen",
        "--include_path",
        "tasks",
        "--write_out",
    ]);
    assert!(output.stderr.contains("{'visual': <image sha256:"), "{output}");
}

#[test]
fn the_same_file_is_the_same_request() {
    let context = pictures();
    let server = server();
    let run = || run(&context, &model_args(&server, ""), &["--use_cache", "cache"]);
    assert_eq!(run().status, 0);
    assert_eq!(contents(&server).len(), 2);
    assert_eq!(run().status, 0);
    assert_eq!(contents(&server).len(), 2, "all answers are saved");
    context.write("pictures/a/black.png", decoded(WHITE));
    assert_eq!(run().status, 0);
    assert_eq!(contents(&server).len(), 2, "the black picture became the white one");
    context.write("pictures/a/black.png", [decoded(WHITE), vec![0]].concat());
    assert_eq!(run().status, 0);
    assert_eq!(contents(&server).len(), 3, "another file is another request");
}

#[test]
fn strings_in_rows_stand_for_files() {
    let context = pictures();
    let rows = [
        json!({"q": "Path?", "image": "pictures/a/black.png"}),
        json!({"q": "Base64?", "image": WHITE}),
        json!({"q": "Data?", "image": format!("data:image/png;base64,{WHITE}")}),
        json!({"q": "Address?", "image": "https://example.org/a.png"}),
    ];
    context.write("rows.jsonl", rows.map(|row| row.to_string() + "\n").concat());
    let task = TASK
        .replace("dataset_path: imagefolder", "dataset_path: json")
        .replace("{data_dir: pictures}", "{data_files: rows.jsonl}")
        .replace("'{{a}}'", "'{{q}}'");
    context.write("tasks/seen.yaml", task);
    let server = server();
    let output = run(&context, &model_args(&server, ",interleave=true"), &[]);
    assert_eq!(output.status, 0, "{output}");
    let address =
        json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "auto"}});
    let content = |image: Value, text: &str| json!([image, {"type": "text", "text": text}]);
    let mut expected = [
        content(image(BLACK), "Path?"),
        content(image(WHITE), "Base64?"),
        content(image(WHITE), "Data?"),
        content(address, "Address?"),
    ];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(contents(&server), expected);
}
