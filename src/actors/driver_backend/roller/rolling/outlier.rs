//! Finds the executor whose metric is an outlier: pure (spec B-32).

use crate::model::ExecutorId;

/// The fewest values among which an outlier is determined.
const COMPANY: usize = 4;

/// The ratio of the standard deviation to the median absolute deviation of a normal distribution.
const OF_MEDIAN: f64 = 1.482_6;

/// The ratio to the mean absolute deviation, for when more than half of the values are equal.
const OF_MEAN: f64 = 1.253_3;

/// The executor whose value is farthest from the median, and its distance in standard deviations;
/// `None` if that does not exceed the threshold. The deviation is estimated from medians, so that
/// the outlier does not enlarge it. Of two equal distances the lower id is chosen.
pub(super) fn outlier(
    figures: impl IntoIterator<Item = (ExecutorId, f64)>,
    threshold: f64,
) -> Option<(ExecutorId, f64)> {
    // Halved, so that the difference of any two is finite.
    let figures: Vec<(ExecutorId, f64)> = (figures.into_iter())
        .filter(|(_, figure)| figure.is_finite())
        .map(|(id, figure)| (id, figure / 2.0))
        .collect();
    if figures.len() < COMPANY {
        return None;
    }
    let middle = median(figures.iter().map(|(_, figure)| *figure))?;
    let distances = || figures.iter().map(|(_, figure)| (figure - middle).abs());
    let usual = OF_MEDIAN * median(distances())?;
    let count = f64::from(u32::try_from(figures.len()).unwrap_or(u32::MAX));
    let deviation = match usual > 0.0 {
        true => usual,
        false => OF_MEAN * distances().map(|distance| distance / count).sum::<f64>(),
    };
    if deviation <= 0.0 {
        return None;
    }
    let farthest = |(a, x): &(ExecutorId, f64), (b, y): &(ExecutorId, f64)| {
        x.total_cmp(y).then_with(|| b.cmp(a))
    };
    (figures.iter().zip(distances()))
        .map(|((id, _), distance)| (*id, distance / deviation))
        .max_by(farthest)
        .filter(|(_, distance)| *distance > threshold)
}

/// The middle number, or the mean of the two in the middle.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    match numbers.len() % 2 {
        1 => Some(upper),
        _ => {
            let lower = *numbers.get(numbers.len() / 2 - 1)?;
            Some(lower / 2.0 + upper / 2.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::id;

    const THRESHOLD: f64 = 3.0;

    fn of(figures: &[f64]) -> Option<u64> {
        let figures = (1..).map(id).zip(figures.iter().copied());
        outlier(figures, THRESHOLD).map(|(id, _)| id.get())
    }

    // spec: B-32
    #[test]
    fn an_outlier_is_found_on_either_side() {
        assert_eq!(of(&[10.0, 11.0, 9.0, 10.5, 40.0]), Some(5));
        assert_eq!(of(&[10.0, -40.0, 9.0, 10.5, 11.0]), Some(2));
        assert_eq!(
            of(&[10.0, 10.0, 10.0, 10.0, 10.1]),
            Some(5),
            "most are alike"
        );
        assert_eq!(
            of(&[10.0, 11.0, 9.0, 60.0, 10.5, 40.0]),
            Some(4),
            "the farther one"
        );
    }

    // spec: B-32
    #[test]
    fn equal_or_few_values_have_no_outlier() {
        for figures in [
            &[][..],
            &[1.0, 1.0, 900.0],
            &[5.0; 9],
            &[10.0, 11.0, 9.0, 10.5, 9.5],
            &[f64::NAN, f64::INFINITY, 1.0, 2.0, 3.0],
        ] {
            assert_eq!(of(figures), None, "{figures:?}");
        }
        let huge = [f64::MAX, f64::MIN, 0.0, 1.0, -1.0];
        assert_eq!(
            of(&huge),
            Some(1),
            "no sum overflows, and of two the lower id"
        );
    }

    fn distance(figures: &BTreeMap<u64, i32>, threshold: f64) -> Option<(u64, f64)> {
        let figures = figures
            .iter()
            .map(|(n, figure)| (id(*n), f64::from(*figure)));
        outlier(figures, threshold).map(|(id, distance)| (id.get(), distance))
    }

    proptest! {
        // spec: B-32
        #[test]
        fn no_value_is_farther_from_the_median_than_the_outlier(
            figures in prop::collection::btree_map(1..50_u64, -1_000..1_000_i32, 4..20),
        ) {
            let Some((found, far)) = distance(&figures, 0.0) else {
                let first = figures.values().next();
                prop_assert!(figures.values().all(|figure| Some(figure) == first));
                return Ok(());
            };
            let middle = median(figures.values().map(|figure| f64::from(*figure))).unwrap();
            let from = |n: &u64| (f64::from(figures[n]) - middle).abs();
            prop_assert!(figures.keys().all(|n| from(n) <= from(&found)));
            prop_assert!(figures.keys().all(|n| from(n) < from(&found) || *n >= found));
            // The same outlier is found at any lower threshold.
            prop_assert_eq!(distance(&figures, far / 2.0).map(|(n, _)| n), Some(found));
            prop_assert_eq!(distance(&figures, far), None);
        }

        // spec: B-32
        #[test]
        fn scale_and_offset_of_the_values_do_not_matter(
            figures in prop::collection::btree_map(1..50_u64, -1_000..1_000_i32, 4..20),
            power in 0..8_i32,
            from in -1_000..1_000_i32,
        ) {
            // Powers of two and integers are exact.
            let other: BTreeMap<u64, i32> = (figures.iter())
                .map(|(n, figure)| (*n, (figure + from) << power))
                .collect();
            let found = |figures| distance(figures, THRESHOLD).map(|(n, _)| n);
            prop_assert_eq!(found(&figures), found(&other));
        }

        // spec: B-32
        #[test]
        fn an_extreme_outlier_is_still_found(
            usual in prop::collection::vec(100..110_i32, 6..20),
            far in 10_000..1_000_000_i32,
        ) {
            let outlier = usual.len() as u64 + 1;
            let figures: BTreeMap<u64, i32> = (1..).zip(usual.into_iter().chain([far])).collect();
            prop_assert_eq!(distance(&figures, THRESHOLD).map(|(n, _)| n), Some(outlier));
        }
    }
}
