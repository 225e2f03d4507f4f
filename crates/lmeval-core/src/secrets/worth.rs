//! Which remembered values are masked where.
//!
//! Any setting with a telling name can hold an ordinary word: `POSTGRES_PASSWORD=password`, `answer_key: question`. A word
//! that is masked in a message costs a little readability; one that is masked in data is wrong data. So there are three
//! levels, from the most to the least specific place:
//!
//! - what a server says about the request that carried the secret: [`is_echo`];
//! - messages for people, events and tracebacks: [`is_hidden_in_messages`];
//! - data, that is documents, prompts, answers and results: [`is_credential`].

/// The shortest secret of a client that is masked in what its server says.
const SHORTEST_ECHO: usize = 4;
/// The shortest secret that is masked in messages.
const SHORTEST_IN_MESSAGES: usize = 8;
/// Lowercase words below this length are taken for dictionary words.
const LONGEST_WORD: usize = 12;
/// The shortest secret that is masked in data.
const SHORTEST_CREDENTIAL: usize = 16;

/// Whether a secret is masked in what the server that received it says.
pub fn is_echo(secret: &str) -> bool {
    secret.len() >= SHORTEST_ECHO && !secret.eq_ignore_ascii_case("bearer")
}

/// Whether a secret is masked in messages: not where it is a number or a short lowercase word.
pub(super) fn is_hidden_in_messages(secret: &str) -> bool {
    let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = secret.len() < LONGEST_WORD && secret.chars().all(char::is_lowercase);
    secret.len() >= SHORTEST_IN_MESSAGES && !is_number && !is_word
}

/// Whether a secret is masked in data: only where it looks like a key, long and with more than letters or digits alone.
pub fn is_credential(secret: &str) -> bool {
    secret.len() >= SHORTEST_CREDENTIAL
        && secret.chars().any(char::is_alphabetic)
        && !secret.chars().all(char::is_alphabetic)
        && !secret.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_not_masked() {
        for word in ["password", "question", "12345678", "1234567890123456", "EMPTY", "hunter2"] {
            assert!(!is_hidden_in_messages(word) && !is_credential(word), "{word}");
        }
        for secret in ["sk-12345", "Password", "correcthorsebattery", "hunter22"] {
            assert!(is_hidden_in_messages(secret) && !is_credential(secret), "{secret}");
        }
        for key in ["sk-0123456789abc", "sk-not-a-real-key", "github_pat_AbCdEf"] {
            assert!(is_hidden_in_messages(key) && is_credential(key), "{key}");
        }
        assert!(is_echo("hunter2") && !is_echo("abc") && !is_echo("Bearer"));
    }
}
