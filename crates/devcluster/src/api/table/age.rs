//! Formats ages as kubectl does, in the two largest units that matter.

use jiff::Timestamp;

/// The age of a timestamp; `<unknown>` if it is none.
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => human(now.as_second() - then.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, other: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{other}"),
    };
    let (minutes, hours, days) = (seconds / MINUTE, seconds / HOUR, seconds / DAY);
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % MINUTE, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if seconds < 2 * YEAR => format!("{days}d"),
        _ if seconds < 8 * YEAR => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_formatted_in_its_largest_units() {
        const DAY: i64 = 24 * 3_600;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (600, "10m"),
            (3 * 3_600 - 1, "179m"),
            (3 * 3_600, "3h"),
            (3 * 3_600 + 60, "3h1m"),
            (8 * 3_600 + 60, "8h"),
            (47 * 3_600, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3_600, "2d1h"),
            (8 * DAY + 3_600, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn an_invalid_timestamp_has_an_unknown_age() {
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
