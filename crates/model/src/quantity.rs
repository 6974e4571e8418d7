//! Kubernetes quantities: `500m`, `2`, `512Mi` (spec C-1, K-5).
//!
//! The crate kube_quantity would bring nom and rust_decimal for what is a hundred lines of integers here.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The number of 10⁻⁹ units in one: the precision of Kubernetes.
const NANOS: u128 = 1_000_000_000;

/// In bytes.
pub const MEBIBYTE: u64 = 1 << 20;

/// An amount of CPU (in cores) or memory (in bytes), with its original text, which goes into the pod. Equal amounts
/// compare equal however they are written.
#[derive(Debug, Clone)]
pub struct Quantity {
    text: String,
    /// The amount in 10⁻⁹ units, rounded up as in Kubernetes.
    nanos: u128,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("not a number with a unit")]
    Number,
    #[error("not a unit: none, n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei")]
    Unit,
    /// Above 2⁶³ - 1.
    #[error("too large")]
    TooLarge,
}

impl Quantity {
    pub fn mebibytes(number: u32) -> Self {
        Self {
            text: format!("{number}Mi"),
            nanos: (u128::from(number) << 20) * NANOS,
        }
    }

    /// The amount in whole units, rounded up: bytes for memory.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.nanos.div_ceil(NANOS)).unwrap_or(u64::MAX)
    }

    /// The amount in thousandths, rounded up: millicores for CPU.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.nanos.div_ceil(NANOS / 1000)).unwrap_or(u64::MAX)
    }

    pub fn nanos(&self) -> u128 {
        self.nanos
    }
}

/// The text of a number of cores: without a unit if it is whole.
pub fn cpu_text(millis: u64) -> String {
    match millis % 1000 {
        0 => (millis / 1000).to_string(),
        _ => format!("{millis}m"),
    }
}

/// The text of a number of bytes: in mebibytes if it is a whole number of them.
pub fn memory_text(bytes: u64) -> String {
    match bytes % MEBIBYTE {
        0 => format!("{}Mi", bytes / MEBIBYTE),
        _ => bytes.to_string(),
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, unit) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(QuantityError::Number);
        }
        // Trailing zeros of the fraction do not change the amount but could overflow the digits.
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("0{whole}{fraction}");
        let digits: u128 = digits.parse().map_err(|_| QuantityError::TooLarge)?;
        let scale = scale_of(unit).ok_or(QuantityError::Unit)?;
        let places = u32::try_from(fraction.len()).map_err(|_| QuantityError::TooLarge)?;
        let nanos = scaled(digits, scale, places).ok_or(QuantityError::TooLarge)?;
        if nanos > i64::MAX as u128 * NANOS {
            return Err(QuantityError::TooLarge);
        }
        Ok(Self {
            text: text.to_owned(),
            nanos,
        })
    }
}

enum Scale {
    /// A power of 2.
    Two(u32),
    /// A power of 10.
    Ten(i32),
}

fn scale_of(unit: &str) -> Option<Scale> {
    Some(match unit {
        "" => Scale::Ten(0),
        "n" => Scale::Ten(-9),
        "u" => Scale::Ten(-6),
        "m" => Scale::Ten(-3),
        "k" => Scale::Ten(3),
        "M" => Scale::Ten(6),
        "G" => Scale::Ten(9),
        "T" => Scale::Ten(12),
        "P" => Scale::Ten(15),
        "E" => Scale::Ten(18),
        "Ki" => Scale::Two(10),
        "Mi" => Scale::Two(20),
        "Gi" => Scale::Two(30),
        "Ti" => Scale::Two(40),
        "Pi" => Scale::Two(50),
        "Ei" => Scale::Two(60),
        _ => {
            let exponent = unit.strip_prefix(['e', 'E'])?;
            // Larger exponents are out of range for every amount and would only make the arithmetic slow.
            let exponent: i32 = exponent.parse().ok()?;
            Scale::Ten(exponent.clamp(-60, 60))
        }
    })
}

/// `digits` × scale × 10⁹ / 10^`places`, rounded up. `None`: the result does not fit.
fn scaled(digits: u128, scale: Scale, places: u32) -> Option<u128> {
    if digits == 0 {
        return Some(0);
    }
    let (factor, exponent) = match scale {
        Scale::Two(power) => (1_u128 << power, 9),
        Scale::Ten(power) => (1, 9 + power),
    };
    let exponent = exponent - i32::try_from(places).ok()?;
    let amount = digits.checked_mul(factor)?;
    let power = exponent.unsigned_abs();
    if exponent >= 0 {
        return amount.checked_mul(10_u128.checked_pow(power)?);
    }
    // A divisor that overflows is larger than every amount, so the quotient rounds up to one.
    Some(match 10_u128.checked_pow(power) {
        Some(divisor) => amount.div_ceil(divisor),
        None => 1,
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    // spec: C-1
    #[test]
    fn sizes_are_read_as_kubernetes_reads_them() {
        let bytes = [
            ("0", 0),
            ("512Mi", 512 << 20),
            ("2Gi", 2 << 30),
            ("1.5Gi", 3 << 29),
            ("128974848", 128_974_848),
            ("129M", 129_000_000),
            ("129e6", 129_000_000),
            ("128974848000m", 128_974_848),
            ("1n", 1),
            ("1E", 1_000_000_000_000_000_000),
            ("+1k", 1000),
            (".5Ki", 512),
            ("1.", 1),
            ("500m", 1),
            ("7Ei", 7 << 60),
        ];
        for (text, expected) in bytes {
            assert_eq!(quantity(text).bytes(), expected, "{text}");
            assert_eq!(quantity(text).to_string(), text, "the text is kept");
        }
        let millis = [
            ("500m", 500),
            ("2", 2000),
            ("0.1", 100),
            (".1", 100),
            ("1e1", 10_000),
            ("1.0005", 1001),
            ("1n", 1),
        ];
        for (text, expected) in millis {
            assert_eq!(quantity(text).millis(), expected, "{text}");
        }
    }

    // spec: C-1
    #[test]
    fn what_kubernetes_would_refuse_is_refused() {
        use QuantityError::{Number, TooLarge, Unit};
        let cases = [
            ("", Number),
            (".", Number),
            ("Mi", Number),
            ("-1", Number),
            ("1.2.3", Number),
            ("512MB", Unit),
            ("512 Mi", Unit),
            ("1mi", Unit),
            ("1e", Unit),
            ("1e1.5", Unit),
            ("1e+", Unit),
            ("1g", Unit),
            ("0x10", Unit),
            ("8Ei", TooLarge),
            ("1e99", TooLarge),
            ("99999999999999999999999999999999999999999", TooLarge),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Quantity>().err(), Some(error), "{text:?}");
        }
    }

    #[test]
    fn cores_are_written_whole_where_they_are_whole() {
        assert_eq!([cpu_text(1500), cpu_text(2000)], ["1500m", "2"]);
    }

    #[test]
    fn equal_amounts_are_equal_however_written() {
        assert_eq!(quantity("1000m"), quantity("1"));
        assert!(quantity("1G") < quantity("1Gi"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[+-]?[0-9.]{0,50}[a-zA-Z0-9+-]{0,6}|.{0,60}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let _ = (quantity.bytes(), quantity.millis());
            }
        }
    }
}
