//! What a look at the files of a certificate means: a new certificate, a complaint, or nothing
//! (spec O-114). Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::{Certificate, Unusable};

/// The content of the two files.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

/// What to do after a look.
#[derive(Debug)]
pub enum Step {
    Nothing,
    /// The files have another certificate, which is used from now on.
    Use(Certificate),
    /// The files cannot be used. The earlier certificate stays. Said once for the same cause.
    Complain(String),
}

/// What was read last.
#[derive(Debug, Default)]
pub struct Reload {
    used: Option<Contents>,
    complaint: Option<String>,
}

impl Reload {
    /// `names` are those of certificate and key in error messages.
    pub fn look(&mut self, read: Result<Contents, String>, names: (&str, &str)) -> Step {
        let contents = match read {
            Ok(contents) if self.used.as_ref() == Some(&contents) => {
                self.complaint = None;
                return Step::Nothing;
            }
            Ok(contents) => contents,
            Err(why) => return self.complain(why),
        };
        match certificate(&contents, names) {
            Ok(certificate) => {
                self.used = Some(contents);
                self.complaint = None;
                Step::Use(certificate)
            }
            Err(why) => self.complain(why.to_string()),
        }
    }

    fn complain(&mut self, why: String) -> Step {
        if self.complaint.as_ref() == Some(&why) {
            return Step::Nothing;
        }
        self.complaint = Some(why.clone());
        Step::Complain(why)
    }
}

fn certificate(contents: &Contents, names: (&str, &str)) -> Result<Certificate, Unusable> {
    Certificate::of_pem(&contents.certificate, &contents.key, names)
}

/// How long before its expiry a certificate is warned about: a week, or a sixth of its life if that
/// is shorter. Whoever renews certificates has done so by then.
const WARN_BEFORE: Duration = Duration::from_secs(7 * 24 * 3600);

/// From one warning to the next.
const WARN_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// When the last warning about an expiry was given.
#[derive(Debug, Default)]
pub struct Expiry {
    warned: Option<Timestamp>,
}

impl Expiry {
    /// Whether to warn now about a certificate that is valid within these bounds.
    pub fn warns(&mut self, from: Timestamp, until: Timestamp, now: Timestamp) -> bool {
        let span = |from: Timestamp, to: Timestamp| {
            Duration::try_from(to.duration_since(from)).unwrap_or_default()
        };
        let before = WARN_BEFORE.min(span(from, until) / 6);
        if span(now, until) > before {
            self.warned = None;
            return false;
        }
        let again = self.warned.is_none_or(|last| span(last, now) >= WARN_AGAIN);
        if again {
            self.warned = Some(now);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const NAMES: (&str, &str) = ("tls.crt", "tls.key");

    fn pair() -> Contents {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        Contents {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    // spec: O-114
    #[test]
    fn a_new_pair_is_used_and_half_of_one_leaves_the_earlier() {
        let mut reload = Reload::default();
        let (first, second) = (pair(), pair());
        let used = reload.look(Ok(first.clone()), NAMES);
        assert!(matches!(used, Step::Use(_)), "{used:?}");
        assert!(matches!(
            reload.look(Ok(first.clone()), NAMES),
            Step::Nothing
        ));
        let half = Contents {
            key: first.key.clone(),
            ..second.clone()
        };
        let Step::Complain(why) = reload.look(Ok(half.clone()), NAMES) else {
            panic!("half a pair is used");
        };
        assert!(
            why.contains("tls.key is not that of") && why.contains("tls.crt"),
            "{why}"
        );
        let again = reload.look(Ok(half), NAMES);
        assert!(matches!(again, Step::Nothing), "it is said once: {again:?}");
        assert!(matches!(reload.look(Ok(second), NAMES), Step::Use(_)));
    }

    // spec: O-114
    #[test]
    fn files_that_cannot_be_read_or_parsed_are_complained_about_once_for_each_cause() {
        let mut reload = Reload::default();
        let first = pair();
        reload.look(Ok(first.clone()), NAMES);
        for (read, part) in [
            (Err("no such file".to_owned()), "no such file"),
            (
                Ok(Contents {
                    certificate: "nonsense".to_owned(),
                    ..first.clone()
                }),
                "tls.crt contains no certificate",
            ),
            (
                Ok(Contents {
                    key: String::new(),
                    ..first.clone()
                }),
                "tls.key contains no private key",
            ),
        ] {
            let Step::Complain(why) = reload.look(read.clone(), NAMES) else {
                panic!("{part}");
            };
            assert!(why.contains(part), "{why}");
            assert!(matches!(reload.look(read, NAMES), Step::Nothing), "{part}");
        }
        // The same files again: all is well, and what is wrong later is said again.
        assert!(matches!(reload.look(Ok(first), NAMES), Step::Nothing));
        let later = reload.look(Err("no such file".to_owned()), NAMES);
        assert!(matches!(later, Step::Complain(_)), "{later:?}");
    }

    // spec: O-114
    #[test]
    fn an_expiry_is_warned_about_a_week_before_and_then_daily_but_sooner_for_short_lives() {
        let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
        let (quarter, day) = (90 * 24, 24);
        let mut expiry = Expiry::default();
        for (hour, warns) in [
            (0, false),
            (quarter - 7 * 24 - 1, false),
            (quarter - 7 * 24, true),
            (quarter - 7 * 24 + 1, false),
            (quarter - 6 * 24, true),
            (quarter, true),
            (quarter + 1, false),
            (quarter + 25, true),
        ] {
            let warned = expiry.warns(at(0), at(quarter), at(hour));
            assert_eq!(warned, warns, "{hour}");
        }
        let mut expiry = Expiry::default();
        assert!(
            !expiry.warns(at(0), at(day), at(19)),
            "it is renewed after 16 h"
        );
        assert!(expiry.warns(at(0), at(day), at(20)));
    }
}
