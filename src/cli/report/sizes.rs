//! What executors used of what they requested (spec O-145): pure.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::figures::percentile;
use super::timeline::Life;
use crate::model::quantity::{MEBIBYTE, Quantity};

/// What an executor of a profile requests, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    pub memory_mebibytes: Option<u64>,
    pub cpu_millicores: Option<u64>,
}

/// What the executors of a profile used that told it.
#[derive(Debug, PartialEq, Serialize)]
pub struct Sizes {
    pub executors: usize,
    /// The highest memory of each.
    pub memory_mebibytes: Size,
    /// What each used in 99 % of its time. `None`: no executor was there for two heartbeats.
    pub cpu_millicores: Option<Size>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Size {
    /// What 99 % of the executors used, or less.
    pub p99: u64,
    pub requested: Option<u64>,
    /// What all pods would have requested less with this as their request, multiplied by their hours.
    pub saved_hours: Option<f64>,
}

impl Requests {
    /// Of a profile in the status.
    pub fn of(profile: &Value) -> Self {
        let requests = &profile["container"]["requests"];
        let quantity = |resource: &str| requests[resource].as_str()?.parse::<Quantity>().ok();
        Self {
            memory_mebibytes: quantity("memory").map(|memory| memory.bytes().div_ceil(MEBIBYTE)),
            cpu_millicores: quantity("cpu").map(|cpu| cpu.millis()),
        }
    }
}

impl Sizes {
    /// `None` if no executor told what it used. `pod_hours`: of all pods of the profile.
    pub fn of<'a>(
        lives: impl Iterator<Item = &'a Life> + Clone,
        requests: Requests,
        pod_hours: f64,
    ) -> Option<Self> {
        let memory: Vec<u64> = lives.clone().filter_map(memory_mebibytes).collect();
        Some(Self {
            executors: memory.len(),
            memory_mebibytes: Size::of(memory, requests.memory_mebibytes, pod_hours)?,
            cpu_millicores: Size::of(
                lives.filter_map(cpu_millicores).collect(),
                requests.cpu_millicores,
                pod_hours,
            ),
        })
    }
}

impl Size {
    fn of(mut used: Vec<u64>, requested: Option<u64>, pod_hours: f64) -> Option<Self> {
        used.sort_unstable();
        let p99 = percentile(&used, 99)?;
        let less = requested.map(|requested| requested.saturating_sub(p99));
        Some(Self {
            p99,
            requested,
            saved_hours: less.map(|less| float(less) * pod_hours),
        })
    }
}

/// Between two heartbeats it grows unseen: an executor that was killed for want of memory had used all of it.
fn memory_mebibytes(life: &Life) -> Option<u64> {
    let usage = life.usage?;
    let is_exhausted = (life.end.as_ref()).is_some_and(|end| end.reason == "OomKilled");
    let limit = usage.memory_limit.filter(|_| is_exhausted);
    Some(usage.memory.max(limit.unwrap_or(0)).div_ceil(MEBIBYTE))
}

fn cpu_millicores(life: &Life) -> Option<u64> {
    // A core for a second is a second of CPU time.
    let each_second = Duration::try_from_secs_f64(life.usage?.cores?).ok()?;
    u64::try_from(each_second.as_millis()).ok()
}

fn float(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
