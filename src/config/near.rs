//! The known key that a typing error is most likely to have come from (spec C-2).

/// One that is the beginning of the other says enough where it has so many letters.
const LEAST_BEGINNING: usize = 3;

/// The nearest of some keys; `None` where none is near.
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
        .map(|candidate| (edits(key, candidate, worst), *candidate))
        .filter(|(edits, _)| *edits <= worst)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
        .or(beginning)
}

/// How many characters have to be inserted, deleted, replaced or swapped with their neighbour to turn one text into the
/// other.
fn edits(from: &str, to: &str, worst: usize) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    if from.len().abs_diff(to.len()) > worst {
        return worst + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for i in 0..from.len() {
        let mut row = vec![i + 1];
        for j in 0..to.len() {
            let replaced = above[j] + usize::from(from[i] != to[j]);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
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
        assert_eq!(edits("ab", "ba", 2), 1);
        assert_eq!(edits("kitten", "sitting", 3), 3);
        assert_eq!(edits("", "ab", 2), 2);
    }
}
