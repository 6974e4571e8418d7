//! Generates uids and random names from a seed.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// The source of uids and generated names.
#[derive(Debug)]
pub struct Ids(StdRng);

impl Ids {
    /// The same seed yields the same ids.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub fn uid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    }

    /// `base`, truncated if necessary, with five random characters appended.
    pub fn name(&mut self, base: &str) -> String {
        const LETTERS: [char; 27] = [
            'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v',
            'w', 'x', 'z', '2', '4', '5', '6', '7', '8', '9',
        ];
        const MAX_BASE: usize = 58;
        let mut name: String = base
            .char_indices()
            .take_while(|(i, c)| i + c.len_utf8() <= MAX_BASE)
            .map(|(_, c)| c)
            .collect();
        name.extend((0..5).map(|_| LETTERS[self.0.random_range(0..LETTERS.len())]));
        name
    }
}
