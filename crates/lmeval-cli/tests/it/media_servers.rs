//! What servers other than OpenAI-compatible generations get of images: Anthropic's interface, and multiple choice.

use lmeval_testkit::{Output, Scripted, ServerOptions, StandInServer, TestContext};
use serde_json::{Value, json};

use crate::context;
use crate::long_run::results;
use crate::media::{BLACK, TASK, TONE, WHITE, contents, decoded, image, pictures};

/// Files with one black pixel, and a bitmap with one white pixel, which Anthropic does not take.
const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////////////////////////////////wAALCAABAAEBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AKVf/9k=";
const GIF: &str = "R0lGODdhAQABAIEAAAAAAAAAAAAAAAAAACwAAAAAAQABAAAIBAABBAQAOw==";
const WEBP: &str = "UklGRhoAAABXRUJQVlA4TA4AAAAvAAAAAAcQEf0PRET/Aw==";
const BMP: &str = "Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAATCwAAEwsAAAAAAAAAAAAA////AA==";

/// The last word of the question, and the answer's letter.
const QUESTIONS: [(&str, &str); 2] = [("white.png", "A"), ("black.png", "B")];

/// A server that answers as Anthropic's does.
fn anthropic() -> StandInServer {
    let answer = |_: &Value, _| {
        let content = json!([{"type": "text", "text": "The best answer is A"}]);
        Scripted::Body(
            200,
            json!({"content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2}}),
        )
    };
    StandInServer::start(ServerOptions { keep_bodies: true, chat: Some(answer), ..ServerOptions::default() })
}

fn run_anthropic(context: &TestContext, server: &StandInServer, more: &[&str]) -> Output {
    let model_args = format!("model=claude,base_url={},max_retries=1", server.url("/v1/chat/completions"));
    let words = ["run", "--model", "anthropic-chat", "--model_args", &model_args, "--tasks", "seen"];
    let common = ["--include_path", "tasks", "--apply_chat_template"];
    context.command(&[&words[..], &common, more].concat()).env("ANTHROPIC_API_KEY", "key").run()
}

fn block(media_type: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn anthropic_gets_images_as_blocks_of_its_own() {
    let context = context();
    let files = [("a.png", BLACK), ("b.jpg", JPEG), ("c.gif", GIF), ("d.webp", WEBP), ("e.bmp", BMP)];
    let mut rows = String::new();
    for (name, content) in files {
        context.write(format!("pictures/{name}"), decoded(content));
        let row = json!({"q": name, "a": "x", "image": format!("pictures/{name}")});
        rows.push_str(&(row.to_string() + "\n"));
    }
    rows += "{\"q\": \"address\", \"a\": \"x\", \"image\": \"https://example.org/a.png\"}\n";
    context.write("rows.jsonl", rows);
    let task = TASK
        .replace("dataset_path: imagefolder", "dataset_path: json")
        .replace("{data_dir: pictures}", "{data_files: rows.jsonl}");
    context.write("tasks/seen.yaml", task);
    let server = anthropic();
    let output = run_anthropic(&context, &server, &["--system_instruction", "Look."]);
    assert_eq!(output.status, 0, "{output}");
    for (_, body) in server.counts().bodies {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["system"], &body["max_tokens"]), (&json!("Look."), &json!(4)), "{body}");
        assert_eq!(body["messages"].as_array().unwrap().len(), 1, "{body}");
    }
    let found = contents(&server);
    let of = |name: &str| {
        let asked = text(&format!("<image>{name}"));
        let content = found.iter().find(|content| content.as_array().unwrap().contains(&asked));
        content.unwrap_or_else(|| panic!("{name}: {found:?}")).clone()
    };
    for (name, media_type, content) in [
        ("a.png", "image/png", BLACK),
        ("b.jpg", "image/jpeg", JPEG),
        ("c.gif", "image/gif", GIF),
        ("d.webp", "image/webp", WEBP),
    ] {
        assert_eq!(of(name), json!([block(media_type, content), text(&format!("<image>{name}"))]));
    }
    let address = json!({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}});
    assert_eq!(of("address"), json!([address, text("<image>address")]));
    // Converted, because Anthropic takes no bitmaps.
    let bitmap = of("e.bmp");
    assert_eq!(bitmap[0]["source"]["media_type"], "image/png");
    let png = decoded(bitmap[0]["source"]["data"].as_str().unwrap());
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn anthropic_answers_are_saved_by_image() {
    let context = pictures();
    let server = anthropic();
    let run = |more: &[&str]| {
        let output = run_anthropic(&context, &server, &[&["--use_cache", "cache"], more].concat());
        assert_eq!(output.status, 0, "{output}");
        contents(&server).len()
    };
    assert_eq!((run(&[]), run(&[])), (2, 2), "all answers are saved");
    context.write("pictures/a/black.png", [decoded(BLACK), vec![0]].concat());
    assert_eq!(run(&[]), 3, "another file is another request");
}

#[test]
fn anthropic_refuses_sounds() {
    let context = context();
    context.write("sounds/one.wav", decoded(TONE));
    let task = TASK
        .replace("imagefolder", "audiofolder")
        .replace("pictures", "sounds")
        .replace("doc_to_image: image", "doc_to_audio: audio")
        .replace("'<image>{{q}}'", "'<audio> Words?'")
        .replace("'{{a}}'", "'white'");
    context.write("tasks/seen.yaml", task);
    let server = anthropic();
    let output = run_anthropic(&context, &server, &[]);
    assert_ne!(output.status, 0, "{output}");
    assert!(output.stderr.contains("Anthropic's interface does not take sounds"), "{output}");
    assert!(output.stderr.contains("OpenAI-compatible"), "{output}");
    assert_eq!(server.total(), 0);
}

/// The sounds in a folder of another crate's tests, the format in which each is sent, and whether it is sent unchanged.
const SOUNDS: [(&str, &str, bool); 6] = [
    ("chirp.mp3", "mp3", true),
    ("chirp.opus", "wav", false),
    ("stereo.mp3", "mp3", true),
    ("tone.flac", "wav", false),
    ("tone.ogg", "wav", false),
    ("tone16.wav", "wav", true),
];

#[test]
fn sounds_are_sent_unchanged_or_as_wav() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../lmeval-media/tests/fixtures");
    let (context, server) = (context(), crate::media::server());
    for (name, ..) in SOUNDS {
        context.write(format!("sounds/{name}"), fs_err::read(format!("{fixtures}/{name}")).unwrap());
    }
    let task = TASK
        .replace("imagefolder", "audiofolder")
        .replace("pictures", "sounds")
        .replace("doc_to_image: image", "doc_to_audio: audio")
        .replace("'<image>{{q}}'", "'Words?'")
        .replace("'{{a}}'", "'white'");
    context.write("tasks/seen.yaml", task);
    let output = run_choices(&context, &server, &["--log_samples"]);
    assert_eq!(output.status, 0, "{output}");
    let found = contents(&server);
    assert_eq!(found.len(), SOUNDS.len());
    for (name, format, is_unchanged) in SOUNDS {
        let own = fs_err::read(format!("{fixtures}/{name}")).unwrap();
        let sent: Vec<Vec<u8>> = found
            .iter()
            .filter(|content| content[0]["input_audio"]["format"] == format)
            .map(|content| decoded(content[0]["input_audio"]["data"].as_str().unwrap()))
            .collect();
        assert_eq!(sent.contains(&own), is_unchanged, "{name}");
        assert!(format == "mp3" || sent.iter().all(|file| file.starts_with(b"RIFF")), "{name}");
    }
}

#[test]
fn sounds_that_cannot_be_converted_name_document_and_file() {
    let (context, server) = (context(), crate::media::server());
    // The head of an Ogg file with Speex.
    let mut speex = b"OggS\0\x02".to_vec();
    speex.extend([0; 20]);
    speex.extend(b"\x01\x08Speex   ");
    context.write("sounds/one.ogg", &speex);
    let task = TASK
        .replace("imagefolder", "audiofolder")
        .replace("pictures", "sounds")
        .replace("doc_to_image: image", "doc_to_audio: audio")
        .replace("'<image>{{q}}'", "'Words?'")
        .replace("'{{a}}'", "'white'");
    context.write("tasks/seen.yaml", task);
    let output = run_choices(&context, &server, &[]);
    assert_ne!(output.status, 0, "{output}");
    for part in ["seen", "document 0", "one.ogg", "Ogg with neither Vorbis nor Opus", "ffmpeg"] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
}

/// Multiple choice about the same words and two pictures.
fn choices() -> TestContext {
    let context = pictures();
    let task = TASK
        .replace("output_type: generate_until", "output_type: multiple_choice\ndoc_to_choice: [white, black]")
        .replace("generation_kwargs: {until: [], max_gen_toks: 4}\n", "")
        .replace("'{{a}}'", "a")
        .replace("exact_match", "acc");
    context.write("tasks/seen.yaml", task);
    context
}

/// The letter of the picture in a request.
fn letter(request: &Value) -> &'static str {
    let text = request.to_string();
    QUESTIONS[usize::from(text.contains(BLACK))].1
}

fn run_choices(context: &TestContext, server: &StandInServer, more: &[&str]) -> Output {
    let model_args = format!("model=m,base_url={},max_retries=1", server.url("/v1/chat/completions"));
    let words = ["run", "--model", "local-chat-completions", "--model_args", &model_args, "--tasks", "seen"];
    let common = ["--include_path", "tasks", "--apply_chat_template", "--output_path", "out"];
    context.run(&[&words[..], &common, more].concat())
}

/// Each request has its picture before the same question.
fn check_requests(server: &StandInServer) {
    let found = contents(server);
    assert_eq!(found.len(), 2, "{found:?}");
    for (content, picture) in found.iter().zip([BLACK, WHITE]) {
        assert_eq!(content[0], image(picture));
        let question = content[1]["text"].as_str().unwrap();
        assert!(question.contains("<image>Colour?") && question.contains("B. black"), "{question}");
    }
}

#[test]
fn letters_are_compared_after_images() {
    let answer = |request: &Value, _| {
        let token = letter(request);
        let top = json!([{"token": token, "logprob": -0.1}, {"token": "C", "logprob": -3.0}]);
        let logprobs = json!({"content": [{"token": token, "logprob": -0.1, "top_logprobs": top}]});
        let message = json!({"role": "assistant", "content": token});
        let choice = json!({"index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs});
        Scripted::Body(200, json!({"choices": [choice]}))
    };
    let options = ServerOptions { keep_bodies: true, chat: Some(answer), ..ServerOptions::default() };
    let (context, server) = (choices(), StandInServer::start(options));
    let output = run_choices(&context, &server, &["--choices", "letters"]);
    assert_eq!(output.status, 0, "{output}");
    check_requests(&server);
    let found = results(&context.work().join("out"));
    assert_eq!(found["results"]["seen"]["acc,none"], 1.0, "{output}");
    assert_eq!(found["choices"]["seen"]["requests"], "choice_letters");
    // The saved answers belong to the pictures.
    let again = run_choices(&context, &server, &["--choices", "letters"]);
    assert_eq!((again.status, server.total()), (0, 2), "{again}");
    context.write("pictures/a/black.png", decoded(WHITE));
    let other = run_choices(&context, &server, &["--choices", "letters"]);
    assert_eq!((other.status, server.total()), (0, 2), "the white picture was asked about before: {other}");
    assert!(other.stdout.contains("0.5"), "{other}");
}

#[test]
fn letters_are_generated_after_images() {
    let answer = |request: &Value, _| {
        let message =
            json!({"role": "assistant", "content": format!("The best answer is {}", letter(request))});
        Scripted::Body(200, json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    };
    let options = ServerOptions { keep_bodies: true, chat: Some(answer), ..ServerOptions::default() };
    let (context, server) = (choices(), StandInServer::start(options));
    let output = run_choices(&context, &server, &["--choices", "generate"]);
    assert_eq!(output.status, 0, "{output}");
    check_requests(&server);
    let found = results(&context.work().join("out"));
    assert_eq!(found["results"]["seen"]["exact_match,none"], 1.0, "{output}");
}

#[test]
fn anthropic_chooses_by_generated_letters_after_images() {
    let (context, server) = (choices(), anthropic());
    let output = run_anthropic(&context, &server, &["--output_path", "out"]);
    assert_eq!(output.status, 0, "{output}");
    let mut pictures: Vec<Value> = contents(&server).iter().map(|content| content[0].clone()).collect();
    pictures.sort_by_key(ToString::to_string);
    assert_eq!(pictures, [block("image/png", BLACK), block("image/png", WHITE)]);
    let found = results(&context.work().join("out"));
    assert_eq!(found["results"]["seen"]["exact_match,none"], 0.5, "{output}");
    assert_eq!(found["choices"]["seen"]["method"], "generate");
}
