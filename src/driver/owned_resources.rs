//! The owned resources: the ConfigMap that executors mount (spec K-8), and the Service that leads
//! to the driver (spec K-9).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use boatswain_agent::file;

use crate::config::{ClaimOwner, Config, holds_secret, is_secret};
use crate::kubernetes::owned_resources::{Content, OwnedResource, config_map, service};
use crate::kubernetes::record::RecordPlace;
use crate::model::AppId;
use crate::server::tls::is_ca;

use super::lease::ACTIVE;

/// The ConfigMap's key of the application's properties.
const PROPERTIES: &str = "properties.json";

/// The ConfigMap's key of the CA's certificates, which executors trust.
pub(super) const CA: &str = "ca.crt";

/// The configuration's key of the CA that executors are to trust.
const CA_FILE: &str = "tls.ca_file";

/// The most bytes of all values of a ConfigMap together.
const MOST_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    #[error("{key}: {path} cannot be read: {source}")]
    Unreadable {
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("tls.ca_file: {0} contains no certificate in PEM: -----BEGIN CERTIFICATE-----")]
    NoCa(PathBuf),
    #[error(
        "config_map.files: {0} has a name that a ConfigMap cannot have: letters, digits, dashes, dots and underscores are allowed"
    )]
    Name(PathBuf),
    #[error("config_map.files: two have the name {0}: rename one, or leave it out")]
    Twice(String),
    #[error(
        "the application's ConfigMap would have {bytes} bytes, {MOST_BYTES} are allowed; the largest part is {largest}: \
         leave out config_map.files, put them into the image, or switch it off with config_map.enabled = false"
    )]
    TooLarge { bytes: usize, largest: String },
}

/// The content of the ConfigMap that executors mount; `None` if it would be empty or is switched
/// off.
///
/// # Errors
/// If a file is unreadable or has an invalid name, or if the ConfigMap would be too large.
pub(super) fn content(config: &Config) -> Result<Option<Content>, ContentError> {
    let Some(parts) = parts(config)? else {
        return Ok(None);
    };
    let read = |part: Part| (file::read(&part.path), part);
    made(config, parts.into_iter().map(read)).map(Some)
}

/// As [`content`]. Each file is read on a thread of its own and within a time limit (spec O-129).
///
/// # Errors
/// As [`content`], and if reading a file takes too long.
pub(super) async fn content_in_time(config: &Config) -> Result<Option<Content>, ContentError> {
    let Some(parts) = parts(config)? else {
        return Ok(None);
    };
    let mut read = Vec::new();
    for part in parts {
        let path = part.path.clone();
        let bytes = file::aside(move || file::read(&path)).await.flatten();
        let is_read = bytes.is_ok();
        read.push((bytes, part));
        // Others may be on the same mount.
        if !is_read {
            break;
        }
    }
    made(config, read).map(Some)
}

/// A file that is part of the content.
struct Part {
    /// The key of the configuration that names it.
    key: &'static str,
    path: PathBuf,
    /// Its key in the ConfigMap.
    name: String,
}

impl Part {
    fn unreadable(&self, source: io::Error) -> ContentError {
        ContentError::Unreadable {
            key: self.key,
            path: self.path.clone(),
            source,
        }
    }
}

/// The files that are part of the content; `None` if there is no content.
fn parts(config: &Config) -> Result<Option<Vec<Part>>, ContentError> {
    let map = &config.config_map;
    let has_properties = properties(config).next().is_some();
    let hands_out_ca = hands_out_ca(config);
    if !map.enabled || !has_properties && map.files.is_empty() && !hands_out_ca {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    names.extend(hands_out_ca.then(|| CA.to_owned()));
    names.extend(has_properties.then(|| PROPERTIES.to_owned()));
    let ca = config.tls.ca_file.as_ref().filter(|_| hands_out_ca);
    let ca = ca.map(|path| Part {
        key: CA_FILE,
        path: path.clone(),
        name: CA.to_owned(),
    });
    let mut parts: Vec<Part> = ca.into_iter().collect();
    for path in &map.files {
        let name = key(path).ok_or_else(|| ContentError::Name(path.clone()))?;
        if !names.insert(name.clone()) {
            return Err(ContentError::Twice(name));
        }
        parts.push(Part {
            key: "config_map.files",
            path: path.clone(),
            name,
        });
    }
    Ok(Some(parts))
}

/// The application's properties without secrets, because ConfigMaps are less protected. Executors get secret properties
/// when they register.
fn properties(config: &Config) -> impl Iterator<Item = (&String, &String)> {
    (config.app.properties.iter())
        .filter(|(name, text)| !is_secret(&format!("properties.{name}")) && !holds_secret(text))
}

/// The content with these files.
fn made(
    config: &Config,
    read: impl IntoIterator<Item = (io::Result<Vec<u8>>, Part)>,
) -> Result<Content, ContentError> {
    let mut content = Content::default();
    let mut sizes = BTreeMap::new();
    if hands_out_ca(config) {
        // Unless a file has it.
        (content.texts).insert(CA.to_owned(), GENERATED_CA.to_owned());
        sizes.insert(CA.to_owned(), GENERATED_CA.len());
    }
    let properties: BTreeMap<_, _> = properties(config).collect();
    if !properties.is_empty() {
        // Serializing a map of strings does not fail.
        let text = serde_json::to_string_pretty(&properties).unwrap_or_default();
        sizes.insert(PROPERTIES.to_owned(), text.len());
        content.texts.insert(PROPERTIES.to_owned(), text);
    }
    for (bytes, part) in read {
        let bytes = bytes.map_err(|error| part.unreadable(error))?;
        sizes.insert(part.name.clone(), bytes.len());
        match String::from_utf8(bytes) {
            Ok(text) if part.key == CA_FILE && !is_ca(&text) => {
                return Err(ContentError::NoCa(part.path));
            }
            Ok(text) => drop(content.texts.insert(part.name, text)),
            Err(error) if part.key == CA_FILE => {
                return Err(part.unreadable(io::Error::other(error)));
            }
            Err(bytes) => {
                let encoded = BASE64.encode(bytes.as_bytes());
                content.bytes.insert(part.name, encoded);
            }
        }
    }
    let bytes: usize = sizes.values().sum();
    if bytes > MOST_BYTES {
        let largest = sizes.into_iter().max_by_key(|(_, size)| *size);
        let largest = largest.map_or_else(String::new, |(name, size)| format!("{name}, {size}"));
        return Err(ContentError::TooLarge { bytes, largest });
    }
    Ok(content)
}

/// Stands for the CA's certificate until the driver has read or made it.
const GENERATED_CA: &str = "# The driver writes the certificate of its CA here.\n";

/// Whether executors get a CA that they trust the driver's certificate by.
pub(super) fn hands_out_ca(config: &Config) -> bool {
    let sessions = &config.backend.sessions;
    let has_ca = config.tls.generate || config.tls.ca_file.is_some();
    has_ca && sessions.listen.is_some() && !sessions.plain_http
}

/// Puts the certificates of the driver's own CA where executors find them, if they need them.
pub(super) fn hand_out(trusted: String, content: &mut Content) {
    if let Some(ca) = content.texts.get_mut(CA) {
        *ca = trusted;
    }
}

/// The file's name; `None` if it cannot be a key of a ConfigMap.
fn key(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let inner = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let fits = name.len() <= 253 && name.chars().all(inner) && !matches!(name, "." | "..");
    (fits && !name.starts_with("..")).then(|| name.to_owned())
}

pub(super) fn all(
    config: &Config,
    place: &RecordPlace,
    app_id: &AppId,
    content: Option<&Content>,
) -> Vec<OwnedResource> {
    let sessions = &config.backend.sessions;
    let map = content.map(|content| config_map(place, app_id, content));
    let service = (sessions.service_port())
        .map(|port| service(place, app_id, &service_selector(config), port));
    map.into_iter().chain(service).collect()
}

/// With the Lease, the Service leads to the pod whose driver holds it (spec O-93).
fn service_selector(config: &Config) -> BTreeMap<String, String> {
    let mut selector = config.backend.sessions.service_selector.clone();
    if config.ha.lease && config.driver.pod_name.is_some() {
        selector.insert(ACTIVE.to_owned(), "true".to_owned());
    }
    selector
}

/// Whether executors leave claims that other executors may reuse.
pub(super) fn has_claims(config: &Config) -> bool {
    let mut claims = config.profiles.values().flat_map(|profile| &profile.claims);
    claims.any(|claim| claim.owner == ClaimOwner::Application)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(files: &[&Path], properties: &[(&str, &str)]) -> Config {
        let mut config = Config::default();
        config.config_map.files = files.iter().map(|path| path.to_path_buf()).collect();
        config.app.properties = (properties.iter())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        config
    }

    // spec: O-93, K-9
    #[test]
    fn with_the_lease_the_service_selects_the_pod_whose_driver_is_active() {
        let mut config = config(&[], &[]);
        let labels = [("app".to_owned(), "driver".to_owned())];
        config.backend.sessions.service_selector = labels.into();
        config.driver.pod_name = Some("driver-0".to_owned());
        assert!(!service_selector(&config).contains_key(ACTIVE));
        config.ha.lease = true;
        let selector = service_selector(&config);
        assert_eq!(selector.len(), 2);
        assert_eq!(selector[ACTIVE], "true");
    }

    // spec: K-8
    #[test]
    fn without_content_or_when_switched_off_there_is_no_config_map() {
        assert!(content(&config(&[], &[])).unwrap().is_none());
        let mut off = config(&[], &[("a", "1")]);
        assert!(content(&off).unwrap().is_some());
        off.config_map.enabled = false;
        assert!(content(&off).unwrap().is_none());
    }

    // spec: K-8
    #[test]
    fn the_config_map_contains_properties_and_files_but_no_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let (text, binary) = (
            directory.path().join("log.conf"),
            directory.path().join("key"),
        );
        fs::write(&text, "level=info\n").unwrap();
        fs::write(&binary, [0xff, 0]).unwrap();
        let config = config(&[&text, &binary], &[("a", "1"), ("db.password", "x")]);
        let content = content(&config).unwrap().unwrap();
        assert_eq!(content.texts["log.conf"], "level=info\n");
        assert_eq!(content.texts[PROPERTIES], "{\n  \"a\": \"1\"\n}");
        assert_eq!(content.bytes["key"], "/wA=");
    }

    // spec: O-129
    #[tokio::test]
    async fn files_are_read_on_a_thread_of_their_own_and_a_pipe_among_them_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (text, pipe) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&text, "level=info\n").unwrap();
        let read = config(&[&text], &[("a", "1")]);
        let in_time = content_in_time(&read).await.unwrap();
        assert!(in_time.is_some() && in_time == content(&read).unwrap());
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let error = content_in_time(&config(&[&text, &pipe], &[])).await;
        let error = error.unwrap_err().to_string();
        let named = format!("config_map.files: {} cannot be read", pipe.display());
        assert!(
            error.contains(&named) && error.contains("put a file there"),
            "{error}"
        );
    }

    // spec: K-8
    #[test]
    fn a_config_map_above_the_limit_of_kubernetes_is_refused_before_any_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large.jar");
        let refused = |bytes: usize, properties: &[(&str, &str)]| {
            fs::write(&path, vec![b'x'; bytes]).unwrap();
            content(&config(&[&path], properties))
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(refused(MOST_BYTES, &[]), None);
        let why = refused(MOST_BYTES, &[("a", "1")]).unwrap();
        assert!(
            why.contains("1048590 bytes") && why.contains("large.jar, 1048576"),
            "{why}"
        );
    }

    // spec: K-8, O-53
    #[test]
    fn the_ca_is_handed_out_only_where_executors_need_it_and_only_if_it_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let mut config = config(&[], &[]);
        config.tls.certificate_file = Some("c".into());
        config.tls.ca_file = Some(path.clone());
        config.backend.sessions.listen = Some("127.0.0.1:0".parse().unwrap());
        let why = |config: &Config| content(config).unwrap_err().to_string();
        assert!(why(&config).contains("tls.ca_file: "), "{}", why(&config));
        fs::write(&path, "nonsense").unwrap();
        assert!(why(&config).contains("contains no certificate"));
        let params = rcgen::CertificateParams::default();
        let key = rcgen::KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        fs::write(&path, &ca).unwrap();
        let handed_out = content(&config).unwrap().unwrap();
        assert_eq!(handed_out.texts[CA], ca);
        config.backend.sessions.plain_http = true;
        assert!(content(&config).unwrap().is_none());
    }

    // spec: K-8
    #[test]
    fn unusable_files_of_the_config_map_are_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a"), directory.path().join("b"));
        for directory in [&one, &other] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("x.conf"), "").unwrap();
        }
        let (one, other) = (one.join("x.conf"), other.join("x.conf"));
        let why = |files: &[&Path]| content(&config(files, &[])).unwrap_err().to_string();
        assert!(why(&[&one, &other]).contains("two have the name x.conf"));
        assert!(why(&[Path::new("/no/such/file")]).contains("/no/such/file cannot be read"));
        assert!(why(&[Path::new("/no/such file")]).contains("has a name"));
    }
}
