//! Splits a pool's target among its profiles (spec B-74).

/// What limits a profile of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The fewest of the pool's executors that are of this profile.
    pub at_least: u32,
    /// The most, in percent of the pool's target.
    pub share: u32,
    /// The highest target of the profile.
    pub most: u32,
    /// As many as the cluster has room for at present; `None`: as many as are wanted.
    pub obtainable: Option<u32>,
}

impl Limits {
    /// The most executors of this profile that a pool of this target has, as long as others can take the rest.
    fn usual(self, target: u32) -> u32 {
        let share = u64::from(target) * u64::from(self.share) / 100;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        share
            .min(self.obtainable.unwrap_or(u32::MAX))
            .min(self.most)
    }
}

/// The target of each profile, for profiles in the order in which they are preferred. Their sum is the pool's target, as
/// long as `most` of all of them allow it: what all leave the last one waits for, and then the first ones.
pub fn split(target: u32, profiles: &[Limits]) -> Vec<u32> {
    let mut parts = vec![0; profiles.len()];
    let mut left = target;
    let mut fill = |at: usize, most: u32| {
        if let Some(part) = parts.get_mut(at) {
            let more = most.saturating_sub(*part).min(left);
            *part += more;
            left -= more;
        }
    };
    let numbered = || profiles.iter().enumerate();
    numbered().for_each(|(at, one)| fill(at, one.at_least.min(one.most)));
    numbered().for_each(|(at, one)| fill(at, one.usual(target)));
    // What is left waits where there may be room one day.
    let rest = numbered().next_back().into_iter().chain(numbered());
    (rest.filter(|(_, one)| one.obtainable != Some(0))).for_each(|(at, one)| fill(at, one.most));
    numbered().for_each(|(at, one)| fill(at, one.most));
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(at_least: u32, share: u32, obtainable: Option<u32>) -> Limits {
        Limits {
            at_least,
            share,
            most: u32::MAX,
            obtainable,
        }
    }

    const ANY: Limits = Limits {
        at_least: 0,
        share: 100,
        most: u32::MAX,
        obtainable: None,
    };

    fn at_most(most: u32) -> Limits {
        Limits { most, ..ANY }
    }

    // spec: B-74
    #[test]
    fn the_first_profile_has_all_but_what_others_have_at_least_and_what_is_above_its_share() {
        for (profiles, target, parts) in [
            ([ANY, ANY], 10, [10, 0]),
            ([ANY, limits(2, 100, None)], 10, [8, 2]),
            ([limits(0, 70, None), ANY], 10, [7, 3]),
            ([limits(0, 70, None), ANY], 1, [0, 1]),
            ([limits(0, 70, None), limits(5, 100, None)], 10, [5, 5]),
            ([ANY, limits(2, 100, None)], 1, [0, 1]),
            ([ANY, ANY], 0, [0, 0]),
        ] {
            assert_eq!(split(target, &profiles), parts, "{target} of {profiles:?}");
        }
    }

    // spec: B-74
    #[test]
    fn what_cannot_be_had_of_a_profile_the_next_ones_have() {
        let three = |first, second| [limits(0, 100, first), limits(0, 100, second), ANY];
        assert_eq!(split(10, &three(Some(4), None)), [4, 6, 0]);
        assert_eq!(split(10, &three(Some(4), Some(3))), [4, 3, 3]);
        assert_eq!(split(10, &three(Some(0), Some(0))), [0, 0, 10]);
        // The last one waits, unless nothing of it can be had.
        let none = |last| split(10, &[limits(0, 50, Some(1)), limits(0, 50, last)]);
        assert_eq!(none(None), [1, 9]);
        assert_eq!(none(Some(0)), [10, 0]);
        assert_eq!(
            split(4, &[limits(0, 100, Some(0)), limits(0, 100, Some(0))]),
            [4, 0]
        );
    }

    // spec: B-74
    #[test]
    fn no_profile_has_more_than_its_highest_target() {
        let split = |target, profiles: [Limits; 2]| super::split(target, &profiles);
        assert_eq!(split(10, [at_most(4), ANY]), [4, 6]);
        assert_eq!(split(10, [limits(0, 50, Some(1)), at_most(4)]), [6, 4]);
        assert_eq!(
            split(10, [at_most(4), at_most(5)]),
            [4, 5],
            "less than the target"
        );
        assert_eq!(
            split(
                10,
                [
                    ANY,
                    Limits {
                        at_least: 5,
                        ..at_most(2)
                    }
                ]
            ),
            [8, 2]
        );
    }

    proptest! {
        // spec: B-74
        #[test]
        fn the_parts_are_the_target_and_within_the_limits(
            target in 0..1_000_000_u32,
            profiles in prop::collection::vec(any_limits(), 1..5),
        ) {
            let parts = split(target, &profiles);
            let most: u32 = profiles.iter().map(|one| one.most).sum();
            prop_assert_eq!(parts.iter().sum::<u32>(), target.min(most));
            let least: u32 = profiles.iter().map(|one| one.at_least.min(one.most)).sum();
            for (limits, part) in profiles.iter().zip(&parts) {
                prop_assert!(*part >= limits.at_least.min(limits.most) || least > target);
                prop_assert!(*part <= limits.most);
            }
        }

        // spec: B-74
        #[test]
        fn a_profile_has_less_than_usual_only_if_others_have_at_least_that(
            target in 0..100_u32,
            profiles in prop::collection::vec(any_limits(), 1..5),
        ) {
            let parts = split(target, &profiles);
            let least: u32 = profiles.iter().map(|one| one.at_least.min(one.most)).sum();
            let first = profiles[0].usual(target).min(target.saturating_sub(least));
            prop_assert!(parts[0] >= first);
        }
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        let obtainable = prop::option::of(0..20_u32);
        (0..20_u32, 0..=100_u32, 0..1_000_000_u32, obtainable).prop_map(
            |(at_least, share, most, obtainable)| Limits {
                at_least,
                share,
                most,
                obtainable,
            },
        )
    }
}
