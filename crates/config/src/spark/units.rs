//! Parses durations and sizes in Spark's notation.

use std::time::Duration;

/// A number and its suffix, in lowercase as Spark reads it.
fn parts(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}

/// A duration; in `unit` if it has no suffix.
pub(super) fn duration(text: &str, unit: Duration) -> Option<Duration> {
    let (number, suffix) = parts(text)?;
    let one = match &*suffix {
        "" => unit,
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        "d" => Duration::from_secs(24 * 3600),
        _ => return None,
    };
    one.checked_mul(u32::try_from(number).ok()?)
}

pub(super) const MEBIBYTE: u64 = 1 << 20;

/// A size in bytes; in `unit` if it has no suffix. Spark's units are powers of 1024.
pub(super) fn bytes(text: &str, unit: u64) -> Option<u64> {
    let (number, suffix) = parts(text)?;
    let power = match &*suffix {
        "" => return number.checked_mul(unit),
        "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return None,
    };
    number.checked_mul(1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-7
    #[test]
    fn durations_have_spark_s_units() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("250", Some(ms(250))),
            ("250ms", Some(ms(250))),
            ("3s", Some(ms(3000))),
            ("2m", Some(ms(120_000))),
            ("2MIN", Some(ms(120_000))),
            ("1h", Some(ms(3_600_000))),
            ("1d", Some(ms(86_400_000))),
            ("1.5s", None),
            ("s", None),
            ("-1s", None),
            ("99999999999999999999", None),
            ("9999999999d", None),
        ] {
            assert_eq!(duration(text, ms(1)), expected, "{text}");
        }
    }

    // spec: C-7
    #[test]
    fn sizes_are_a_jvm_s() {
        for (text, expected) in [
            ("2g", Some(2 << 30)),
            ("512m", Some(512 << 20)),
            ("512", Some(512 << 20)),
            ("1024KB", Some(1 << 20)),
            ("1t", Some(1 << 40)),
            ("10b", Some(10)),
            ("1.5g", None),
            ("2x", None),
            ("99999999999999999999g", None),
            ("99999999999p", None),
        ] {
            assert_eq!(bytes(text, MEBIBYTE), expected, "{text}");
        }
    }
}
