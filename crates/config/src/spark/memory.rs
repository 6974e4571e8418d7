//! The memory that Spark requests for an executor: the sum of several keys.

use std::collections::BTreeMap;

use super::gathered::Gathered;
use super::units::{MEBIBYTE, bytes};

/// The keys that these are made into, and why there are none. Request and limit are the same in
/// Spark.
pub(super) fn gather(set: &BTreeMap<&str, &str>) -> (Vec<Gathered>, Vec<String>) {
    if set.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let from: Vec<String> = set.keys().map(|key| (*key).to_owned()).collect();
    match mebibytes(set) {
        Ok(mebibytes) => {
            let made = |key| Gathered::of_profile(key, format!("{mebibytes}Mi"), from.clone());
            (["memory", "memory_limit"].map(made).to_vec(), Vec::new())
        }
        Err(key) => {
            let value = set.get(key).copied().unwrap_or_default();
            let why = "is not a size, a factor or a flag; no memory is set";
            (Vec::new(), vec![format!("{key}: {value:?} {why}")])
        }
    }
}

/// The sum in mebibytes: heap, overhead, off-heap memory, Python's memory. Missing keys have
/// Spark's defaults.
///
/// # Errors
///
/// The key whose value is not a size.
fn mebibytes(set: &BTreeMap<&str, &str>) -> Result<u64, &'static str> {
    let size = |key: &'static str, unit, default| match set.get(key) {
        None => Ok(default),
        Some(text) => bytes(text, unit).ok_or(key),
    };
    let heap = size("spark.executor.memory", MEBIBYTE, 1024 * MEBIBYTE)? / MEBIBYTE;
    let least = size("spark.executor.minMemoryOverhead", MEBIBYTE, 384 * MEBIBYTE)? / MEBIBYTE;
    let keys = [
        "spark.executor.memoryOverheadFactor",
        "spark.kubernetes.memoryOverheadFactor",
    ];
    let factor = match keys.into_iter().find_map(|key| Some((key, set.get(key)?))) {
        None => 0.1,
        Some((key, text)) => {
            let factor = text.parse().ok();
            factor
                .filter(|factor| (0.0..=1000.0).contains(factor))
                .ok_or(key)?
        }
    };
    let scaled = (heap as f64 * factor) as u64;
    // Spark still reads its older name.
    let (newer, older) = (
        "spark.executor.memoryOverhead",
        "spark.yarn.executor.memoryOverhead",
    );
    let overhead = size(
        if set.contains_key(newer) {
            newer
        } else {
            older
        },
        MEBIBYTE,
        scaled.max(least).saturating_mul(MEBIBYTE),
    )? / MEBIBYTE;
    let enabled = match set.get("spark.memory.offHeap.enabled") {
        None => false,
        Some(text) => text.parse().map_err(|_| "spark.memory.offHeap.enabled")?,
    };
    let off_heap = size("spark.memory.offHeap.size", 1, 0)?.div_ceil(MEBIBYTE);
    let python = size("spark.executor.pyspark.memory", MEBIBYTE, 0)? / MEBIBYTE;
    let parts = [heap, overhead, if enabled { off_heap } else { 0 }, python];
    Ok(parts.into_iter().fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&'static str, &'static str)]) -> Result<u64, &'static str> {
        mebibytes(&set.iter().copied().collect())
    }

    // spec: C-7, K-5
    #[test]
    fn memory_is_the_heap_and_what_comes_on_top() {
        let memory = "spark.executor.memory";
        assert_eq!(of(&[(memory, "2g")]), Ok(2048 + 384));
        assert_eq!(of(&[(memory, "10g")]), Ok(10_240 + 1024));
        let overhead = "spark.executor.memoryOverhead";
        assert_eq!(of(&[(memory, "2g"), (overhead, "1g")]), Ok(3072));
        assert_eq!(of(&[(memory, "2g"), (overhead, "512")]), Ok(2560));
        let older = "spark.yarn.executor.memoryOverhead";
        assert_eq!(of(&[(memory, "2g"), (older, "512")]), Ok(2560));
        let factor = "spark.kubernetes.memoryOverheadFactor";
        assert_eq!(of(&[(memory, "10g"), (factor, "0.4")]), Ok(10_240 + 4096));
        let newer = "spark.executor.memoryOverheadFactor";
        let both = [(memory, "10g"), (factor, "0.4"), (newer, "0.2")];
        assert_eq!(of(&both), Ok(10_240 + 2048));
        let (on, size) = ("spark.memory.offHeap.enabled", "spark.memory.offHeap.size");
        assert_eq!(of(&[(memory, "1g"), (size, "1g")]), Ok(1408));
        assert_eq!(of(&[(memory, "1g"), (on, "true"), (size, "1g")]), Ok(2432));
        let python = "spark.executor.pyspark.memory";
        assert_eq!(of(&[(memory, "1g"), (python, "512m")]), Ok(1920));
        assert_eq!(of(&[(memory, "much")]), Err(memory));
        assert_eq!(of(&[(factor, "-1")]), Err(factor));
        assert_eq!(of(&[(on, "yes")]), Err(on));
    }
}
