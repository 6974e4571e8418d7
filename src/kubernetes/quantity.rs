//! Kubernetes' quantities, as far as cpu and memory need them: `500m`, `2`, `1.5Gi`, `1e9`.

use thiserror::Error;

/// Why a text is no quantity of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAQuantity {
    /// It is no number with a suffix that Kubernetes knows.
    #[error("not a quantity: a number such as 2, 0.5, 500m, 512Mi or 1.5G is needed")]
    Malformed,
    /// It is below zero or beyond any machine.
    #[error("out of range")]
    OutOfRange,
}

/// Thousandths of a core from a text such as `2`, `0.5` or `500m`, rounded up as Kubernetes does.
///
/// # Errors
/// Where it is no quantity, or none that a machine could have.
pub fn parse_cpu_millis(text: &str) -> Result<u64, NotAQuantity> {
    in_units_of_a_thousandth(text)
}

/// Bytes from a text such as `512Mi`, `1.5G` or `1000000000`, rounded up as Kubernetes does.
///
/// # Errors
/// Where it is no quantity, or none that a machine could have.
pub fn parse_memory_bytes(text: &str) -> Result<u64, NotAQuantity> {
    Ok(in_units_of_a_thousandth(text)?.div_ceil(1000))
}

/// How cores are written: whole where they are whole.
pub fn cpu_text(millis: u64) -> String {
    match millis % 1000 {
        0 => (millis / 1000).to_string(),
        _ => format!("{millis}m"),
    }
}

fn in_units_of_a_thousandth(text: &str) -> Result<u64, NotAQuantity> {
    let digits_end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit() && byte != b'.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Nine digits on either side of the point are what any quantity needs, and all that is reckoned with.
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || fraction.len() > 9 {
        return Err(NotAQuantity::Malformed);
    }
    let (numerator, denominator) = scale(suffix)?;
    let digits: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| NotAQuantity::OutOfRange)?;
    let tens = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| NotAQuantity::Malformed)?);
    digits
        .checked_mul(numerator)
        .and_then(|scaled| scaled.checked_mul(1000))
        .map(|scaled| scaled.div_ceil(tens * denominator))
        .and_then(|thousandths| u64::try_from(thousandths).ok())
        .ok_or(NotAQuantity::OutOfRange)
}

fn scale(suffix: &str) -> Result<(u128, u128), NotAQuantity> {
    let scale = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        _ => {
            let exponent = suffix
                .strip_prefix(['e', 'E'])
                .ok_or(NotAQuantity::Malformed)?;
            let digits = exponent.strip_prefix('+').unwrap_or(exponent);
            let bare = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let power: u32 = digits
                .parse()
                .ok()
                .filter(|power| bare && *power <= 18)
                .ok_or(NotAQuantity::Malformed)?;
            (10u128.pow(power), 1)
        }
    };
    Ok(scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // spec: K-5
    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, millis) in [
            ("2", 2000),
            ("0.5", 500),
            ("500m", 500),
            (".1", 100),
            ("1e1", 10_000),
        ] {
            assert_eq!(parse_cpu_millis(text), Ok(millis), "{text}");
        }
        for (text, bytes) in [
            ("512Mi", 512 << 20),
            ("1.5Gi", 3 << 29),
            ("1G", 1_000_000_000),
            ("1e9", 1_000_000_000),
            ("128974848000m", 128_974_848),
            ("1n", 1),
        ] {
            assert_eq!(parse_memory_bytes(text), Ok(bytes), "{text}");
        }
        for bad in [
            "", "Gi", "1g", "-1", "1 Gi", "1.2.3", "1e", "1e+", "1e999", "0x10",
        ] {
            assert_eq!(
                parse_memory_bytes(bad),
                Err(NotAQuantity::Malformed),
                "{bad:?}"
            );
        }
        assert_eq!(
            parse_memory_bytes("99999999999999999999Pi"),
            Err(NotAQuantity::OutOfRange)
        );
        assert_eq!(
            (cpu_text(1500), cpu_text(2000)),
            ("1500m".into(), "2".into())
        );
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,60}") {
            let _ = parse_cpu_millis(&text);
            let _ = parse_memory_bytes(&text);
        }
    }
}
