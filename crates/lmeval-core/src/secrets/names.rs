//! Recognising the names of secrets.

/// Words that end the name of a secret.
const SECRET: [&str; 25] = [
    "header",
    "headers",
    "token",
    "key",
    "apikey",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "authorization",
    "auth",
    "bearer",
    "jwt",
    "pat",
    "sig",
    "signature",
    "credential",
    "credentials",
    "creds",
    "cookie",
    "cookies",
    "authtoken",
    "accesskey",
];

/// Words before `token` and `key` that make them harmless.
const HARMLESS: [&str; 12] =
    ["bos", "eos", "pad", "unk", "eot", "sep", "cls", "mask", "stop", "prefix", "think", "end"];

/// Words before a plural that make it secret: `max_tokens`, by contrast, is a number.
const OF_SECRETS: [&str; 6] = ["api", "auth", "access", "secret", "private", "bearer"];

/// Headers with public values.
const PUBLIC_HEADERS: [&str; 10] = [
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "http-referer",
    "openai-beta",
    "referer",
    "user-agent",
    "x-title",
];

/// Whether something with this name is probably a secret.
pub fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    let previous = before.last().map_or("", String::as_str);
    if matches!(last.as_str(), "keys" | "tokens" | "passwords") {
        return OF_SECRETS.contains(&previous);
    }
    let is_harmless = HARMLESS.contains(&previous) && matches!(last.as_str(), "token" | "key");
    SECRET.contains(&last.as_str()) && !is_harmless
}

/// Whether a header of this name is public.
pub fn is_public_header(name: &str) -> bool {
    PUBLIC_HEADERS.iter().any(|open| name.trim().eq_ignore_ascii_case(open))
}

/// The lower-case words of a name: the same for `apiKey`, `api_key` and `API-KEY`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in name.trim().trim_matches(['"', '\'']).chars() {
        let starts = !character.is_alphanumeric() || (after_small && character.is_uppercase());
        after_small = character.is_lowercase() || character.is_numeric();
        if starts {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_secret_names() {
        for name in [
            "header",
            "auth_token",
            "api_key",
            "apiKey",
            "API-KEY",
            "x-api-key",
            "token",
            "hf_token",
            "HF_TOKEN",
            "key",
            "password",
            "Authorization",
            "client_secret",
            "HEADERS",
            "openai_api_key",
            "bearer",
            "api_keys",
            "auth",
            "sig",
            "AWS_SECRET_ACCESS_KEY",
            "db_pwd",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "tokenizer",
            "max_tokens",
            "eos_token",
            "add_bos_token",
            "tokenized_requests",
            "keys",
            "model",
            "monkey",
            "prefix_token_id",
            "think_end_token",
            "num_concurrent",
            "stop_token",
            "",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        assert!(is_public_header(" Content-Type") && !is_public_header("x-api-key"));
    }
}
