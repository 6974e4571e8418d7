//! What holds of any configuration.

use super::effective::{Effective, is_secret};
use super::{Config, ENV_PREFIX, EnvValue, Mistake, Origin, spark};

/// A file, and after it overrides, a part each: it is taken, or refused with what is wrong and where; and what is taken
/// can be shown, and what is shown be taken, as the same (spec C-2 to C-4).
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split("\n%\n");
    let file = parts.next().unwrap_or_default();
    let (env, sets): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with(ENV_PREFIX));
    let env = env.iter().filter_map(|part| part.split_once('='));
    let env = env.map(|(name, raw)| (name.to_owned(), raw.to_owned()));
    let sets: Vec<String> = sets.iter().map(|part| (*part).to_owned()).collect();
    match Config::explain_toml(file, "fuzz.toml", env, &sets) {
        Ok((config, effective)) => is_shown_as_it_is(config, &effective),
        Err(error) => {
            assert!(!error.mistakes.is_empty(), "refused for nothing");
            for mistake in &error.mistakes {
                is_placed(file, mistake);
            }
            assert!(!error.to_string().trim().is_empty());
        }
    }
}

fn is_placed(file: &str, mistake: &Mistake) {
    assert!(!mistake.found.is_empty(), "{mistake:?}");
    if let Origin::File { line, column } = mistake.origin {
        // One line past the end is where something is missing.
        assert!(line >= 1 && column >= 1, "{mistake:?}");
        assert!(line <= file.split('\n').count() + 1, "{mistake:?}");
    }
}

fn is_shown_as_it_is(mut config: Config, effective: &Effective) {
    let shown = effective.to_string();
    let again = Config::from_toml(&shown, "shown.toml", [], &[]);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{shown}"));
    // What is secret is not in what is shown.
    let hidden = || Effective::HIDDEN.trim_matches('"').to_owned();
    for profile in config.profiles.values_mut() {
        for (name, value) in &mut profile.env {
            if let EnvValue::Text(text) = value
                && is_secret(&format!("env.{name}"))
            {
                *text = hidden();
            }
        }
    }
    for (name, text) in &mut config.app.properties {
        if is_secret(&format!("properties.{name}")) {
            *text = hidden();
        }
    }
    assert_eq!(config, again, "{shown}");
}

/// A file of Spark's: what is made of it can be used as it stands, but for an image (spec C-7).
pub fn spark(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let made = spark::convert(&text);
    if let Err(error) = Config::from_toml(&made, "made.toml", [], &[]) {
        for mistake in &error.mistakes {
            let missing = mistake.key.ends_with(".image") && mistake.found.starts_with("missing");
            assert!(missing, "{error}\n{made}");
        }
    }
}
