//! How a simulated node processes a pod until it runs.

use serde_json::Value;
use tokio::time::Instant;

use crate::claims;
use crate::objects::text;
use crate::trace::trace_line;

use super::{Nodes, REJECTION_DELAY, StartupFault, restarts, short, statuses};

/// The part of a plan that concerns a pod before it runs.
pub(super) struct PendingPlan {
    pub(super) bind: Instant,
    pub(super) run: Instant,
    pub(super) end: Option<(Instant, i32)>,
    pub(super) node: &'static str,
    pub(super) startup_fault: Option<StartupFault>,
    /// Whether the fault has been reported in the pod's status.
    pub(super) reported: bool,
}

impl Nodes {
    pub(super) async fn process_pending(
        &mut self,
        pod: &Value,
        now: Instant,
        mounts_exist: bool,
        plan: PendingPlan,
    ) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        // A status meant for an earlier pod of this name may have ended it.
        if text(pod, "/status/phase") == "Failed" {
            return;
        }
        let is_bound = !text(pod, "/spec/nodeName").is_empty();
        let (bind, run) = (plan.bind, plan.run);
        // A set replaces a rejected pod at once, and its replacement is rejected as well. The pause between them keeps
        // this from looping without time passing; real nodes take time, too.
        let rejects = match restarts::restarts_containers(pod) {
            true => bind + REJECTION_DELAY,
            false => now,
        };
        match plan.startup_fault {
            _ if pod.pointer("/spec/schedulingGates").is_some() => {}
            Some(StartupFault::Unschedulable) if !is_bound => {
                self.report_once(name, plan.reported, statuses::unschedulable())
                    .await;
            }
            _ if !is_bound && bind <= now && !mounts_exist => self.wake(now + claims::MOUNT_RETRY),
            _ if !is_bound && bind <= now => {
                self.client.bind(name, plan.node).await;
                self.wake(run.max(now));
            }
            _ if !is_bound => self.wake(bind),
            Some(StartupFault::NoImage) => {
                let waiting = statuses::waiting(pod, "ImagePullBackOff");
                self.report_once(name, plan.reported, waiting).await;
            }
            Some(StartupFault::NoVolume) => {
                self.report_once(name, plan.reported, statuses::unprepared())
                    .await;
            }
            Some(StartupFault::BadConfig) => {
                let waiting = statuses::waiting(pod, "CreateContainerConfigError");
                self.report_once(name, plan.reported, waiting).await;
            }
            Some(StartupFault::Rejected) if rejects > now => self.wake(rejects),
            Some(StartupFault::Rejected) => {
                trace_line!("node: {name} {} is rejected", short(uid));
                self.client
                    .status(name, statuses::rejected("OutOfcpu"))
                    .await;
            }
            _ if run > now => self.wake(run),
            Some(StartupFault::Unstartable) => {
                trace_line!("node: {name} {} cannot start", short(uid));
                let end = statuses::ended(pod, 128, "StartError", &self.wall_clock());
                self.client.status(name, end).await;
            }
            _ => {
                trace_line!("node: {name} {} runs", short(uid));
                let running = self.running(pod);
                self.client.status(name, running).await;
                if let Some((at, _)) = plan.end {
                    self.wake(at.max(now));
                }
            }
        }
    }
}
