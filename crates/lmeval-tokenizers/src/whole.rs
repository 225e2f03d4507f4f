//! Tokenizers from `tokenizer.json`, which has everything.

use std::collections::HashMap;

use tokenizers::Tokenizer;

use crate::formats::Problem;

/// The complete tokenizer in one file.
pub(crate) const FILE: &str = "tokenizer.json";

/// Builds the tokenizer, and refuses files that the library reads, but not as they are meant.
pub(crate) fn build(file: &[u8]) -> Result<Tokenizer, Problem> {
    check_normalizer(file)?;
    let tokenizer = Tokenizer::from_bytes(file)?;
    check_ids(&tokenizer, file)?;
    Ok(tokenizer)
}

/// Refuses a vocabulary with two tokens of one id, and added tokens that do not get the id that the file gives them: the
/// library only warns that it chose another one, which belongs to another row of the embedding.
fn check_ids(tokenizer: &Tokenizer, file: &[u8]) -> Result<(), String> {
    let mut known: HashMap<u32, String> = HashMap::new();
    for (token, id) in tokenizer.get_vocab(false) {
        if let Some(other) = known.insert(id, token.clone()) {
            let (first, second) = if other < token { (other, token) } else { (token, other) };
            return Err(format!("the tokens `{first}` and `{second}` have the same id {id}"));
        }
    }
    // Tokens of these names have a number for their value.
    let lists = values_of(file, "added_tokens").filter_map(|value| match value {
        serde_json::Value::Array(tokens) => Some(tokens),
        _ => None,
    });
    for token in lists.flatten() {
        let content = token.get("content").and_then(serde_json::Value::as_str).unwrap_or_default();
        let id = token.get("id").and_then(serde_json::Value::as_u64);
        if let (Some(id), Some(own)) = (id, tokenizer.token_to_id(content))
            && u64::from(own) != id
        {
            return Err(format!("the added token `{content}` has the id {id}, but would become {own}"));
        }
    }
    Ok(())
}

/// Refuses a normaliser whose table is longer than its data: the library reserves memory for it before it reads it.
fn check_normalizer(file: &[u8]) -> Result<(), String> {
    for value in values_of(file, "precompiled_charsmap") {
        let Some(text) = value.as_str() else { continue };
        if first_number(text).is_none_or(|length| length as usize > text.len()) {
            return Err("the table `precompiled_charsmap` of its normaliser is damaged".to_owned());
        }
    }
    Ok(())
}

/// The little-endian number in the first four bytes of a Base64 string.
fn first_number(text: &str) -> Option<u32> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.as_bytes().get(..6)?.iter().map(|byte| DIGITS.iter().position(|digit| digit == byte));
    let bits =
        digits.collect::<Option<Vec<_>>>()?.into_iter().fold(0_u64, |bits, digit| bits << 6 | digit as u64);
    Some(((bits >> 4) as u32).swap_bytes())
}

/// The values of a key anywhere in a JSON file, without reading the rest of a file that may have many megabytes.
fn values_of<'f>(file: &'f [u8], key: &str) -> impl Iterator<Item = serde_json::Value> + 'f {
    let name = format!("\"{key}\"").into_bytes();
    let length = name.len();
    let starts =
        (0..file.len()).filter(move |start| file[*start] == b'"' && file[*start..].starts_with(&name));
    starts.filter_map(move |start| {
        let value = file[start + length..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()
    })
}
