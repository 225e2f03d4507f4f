//! `urlize`.

use std::sync::OnceLock;

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::strings;

use crate::arguments::{Args, integer, text};
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Iter, Val, escape_html, str_of};

struct Links {
    rel: String,
    target: String,
    limit: Option<usize>,
    schemes: Vec<String>,
}

fn address() -> Option<&'static Regex> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    PATTERN
        .get_or_init(|| {
            let pattern = concat!(
                r"^(?:(?:https?://|www\.)(?:[\w%-]+\.)*(?:[a-z]{2,63}|xn--[\w%]{2,59})",
                r"|(?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)",
                r"|https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\]))",
                r"(?::\d{1,5})?(?:[/?#]\S*)?$",
            );
            Regex::new(pattern, Flags::IGNORECASE).ok()
        })
        .as_ref()
}

fn mail() -> Option<&'static Regex> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    PATTERN.get_or_init(|| Regex::new(r"^\S+@\w[\w.-]*\.\w+$", Flags::default()).ok()).as_ref()
}

fn is_match(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|pattern| pattern.match_start(text).is_ok_and(|found| found.is_some()))
}

/// `urlize(trim_url_limit, nofollow, target, rel, extra_schemes)`: addresses become links.
pub(super) fn urlize(vm: &mut Vm<'_>, value: &Val, args: Args) -> Result<Val, Error> {
    let names = ["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"];
    let [limit, nofollow, target, rel, schemes] = args.bind("urlize", names, 0)?;
    let given = |value: Option<Val>| value.filter(|value| !matches!(value, Val::None));
    let limit = match given(limit) {
        Some(limit) => Some(usize::try_from(integer(&limit)?).unwrap_or(0)),
        None => None,
    };
    let rel = given(rel).map_or_else(|| Ok("".into()), |rel| text(&rel).cloned())?;
    let mut relations: Vec<&str> = strings::split_whitespace(&rel, None);
    if nofollow.map_or(Ok(false), |nofollow| nofollow.truth())? {
        relations.push("nofollow");
    }
    relations.push("noopener");
    relations.sort_unstable();
    relations.dedup();
    let target = given(target).map_or_else(|| Ok("".into()), |target| str_of(&target))?;
    let mut extra = Vec::new();
    if let Some(schemes) = given(schemes) {
        for scheme in Iter::over(&schemes)?.collect(vm)? {
            let scheme = text(&scheme)?.to_string();
            if !is_scheme(&scheme) {
                return Err(Error::value_error(format!("`{scheme}` is not the start of an address")));
            }
            extra.push(scheme);
        }
    }
    let attribute = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!(" {name}=\"{}\"", escape_html(value)) }
    };
    let links = Links {
        rel: attribute("rel", &relations.join(" ")),
        target: attribute("target", &target),
        limit,
        schemes: extra,
    };
    let safe = super::html::escaped(value)?;
    let safe = str_of(&safe)?;
    let mut out = String::new();
    let mut rest = &*safe;
    while let Some(first) = rest.chars().next() {
        let blank = strings::is_space(first);
        let end = rest.find(|c| strings::is_space(c) != blank).unwrap_or(rest.len());
        if blank {
            out.push_str(&rest[..end]);
        } else {
            links.word(&mut out, &rest[..end]);
        }
        rest = &rest[end..];
    }
    Ok(if vm.autoescape { Val::Markup(out.into()) } else { Val::str(out) })
}

/// Two or more letters or `.+-`, a colon, and at most two slashes.
fn is_scheme(scheme: &str) -> bool {
    let Some((name, slashes)) = scheme.split_once(':') else {
        return false;
    };
    name.chars().count() >= 2
        && name.chars().all(|c| c == '_' || strings::is_alnum(c) || matches!(c, '.' | '+' | '-'))
        && matches!(slashes, "" | "/" | "//")
}

/// Takes one of the affixes from an end of a text, as long as there is one.
fn strip_ends<'a>(mut text: &'a str, affixes: &[&str], front: bool) -> &'a str {
    loop {
        let stripped = affixes
            .iter()
            .find_map(|affix| if front { text.strip_prefix(affix) } else { text.strip_suffix(affix) });
        match stripped {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

impl Links {
    fn word(&self, out: &mut String, word: &str) {
        let after_head = strip_ends(word, &["(", "<", "&lt;"], true);
        let head = &word[..word.len() - after_head.len()];
        let body = strip_ends(after_head, &[")", ">", ".", ",", "&gt;"], false);
        let mut middle = body.to_owned();
        let mut tail = after_head[body.len()..].to_owned();
        // A closing bracket belongs to the address where the address has an opening one.
        for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
            let opened = middle.matches(open).count();
            if opened <= middle.matches(close).count() {
                continue;
            }
            for _ in 0..opened.min(tail.matches(close).count()) {
                let Some(found) = tail.find(close) else { break };
                let end = found + close.len();
                middle.push_str(&tail[..end]);
                tail.replace_range(..end, "");
            }
        }
        out.push_str(head);
        out.push_str(&self.link(middle));
        out.push_str(&tail);
    }

    fn link(&self, middle: String) -> String {
        let Self { rel, target, .. } = self;
        if is_match(address(), &middle) {
            let shown = match self.limit {
                Some(limit) if middle.chars().count() > limit => {
                    format!("{}...", middle.chars().take(limit).collect::<String>())
                }
                _ => middle.clone(),
            };
            let has_scheme = middle.starts_with("https://") || middle.starts_with("http://");
            let scheme = if has_scheme { "" } else { "https://" };
            return format!("<a href=\"{scheme}{middle}\"{rel}{target}>{shown}</a>");
        }
        if let Some(name) = middle.strip_prefix("mailto:")
            && is_match(mail(), name)
        {
            return format!("<a href=\"{middle}\">{name}</a>");
        }
        let plain_mail = middle.contains('@')
            && !middle.starts_with("www.")
            && !middle.starts_with('@')
            && !middle.contains(':')
            && is_match(mail(), &middle);
        if plain_mail {
            return format!("<a href=\"mailto:{middle}\">{middle}</a>");
        }
        let mut result = middle;
        for scheme in &self.schemes {
            if result != *scheme && result.starts_with(scheme.as_str()) {
                result = format!("<a href=\"{result}\"{rel}{target}>{result}</a>");
            }
        }
        result
    }
}
