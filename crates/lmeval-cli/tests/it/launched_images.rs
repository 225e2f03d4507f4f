//! Images for a vLLM that the run starts: which arguments concern the client, and what requests have.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_testkit::Output;
use serde_json::{Value, json};

use crate::launched::{Stage, pretrained};

/// A PNG file with 4 by 2 pixels.
const WIDE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACCAAAAABawyK/AAAAEklEQVR4nGNk0NDQYFhw4sN/AAsTA9F94mJbAAAAAElFTkSuQmCC";

fn stage() -> Stage {
    let stage = Stage::new();
    stage.context.write("pictures/a.png", STANDARD.decode(WIDE).unwrap());
    stage.context.write("pictures/metadata.jsonl", "{\"file_name\": \"a.png\", \"q\": \"what?\"}\n");
    let task = "task: seen\ndataset_path: imagefolder\ndataset_kwargs: {data_dir: pictures}\ntest_split: train\n\
                output_type: generate_until\ndoc_to_image: [image, image]\ndoc_to_text: 'A <image> b <image> {{q}}'\n\
                doc_to_target: x\ngeneration_kwargs: {until: [], max_gen_toks: 4}\nmetric_list: [{metric: exact_match}]\n";
    stage.context.write("tasks/seen.yaml", task);
    stage
}

fn run(stage: &Stage, arguments: &str, out: &str) -> Output {
    let arguments = format!("{},max_model_len=512,{arguments}", pretrained());
    let mut words = Stage::arguments("vllm-vlm", &arguments, "seen", out);
    words.push("--apply_chat_template".to_owned());
    let output = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).run();
    assert_eq!(output.status, 0, "{output}");
    output
}

/// The content of the message that a start got, with the sizes of images in place of their content.
fn content(stage: &Stage, start: usize) -> Vec<Value> {
    let request = stage.request(start);
    let parts = request["messages"][0]["content"].as_array().unwrap().iter();
    parts.map(|part| part["image_url"]["url"].as_str().map_or_else(|| part["text"].clone(), size)).collect()
}

/// The size of an image in a `data:` address.
fn size(url: &str) -> Value {
    let file = STANDARD.decode(url.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
    let side = |at: usize| u32::from_be_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    json!([side(16), side(20)])
}

#[test]
fn images_are_placed_limited_and_resized_by_the_client() {
    let stage = stage();
    let cases = [
        ("", json!(["A ", [4, 2], " b ", [4, 2], " what?"]), None),
        ("interleave=False", json!([[4, 2], [4, 2], "A  b  what?"]), None),
        ("max_images=1", json!(["A ", [4, 2], " b  what?"]), Some("{\"image\": 1}")),
        ("max_images=999,image_width=2", json!(["A ", [2, 1], " b ", [2, 1], " what?"]), None),
        ("image_height=1", json!(["A ", [2, 1], " b ", [2, 1], " what?"]), None),
        ("image_max_side=3,interleave=True", json!(["A ", [3, 1], " b ", [3, 1], " what?"]), None),
        ("image_width=9,image_height=9", json!(["A ", [4, 2], " b ", [4, 2], " what?"]), None),
    ];
    for (number, (arguments, expected, limit)) in cases.iter().enumerate() {
        run(&stage, arguments, "out");
        let start = stage.start(number + 1).unwrap_or_else(|| panic!("`{arguments}` reused other answers"));
        assert_eq!(json!(content(&stage, number + 1)), *expected, "{arguments}");
        assert_eq!(start.value("--limit-mm-per-prompt"), *limit, "{arguments}");
        let line = start.argv.join(" ");
        assert!(!line.contains("interleave") && !line.contains("--image"), "{line}");
    }
    stage.check_gone();
}
