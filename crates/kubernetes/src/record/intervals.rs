//! Ids as text, in intervals: `1-5,7`.

use std::fmt::Write as _;

use crate::refusal::clean;
use boatswain_model::{ExecutorId, IdSet};

pub(super) fn text(set: &IdSet) -> String {
    let mut text = String::new();
    for (first, last) in set.intervals() {
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a String never fails.
        let _ = if first == last {
            write!(text, "{first}")
        } else {
            write!(text, "{first}-{last}")
        };
    }
    text
}

pub(super) fn parse(text: &str) -> Result<IdSet, String> {
    let mut set = IdSet::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bound = |text: &str| {
            ExecutorId::parse(text.trim())
                .map_err(|_| format!("no interval of ids: {:?}", &*clean(part, 64)))
        };
        let (first, last) = (bound(first)?, bound(last)?);
        if last < first {
            return Err(format!(
                "an interval that ends before it begins: {first}-{last}"
            ));
        }
        set.insert_interval(first, last);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // spec: O-30
    #[test]
    fn ended_ids_are_written_as_intervals() {
        let ids = [1, 2, 3, 4, 5, 7, 9].map(|id| ExecutorId::new(id).unwrap());
        assert_eq!(text(&ids.into_iter().collect()), "1-5,7,9");
        assert_eq!(text(&IdSet::new()), "");
        assert_eq!(
            parse(" 7 , 1-3,4-5,9 ").map(|set| text(&set)),
            Ok("1-5,7,9".into())
        );
        for bad in [
            "x",
            "0",
            "5-1",
            "1-",
            "-3",
            "1-2-3",
            "1..2",
            "99999999999999999999",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn ids_are_read_as_written(ids in prop::collection::vec(1u64..500, 0..100)) {
            let set: IdSet = ids.into_iter().filter_map(ExecutorId::new).collect();
            prop_assert_eq!(parse(&text(&set)), Ok(set));
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
