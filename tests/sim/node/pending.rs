//! How a simulated node processes a pod until it runs.

use serde_json::Value;
use tokio::time::Instant;

use crate::claims;
use crate::objects::text;
use crate::trace::say;

use super::{Node, Plague, REJECTS_AFTER, restarts, short, statuses};

/// The fate of a pod that does not run yet.
pub(super) struct Pending {
    pub(super) bind: Instant,
    pub(super) run: Instant,
    pub(super) end: Option<(Instant, i32)>,
    pub(super) node: &'static str,
    pub(super) plague: Option<Plague>,
    /// Whether the fault has been reported in the pod's status.
    pub(super) reported: bool,
}

impl Node {
    pub(super) async fn attend_pending(
        &mut self,
        pod: &Value,
        now: Instant,
        provided: bool,
        fate: Pending,
    ) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let is_bound = !text(pod, "/spec/nodeName").is_empty();
        let (bind, run) = (fate.bind, fate.run);
        // A set replaces a rejected pod at once, and its replacement is rejected as well. The pause between them keeps
        // this from looping without time passing; real nodes take time, too.
        let rejects = match restarts::are_wanted(pod) {
            true => bind + REJECTS_AFTER,
            false => now,
        };
        match fate.plague {
            _ if pod.pointer("/spec/schedulingGates").is_some() => {}
            Some(Plague::Unschedulable) if !is_bound => {
                self.report_once(name, fate.reported, statuses::unschedulable())
                    .await;
            }
            _ if !is_bound && bind <= now && !provided => self.wake(now + claims::LOOK_AGAIN),
            _ if !is_bound && bind <= now => {
                self.hand.bind(name, fate.node).await;
                self.wake(run.max(now));
            }
            _ if !is_bound => self.wake(bind),
            Some(Plague::NoImage) => {
                let waiting = statuses::waiting(pod, "ImagePullBackOff");
                self.report_once(name, fate.reported, waiting).await;
            }
            Some(Plague::BadConfig) => {
                let waiting = statuses::waiting(pod, "CreateContainerConfigError");
                self.report_once(name, fate.reported, waiting).await;
            }
            Some(Plague::Rejected) if rejects > now => self.wake(rejects),
            Some(Plague::Rejected) => {
                say!("node: {name} {} is rejected", short(uid));
                self.hand.status(name, statuses::rejected("OutOfcpu")).await;
            }
            _ if run > now => self.wake(run),
            Some(Plague::Unstartable) => {
                say!("node: {name} {} cannot start", short(uid));
                let end = statuses::ended(pod, 128, "StartError", &self.wall());
                self.hand.status(name, end).await;
            }
            _ => {
                say!("node: {name} {} runs", short(uid));
                let running = self.running(pod);
                self.hand.status(name, running).await;
                if let Some((at, _)) = fate.end {
                    self.wake(at.max(now));
                }
            }
        }
    }
}
