//! Which known values are masked where.
//!
//! A setting named like a secret may hold an ordinary word: `POSTGRES_PASSWORD=password`, `answer_key: question`.
//! Masking a word in a message costs a little readability; masking it in data corrupts the data. So there are three
//! levels, from the strictest to the most lenient:
//!
//! - the server's response to the request that carried the secret: [`is_hidden_in_responses`];
//! - messages for people, events and tracebacks: [`is_hidden_in_messages`];
//! - data, that is documents, prompts, answers and results: [`is_credential`].

/// The minimum length of a client's secret that is masked in its server's responses.
const SHORTEST_ECHO: usize = 4;
/// The minimum length of a secret that is masked in messages.
const SHORTEST_IN_MESSAGES: usize = 8;
/// Lower-case words shorter than this are assumed to be dictionary words.
const LONGEST_WORD: usize = 12;
/// The minimum length of a secret that is masked in data.
const SHORTEST_CREDENTIAL: usize = 16;
/// Strings of this length without a space are neither words nor numbers. One in 300 random keys of 32 letters and digits has no
/// digit.
const LONGER_THAN_WORDS: usize = 32;

/// Whether a secret is masked in responses of the server that received it.
pub fn is_hidden_in_responses(secret: &str) -> bool {
    secret.len() >= SHORTEST_ECHO && !secret.eq_ignore_ascii_case("bearer")
}

/// Whether a secret is masked in messages: not if it is a number or a short lower-case word.
pub(super) fn is_hidden_in_messages(secret: &str) -> bool {
    let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = secret.len() < LONGEST_WORD && secret.chars().all(char::is_lowercase);
    secret.len() >= SHORTEST_IN_MESSAGES && !is_number && !is_word
}

/// Whether a secret is masked in data: only if it looks like a key, that is long and not just letters or digits, or longer than
/// any word.
pub fn is_credential(secret: &str) -> bool {
    let is_mixed = secret.chars().any(char::is_alphabetic) && !secret.chars().all(char::is_alphabetic);
    !secret.contains(char::is_whitespace)
        && (secret.len() >= LONGER_THAN_WORDS || (secret.len() >= SHORTEST_CREDENTIAL && is_mixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_words_and_numbers() {
        for word in ["password", "question", "12345678", "1234567890123456", "EMPTY", "hunter2"] {
            assert!(!is_hidden_in_messages(word) && !is_credential(word), "{word}");
        }
        for secret in ["sk-12345", "Password", "correcthorsebattery", "hunter22"] {
            assert!(is_hidden_in_messages(secret) && !is_credential(secret), "{secret}");
        }
        for key in
            ["QwErTyUiOpAsDfGhJkLzXcVbNmQwErTy", "sk-0123456789abc", "sk-not-a-real-key", "github_pat_AbCdEf"]
        {
            assert!(is_hidden_in_messages(key) && is_credential(key), "{key}");
        }
        assert!(
            is_hidden_in_responses("hunter2")
                && !is_hidden_in_responses("abc")
                && !is_hidden_in_responses("Bearer")
        );
    }
}
