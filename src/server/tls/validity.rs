//! Reads from a certificate from when until when it is valid (RFC 5280, 4.1.2.5). Pure.

use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// From when until when this certificate, in DER, is valid; `None` if it cannot be parsed.
pub fn of(der: &[u8]) -> Option<Range<Timestamp>> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (body, _) = expect(certificate, SEQUENCE)?;
    let (tag, _, rest) = element(body)?;
    // Only certificates of the first version have none.
    let body = if tag == VERSION { rest } else { body };
    let (_, _serial, rest) = element(body)?;
    let (_, _algorithm, rest) = element(rest)?;
    let (_, _issuer, rest) = element(rest)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (tag, from, rest) = element(validity)?;
    let from = time(tag, from)?;
    let (tag, until, _) = element(rest)?;
    Some(from..time(tag, until)?)
}

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The first element: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = length
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0, |sum, b| sum * 10 + i16::from(b - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return None,
    };
    let mut parts = rest.chunks(2).map(|part| i8::try_from(number(part)).ok());
    let mut part = || parts.next().flatten();
    let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
    let date = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    // spec: O-114
    #[test]
    fn the_validity_is_read_on_both_sides_of_2050() {
        for (from, until) in [
            ((2024, 2, 29), (2049, 12, 31)),
            ((1999, 1, 1), (2050, 6, 1)),
        ] {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.not_before = date_time_ymd(from.0, from.1, from.2);
            params.not_after = date_time_ymd(until.0, until.1, until.2);
            let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let read = of(made.der()).unwrap();
            let shown = |(year, month, day)| format!("{year}-{month:02}-{day:02}T00:00:00Z");
            assert_eq!(read.start.to_string(), shown(from));
            assert_eq!(read.end.to_string(), shown(until));
        }
    }

    proptest! {
        // spec: O-114, I-11
        #[test]
        fn arbitrary_bytes_are_no_certificate(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = of(&bytes);
        }
    }

    // spec: O-114, I-11
    #[test]
    fn a_damaged_certificate_is_read_or_refused() {
        let params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        for at in 0..made.der().len() {
            for byte in [0, 0x17, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = made.der().to_vec();
                damaged[at] = byte;
                let _ = of(&damaged);
                let _ = of(&damaged[..at]);
            }
        }
    }
}
