//! Infers why an executor ended from its entry, and ranks the sources of evidence (spec L-13, L-20).

use std::sync::Arc;
use std::time::Duration;

use super::clock::Tick;
use super::executor::{Entry, GoneEvidence, LeaveReason, State};
use super::exit_code;
use super::pod::{
    ContainerState, Pod, RUNTIME_UNKNOWN, STATUS_UNKNOWN, Termination, is_not_its_turn,
};
use super::reason::{Early, Evidence, LossClass, LossReason};
use crate::planted::{self, Planted};
use boatswain_agent::{AGENT, NO_DRIVER, UNORDERED};

/// `status.reason` of a pod whose node does not report.
const NODE_LOST: &str = "NodeLost";

/// Reasons of DisruptionTarget for pods that are deleted because their node is gone or silent. If such a pod remains
/// for long, no kubelet is there to remove it.
const LEFT_BY_ITS_NODE: [&str; 2] = ["DeletionByTaintManager", "DeletionByPodGC"];

const PERHAPS_PROBE: &str =
    "; if a liveness or startup probe failed, only the Events of its pod say so";

/// Reasons of pods that their kubelet did not admit; others begin with `OutOf`.
const REJECTED: [&str; 15] = [
    "AppArmor",
    "InvalidNodeInfo",
    "NodeAffinity",
    "NodePorts",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SMTAlignmentError",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "VolumeAttachmentLimitExceeded",
];

/// Whether an end of this class says more than one of that class, so that it replaces it (spec L-37).
///
/// What the driver or the cluster decided says more than how the container ended, and that more than that nobody saw
/// it. Of two of the same rank the one that was known first stays: an executor that was seen to end and whose pod is
/// then deleted has ended by itself, and one whose pod was deleted and that then ends was deleted.
pub fn says_more(class: LossClass, than: LossClass) -> bool {
    class.tells() > than.tells()
}

pub fn reason_of(entry: &Entry) -> LossReason {
    let forgotten = planted::is(Planted::LastStateForgotten) && entry.is_gone();
    let pod = (entry.pod().map(Arc::as_ref)).filter(|_| !forgotten);
    let exit_code = pod.and_then(Pod::exit_code);
    let (class, message) = marked(entry)
        .or_else(|| pod.and_then(by_kubelet))
        .or_else(|| pod.and_then(by_disruption))
        .or_else(|| pod.and_then(by_pod_reason))
        .or_else(|| found_terminating(entry))
        .or_else(|| pod.and_then(by_memory))
        .or_else(|| pod.and_then(by_deletion))
        .or_else(|| pod.and_then(by_container))
        .unwrap_or_else(|| by_absence(entry));
    LossReason {
        class,
        exit_code,
        by_application: class.by_application(),
        failure: class.is_failure(exit_code),
        message,
        evidence: pod.map(evidence).unwrap_or_default(),
    }
}

/// The loss reason of an executor whose pod has been Terminating for `waited`, longer than its grace period allows
/// (spec L-3).
pub fn reason_of_an_overdue(entry: &Entry, waited: Duration) -> LossReason {
    let mut reason = reason_of(entry);
    let overdue = format!(
        "its pod has been Terminating for {} s, which its grace does not allow",
        waited.as_secs()
    );
    if entry.leaving.is_some() {
        // It was chosen to terminate, so the mark's class stays.
        reason.message = format!("{}; {overdue}", reason.message);
        return reason;
    }
    let evidence = &reason.evidence;
    let by_the_node_controller = evidence.pod_reason.as_deref() == Some(NODE_LOST);
    let by_disruption =
        (evidence.disruption.as_deref()).is_some_and(|reason| LEFT_BY_ITS_NODE.contains(&reason));
    reason.class = match by_the_node_controller || by_disruption {
        true => LossClass::NodeLost,
        false => LossClass::Stuck,
    };
    reason.by_application = reason.class.by_application();
    reason.failure = reason.class.is_failure(None);
    reason.message = match reason.class {
        LossClass::NodeLost => format!("{}; {overdue}", reason.message),
        _ => overdue,
    };
    reason
}

/// The loss reason of an executor whose pod terminates still when nobody waits for it any more (spec L-3).
pub fn reason_of_an_unawaited(entry: &Entry) -> LossReason {
    let mut reason = reason_of(entry);
    reason.message += "; deleted, its end was not waited for";
    reason
}

/// An executor that ended within `stable_after` of its start, or before it ever ran (spec A-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyEnd {
    ByItself,
    /// Others than itself and the driver ended it, or it asked to be decommissioned.
    Interrupted,
}

pub fn ended_early(
    entry: &Entry,
    class: LossClass,
    now: Tick,
    stable_after: Duration,
) -> Option<EarlyEnd> {
    let why = entry.leaving.as_ref().map(|leaving| &leaving.why);
    // What slows a profile whose queue takes quota back is that queue.
    if entry.found_terminating || matches!(why, Some(LeaveReason::QuotaLost(_))) {
        return None;
    }
    let ran = ran_for(entry, now);
    let is_young = ran.is_none_or(|ran| ran < stable_after);
    let asked = matches!(why, Some(LeaveReason::AskedToGo(_)));
    match class.early() {
        Early::Always => Some(EarlyEnd::ByItself),
        Early::IfYoung => is_young.then_some(EarlyEnd::ByItself),
        Early::IfItNeverRan if ran.is_none() => Some(EarlyEnd::ByItself),
        Early::Interrupted | Early::IfItNeverRan => is_young.then_some(EarlyEnd::Interrupted),
        Early::Never => (asked && is_young).then_some(EarlyEnd::Interrupted),
    }
}

/// How long an executor ran; `None` if it never did. The node's times also cover what happened before this driver
/// started; the driver's own clock also covers a pod whose node reports no times. The longer one counts.
pub fn ran_for(entry: &Entry, now: Tick) -> Option<Duration> {
    let bound = entry.bound()?;
    let by_driver = bound.running_since.map(|since| now.since(since));
    let by_node = bound.pod.termination().and_then(|end| {
        let (started, finished) = (end.started?, end.finished?);
        Duration::try_from(finished.duration_since(started)).ok()
    });
    match (by_node, by_driver) {
        (Some(node), Some(driver)) => Some(node.max(driver)),
        (node, driver) => node.or(driver),
    }
}

fn marked(entry: &Entry) -> Option<(LossClass, String)> {
    let why = &entry.leaving.as_ref()?.why;
    let class = match why {
        LeaveReason::ScaledDown | LeaveReason::GangMissed(_) => LossClass::ScaledDown,
        LeaveReason::Mislabelled(_) => LossClass::Mislabelled,
        LeaveReason::ApplicationEnded | LeaveReason::Killed(_) => LossClass::Killed,
        LeaveReason::Decommissioned(_) | LeaveReason::AskedToGo(_) => LossClass::Decommissioned,
        LeaveReason::HeartbeatTimeout(_) => LossClass::HeartbeatTimeout,
        LeaveReason::Disconnected => LossClass::Disconnected,
        LeaveReason::Unreachable(_) => LossClass::Unreachable,
        LeaveReason::NodeNotReady(..) => LossClass::NodeLost,
        LeaveReason::RegistrationTimeout(_) => LossClass::RegistrationTimeout,
        LeaveReason::PendingTimeout(..) => LossClass::PendingTimeout,
        LeaveReason::NeverStarts(..) | LeaveReason::NoClaim(_) => LossClass::StartFailed,
        LeaveReason::QuotaLost(_) => LossClass::Preempted,
        LeaveReason::NodeLeaving(_) => LossClass::NodeLeaving,
    };
    Some((class, why.to_string()))
}

/// The kubelet sets the same condition for every pod that it terminates, so the pod's reason is more precise (spec
/// L-20, Evicted).
fn by_kubelet(pod: &Pod) -> Option<(LossClass, String)> {
    let disruption = pod.disruption.as_ref()?;
    (&*disruption.reason == "TerminationByKubelet").then(|| by_pod_reason(pod))?
}

fn by_disruption(pod: &Pod) -> Option<(LossClass, String)> {
    let disruption = pod.disruption.as_ref()?;
    let class = match &*disruption.reason {
        "PreemptionByScheduler" => LossClass::Preempted,
        _ => LossClass::Disrupted,
    };
    Some((
        class,
        with_detail(&disruption.reason, disruption.message.as_deref()),
    ))
}

fn by_pod_reason(pod: &Pod) -> Option<(LossClass, String)> {
    let reason = pod.reason.as_deref()?;
    let class = match reason {
        "Evicted" => LossClass::Evicted,
        NODE_LOST => LossClass::NodeLost,
        "Terminated" | "NodeShutdown" | "Shutdown" | "Preempting" => LossClass::Disrupted,
        _ if REJECTED.contains(&reason) => LossClass::Rejected,
        _ if reason.starts_with("OutOf") => LossClass::Rejected,
        _ => return None,
    };
    Some((class, with_detail(reason, pod.message.as_deref())))
}

/// Who deleted it, and whether it had ended by itself before, is not known to a driver that found it so.
fn found_terminating(entry: &Entry) -> Option<(LossClass, String)> {
    let text = "its pod was being deleted already when this driver began";
    (entry.found_terminating).then(|| (LossClass::Deleted, text.to_owned()))
}

fn by_memory(pod: &Pod) -> Option<(LossClass, String)> {
    let end = pod.termination()?;
    let killed = end.reason.as_deref() == Some("OOMKilled");
    killed.then(|| {
        (
            LossClass::OomKilled,
            format!(
                "{}killed for want of memory, {}",
                which(pod),
                exit_text(end)
            ),
        )
    })
}

/// Another client deleted the pod: the entry has no mark, and the delete request came before the container ended.
fn by_deletion(pod: &Pod) -> Option<(LossClass, String)> {
    let deletion = pod.deletion?;
    let ended_before = pod
        .termination()
        .and_then(|end| end.finished)
        .zip(deletion.requested())
        .is_some_and(|(finished, requested)| finished < requested);
    (!ended_before).then(|| (LossClass::Deleted, deleted(Some(pod))))
}

/// What a pod that never ran waited for is why somebody may have deleted it.
fn deleted(pod: Option<&Pod>) -> String {
    let by_someone = "its pod was deleted by someone else";
    match pod.map(|pod| &pod.executor) {
        Some(ContainerState::Waiting {
            reason: Some(reason),
            message,
        }) => {
            let waited = with_detail(reason, message.as_deref());
            format!("{by_someone} while it waited to run: {waited}")
        }
        _ => by_someone.to_owned(),
    }
}

fn by_container(pod: &Pod) -> Option<(LossClass, String)> {
    if let Some(end) = pod.termination() {
        return Some(match end.reason.as_deref() {
            Some(reason) if is_broken_off(reason, end.message.as_deref()) => (
                LossClass::Disrupted,
                format!("{}{}", which(pod), broken_off(end.message.as_deref())),
            ),
            Some(reason @ (START_ERROR | "ContainerCannotRun" | "CreateContainerError")) => (
                LossClass::StartFailed,
                format!(
                    "{}{}",
                    which(pod),
                    with_detail(reason, end.message.as_deref())
                ),
            ),
            Some(reason) if is_lost(end) => (
                LossClass::Disrupted,
                format!(
                    "its node lost its container, exit code unknown: {}",
                    with_detail(reason, end.message.as_deref())
                ),
            ),
            _ if ended_by_probe(pod, end) => (
                LossClass::ProbeFailed,
                format!(
                    "its node terminated it, as it does when a liveness or startup probe fails: {}",
                    exit_text(end)
                ),
            ),
            _ if ended_by_agent(end) && !planted::is(Planted::AbandonedIsExit) => {
                (LossClass::Abandoned, exited(pod, end))
            }
            // Such as DeadlineExceeded.
            _ if pod.reason.is_some() => {
                let reason = pod.reason.as_deref().unwrap_or_default();
                let detail = with_detail(reason, pod.message.as_deref());
                (LossClass::Exited, format!("{detail}: {}", exited(pod, end)))
            }
            _ if may_be_a_probes(pod) => (
                LossClass::Exited,
                format!("{}{PERHAPS_PROBE}", exited(pod, end)),
            ),
            _ => (LossClass::Exited, exited(pod, end)),
        });
    }
    if !pod.state().is_finished() {
        return None;
    }
    Some(match (&pod.executor, pod.reason.as_deref()) {
        (ContainerState::Waiting { reason, message }, None) if says_nothing(reason, message) => {
            let lost = "its node lost it before its program began";
            (LossClass::Disrupted, with_detail(lost, message.as_deref()))
        }
        (ContainerState::Waiting { reason, message }, _) => {
            let reason = reason.as_deref().unwrap_or("never started");
            if is_broken_off(reason, message.as_deref()) {
                return Some((LossClass::Disrupted, broken_off(message.as_deref())));
            }
            (
                LossClass::StartFailed,
                with_detail(reason, message.as_deref()),
            )
        }
        (_, Some(reason)) => (
            LossClass::Exited,
            with_detail(reason, pod.message.as_deref()) + ", exit code unknown",
        ),
        (_, None) => (LossClass::Exited, "ended, exit code unknown".to_owned()),
    })
}

fn by_absence(entry: &Entry) -> (LossClass, String) {
    match &entry.state {
        State::Gone(gone) => match &gone.how {
            GoneEvidence::LostBeforeStart => {
                (LossClass::Lost, "it ended while no driver ran".to_owned())
            }
            GoneEvidence::NotCreated(why) => (LossClass::NotCreated, why.to_string()),
            GoneEvidence::Deleted | GoneEvidence::DeleteFoundNothing | GoneEvidence::Kept => {
                (LossClass::Deleted, deleted(entry.pod().map(Arc::as_ref)))
            }
            GoneEvidence::Missing
            | GoneEvidence::NoLongerListed
            | GoneEvidence::RelabelledAfterEnd => (
                LossClass::Missing,
                "its pod is not there any more, and nobody saw it go".to_owned(),
            ),
        },
        _ => (
            LossClass::Missing,
            "its end was reported before it was known".to_owned(),
        ),
    }
}

/// A program may exit with the same code, so the agent's message decides.
fn ended_by_agent(end: &Termination) -> bool {
    let message = end.message.as_deref().unwrap_or_default();
    end.exit_code == Some(i32::from(NO_DRIVER)) && message.starts_with(AGENT)
}

/// Whether what a pod that ended before its program began had waited for shows no mistake of the application. A kubelet
/// that finds none of its containers, as after a crash of the node, lets it fail so.
fn says_nothing(reason: &Option<Arc<str>>, message: &Option<Arc<str>>) -> bool {
    match reason.as_deref() {
        None => message.is_none(),
        Some(reason) => {
            is_not_its_turn(reason) || matches!(reason, STATUS_UNKNOWN | RUNTIME_UNKNOWN)
        }
    }
}

/// What containerd says of a container that it could not start.
const START_ERROR: &str = "StartError";

/// How its message ends where the call was cancelled or had no more time.
const BROKEN_OFF: [&str; 2] = ["context canceled", "context deadline exceeded"];

/// Kubelet or runtime has lost the container, as after the crash of a node. The program did not cause that.
fn is_lost(end: &Termination) -> bool {
    end.exit_code.is_none()
        && matches!(
            end.reason.as_deref(),
            Some(STATUS_UNKNOWN | RUNTIME_UNKNOWN)
        )
}

/// The kubelet went away while the runtime started the container, or had no more time for it. What is wrong with the
/// program is told otherwise.
fn is_broken_off(reason: &str, message: Option<&str>) -> bool {
    reason == START_ERROR
        && message.is_some_and(|message| BROKEN_OFF.iter().any(|end| message.ends_with(end)))
}

fn broken_off(message: Option<&str>) -> String {
    with_detail("its node broke off the start of its container", message)
}

/// Only the agent's message shows a probe's kill in the pod: the code is whatever the program makes of SIGTERM. Whoever
/// else sends it leaves a trace in the pod, which counts before.
fn ended_by_probe(pod: &Pod, end: &Termination) -> bool {
    let message = end.message.as_deref().unwrap_or_default();
    pod.probed
        && pod.reason.is_none()
        && pod.deciding_sidecar().is_none()
        && message.starts_with(UNORDERED)
}

/// Whether its program may have been killed by a probe, and nothing in the pod shows it.
pub fn may_be_a_probes(pod: &Pod) -> bool {
    pod.probed
        && pod.reason.is_none()
        && pod.deciding_sidecar().is_none()
        && matches!(pod.exit_code(), Some(0 | 137 | 143))
}

/// The reason of an end that may be a probe's, when the kubelet's Events say that it is.
pub fn by_probe(reason: &LossReason, words: &str) -> LossReason {
    let class = LossClass::ProbeFailed;
    let told = not_by_probe(reason);
    LossReason {
        class,
        by_application: class.by_application(),
        failure: class.is_failure(told.exit_code),
        message: format!("{words}: it {}", told.message),
        ..told
    }
}

/// The same when they say nothing of a probe.
pub fn not_by_probe(reason: &LossReason) -> LossReason {
    let mut told = reason.clone();
    if let Some(plain) = told.message.strip_suffix(PERHAPS_PROBE) {
        told.message = plain.to_owned();
    }
    told
}

/// Names the container if it is not the executor's.
fn which(pod: &Pod) -> String {
    (pod.deciding_sidecar()).map_or_else(String::new, |sidecar| {
        format!("container {} ", sidecar.name)
    })
}

fn exited(pod: &Pod, end: &Termination) -> String {
    let meaning = end
        .exit_code
        // Whether a probed container ended by itself is not known.
        .filter(|code| *code != 0 || !may_be_a_probes(pod))
        .and_then(exit_code::meaning)
        .map(|m| format!(" ({m})"))
        .unwrap_or_default();
    let detail = end
        .message
        .as_deref()
        .map(|m| format!(": {m}"))
        .unwrap_or_default();
    let which = which(pod);
    format!("{which}ended with {}{meaning}{detail}", exit_text(end))
}

fn exit_text(end: &Termination) -> String {
    match end.exit_code {
        Some(code) => format!("exit {code}"),
        None => "an unknown exit code".to_owned(),
    }
}

fn with_detail(what: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("{what}: {detail}"),
        None => what.to_owned(),
    }
}

fn evidence(pod: &Pod) -> Evidence {
    let container = match &pod.executor {
        ContainerState::Absent => None,
        ContainerState::Waiting { reason, .. } => Some(with_detail("waiting", reason.as_deref())),
        ContainerState::Running { .. } => Some("running".to_owned()),
        ContainerState::Terminated(end) => {
            let reason = end.reason.as_deref().unwrap_or("no reason given");
            Some(format!("terminated: {reason}, {}", exit_text(end)))
        }
    };
    Evidence {
        node: pod.node.clone(),
        pod_reason: pod.reason.clone(),
        pod_message: pod.message.clone(),
        container,
        disruption: pod.disruption.as_ref().map(|d| Arc::clone(&d.reason)),
        conditions: pod.conditions.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
