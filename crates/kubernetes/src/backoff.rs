//! The wait before the next list or watch after a failure (spec W-9).

use std::time::Duration;

use boatswain_agent::backoff::Backoff;

pub const LONGEST: Duration = Duration::from_secs(30);

/// The first wait is at least half a second: 667 ms, which the jitter shortens by a quarter at most.
pub const WATCH: Backoff = Backoff {
    initial: Duration::from_millis(667),
    max: LONGEST,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::FIRST;

    // spec: W-9
    #[test]
    fn waits_double_from_half_a_second_to_thirty() {
        let floors = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 22_500, 22_500];
        for (failures, floor) in (1..).zip(floors.map(Duration::from_millis)) {
            for random in [0.0, 0.5, 1.0] {
                let wait = WATCH.jittered(failures, random);
                assert!(
                    floor <= wait && wait <= (2 * floor).min(LONGEST),
                    "{wait:?} after {floor:?}"
                );
            }
        }
    }

    proptest! {
        // spec: W-9
        #[test]
        fn every_wait_is_between_half_a_second_and_thirty(failures: u32, random in 0.0..1.0) {
            let wait = WATCH.jittered(failures, random);
            prop_assert!((FIRST..=LONGEST).contains(&wait));
        }
    }
}
