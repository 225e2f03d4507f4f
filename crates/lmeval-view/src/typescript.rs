//! Translates `api.rs` into the types of the front end.

use lmeval_analysis::samples::Outcome;
use lmeval_analysis::summary::PROBLEMS;

use crate::scan::FLAGS;

/// The content of `web/src/lib/types.ts`.
#[expect(
    clippy::format_push_string,
    reason = "writing to a string cannot fail, and speed does not matter here"
)]
fn types(source: &str) -> String {
    let union = |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" | ");
    let mut text = format!(
        "// Generated from crates/lmeval-view/src/api.rs: `cargo test -p lmeval-view typescript` writes it.\n\n\
         /** A number. JSON has neither NaN nor infinity, so those travel as strings; see `toNumber`. */\n\
         export type Num = number | 'NaN' | 'Infinity' | '-Infinity';\n\n\
         export type Json = null | boolean | number | string | Json[] | {{ [key: string]: Json }};\n\n\
         /** `right`/`wrong`: the main metric is 1 / 0. `partial`: between or beyond. `unscored`: NaN or no number. */\n\
         export type Outcome = {};\n\nexport type Flag = {};\n\nexport type AuditCount =\n  {};\n",
        union(&Outcome::ALL.map(Outcome::name)),
        union(&FLAGS.map(|(name, _)| name)),
        union(&PROBLEMS),
    );
    let (_, source) = source.split_once("\n// BEGIN\n").expect("a line that says where types begin");
    // The head of an interface is written with its first field, which may say what it extends.
    let (mut head, mut variants) = (String::new(), None);
    let (mut doc, mut is_optional, mut is_flat) = (String::new(), false, false);
    for line in source.lines().map(str::trim) {
        let declared = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if let Some(comment) = line.strip_prefix("/// ") {
            assert!(doc.is_empty(), "a comment has one line: {comment}");
            doc = format!("/** {comment} */\n");
        } else if line.is_empty() || line.starts_with("//") {
            text += &format!("{line}\n");
        } else if line.starts_with('#') {
            is_optional |= line.contains("skip_serializing_if");
            is_flat |= line.contains("flatten");
        } else if let Some(name) = declared.strip_prefix("struct ") {
            head = format!("{}export interface {}", std::mem::take(&mut doc), name.trim_end_matches(" {"));
        } else if let Some(name) = declared.strip_prefix("enum ") {
            text += &format!("{}export type {} = ", std::mem::take(&mut doc), name.trim_end_matches(" {"));
            variants = Some(Vec::new());
        } else if line == "}" {
            let variants: Option<Vec<String>> = variants.take();
            let end =
                variants.map(|names| union(&names.iter().map(String::as_str).collect::<Vec<_>>()) + ";");
            text += &format!("{}\n", end.as_deref().unwrap_or("}"));
        } else if let Some(variants) = &mut variants {
            variants.push(line.trim_end_matches(',').to_lowercase());
            doc.clear();
        } else {
            let (name, kind) = declared.trim_end_matches(',').split_once(": ").expect("a field");
            if is_flat {
                head += &format!(" extends {kind}");
            }
            if !head.is_empty() {
                text += &format!("{} {{\n", std::mem::take(&mut head));
            }
            if !std::mem::take(&mut is_flat) {
                if !doc.is_empty() {
                    text += &format!("  {}", std::mem::take(&mut doc));
                }
                let kind =
                    if is_optional { kind.trim_start_matches("Option<").trim_end_matches('>') } else { kind };
                let mark = if std::mem::take(&mut is_optional) { "?" } else { "" };
                text += &format!("  {}{mark}: {};\n", name.trim_start_matches("r#"), type_of(kind));
            }
        }
    }
    text
}

/// A Rust type in TypeScript.
fn type_of(kind: &str) -> String {
    let inside = |start: &str, end: &str| kind.strip_prefix(start)?.strip_suffix(end);
    if let Some(inner) = inside("Option<", ">") {
        return format!("{} | null", type_of(inner));
    }
    if let Some(inner) = inside("Vec<", ">").map(type_of) {
        return if inner.contains(" | ") { format!("({inner})[]") } else { format!("{inner}[]") };
    }
    let pair = |pair: &str| pair.split_once(", ").map(|(left, right)| (type_of(left), type_of(right)));
    if let Some((key, value)) = inside("BTreeMap<", ">").and_then(pair) {
        return format!("Partial<Record<{key}, {value}>>");
    }
    if let Some((left, right)) = inside("(", ")").and_then(pair) {
        return format!("[{left}, {right}]");
    }
    if let Some(item) = inside("[", "; 2]").map(type_of) {
        return format!("[{item}, {item}]");
    }
    match kind {
        "String" | "&'static str" => "string",
        "bool" => "boolean",
        "f64" | "i64" | "u16" | "u32" | "u64" | "usize" | "Number" => "number",
        "EveryOutcome" => "Record<Outcome, number>",
        name => {
            assert!(name.chars().all(char::is_alphabetic), "`{name}` has no TypeScript");
            name
        }
    }
    .to_owned()
}

#[test]
fn typescript_has_the_same_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/lib/types.ts");
    let expected = types(include_str!("api.rs"));
    if fs_err::read_to_string(path).unwrap_or_default() != expected {
        fs_err::write(path, expected).unwrap();
        panic!(
            "api.rs has changed: web/src/lib/types.ts is written again; commit it, and build the front end"
        );
    }
}
