//! Splits free slots over profiles (spec A-4).

/// Splits `slots` evenly over `wants`, the remainder to the first. What one cannot use others get.
pub fn split_evenly(mut slots: u32, wants: &[u32]) -> Vec<u32> {
    let mut given = vec![0; wants.len()];
    loop {
        let hungry: Vec<usize> = (0..wants.len()).filter(|&i| given[i] < wants[i]).collect();
        if slots == 0 || hungry.is_empty() {
            return given;
        }
        let number = u32::try_from(hungry.len()).unwrap_or(u32::MAX);
        let (share, mut remainder) = (slots / number, slots % number);
        for i in hungry {
            let extra = u32::from(remainder > 0);
            remainder = remainder.saturating_sub(1);
            let taken = (share + extra).min(wants[i] - given[i]);
            given[i] += taken;
            slots -= taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // spec: A-4
    #[test]
    fn slots_zero_to_four_over_three_profiles() {
        let split = |slots| split_evenly(slots, &[9, 9, 9]);
        assert_eq!(split(0), [0, 0, 0]);
        assert_eq!(split(1), [1, 0, 0]);
        assert_eq!(split(2), [1, 1, 0]);
        assert_eq!(split(3), [1, 1, 1]);
        assert_eq!(split(4), [2, 1, 1]);
    }

    proptest! {
        #[test]
        fn all_slots_are_used_while_any_profile_wants_one(slots in 0u32..200, wants in prop::collection::vec(0u32..50, 0..6)) {
            let given = split_evenly(slots, &wants);
            prop_assert_eq!(given.iter().sum::<u32>(), slots.min(wants.iter().sum()));
            prop_assert!(given.iter().zip(&wants).all(|(given, want)| given <= want));
        }
    }
}
