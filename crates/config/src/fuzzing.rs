//! Fuzz targets for the configuration.

use super::effective::{Effective, Setting};
use super::secrets::{HIDDEN, is_secret};
use super::{Config, ENV_PREFIX, EnvValue, Mistake, Origin, spark};

/// Splits the data into a file and overrides. The configuration is either accepted, or refused with
/// positions. An accepted configuration can be printed, and reading the printed text gives the same
/// configuration (spec C-2 to C-4).
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
        // A missing key is reported one line past the end.
        assert!(line >= 1 && column >= 1, "{mistake:?}");
        assert!(line <= file.split('\n').count() + 1, "{mistake:?}");
    }
}

fn is_shown_as_it_is(mut config: Config, effective: &Effective) {
    let shown = effective.to_string();
    let again = Config::from_toml(&shown, "shown.toml", [], &[]);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{shown}"));
    // Secrets are not printed, so they are excluded from the comparison.
    let by_value = |setting: &Setting| {
        let value = setting.value.as_deref().unwrap_or_default();
        value.contains(HIDDEN) && !is_secret(&setting.key)
    };
    if effective.settings.iter().any(by_value) {
        return;
    }
    let hidden = || HIDDEN.trim_matches('"').to_owned();
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

/// Converts Spark's configuration. The result is a valid configuration, except that it may lack an
/// image (spec C-7); or it is said why there is none.
pub fn spark(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(made) = spark::convert(&text) else {
        return;
    };
    if let Err(error) = Config::from_toml(&made, "made.toml", [], &[]) {
        for mistake in &error.mistakes {
            let missing = mistake.key.ends_with(".image") && mistake.found.starts_with("missing");
            assert!(missing, "{error}\n{made}");
        }
    }
}
