//! Renders request counts as one line that fits the terminal.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lmeval_core::ModelStats;
use unicode_width::UnicodeWidthStr;

use super::counts::Snapshot;
use super::rate::Rate;

/// A part of the line.
struct Segment {
    text: String,
    /// Parts with the highest rank are dropped first; rank 0 is never dropped.
    rank: u8,
}

/// Everything that the line shows besides the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlook {
    pub rate: Rate,
    /// The estimated remaining time.
    pub left: Option<Duration>,
    /// How long no answer has come, if that is unusual.
    pub silence: Option<Duration>,
    /// Calls of judges in flight.
    pub judging: u64,
}

/// Renders the counts in at most `width` columns. The completed count and the time left are dropped last.
pub(super) fn line(now: &Snapshot, outlook: &Outlook, stats: Option<&ModelStats>, width: usize) -> String {
    if now.kinds.is_empty() {
        let waiting = stats.and_then(ModelStats::waiting);
        return cut(waiting.as_deref().unwrap_or("Loading data"), width);
    }
    let more = if now.all_built { "" } else { "+" };
    let kinds: Vec<String> =
        now.kinds.iter().map(|(kind, done, total)| format!("{kind} {done}/{total}{more}")).collect();
    let mut parts = vec![Segment { text: kinds.join(", "), rank: 0 }];
    parts.extend(details(now, outlook, stats));
    if let Some(silence) = outlook.silence {
        parts.push(Segment { text: format!("no answer for {}", clock(silence)), rank: 0 });
    } else if let Some(left) = outlook.left {
        parts.push(Segment { text: format!("{} left", clock(left)), rank: 0 });
    }
    let mut is_short = false;
    loop {
        let line = joined(&parts);
        if line.width() <= width {
            return line;
        }
        let last = parts.iter().map(|part| part.rank).max().unwrap_or(0);
        if !is_short && last <= NAMES {
            // The names of request types matter less than the remaining parts.
            parts[0].text = format!("{}/{}{more}", now.done, now.total);
            is_short = true;
        } else if last == 0 {
            return cut(&line, width);
        } else {
            parts.retain(|part| part.rank != last);
        }
    }
}

/// Parts up to this rank take precedence over the names of request types.
const NAMES: u8 = 2;

fn details(now: &Snapshot, outlook: &Outlook, stats: Option<&ModelStats>) -> Vec<Segment> {
    let rate = outlook.rate;
    let mut parts = Vec::new();
    let mut add = |rank: u8, text: String| parts.push(Segment { text, rank });
    if let Some(percent) = now.percent() {
        add(2, format!("{percent}%"));
    }
    if let Some(task) = &now.task {
        add(7, task.to_string());
    }
    if rate.answers > 0.0 {
        add(2, format!("{}/s", short(rate.answers)));
    }
    if rate.tokens > 0.0 {
        add(4, format!("{} tokens/s", short(rate.tokens)));
    }
    if let Some(stats) = stats {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let computed = read(&stats.tokens_computed);
        let (in_flight, concurrency, retries) =
            (read(&stats.in_flight), read(&stats.concurrency), read(&stats.retries));
        let saved = stats.saved().map(|saved| saved * 100.0);
        if concurrency > 0 {
            add(5, format!("{in_flight} of {concurrency} in flight"));
            if let Some(saved) = saved {
                add(6, format!("{saved:.0}% of prompt tokens saved"));
            }
        } else if computed > 0 && now.sent == 0 {
            // An in-process model may compute for minutes before its first answer.
            add(1, format!("computing, {computed} tokens so far"));
        } else if let Some(saved) = saved {
            add(5, format!("{saved:.0}% of tokens shared"));
        } else if in_flight > 0 {
            add(5, format!("{in_flight} in flight"));
        }
        if retries > 0 {
            add(3, format!("{retries} {}", if retries == 1 { "retry" } else { "retries" }));
        }
    }
    match outlook.judging {
        0 => {}
        1 => add(5, "1 judge call in flight".to_owned()),
        several => add(5, format!("{several} judge calls in flight")),
    }
    if now.failed > 0 {
        add(1, format!("{} failed", now.failed));
    }
    parts
}

fn joined(parts: &[Segment]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" · ")
}

/// Truncates text to `width` columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for character in text.chars() {
        if shown.width() + character.to_string().width() > width.saturating_sub(1) {
            break;
        }
        shown.push(character);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// Formats `0:08`, `12:30`, `2:05:00`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{RequestType, Usage};

    use super::super::counts::RequestCounts;
    use super::*;

    #[test]
    fn shows_counts_and_rates() {
        let counts = RequestCounts::new();
        assert_eq!(line(&counts.snapshot(), &Outlook::default(), None, 200), "Loading data");
        counts.built(RequestType::GenerateUntil, 100);
        counts.built(RequestType::Loglikelihood, 8);
        for _ in 0..20 {
            counts.answered(
                RequestType::GenerateUntil,
                false,
                Usage { prompt_tokens: 9, completion_tokens: 1 },
            );
        }
        counts.answered(RequestType::Loglikelihood, true, Usage::default());
        let rate = Rate { answers: 4.0, tokens: 200.0 };
        let mut outlook = Outlook { rate, left: None, ..Outlook::default() };
        let shown = line(&counts.snapshot(), &outlook, None, 200);
        assert_eq!(shown, "loglikelihood 1/8+, generate_until 20/100+ · 4.0/s · 200 tokens/s");
        counts.all_built();
        counts.failed(RequestType::GenerateUntil);
        counts.working_on(&"hellaswag".into());
        (outlook.left, outlook.judging) = (Some(Duration::from_secs(22)), 3);
        let stats = ModelStats::default();
        stats.in_flight.store(7, Ordering::Relaxed);
        stats.concurrency.store(32, Ordering::Relaxed);
        stats.retry("busy".to_owned());
        let shown = line(&counts.snapshot(), &outlook, Some(&stats), 200);
        assert_eq!(
            shown,
            "loglikelihood 1/8, generate_until 21/100 · 20% · hellaswag · 4.0/s · 200 tokens/s · 7 of 32 in flight · \
             1 retry · 3 judge calls in flight · 1 failed · 0:22 left"
        );
        outlook.silence = Some(Duration::from_secs(25));
        let shown = line(&counts.snapshot(), &outlook, Some(&stats), 200);
        assert!(shown.ends_with(" · no answer for 0:25") && !shown.contains(" left"), "{shown}");
        let own = ModelStats::default();
        own.tokens_asked.store(800, Ordering::Relaxed);
        own.tokens_computed.store(200, Ordering::Relaxed);
        let shown = line(&counts.snapshot(), &outlook, Some(&own), 200);
        assert!(shown.contains(" · 200 tokens/s · 75% of tokens shared · "), "{shown}");
    }

    #[test]
    fn counts_and_time_left_are_dropped_last() {
        let counts = RequestCounts::new();
        counts.built(RequestType::GenerateUntil, 14042);
        counts.built(RequestType::Loglikelihood, 56168);
        counts.all_built();
        for _ in 0..1000 {
            counts.answered(RequestType::Loglikelihood, false, Usage::default());
        }
        counts.failed(RequestType::Loglikelihood);
        let stats = ModelStats::default();
        stats.in_flight.store(128, Ordering::Relaxed);
        stats.concurrency.store(128, Ordering::Relaxed);
        stats.retry("busy".to_owned());
        let rate = Rate { answers: 12.0, tokens: 9000.0 };
        let left = Some(Duration::from_secs(5768));
        let outlook = Outlook { rate, left, ..Outlook::default() };
        for width in 1..250 {
            let shown = line(&counts.snapshot(), &outlook, Some(&stats), width);
            assert!(shown.width() <= width, "{width}: {shown}");
            if width >= 40 {
                assert!(shown.ends_with("1:36:08 left"), "{width}: {shown}");
                assert!(shown.contains("1001/"), "{width}: {shown}");
            }
        }
        let at = |width| line(&counts.snapshot(), &outlook, Some(&stats), width);
        assert_eq!(at(40), "1001/70210 · 1 failed · 1:36:08 left");
        assert_eq!(at(50), "1001/70210 · 1% · 12/s · 1 failed · 1:36:08 left");
        assert_eq!(
            at(80),
            "loglikelihood 1001/56168, generate_until 0/14042 · 1% · 12/s · 1 failed · 1:36:08 left"
                .replace("loglikelihood 1001/56168, generate_until 0/14042", "1001/70210")
        );
    }

    #[test]
    fn shows_computed_tokens_before_the_first_answer() {
        let counts = RequestCounts::new();
        counts.built(RequestType::Loglikelihood, 8);
        let own = ModelStats::default();
        let shown = |width| line(&counts.snapshot(), &Outlook::default(), Some(&own), width);
        assert_eq!(shown(80), "loglikelihood 0/8+");
        own.tokens_computed.store(512, Ordering::Relaxed);
        assert_eq!(shown(80), "loglikelihood 0/8+ · computing, 512 tokens so far");
        assert_eq!(shown(40), "0/8+ · computing, 512 tokens so far");
    }

    #[test]
    fn formats_durations() {
        assert_eq!(clock(Duration::from_millis(7300)), "0:08");
        assert_eq!(clock(Duration::from_secs(750)), "12:30");
        assert_eq!(clock(Duration::from_mins(125)), "2:05:00");
    }
}
