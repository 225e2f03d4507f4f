//! Similar names, for error messages.

/// The number of insertions, deletions, substitutions and transpositions between two strings.
pub fn edit_distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
}

/// Up to three known names similar to `name`, best first.
///
/// ```
/// let known = ["exact_match", "acc", "acc_norm"];
/// assert_eq!(lmeval_metrics::nearest("exact_macth", known), ["exact_match"]);
/// assert!(lmeval_metrics::nearest("zebra", known).is_empty());
/// assert_eq!(lmeval_metrics::nearest("ac", ["acc", "acc"]), ["acc"]);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    let lower = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            let mut score = strsim::jaro_winkler(&lower, &other);
            let length = lower.chars().count().max(other.chars().count()).max(1);
            let distance = edit_distance(&lower, &other);
            // A typo changes few letters; sharing only a prefix is not enough.
            if distance * 3 > length && !(lower.len() >= 4 && other.contains(&lower)) {
                return None;
            }
            if lower == other {
                score = 2.0;
            }
            Some((score, candidate))
        })
        .collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(right.1)));
    // The same name may be known in several places.
    scored.dedup_by(|left, right| left.1 == right.1);
    scored.truncate(MOST);
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}
