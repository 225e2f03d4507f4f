//! Resized images beside those of the reference, which `tests/record/resized_images.py` recorded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lmeval_media::{Bounds, resized};
use lmeval_pycompat::{Dict, Media, MediaKind, Value, json};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/resized_images.json"));

fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.as_dict().unwrap().get_str(name).unwrap()
}

fn recorded(name: &str) -> Vec<Value> {
    field(&json::loads(VECTORS).unwrap(), name).as_list().unwrap().to_vec()
}

fn bounds(given: &Value) -> Bounds {
    let given: &Dict = given.as_dict().unwrap();
    let number = |name: &str| given.get_str(name).and_then(Value::as_i64).map(|number| number as u32);
    Bounds { width: number("width"), height: number("height"), side: number("max_dimension") }
}

#[test]
fn pixels_are_those_of_the_reference() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in recorded("images") {
        let file = STANDARD.decode(field(&case, "file").as_str().unwrap()).unwrap();
        let mode = field(&case, "mode").as_str();
        let image = Media::from_bytes(MediaKind::Image, file.clone()).decoded_as(mode.map(Into::into));
        for result in field(&case, "results").as_list().unwrap() {
            let given = field(result, "bounds");
            let Some(sent) = resized(&image, bounds(given)).unwrap() else {
                // Upright, it is not too wide.
                assert_eq!(field(result, "size"), &Value::list([31, 45].map(Value::Int)), "{given:?}");
                continue;
            };
            let picture = image::load_from_memory(&sent).unwrap();
            let pixels = match field(result, "kind").as_str() {
                Some("RGBA") => picture.to_rgba8().into_raw(),
                _ => picture.to_rgb8().into_raw(),
            };
            let digest = Media::from_bytes(MediaKind::Image, pixels).digest_text();
            let size = [picture.width(), picture.height()].map(|side| Value::Int(side.into()));
            compared += 1;
            if field(result, "size") != &Value::list(size)
                || field(result, "pixels").as_str() != Some(&digest)
            {
                wrong.push(format!("{:?} as {mode:?}, {given:?}", field(&case, "name")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn small_images_stay_as_they_are() {
    for case in recorded("images") {
        let file = STANDARD.decode(field(&case, "file").as_str().unwrap()).unwrap();
        let image = Media::from_bytes(MediaKind::Image, file);
        for bounds in [
            Bounds::default(),
            Bounds { side: Some(45), ..Bounds::default() },
            Bounds { width: Some(45), height: Some(45), side: None },
        ] {
            assert_eq!(resized(&image, bounds).unwrap(), None, "{bounds:?}");
        }
    }
}

#[test]
fn sizes_are_those_of_the_reference() {
    let recorded = recorded("sizes");
    assert!(recorded.len() > 1000);
    for line in &recorded {
        let line = line.as_list().unwrap();
        let [width, height, new_width, new_height] =
            [0, 1, 3, 4].map(|index: usize| line[index].as_i64().unwrap() as u32);
        let target = bounds(&line[2]).target(width, height).unwrap_or((width, height));
        assert_eq!(target, (new_width, new_height), "{line:?}");
    }
}
