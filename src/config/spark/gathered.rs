//! Converts what Spark spreads over several keys and boatswain has in one: volumes, devices, the
//! decommission label.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// A boatswain key that is made from several Spark keys.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gathered {
    pub section: &'static str,
    /// The key in the section.
    pub key: &'static str,
    pub value: Value,
    /// The Spark keys that it is made from.
    pub from: Vec<String>,
}

impl Gathered {
    pub fn of_profile(key: &'static str, value: impl Into<Value>, from: Vec<String>) -> Self {
        Self {
            section: "profiles.default",
            key,
            value: value.into(),
            from,
        }
    }
}

const VOLUMES: &str = "spark.kubernetes.executor.volumes.";
const SECRETS: &str = "spark.kubernetes.executor.secrets.";
const DEVICES: &str = "spark.executor.resource.";
const LABEL: &str = "spark.kubernetes.executor.decommissionLabel";
const LABEL_VALUE: &str = "spark.kubernetes.executor.decommissionLabelValue";

/// Combines these keys. Also returns what is not converted, with the reason.
pub(super) fn gather(set: &BTreeMap<&str, &str>) -> (Vec<Gathered>, Vec<String>) {
    let mut refused = Vec::new();
    let mut gathered = Vec::new();
    let (volumes, from) = volumes(set, &mut refused);
    if !volumes.is_empty() {
        gathered.push(Gathered::of_profile("volumes", volumes, from));
    }
    let (devices, from) = devices(set, &mut refused);
    if !devices.is_empty() {
        gathered.push(Gathered::of_profile("resources", devices, from));
    }
    match (set.get(LABEL), set.get(LABEL_VALUE)) {
        (Some(label), value) => gathered.push(Gathered {
            section: "backend",
            key: "decommission_label",
            value: format!("{label}={}", value.copied().unwrap_or_default()).into(),
            from: std::iter::once(LABEL.to_owned())
                .chain(value.map(|_| LABEL_VALUE.to_owned()))
                .collect(),
        }),
        (None, Some(_)) => refused.push(format!("{LABEL_VALUE}: there is no {LABEL} beside it")),
        (None, None) => {}
    }
    (gathered, refused)
}

/// The settings of one volume.
type Parts<'s> = BTreeMap<&'s str, &'s str>;

fn volumes(set: &BTreeMap<&str, &str>, refused: &mut Vec<String>) -> (Vec<Value>, Vec<String>) {
    let mut said: BTreeMap<(&str, &str), (Parts<'_>, Vec<String>)> = BTreeMap::new();
    for (key, value) in set {
        let Some(rest) = key.strip_prefix(VOLUMES) else {
            continue;
        };
        let mut parts = rest.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(kind), Some(name), Some(part)) => {
                let (parts, from) = said.entry((kind, name)).or_default();
                parts.insert(part, value);
                from.push((*key).to_owned());
            }
            _ => refused.push(format!(
                "{key}: it names no kind of volume, no volume, or nothing of it"
            )),
        }
    }
    let (mut volumes, mut all_from) = (Vec::new(), Vec::new());
    for ((kind, name), (parts, from)) in said {
        match volume(kind, name, &parts) {
            Ok(volume) => {
                volumes.push(Value::Table(volume));
                all_from.extend(from);
            }
            Err(why) => refused.push(format!("{}: {why}", from.join(", "))),
        }
    }
    for (key, path) in set {
        if let Some(secret) = key.strip_prefix(SECRETS) {
            let mut volume = Table::new();
            // The name that Spark gives the volume.
            put(&mut volume, "name", format!("{secret}-volume"));
            put(&mut volume, "mount_path", *path);
            put(&mut volume, "secret", secret);
            volumes.push(Value::Table(volume));
            all_from.push((*key).to_owned());
        }
    }
    (volumes, all_from)
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn volume(kind: &str, name: &str, parts: &Parts<'_>) -> Result<Table, String> {
    let mut volume = Table::new();
    put(&mut volume, "name", name);
    let mount = parts.get("mount.path").ok_or("it is mounted nowhere")?;
    put(&mut volume, "mount_path", *mount);
    if let Some(path) = parts.get("mount.subPath") {
        put(&mut volume, "sub_path", *path);
    }
    if let Some(flag) = parts.get("mount.readOnly") {
        let flag: bool = flag
            .parse()
            .map_err(|_| "mount.readOnly is neither true nor false")?;
        put(&mut volume, "read_only", flag);
    }
    let known: &[(&str, &str)] = match kind {
        "emptyDir" => {
            put(&mut volume, "empty_dir", true);
            &[
                ("options.medium", "medium"),
                ("options.sizeLimit", "size_limit"),
            ]
        }
        "hostPath" => &[
            ("options.path", "host_path"),
            ("options.type", "host_path_type"),
        ],
        "persistentVolumeClaim" => &[("options.claimName", "claim")],
        _ => {
            return Err(format!(
                "there is no key for volumes of kind {kind}; a template can have them"
            ));
        }
    };
    if parts.get("options.claimName") == Some(&"OnDemand") {
        return Err("a claim for each executor is not taken over".to_owned());
    }
    for (part, key) in known {
        if let Some(value) = parts.get(part) {
            put(&mut volume, key, *value);
        }
    }
    let of_mount = ["mount.path", "mount.subPath", "mount.readOnly"];
    let unknown = (parts.keys())
        .find(|part| !of_mount.contains(part) && known.iter().all(|(known, _)| known != *part));
    match unknown {
        None => Ok(volume),
        Some(part) => Err(format!("there is no key for {part}")),
    }
}

fn devices(set: &BTreeMap<&str, &str>, refused: &mut Vec<String>) -> (Table, Vec<String>) {
    let (mut devices, mut from) = (Table::new(), Vec::new());
    for (key, amount) in set {
        let Some((name, part)) = key
            .strip_prefix(DEVICES)
            .and_then(|rest| rest.split_once('.'))
        else {
            continue;
        };
        let vendor_key = format!("{DEVICES}{name}.vendor");
        match part {
            "amount" => match (set.get(&*vendor_key), amount.parse::<i64>()) {
                (Some(vendor), Ok(amount)) => {
                    devices.insert(format!("{vendor}/{name}"), Value::Integer(amount));
                    from.extend([(*key).to_owned(), vendor_key]);
                }
                (None, _) => refused.push(format!("{key}: there is no {vendor_key} beside it")),
                (_, Err(_)) => refused.push(format!("{key}: {amount:?} is not a whole number")),
            },
            "vendor" if set.contains_key(&*format!("{DEVICES}{name}.amount")) => {}
            _ => refused.push(format!("{key}: the program finds its devices by itself")),
        }
    }
    (devices, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(set: &[(&'static str, &'static str)]) -> (Vec<(String, String)>, Vec<String>) {
        let (gathered, refused) = gather(&set.iter().copied().collect());
        let shown = gathered
            .into_iter()
            .map(|made| (made.key.to_owned(), made.value.to_string()));
        (shown.collect(), refused)
    }

    // spec: C-7, K-5
    #[test]
    fn a_volume_is_gathered_from_its_keys() {
        let of = |rest: &'static str, value| (rest, value);
        let (shown, refused) = made(&[
            of(
                "spark.kubernetes.executor.volumes.emptyDir.spill.mount.path",
                "/spill",
            ),
            of(
                "spark.kubernetes.executor.volumes.emptyDir.spill.options.sizeLimit",
                "5Gi",
            ),
            of(
                "spark.kubernetes.executor.volumes.nfs.home.mount.path",
                "/home",
            ),
            of("spark.kubernetes.executor.secrets.keys", "/etc/keys"),
        ]);
        let [(key, value)] = &shown[..] else {
            panic!("{shown:?}")
        };
        assert_eq!(key, "volumes");
        for part in [
            "empty_dir = true",
            "size_limit = \"5Gi\"",
            "secret = \"keys\"",
            "mount_path = \"/etc/keys\"",
        ] {
            assert!(value.contains(part), "{part} in {value}");
        }
        assert!(refused[0].contains("volumes of kind nfs"), "{refused:?}");
    }

    // spec: C-7, K-5
    #[test]
    fn a_device_needs_its_vendor() {
        let (amount, vendor) = (
            "spark.executor.resource.gpu.amount",
            "spark.executor.resource.gpu.vendor",
        );
        let (shown, refused) = made(&[(amount, "2"), (vendor, "nvidia.com")]);
        assert_eq!(
            shown,
            [(
                "resources".to_owned(),
                "{ \"nvidia.com/gpu\" = 2 }".to_owned()
            )]
        );
        assert!(refused.is_empty());
        let (shown, refused) = made(&[(amount, "2")]);
        assert!(
            shown.is_empty() && refused[0].contains(vendor),
            "{refused:?}"
        );
    }
}
