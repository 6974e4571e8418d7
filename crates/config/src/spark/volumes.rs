//! Converts the keys about volumes: those of each volume, of Secrets that are mounted, and of the
//! claims that Spark creates on demand.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::gathered::Gathered;

const VOLUMES: &str = "spark.kubernetes.executor.volumes.";
const SECRETS: &str = "spark.kubernetes.executor.secrets.";
/// Whether claims belong to the driver; in Spark by default.
const DRIVER_OWNS: &str = "spark.kubernetes.driver.ownPersistentVolumeClaim";
/// Whether all pods of a node can mount a claim; in Spark only one pod can by default.
const SHARED_BY_NODE: &str = "spark.kubernetes.legacy.useReadWriteOnceAccessMode";
const CLAIM: &str = "persistentVolumeClaim";
const CLAIM_NAME: &str = "options.claimName";
/// Instead of a claim's name: a new claim for each executor.
const ON_DEMAND: &str = "OnDemand";
/// What Spark replaces in a claim's name, so that each executor has a claim of its own.
const EXECUTOR_ID: &str = "SPARK_EXECUTOR_ID";

/// The settings of one volume.
type Parts<'s> = BTreeMap<&'s str, &'s str>;

/// The values of one key, and the Spark keys that they are made from.
type Volumes = (Vec<Value>, Vec<String>);

/// Combines these keys to volumes and claims. Adds what is not converted to `refused`, with the
/// reason.
pub(super) fn gather(
    set: &BTreeMap<&str, &str>,
    refused: &mut Vec<String>,
) -> impl Iterator<Item = Gathered> {
    let (mut volumes, mut claims) = (Volumes::default(), Volumes::default());
    for ((kind, name), (parts, from)) in by_volume(set, refused) {
        let (made, into) = match kind == CLAIM && is_on_demand(set, name) {
            true => (claim(name, &parts), &mut claims),
            false => (volume(kind, name, &parts), &mut volumes),
        };
        match made {
            Ok(made) => {
                into.0.push(Value::Table(made));
                into.1.extend(from);
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
            volumes.0.push(Value::Table(volume));
            volumes.1.push((*key).to_owned());
        }
    }
    describe_claims(set, &mut claims, refused);
    let keys = [("volumes", volumes), ("claims", claims)];
    let keys = keys.into_iter().filter(|(_, (made, _))| !made.is_empty());
    keys.map(|(key, (made, from))| Gathered::of_profile(key, made, from))
}

/// The settings of each volume, by its kind and name, and the keys that they come from.
fn by_volume<'s>(
    set: &BTreeMap<&'s str, &'s str>,
    refused: &mut Vec<String>,
) -> BTreeMap<(&'s str, &'s str), (Parts<'s>, Vec<String>)> {
    let mut volumes: BTreeMap<_, (Parts<'_>, Vec<String>)> = BTreeMap::new();
    for (key, value) in set {
        let Some(rest) = key.strip_prefix(VOLUMES) else {
            continue;
        };
        let mut parts = rest.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(CLAIM), Some(name), Some(part))
                if is_of_new_claims(part) && !is_on_demand(set, name) =>
            {
                refused.push(format!("{key}: {KEPT}"));
            }
            (Some(kind), Some(name), Some(part)) => {
                let (parts, from) = volumes.entry((kind, name)).or_default();
                parts.insert(part, value);
                from.push((*key).to_owned());
            }
            _ => refused.push(format!(
                "{key}: it names no kind of volume, no volume, or nothing of it"
            )),
        }
    }
    volumes
}

const KEPT: &str = "a claim that exists keeps its own; claims that each executor gets anew are in [[profiles.default.claims]]";

fn is_on_demand(set: &BTreeMap<&str, &str>, name: &str) -> bool {
    let key = format!("{VOLUMES}{CLAIM}.{name}.{CLAIM_NAME}");
    let claim = set.get(&*key).copied().unwrap_or_default();
    claim == ON_DEMAND || claim.contains(EXECUTOR_ID)
}

/// Whether this part of a claim is only for claims that are created.
fn is_of_new_claims(part: &str) -> bool {
    described(part).is_some() || ["options.storageClass", "options.sizeLimit"].contains(&part)
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
        CLAIM => &[(CLAIM_NAME, "claim")],
        _ => {
            return Err(format!(
                "there is no key for volumes of kind {kind}; a template can have them"
            ));
        }
    };
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

/// The key of a claim's labels or annotations that this part belongs to, and the name in it.
fn described(part: &str) -> Option<(&'static str, &str)> {
    let label = part.strip_prefix("label.").map(|name| ("labels", name));
    label.or_else(|| Some(("annotations", part.strip_prefix("annotation.")?)))
}

/// A claim for each executor.
fn claim(name: &str, parts: &Parts<'_>) -> Result<Table, String> {
    let mut claim = Table::new();
    put(&mut claim, "name", name);
    for (part, value) in parts {
        match *part {
            CLAIM_NAME => {}
            "mount.path" => put(&mut claim, "mount_path", *value),
            "options.sizeLimit" => put(&mut claim, "size", *value),
            "options.storageClass" => put(&mut claim, "storage_class", *value),
            "mount.readOnly" if flag(value) == Some(false) => {}
            part => {
                let Some((key, name)) = described(part) else {
                    return Err(format!("a claim has no key for {part}"));
                };
                let table = claim.entry(key).or_insert_with(|| Table::new().into());
                if let Value::Table(table) = table {
                    put(table, name, *value);
                }
            }
        }
    }
    for (key, part) in [("mount_path", "mount.path"), ("size", "options.sizeLimit")] {
        if !claim.contains_key(key) {
            return Err(format!(
                "a claim needs {part}; it becomes {key} in [[profiles.default.claims]]"
            ));
        }
    }
    Ok(claim)
}

/// Adds to each claim what Spark sets for all: the owner and the access mode.
fn describe_claims(set: &BTreeMap<&str, &str>, claims: &mut Volumes, refused: &mut Vec<String>) {
    let (made, from) = claims;
    let mut read = |key: &str, default| {
        let Some(value) = set.get(key) else {
            return default;
        };
        let unused = match flag(value) {
            None => format!("{value:?} is neither true nor false"),
            Some(_) if made.is_empty() => "there is no claim with claimName=OnDemand".to_owned(),
            Some(flag) => {
                from.push(key.to_owned());
                return flag;
            }
        };
        refused.push(format!("{key}: {unused}"));
        default
    };
    let owner = match read(DRIVER_OWNS, true) {
        true => "application",
        false => "executor",
    };
    let mode = match read(SHARED_BY_NODE, false) {
        true => "ReadWriteOnce",
        false => "ReadWriteOncePod",
    };
    for claim in made.iter_mut().filter_map(Value::as_table_mut) {
        put(claim, "owner", owner);
        put(claim, "access_modes", vec![mode]);
    }
}

fn flag(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: C-7, K-5
    #[test]
    fn a_volume_is_gathered_from_its_keys() {
        let of = |rest: &'static str, value| (rest, value);
        let mut refused = Vec::new();
        let set = BTreeMap::from([
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
        let made: Vec<Gathered> = gather(&set, &mut refused).collect();
        let [volumes] = &made[..] else {
            panic!("{made:?}")
        };
        assert_eq!(volumes.key, "volumes");
        let value = volumes.value.to_string();
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
    fn what_describes_new_claims_is_refused_for_one_that_exists_and_the_volume_is_made() {
        let key = |part: &str| format!("{VOLUMES}persistentVolumeClaim.data.{part}");
        let (name, path) = (key(CLAIM_NAME), key("mount.path"));
        for part in ["label.team", "options.storageClass", "options.sizeLimit"] {
            let part = key(part);
            let set = BTreeMap::from([(&*name, "input"), (&*path, "/data"), (&*part, "5Gi")]);
            let mut refused = Vec::new();
            let made: Vec<Gathered> = gather(&set, &mut refused).collect();
            assert_eq!((made.len(), &*made[0].key), (1, "volumes"));
            assert!(made[0].value.to_string().contains("claim = \"input\""));
            assert_eq!(refused, [format!("{part}: {KEPT}")]);
        }
    }

    // spec: C-7, K-10
    #[test]
    fn a_claim_whose_name_has_the_executor_s_id_is_a_claim_for_each_executor() {
        let key = |part: &str| format!("{VOLUMES}persistentVolumeClaim.data.{part}");
        let (name, path, size) = (key(CLAIM_NAME), key("mount.path"), key("options.sizeLimit"));
        let values = [
            (&*name, "etl-SPARK_EXECUTOR_ID"),
            (&*path, "/data"),
            (&*size, "5Gi"),
        ];
        let mut refused = Vec::new();
        let made: Vec<Gathered> = gather(&values.into(), &mut refused).collect();
        assert_eq!((made.len(), &*made[0].key, refused), (1, "claims", vec![]));
    }

    // spec: C-7, K-10
    #[test]
    fn a_claim_needs_a_size_and_the_keys_about_all_claims_need_one() {
        let key = |part: &str| format!("{VOLUMES}persistentVolumeClaim.data.{part}");
        let (name, path) = (key(CLAIM_NAME), key("mount.path"));
        let mut refused = Vec::new();
        let set = BTreeMap::from([
            (&*name, "OnDemand"),
            (&*path, "/data"),
            (DRIVER_OWNS, "true"),
            (SHARED_BY_NODE, "perhaps"),
        ]);
        assert_eq!(gather(&set, &mut refused).count(), 0);
        let expected = [
            format!(
                "{path}, {name}: a claim needs options.sizeLimit; it becomes size in [[profiles.default.claims]]"
            ),
            format!("{DRIVER_OWNS}: there is no claim with claimName=OnDemand"),
            format!("{SHARED_BY_NODE}: \"perhaps\" is neither true nor false"),
        ];
        assert_eq!(refused, expected);
    }
}
