//! How many executors Spark would ask for: the keys about instances and dynamic allocation.

use std::collections::BTreeMap;

use super::gathered::Gathered;

const INSTANCES: &str = "spark.executor.instances";
const ENABLED: &str = "spark.dynamicAllocation.enabled";
const INITIAL: &str = "spark.dynamicAllocation.initialExecutors";
const LEAST: &str = "spark.dynamicAllocation.minExecutors";
const MOST: &str = "spark.dynamicAllocation.maxExecutors";

/// Combines these keys. Adds what is not converted to `refused`, with the reason.
pub(super) fn gather(set: &BTreeMap<&str, &str>, refused: &mut Vec<String>) -> Vec<Gathered> {
    let mut made = Vec::new();
    let enabled = set.get(ENABLED).and_then(|value| {
        let flag: Option<bool> = value.to_ascii_lowercase().parse().ok();
        if flag.is_none() {
            refused.push(format!("{ENABLED}: {value:?} is not true or false"));
        }
        flag
    });
    if let Some(enabled) = enabled {
        made.push(Gathered {
            section: "autoscaling",
            key: "enabled".to_owned(),
            value: enabled.into(),
            from: vec![ENABLED.to_owned()],
        });
    }
    let dynamic = enabled == Some(true);
    let mut count = |key: &'static str| {
        let value = set.get(key)?;
        if !dynamic && key != INSTANCES {
            refused.push(format!("{key}: Spark reads it only with {ENABLED}=true"));
            return None;
        }
        let count = value.parse::<u32>().ok();
        if count.is_none() {
            refused.push(format!("{key}: {value:?} is not a whole number"));
        }
        count.map(|count| (key, count))
    };
    let [instances, initial, least, most] = [INSTANCES, INITIAL, LEAST, MOST].map(&mut count);
    for (key, given) in [("min_executors", least), ("max_executors", most)] {
        made.extend(given.map(|(from, count)| of_profile(key, count, vec![from])));
    }
    // Spark starts with the largest of these, and applies the maximum right after.
    let given = [instances, initial, least].into_iter().flatten();
    let start = given.clone().map(|(_, count)| count).max();
    let capped = start.map(|start| most.map_or(start, |(_, most)| start.min(most)));
    if let (Some(start), Some(capped), Some((_, most))) = (start, capped, most)
        && capped < start
        && let Some((key, _)) = given.clone().find(|(_, count)| *count == start)
    {
        refused.push(format!("{key}: {start} is above {MOST}, which is {most}"));
    }
    let from = given.map(|(key, _)| key);
    match capped {
        Some(start) => made.push(of_profile("executors", start, from.collect())),
        None if dynamic => made.push(of_profile("executors", 0, vec![ENABLED])),
        None => {}
    }
    made
}

fn of_profile(key: &str, count: u32, from: Vec<&str>) -> Gathered {
    let from = from.into_iter().map(str::to_owned).collect();
    Gathered::of_profile(key, i64::from(count), from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(set: &[(&'static str, &'static str)]) -> (Vec<(String, String)>, Vec<String>) {
        let mut refused = Vec::new();
        let made = gather(&set.iter().copied().collect(), &mut refused);
        let shown = made
            .into_iter()
            .map(|made| (made.key, made.value.to_string()));
        (shown.collect(), refused)
    }

    // spec: C-7
    #[test]
    fn dynamic_allocation_keeps_its_bounds_and_its_start() {
        let on = (ENABLED, "true");
        let of = |keys: &[(&'static str, &'static str)]| made(&[&[on], keys].concat());
        let shown = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let first = std::iter::once(&("enabled", "true"));
            let all = first
                .chain(pairs)
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            all.collect()
        };
        let (least, most) = ((LEAST, "0"), (MOST, "1"));
        let bounds = [
            ("min_executors", "0"),
            ("max_executors", "1"),
            ("executors", "0"),
        ];
        assert_eq!(of(&[least, most, (INITIAL, "0")]), (shown(&bounds), vec![]));
        assert_eq!(of(&[least, most]).0, shown(&bounds));
        assert_eq!(of(&[]).0, shown(&[("executors", "0")]));
        assert_eq!(
            of(&[(INSTANCES, "5"), (INITIAL, "7")]).0,
            shown(&[("executors", "7")])
        );
        let (made, refused) = of(&[(INSTANCES, "5"), (MOST, "3")]);
        assert_eq!(made, shown(&[("max_executors", "3"), ("executors", "3")]));
        assert_eq!(
            refused,
            [format!("{INSTANCES}: 5 is above {MOST}, which is 3")]
        );
    }

    // spec: C-7
    #[test]
    fn without_dynamic_allocation_its_bounds_do_nothing_as_in_spark() {
        let (made, refused) = made(&[(INSTANCES, "5"), (MOST, "3"), (ENABLED, "FALSE")]);
        let expected = [("enabled", "false"), ("executors", "5")];
        assert_eq!(
            made,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert_eq!(
            refused,
            [format!("{MOST}: Spark reads it only with {ENABLED}=true")]
        );
    }
}
