//! Parses and formats resource quantities, such as `500m` or `1Gi`.

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

/// The largest amount with a binary suffix.
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANO;

/// Parses an amount, in billionths (10⁻⁹); `None` if the text is not a quantity. Larger amounts become the largest
/// representable one.
pub fn parse(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    // A number too long to parse exceeds any amount; what remains cannot overflow.
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().unwrap_or(i128::MAX)
    };
    let fraction: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let nano = whole.saturating_mul(NANO).saturating_add(fraction);
    let amount = match suffix {
        "n" => nano / NANO,
        "u" => nano / 1_000_000,
        "m" => nano / 1_000,
        "" => nano,
        "k" => nano.saturating_mul(1_000),
        "M" => nano.saturating_mul(1_000_000),
        "G" => nano.saturating_mul(NANO),
        "T" => nano.saturating_mul(1_000 * NANO),
        "P" => nano.saturating_mul(1_000_000 * NANO),
        "E" => nano.saturating_mul(NANO * NANO),
        "Ki" => binary(nano, 10),
        "Mi" => binary(nano, 20),
        "Gi" => binary(nano, 30),
        "Ti" => binary(nano, 40),
        "Pi" => binary(nano, 50),
        "Ei" => binary(nano, 60),
        _ => exponent(suffix, nano)?,
    };
    Some(if negative { -amount } else { amount })
}

/// `nano` times 2 to the power `power`, capped.
fn binary(nano: i128, power: u32) -> i128 {
    nano.saturating_mul(1 << power).min(LARGEST_BINARY)
}

/// The form in which real servers store a quantity: `1000m` becomes `1`, `0.5` becomes `500m`, `1024Mi` becomes `1Gi`.
///
/// # Errors
///
/// If the text is not a quantity, the error message of a real server.
pub fn normalized(text: &str) -> Result<String, &'static str> {
    let Some(nano) = parse(text) else {
        return Err(wrong(text));
    };
    // Real servers keep no fraction of a thousandth of these.
    let nano = nano.div_euclid(MILLI) * MILLI + i128::from(nano.rem_euclid(MILLI) != 0) * MILLI;
    let suffix = text.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let small = nano.unsigned_abs() < 1_024 * NANO.unsigned_abs();
    Ok(match suffix {
        _ if suffix.ends_with('i') && !small => canonical(nano, true),
        _ if suffix.starts_with(['e', 'E']) && suffix.len() > 1 => exponential(nano),
        _ => canonical(nano, false),
    })
}

fn wrong(text: &str) -> &'static str {
    let number = text.trim_start_matches(|c: char| matches!(c, '0'..='9' | '.' | '+' | '-'));
    let is_suffix = |c: char| "eEinumkKMGTP".contains(c);
    let rest = number.trim_start_matches(is_suffix);
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    if number.len() == text.len() || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    }
    if number.is_empty() {
        return "unable to parse numeric part of quantity";
    }
    "unable to parse quantity's suffix"
}

/// Scientific notation, as `12e3`. The exponent is a multiple of three.
fn exponential(nano: i128) -> String {
    let (mut amount, mut power) = (nano, -9);
    while amount != 0 && amount % 1_000 == 0 {
        (amount, power) = (amount / 1_000, power + 3);
    }
    match (amount, power) {
        (0, _) => "0".to_owned(),
        (_, 0) => amount.to_string(),
        _ => format!("{amount}e{power}"),
    }
}

/// The canonical form: the largest suffix that leaves an integer.
pub fn canonical(nano: i128, is_binary: bool) -> String {
    if nano % NANO != 0 {
        return match () {
            () if nano % 1_000_000 == 0 => format!("{}m", nano / 1_000_000),
            () if nano % 1_000 == 0 => format!("{}u", nano / 1_000),
            () => format!("{nano}n"),
        };
    }
    let whole = nano / NANO;
    let (base, units) = if is_binary {
        (1_024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        (1_000, ["k", "M", "G", "T", "P", "E"])
    };
    let (mut amount, mut unit) = (whole, "");
    for larger in units {
        if amount == 0 || amount % base != 0 {
            break;
        }
        (amount, unit) = (amount / base, larger);
    }
    format!("{amount}{unit}")
}

fn exponent(suffix: &str, nano: i128) -> Option<i128> {
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let factor = 10_i128
        .checked_pow(power.unsigned_abs())
        .unwrap_or(i128::MAX);
    Some(if power < 0 {
        nano / factor
    } else {
        nano.saturating_mul(factor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_amounts_parse_equally_whatever_their_suffix() {
        assert_eq!(parse("1"), parse("1000m"));
        assert_eq!(parse("1.5"), parse("1500m"));
        assert_eq!(parse("1Gi"), parse("1024Mi"));
        assert_eq!(parse("2e3"), parse("2k"));
        assert!(parse("-1") < parse("0"));
        for bad in ["", "abc", "1x", "1.2.3", "--1", "m", "1 "] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn amounts_are_formatted_with_the_largest_suffix_that_fits() {
        for (text, is_binary) in [
            ("0", false),
            ("3", false),
            ("1500m", false),
            ("2k", false),
            ("1Gi", true),
            ("1536Mi", true),
            ("7n", false),
            ("-1", false),
        ] {
            let amount = parse(text).expect("an amount");
            assert_eq!(canonical(amount, is_binary), text);
        }
        assert_eq!(
            parse("1000000Ki").map(|a| canonical(a, true)).as_deref(),
            Some("1000000Ki")
        );
    }

    #[test]
    fn amounts_are_normalized_as_on_real_servers() {
        for (sent, kept) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.0", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("97.332Mi", "102059999232m"),
            ("102060000", "102060k"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("100M", "100M"),
            ("1000M", "1G"),
            ("1e3", "1e3"),
            ("12E4", "120e3"),
            ("3E", "3E"),
            ("0", "0"),
            ("-1", "-1"),
            ("16Ei", "9223372036854775807"),
            ("-16Ei", "-9223372036854775807"),
            (
                "266666666666666666666666666666666666666666666666666666Gi",
                "9223372036854775807",
            ),
        ] {
            assert_eq!(normalized(sent).as_deref(), Ok(kept), "{sent}");
        }
        for (bad, why) in [
            ("abc", "must match"),
            ("1Q", "must match"),
            ("1km", "suffix"),
            ("1.2.3", "numeric"),
        ] {
            let why_not = normalized(bad).expect_err(bad);
            assert!(why_not.contains(why), "{bad}: {why_not}");
        }
    }

    proptest! {
        #[test]
        fn normalization_keeps_the_amount_and_is_idempotent(text in "[0-9]{1,6}(\\.[0-9]{1,3})?(m|k|M|G|Ki|Mi|Gi|e3)?") {
            let kept = normalized(&text).expect("a quantity");
            // A binary amount that is no multiple of a unit (97.332Mi) is stored and read as a decimal.
            let again = normalized(&kept).expect("a quantity");
            prop_assert_eq!(parse(&again), parse(&kept));
            prop_assert_eq!(normalized(&again).expect("a quantity"), again.clone());
            let (sent, kept) = (parse(&text).expect("an amount"), parse(&kept).expect("an amount"));
            prop_assert!((sent..sent + NANO).contains(&kept));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in ".*", number in "[0-9.eEkMGi+-]{0,80}") {
            parse(&text);
            parse(&number);
        }
    }
}
