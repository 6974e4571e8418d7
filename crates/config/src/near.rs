//! Finds the known key that is closest to a mistyped one (spec C-2).

use strsim::osa_distance;

/// From this many letters on, a key that is the beginning of another counts as close to it.
const LEAST_BEGINNING: usize = 3;

/// The closest of the known keys; `None` where none is close enough.
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let worst = (key.chars().count() / 3).clamp(1, 3);
    let begins = |candidate: &&&str| {
        let (short, long) = if key.len() < candidate.len() {
            (key, **candidate)
        } else {
            (**candidate, key)
        };
        short.len() >= LEAST_BEGINNING && long.starts_with(short)
    };
    let beginning = known.iter().find(begins).copied();
    known
        .iter()
        .map(|candidate| (osa_distance(key, candidate), *candidate))
        .filter(|(edits, _)| *edits <= worst)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
        .or(beginning)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-2
    #[test]
    fn a_typing_error_is_near_to_what_was_meant() {
        let known = ["image", "interval", "enabled", "id", "batch_size"];
        for (typed, meant) in [
            ("imgae", Some("image")),
            ("Image", Some("image")),
            ("intervall", Some("interval")),
            ("enable", Some("enabled")),
            ("batchsize", Some("batch_size")),
            ("images", Some("image")),
            ("imagination", None),
            ("image_pull_policy", Some("image")),
            ("int", Some("interval")),
            ("ID", None),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed}");
        }
    }
}
