//! The counts of a run as one line, as wide as the terminal has room for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lmeval_core::ModelStats;
use unicode_width::UnicodeWidthStr;

use super::board::Snapshot;
use super::rate::{Rate, time_left};

/// A part of the line.
struct Part {
    text: String,
    /// Where there is no room, the part with the highest number goes first; 0 stays.
    rank: u8,
}

/// The counts as a line of at most `width` columns. How much is done and the time left stay longest.
pub(super) fn line(now: &Snapshot, rate: Rate, stats: Option<&ModelStats>, width: usize) -> String {
    if now.kinds.is_empty() {
        return cut("Loading data", width);
    }
    let more = if now.all_built { "" } else { "+" };
    let kinds: Vec<String> =
        now.kinds.iter().map(|(kind, done, total)| format!("{kind} {done}/{total}{more}")).collect();
    let mut parts = vec![Part { text: kinds.join(", "), rank: 0 }];
    parts.extend(details(now, rate, stats));
    if let Some(left) = time_left(now, rate) {
        parts.push(Part { text: format!("{} left", clock(left)), rank: 0 });
    }
    let mut is_short = false;
    loop {
        let line = joined(&parts);
        if line.width() <= width {
            return line;
        }
        let last = parts.iter().map(|part| part.rank).max().unwrap_or(0);
        if !is_short && last <= NAMES {
            // The names of kinds matter less than what is left of the other parts.
            parts[0].text = format!("{}/{}{more}", now.done, now.total);
            is_short = true;
        } else if last == 0 {
            return cut(&line, width);
        } else {
            parts.retain(|part| part.rank != last);
        }
    }
}

/// Parts up to this rank are shown rather than the names of the kinds of requests.
const NAMES: u8 = 2;

fn details(now: &Snapshot, rate: Rate, stats: Option<&ModelStats>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |rank: u8, text: String| parts.push(Part { text, rank });
    if rate.answers > 0.0 {
        add(2, format!("{}/s", short(rate.answers)));
    }
    if rate.tokens > 0.0 {
        add(4, format!("{} tokens/s", short(rate.tokens)));
    }
    if let Some(stats) = stats {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let computed = read(&stats.tokens_computed);
        let (flying, most, retries) =
            (read(&stats.in_flight), read(&stats.concurrency), read(&stats.retries));
        if computed > 0 && now.sent == 0 {
            // A model of this process may compute for minutes before it has its first answer.
            add(1, format!("computing, {computed} tokens so far"));
        } else if let Some(saved) = stats.saved() {
            add(5, format!("{:.0}% of tokens shared", saved * 100.0));
        } else if most > 0 {
            add(5, format!("{flying} of {most} at once"));
        } else if flying > 0 {
            add(5, format!("{flying} at once"));
        }
        if retries > 0 {
            add(3, format!("{retries} {}", if retries == 1 { "retry" } else { "retries" }));
        }
    }
    if now.failed > 0 {
        add(1, format!("{} failed", now.failed));
    }
    parts
}

fn joined(parts: &[Part]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" · ")
}

/// The text, cut off where it is too wide.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        if kept.width() + character.to_string().width() > width.saturating_sub(1) {
            break;
        }
        kept.push(character);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// `0:08`, `12:30`, `2:05:00`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{RequestType, Usage};

    use super::super::board::Board;
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let board = Board::new();
        assert_eq!(line(&board.snapshot(), Rate::default(), None, 200), "Loading data");
        board.built(RequestType::GenerateUntil, 100);
        board.built(RequestType::Loglikelihood, 8);
        for _ in 0..20 {
            board.answered(
                RequestType::GenerateUntil,
                false,
                Usage { prompt_tokens: 9, completion_tokens: 1 },
            );
        }
        board.answered(RequestType::Loglikelihood, true, Usage::default());
        let rate = Rate { answers: 4.0, tokens: 200.0 };
        let shown = line(&board.snapshot(), rate, None, 200);
        assert_eq!(shown, "loglikelihood 1/8+, generate_until 20/100+ · 4.0/s · 200 tokens/s");
        board.all_built();
        board.failed(RequestType::GenerateUntil);
        let stats = ModelStats::default();
        stats.in_flight.store(7, Ordering::Relaxed);
        stats.concurrency.store(32, Ordering::Relaxed);
        stats.retry("busy".to_owned());
        let shown = line(&board.snapshot(), rate, Some(&stats), 200);
        assert_eq!(
            shown,
            "loglikelihood 1/8, generate_until 21/100 · 4.0/s · 200 tokens/s · 7 of 32 at once · 1 retry · \
             1 failed · 0:22 left"
        );
        let own = ModelStats::default();
        own.tokens_asked.store(800, Ordering::Relaxed);
        own.tokens_computed.store(200, Ordering::Relaxed);
        let shown = line(&board.snapshot(), rate, Some(&own), 200);
        assert!(shown.contains(" · 200 tokens/s · 75% of tokens shared · "), "{shown}");
    }

    #[test]
    fn what_is_done_and_the_time_left_stay_longest() {
        let board = Board::new();
        board.built(RequestType::GenerateUntil, 14042);
        board.built(RequestType::Loglikelihood, 56168);
        board.all_built();
        for _ in 0..1000 {
            board.answered(RequestType::Loglikelihood, false, Usage::default());
        }
        board.failed(RequestType::Loglikelihood);
        let stats = ModelStats::default();
        stats.in_flight.store(128, Ordering::Relaxed);
        stats.concurrency.store(128, Ordering::Relaxed);
        stats.retry("busy".to_owned());
        let rate = Rate { answers: 12.0, tokens: 9000.0 };
        for width in 1..250 {
            let shown = line(&board.snapshot(), rate, Some(&stats), width);
            assert!(shown.width() <= width, "{width}: {shown}");
            if width >= 40 {
                assert!(shown.ends_with("1:36:08 left"), "{width}: {shown}");
                assert!(shown.contains("1001/"), "{width}: {shown}");
            }
        }
        let at = |width| line(&board.snapshot(), rate, Some(&stats), width);
        assert_eq!(at(40), "1001/70210 · 1 failed · 1:36:08 left");
        assert_eq!(at(50), "1001/70210 · 12/s · 1 failed · 1:36:08 left");
        assert_eq!(
            at(80),
            "loglikelihood 1001/56168, generate_until 0/14042 · 12/s · 1 failed · 1:36:08 left"
                .replace("loglikelihood 1001/56168, generate_until 0/14042", "1001/70210")
        );
    }

    #[test]
    fn a_model_of_this_process_computes_before_it_answers() {
        let board = Board::new();
        board.built(RequestType::Loglikelihood, 8);
        let own = ModelStats::default();
        let shown = |width| line(&board.snapshot(), Rate::default(), Some(&own), width);
        assert_eq!(shown(80), "loglikelihood 0/8+");
        own.tokens_computed.store(512, Ordering::Relaxed);
        assert_eq!(shown(80), "loglikelihood 0/8+ · computing, 512 tokens so far");
        assert_eq!(shown(40), "0/8+ · computing, 512 tokens so far");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(clock(Duration::from_millis(7300)), "0:08");
        assert_eq!(clock(Duration::from_secs(750)), "12:30");
        assert_eq!(clock(Duration::from_mins(125)), "2:05:00");
    }
}
