//! Converts keys that do not correspond one to one: several of Spark's make one of boatswain's, or
//! one makes several.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::{Table, Value};

use super::{dynamic, units, volumes};

/// A boatswain key that is not made from one Spark key alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gathered {
    pub section: &'static str,
    /// The key in the section.
    pub key: String,
    pub value: Value,
    /// The Spark keys that it is made from.
    pub from: Vec<String>,
}

impl Gathered {
    pub fn of_profile(key: &str, value: impl Into<Value>, from: Vec<String>) -> Self {
        Self {
            section: "profiles.default",
            key: key.to_owned(),
            value: value.into(),
            from,
        }
    }
}

const DEVICES: &str = "spark.executor.resource.";
const IDLE: &str = "spark.dynamicAllocation.executorIdleTimeout";
const ROLL: &str = "spark.kubernetes.executor.rollPolicy";

/// Spark's policies by a figure, and the metric that the Spark adapter's executors report it as.
const BY_METRIC: &[(&str, &str)] = &[
    ("FAILED_TASKS", "failed_tasks"),
    ("TOTAL_DURATION", "total_duration"),
    ("AVERAGE_DURATION", "average_duration"),
    ("TOTAL_GC_TIME", "total_gc_time"),
    ("PEAK_JVM_ONHEAP_MEMORY", "peak_jvm_onheap_memory"),
    ("PEAK_JVM_OFFHEAP_MEMORY", "peak_jvm_offheap_memory"),
    ("TOTAL_SHUFFLE_WRITE", "total_shuffle_write"),
];

/// Combines these keys. Also returns what is not converted, with the reason.
pub(super) fn gather(set: &BTreeMap<&str, &str>) -> (Vec<Gathered>, Vec<String>) {
    let mut refused = Vec::new();
    let mut gathered = Vec::new();
    gathered.extend(dynamic::gather(set, &mut refused));
    gathered.extend(volumes::gather(set, &mut refused));
    let (devices, from) = devices(set, &mut refused);
    if !devices.is_empty() {
        gathered.push(Gathered::of_profile("resources", devices, from));
    }
    if let Some(value) = set.get(IDLE) {
        match units::duration(value, Duration::from_secs(1)) {
            Some(idle) => gathered.extend(idle_timeouts(idle)),
            None => refused.push(format!(
                "{IDLE}: {value:?} is not a duration as Spark writes it"
            )),
        }
    }
    if let Some(policy) = set.get(ROLL) {
        match roll(policy) {
            Some(keys) => gathered.extend(keys),
            None => refused.push(format!(
                "{ROLL}: roll.policy has no {policy:?}; \"outlier\" compares one metric, which roll.metric names"
            )),
        }
    }
    (gathered, refused)
}

/// How executors are chosen for rolling replacement.
fn roll(policy: &str) -> Option<Vec<Gathered>> {
    let key = |key: &str, value: &str| Gathered {
        section: "roll",
        key: key.to_owned(),
        value: value.into(),
        from: vec![ROLL.to_owned()],
    };
    match policy {
        "ID" => Some(vec![key("policy", "id")]),
        "ADD_TIME" => Some(vec![key("policy", "oldest")]),
        _ => {
            let (_, metric) = BY_METRIC.iter().find(|(known, _)| *known == policy)?;
            Some(vec![key("policy", "highest"), key("metric", metric)])
        }
    }
}

/// Spark applies one timeout to idle executors and to surplus pods that do not run yet.
fn idle_timeouts(idle: Duration) -> impl Iterator<Item = Gathered> {
    let keys = [
        ("allocation", "cancel_delay"),
        ("autoscaling", "idle_timeout"),
    ];
    keys.into_iter().map(move |(section, key)| Gathered {
        section,
        key: key.to_owned(),
        value: humantime::format_duration(idle).to_string().into(),
        from: vec![IDLE.to_owned()],
    })
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
            .map(|made| (made.key, made.value.to_string()));
        (shown.collect(), refused)
    }

    // spec: C-7, B-32
    #[test]
    fn a_policy_for_rolling_replacement_may_compare_a_metric_that_executors_report() {
        let pair = |key: &str, value: &str| (key.to_owned(), format!("\"{value}\""));
        let of = |policy| made(&[(ROLL, policy)]).0;
        assert_eq!(of("ADD_TIME"), [pair("policy", "oldest")]);
        let by_metric = [pair("policy", "highest"), pair("metric", "total_gc_time")];
        assert_eq!(of("TOTAL_GC_TIME"), by_metric);
        let (none, refused) = made(&[(ROLL, "OUTLIER")]);
        assert!(
            none.is_empty() && refused[0].contains("roll.metric"),
            "{refused:?}"
        );
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
