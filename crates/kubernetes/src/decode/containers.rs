//! Decodes the containers' states: the executor container's, and what it waits for.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{PodReader, kept, text, time};
use crate::refusal::clean;
use crate::wire::{
    ContainerStateWire, ContainerWire, DeclaredWire, ResourcesWire, RestartRuleWire, SpecWire,
    StatusWire, TerminatedWire,
};
use boatswain_model::pod::{
    ContainerState, FailedSidecar, InitContainer, RUNTIME_UNKNOWN, Restarts, STATUS_UNKNOWN,
    Termination, cut,
};
use boatswain_model::quantity::{MEBIBYTE, Quantity};

/// The waiting reason of a container while init containers run.
const NOT_ITS_TURN: &str = "PodInitializing";

/// The reason of containers that ended because another container's rule restarts all of them.
const ALL_RESTART: &str = "RestartingAllContainers";

pub(super) struct Containers {
    pub(super) executor: ContainerState,
    pub(super) memory_limit: Option<NonZeroU32>,
    pub(super) resizes: bool,
    pub(super) probed: bool,
    pub(super) init: Option<InitContainer>,
    pub(super) failed_sidecar: Option<FailedSidecar>,
    pub(super) restarts: Option<Arc<Restarts>>,
}

impl PodReader {
    /// The executor container's state, and the end of another container that counts too (spec E-12).
    pub(super) fn containers(
        &self,
        spec: &SpecWire<'_>,
        status: &StatusWire<'_>,
        deleting: bool,
    ) -> Containers {
        let statuses = status.container_statuses.as_deref().unwrap_or_default();
        let declared = spec.containers.as_deref().unwrap_or_default();
        let executor = self.executor_container(declared, statuses);
        let own = executor.and_then(|at| statuses.get(at));
        let has_ended = matches!(text(&status.phase), Some("Failed" | "Succeeded"));
        let restart = Restart {
            possible: !deleting && !has_ended,
            declared,
            of_pod: text(&spec.restart_policy),
        };
        let restarts = (own.filter(|container| restart.is_declared(container))).and_then(restarts);
        let state = own.map(container_state).unwrap_or_default();
        let stage = match (deleting, has_ended) {
            (true, _) => Stage::Deleting,
            (false, true) => Stage::Ended,
            (false, false) => Stage::Lives,
        };
        let (state, init) = match waits_for(&state, spec, status, stage) {
            Some((state, init)) => (state, Some(init)),
            None => (state, None),
        };
        let decides_too = self.check_all_containers && text(&spec.restart_policy) == Some("Never");
        let others = (statuses.iter().enumerate()).filter(|(at, _)| Some(*at) != executor);
        let failed_sidecar = others
            .filter(|_| decides_too)
            .filter_map(|(_, c)| Some((c, c.state.as_ref()?.terminated.as_ref()?)))
            .map(|(c, end)| (c, termination(end)))
            .find(|(c, end)| {
                end.exit_code.is_some_and(|code| code != 0) && !restart.follows(c, end)
            })
            .map(|(c, end)| FailedSidecar { name: name(c), end });
        let is_named = |c: &&DeclaredWire<'_>| text(&c.name) == Some(&*self.container);
        let limited = declared.iter().find(is_named).or(declared.first());
        let wanted = limited.and_then(|limited| memory_limit(limited.resources.as_ref()?));
        let given = own.and_then(|own| memory_limit(own.resources.as_ref()?));
        Containers {
            memory_limit: given.or(wanted),
            resizes: given.is_some() && given != wanted,
            executor: match state {
                ContainerState::Terminated(end)
                    if own.is_some_and(|container| restart.follows(container, &end)) =>
                {
                    about_to_restart(&end)
                }
                state => state,
            },
            probed: own
                .and_then(|own| restart.of(own))
                .is_some_and(|own| own.liveness_probe.is_some() || own.startup_probe.is_some()),
            init,
            failed_sidecar,
            restarts,
        }
    }

    /// The place of the executor container's status: the one with its name, else the first of the spec.
    fn executor_container(
        &self,
        declared: &[DeclaredWire<'_>],
        statuses: &[ContainerWire<'_>],
    ) -> Option<usize> {
        let place = |name: &str| statuses.iter().position(|c| text(&c.name) == Some(name));
        // Kubelets sort the statuses by name, so the first container is taken from the spec.
        let first = declared.first().and_then(|c| text(&c.name));
        let has_named = declared
            .iter()
            .any(|c| text(&c.name) == Some(&*self.container));
        match place(&self.container) {
            Some(at) => Some(at),
            // The executor container has no status yet; do not take another container's.
            None if has_named => None,
            None => match first {
                Some(name) => place(name),
                None => (!statuses.is_empty()).then_some(0),
            },
        }
    }
}

/// In whole mebibytes, rounded up.
fn memory_limit(resources: &ResourcesWire<'_>) -> Option<NonZeroU32> {
    let limit = resources.limits.as_ref()?.memory?;
    let amount: Quantity = limit.get().trim_matches('"').parse().ok()?;
    NonZeroU32::new(u32::try_from(amount.bytes().div_ceil(MEBIBYTE)).ok()?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lives,
    Deleting,
    Ended,
}

/// Whether the kubelet starts a container of this pod again after it has ended. As in kubelets, a container's first
/// rule that matches decides, else the container's own policy, else the pod's.
struct Restart<'a> {
    /// Not in a pod that is being deleted or has ended.
    possible: bool,
    declared: &'a [DeclaredWire<'a>],
    of_pod: Option<&'a str>,
}

impl Restart<'_> {
    fn of(&self, container: &ContainerWire<'_>) -> Option<&DeclaredWire<'_>> {
        let name = text(&container.name)?;
        self.declared.iter().find(|c| text(&c.name) == Some(name))
    }

    fn policy(&self, container: &ContainerWire<'_>) -> Option<&str> {
        let own = self.of(container).and_then(|c| text(&c.restart_policy));
        own.or(self.of_pod)
    }

    /// Whether this container may ever be restarted, so that its restarts are counted.
    fn is_declared(&self, container: &ContainerWire<'_>) -> bool {
        let rules = (self.of(container)).and_then(|c| c.restart_policy_rules.as_ref());
        let by_rule = rules.is_some_and(|rules| !rules.is_empty());
        self.possible && (by_rule || matches!(self.policy(container), Some("Always" | "OnFailure")))
    }

    /// Whether this end of the container is followed by a restart.
    fn follows(&self, container: &ContainerWire<'_>, end: &Termination) -> bool {
        if !self.possible {
            return false;
        }
        // Another container's rule ended this one, to restart them all.
        if end.reason.as_deref() == Some(ALL_RESTART) {
            return true;
        }
        let rules = (self.of(container)).and_then(|c| c.restart_policy_rules.as_deref());
        let mut rules = rules.unwrap_or_default().iter();
        let code = end.exit_code.map(i64::from);
        if let Some(rule) = rules.find(|rule| code.is_some_and(|code| matches_rule(rule, code))) {
            return matches!(text(&rule.action), Some("Restart" | "RestartAllContainers"));
        }
        match self.policy(container) {
            Some("Always") => true,
            Some("OnFailure") => code != Some(0),
            _ => false,
        }
    }
}

fn matches_rule(rule: &RestartRuleWire<'_>, code: i64) -> bool {
    let Some(codes) = &rule.exit_codes else {
        return false;
    };
    let named = (codes.values.as_deref().unwrap_or_default()).contains(&code);
    match text(&codes.operator) {
        Some("In") => named,
        Some("NotIn") => !named,
        _ => false,
    }
}

/// The kubelet restarts this container in the same pod, so its end is not the executor's end (spec A-80).
fn about_to_restart(end: &Termination) -> ContainerState {
    ContainerState::Waiting {
        reason: Some(Arc::from("Restarting")),
        message: end.message.clone().or_else(|| end.reason.clone()),
    }
}

fn restarts(container: &ContainerWire<'_>) -> Option<Arc<Restarts>> {
    let count = u32::try_from(container.restart_count?).ok()?;
    let last = container.last_state.as_ref();
    let last = last.and_then(|state| state.terminated.as_ref());
    (count > 0).then(|| {
        Arc::new(Restarts {
            count,
            last: last.map(termination),
        })
    })
}

fn container_state(container: &ContainerWire<'_>) -> ContainerState {
    match &container.state {
        // A kubelet gives containers that never ran such an end when their pod ends.
        Some(ContainerStateWire {
            terminated: Some(end),
            ..
        }) if text(&end.reason) == Some(STATUS_UNKNOWN) && never_ran(container) => {
            ContainerState::Waiting {
                reason: None,
                message: None,
            }
        }
        Some(ContainerStateWire {
            terminated: Some(end),
            ..
        }) => ContainerState::Terminated(termination(end)),
        Some(ContainerStateWire {
            running: Some(run), ..
        }) => ContainerState::Running {
            started: time(&run.started_at),
        },
        Some(ContainerStateWire {
            waiting: Some(wait),
            ..
        }) => ContainerState::Waiting {
            reason: kept(&wait.reason),
            message: kept(&wait.message),
        },
        // The API's documentation: "If none of them is specified, the default one is waiting".
        _ => ContainerState::Waiting {
            reason: None,
            message: None,
        },
    }
}

fn never_ran(container: &ContainerWire<'_>) -> bool {
    let was_created = text(&container.container_id).is_some_and(|id| !id.is_empty());
    let ran_before = (container.last_state.as_ref()).is_some_and(|last| last.terminated.is_some());
    !was_created && !ran_before
}

/// The init container for which the executor's waits, with the state that the executor's is given: its own would only
/// say [`NOT_ITS_TURN`] (spec A-51).
fn waits_for(
    executor: &ContainerState,
    spec: &SpecWire<'_>,
    status: &StatusWire<'_>,
    stage: Stage,
) -> Option<(ContainerState, InitContainer)> {
    let is_behind = match executor {
        ContainerState::Absent => true,
        ContainerState::Waiting { reason, .. } => {
            (reason.as_deref()).is_none_or(|reason| reason == NOT_ITS_TURN)
        }
        ContainerState::Running { .. } | ContainerState::Terminated(_) => return None,
    };
    let declared = spec.init_containers.as_deref().unwrap_or_default();
    let statuses = status.init_container_statuses.as_deref()?;
    statuses.iter().find_map(|status| {
        let declared = declared
            .iter()
            .find(|c| text(&c.name) == text(&status.name));
        let policy = declared.and_then(|c| text(&c.restart_policy));
        let restarts = status
            .restart_count
            .and_then(|count| u32::try_from(count).ok());
        let init = InitContainer {
            name: name(status),
            sidecar: policy == Some("Always"),
            restarts: restarts.unwrap_or_default(),
        };
        let (reason, said) = holds_up(status, &init, is_behind, stage)?;
        let message = Some(cut(&format!("{init}{said}")));
        let reason = Some(reason);
        Some((ContainerState::Waiting { reason, message }, init))
    })
}

/// Why an init container holds up the executor's, and a description.
fn holds_up(
    status: &ContainerWire<'_>,
    init: &InitContainer,
    is_behind: bool,
    stage: Stage,
) -> Option<(Arc<str>, String)> {
    match container_state(status) {
        ContainerState::Waiting {
            reason: Some(reason),
            message,
        } if *reason != *NOT_ITS_TURN => Some((reason, detail(message.as_deref()))),
        ContainerState::Running { .. } if is_behind && stage == Stage::Lives => {
            let said = match (init.sidecar, status.started) {
                (true, Some(true)) => return None,
                (true, _) => " runs, and its startup probe has not succeeded",
                (false, _) => " has not finished",
            };
            Some((Arc::from(NOT_ITS_TURN), said.to_owned()))
        }
        // When a pod is deleted all of its containers are ended, and when it ends its sidecars.
        ContainerState::Terminated(end)
            if match stage {
                Stage::Lives => init.sidecar || end.exit_code != Some(0),
                Stage::Ended => !init.sidecar && end.exit_code != Some(0),
                Stage::Deleting => false,
            } =>
        {
            let code = end.exit_code.map_or_else(
                || "an unknown exit code".to_owned(),
                |code| format!("exit {code}"),
            );
            let said = format!(" ended with {code}{}", detail(end.message.as_deref()));
            Some((end.reason.unwrap_or_else(|| Arc::from("Error")), said))
        }
        _ => None,
    }
}

fn detail(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {message}"))
}

fn name(container: &ContainerWire<'_>) -> Arc<str> {
    clean(text(&container.name).unwrap_or_default(), 63)
}

fn termination(end: &TerminatedWire<'_>) -> Termination {
    let reason = kept(&end.reason);
    let code = end.exit_code.and_then(|code| i32::try_from(code).ok());
    Termination {
        exit_code: code.filter(|code| !is_made_up(reason.as_deref(), *code)),
        message: match reason.as_deref() {
            // The end of its output, where it left no message (spec K-15). Others are the kubelet's own.
            Some("Error" | "OOMKilled") => text(&end.message).and_then(last_line).map(cut),
            _ => kept(&end.message),
        },
        reason,
        started: time(&end.started_at),
        finished: time(&end.finished_at),
    }
}

fn last_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    lines.rfind(|line| !line.is_empty() && !is_of_agent(line))
}

/// Whether this is a line of the agent's own log that tells of no error: it says nothing of why its program ended.
fn is_of_agent(line: &str) -> bool {
    line.contains(r#""module":"boatswain_agent"#) && !line.contains(r#""level":"error""#)
}

/// Kubelet and runtime make up a code for a container that they have lost (spec E-13).
fn is_made_up(reason: Option<&str>, code: i32) -> bool {
    matches!(
        (reason, code),
        (Some(STATUS_UNKNOWN), _) | (Some(RUNTIME_UNKNOWN), 255)
    )
}
