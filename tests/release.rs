//! Every part of a release has the version of Cargo.toml, by which scripts/release names all of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn table(file: &str) -> toml::Table {
    read(file).parse().unwrap()
}

/// The text of the first element with this name.
fn first<'a>(name: &str, xml: &'a str) -> &'a str {
    let (_, rest) = xml.split_once(&format!("<{name}>")).unwrap();
    rest.split_once(&format!("</{name}>")).unwrap().0
}

#[test]
fn the_crates_need_each_other_in_exactly_this_version() {
    let manifest = table("Cargo.toml");
    let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
    let here: Vec<_> = dependencies
        .iter()
        .filter(|(_, dependency)| dependency.get("path").is_some())
        .collect();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    assert_eq!(here.len(), members.len(), "{here:?}");
    for (name, dependency) in here {
        let version = dependency["version"].as_str().unwrap();
        assert_eq!(version, format!("={VERSION}"), "{name}");
        let own = table(&format!(
            "{}/Cargo.toml",
            dependency["path"].as_str().unwrap()
        ));
        let inherits = own["package"]["version"]["workspace"].as_bool();
        assert_eq!(inherits, Some(true), "{name}");
    }
}

#[test]
fn the_chart_and_the_image_that_it_runs_have_this_version() {
    let chart: Value = serde_saphyr::from_str(&read("deploy/chart/Chart.yaml")).unwrap();
    assert_eq!(chart["version"], VERSION);
    assert_eq!(chart["appVersion"], VERSION);
}

#[test]
fn the_python_package_and_the_spark_adapter_have_this_version() {
    let python = table("adapters/python/pyproject.toml");
    assert_eq!(python["project"]["version"].as_str(), Some(VERSION));
    assert_eq!(first("version", &read("adapters/spark/pom.xml")), VERSION);
}

#[test]
fn the_newest_section_of_the_changelog_is_about_this_version() {
    let changelog = read("CHANGELOG.md");
    let mut headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    assert_eq!(headings.next(), Some(VERSION));
}

#[test]
fn the_pages_say_how_to_get_this_version() {
    let readme = read("README.md");
    for name in [
        format!("OWNER/boatswain:{VERSION} "),
        format!("boatswain-{VERSION}-x86_64-linux.tar.gz"),
        format!("charts/boatswain --version {VERSION}`"),
    ] {
        assert!(readme.contains(&name), "README.md lacks {name}");
    }
    let jar = format!("_2.13-{VERSION}.jar");
    assert!(
        read("docs/spark.md").contains(&jar),
        "docs/spark.md lacks {jar}"
    );
}
