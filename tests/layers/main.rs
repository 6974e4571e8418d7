//! Compares the modules' uses of each other with the table of layers in ARCHITECTURE.md.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod source;
mod table;
mod tokens;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use source::{Use, code};
use table::Table;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_module_uses_only_what_the_table_of_layers_permits() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut code = code(&root().join("src"));
    // Cargo keeps the borders of crates, which lib.rs names as if they were modules.
    code.uses.retain(|used| code.modules.contains(&used.to));
    assert!(code.modules.len() > 20 && code.uses.len() > 100, "{code:?}");
    let faults = Table::read(&text).faults(&code.modules, &code.uses);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_command_line_alone_uses_the_embedded_cluster() {
    let uses = code(&root().join("src")).uses;
    let of_cluster = uses.iter().filter(|used| used.to == "devcluster");
    let users: BTreeSet<_> = of_cluster.map(|used| used.from.as_str()).collect();
    assert_eq!(users, BTreeSet::from(["cli"]));
}

#[test]
fn the_crates_depend_on_no_crate_of_this_workspace_but_the_client_on_the_agent() {
    for name in ["devcluster", "agent"] {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        assert_eq!(dependencies_here(&manifest), BTreeSet::new(), "{name}");
    }
    let client = root().join("crates/client/Cargo.toml");
    let agent = BTreeSet::from(["boatswain-agent".to_owned()]);
    assert_eq!(dependencies_here(&client), agent);
    // The same check finds the driver's dependencies.
    let driver = dependencies_here(&root().join("Cargo.toml"));
    assert!(driver.contains("devcluster") && driver.contains("boatswain-agent"));
}

/// The dependencies of a package, of any kind, that are crates of this workspace.
fn dependencies_here(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let kinds = manifest
        .iter()
        .filter(|(key, _)| key.ends_with("dependencies"));
    let dependencies = kinds.flat_map(|(_, dependencies)| dependencies.as_table().unwrap());
    let here = dependencies.filter(|(name, of)| {
        of.get("path").is_some()
            || [
                "boatswain",
                "boatswain-agent",
                "boatswain-client",
                "boatswain-config",
                "boatswain-kubernetes",
                "boatswain-model",
                "devcluster",
            ]
            .contains(&name.as_str())
    });
    here.map(|(name, _)| name.clone()).collect()
}

const TABLE: &str = "
## Layers

| modules | what is in them | what they may use |
|---|---|---|
| `low` | values | nothing |
| `actors::left`, `actors::right` | actors | `low` |
| `high` | wiring | all of the above |

## Map

| `other` | a table of something else | |
";

fn faults(modules: &[&str], uses: &[(&str, &str)]) -> Vec<String> {
    let modules = modules.iter().map(|&name| name.to_owned()).collect();
    let uses = uses.iter().map(|(from, to)| Use {
        from: (*from).to_owned(),
        to: (*to).to_owned(),
        file: "src/x.rs".into(),
    });
    Table::read(TABLE).faults(&modules, &uses.collect::<Vec<_>>())
}

const MODULES: [&str; 4] = ["low", "actors::left", "actors::right", "high"];

#[test]
fn a_use_of_a_lower_layer_that_is_named_is_permitted() {
    let uses = [
        ("actors::left", "low"),
        ("high", "actors::right"),
        ("high", "low"),
    ];
    assert_eq!(faults(&MODULES, &uses), [""; 0]);
}

#[test]
fn a_use_of_a_higher_layer_or_of_the_same_is_a_fault() {
    assert_eq!(
        faults(
            &MODULES,
            &[("low", "high"), ("actors::left", "actors::right")]
        ),
        [
            "src/x.rs: `low` may not use `high`",
            "src/x.rs: `actors::left` may not use `actors::right`"
        ]
    );
}

#[test]
fn a_module_that_the_table_does_not_name_is_a_fault_and_a_name_without_module_too() {
    let modules = ["low", "actors::left", "high", "new"];
    assert_eq!(
        faults(&modules, &[]),
        [
            "the table does not name `new`",
            "the table names `actors::right`, which does not exist"
        ]
    );
}

#[test]
fn a_permission_that_is_no_lower_layer_is_a_fault_so_that_there_is_no_cycle() {
    let text = TABLE.replace("| values | nothing |", "| values | `high` |");
    let modules = MODULES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(
        Table::read(&text).faults(&modules, &[]),
        ["the table lets `low` use `high`, which is no lower layer"]
    );
}
