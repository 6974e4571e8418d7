//! How long to wait before the next try (spec W-2).

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use boatswain_agent::backoff;

/// The shortest wait.
pub const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(30);
/// The first ceiling is twice the shortest wait, for waits are drawn from a ceiling's upper half.
const CEILING: backoff::Backoff = backoff::Backoff {
    initial: FIRST.saturating_mul(2),
    max: LONGEST,
};

/// Exponential backoff with jitter, from [`FIRST`] to [`LONGEST`].
///
/// The n-th wait in a row is drawn from the upper half of a ceiling that doubles each time, so that
/// it is never below [`FIRST`], grows from try to try, and drivers that failed together do not come back together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure.
    pub fn next_wait(&mut self, rng: &mut StdRng) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let ceiling = CEILING.delay(self.failures);
        rng.random_range(ceiling / 2..=ceiling)
    }

    /// Something worked: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    // spec: W-2
    #[test]
    fn waits_double_from_half_a_second_to_thirty_and_begin_again_after_a_reset() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut backoff = Backoff::default();
        let floors = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000];
        for floor in floors.map(Duration::from_millis) {
            let wait = backoff.next_wait(&mut rng);
            assert!(
                floor <= wait && wait <= (2 * floor).min(LONGEST),
                "{wait:?} after {floor:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next_wait(&mut rng) <= 2 * FIRST);
    }

    proptest! {
        // spec: W-2
        #[test]
        fn every_wait_is_between_half_a_second_and_thirty(seed: u64, tries in 1_usize..200) {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut backoff = Backoff::default();
            for _ in 0..tries {
                let wait = backoff.next_wait(&mut rng);
                prop_assert!((FIRST..=LONGEST).contains(&wait));
            }
        }
    }
}
