//! Decodes the containers' states: the executor container's, and what it waits for.

use std::sync::Arc;

use super::{PodReader, kept, text, time};
use crate::kubernetes::refusal::clean;
use crate::kubernetes::wire::{
    ContainerStateWire, ContainerWire, DeclaredWire, RestartRuleWire, SpecWire, StatusWire,
    TerminatedWire,
};
use crate::model::pod::{ContainerState, Restarts, Termination, cut};

/// The waiting reason of a container while init containers run.
const NOT_ITS_TURN: &str = "PodInitializing";

/// The reason of containers that ended because another container's rule restarts all of them.
const ALL_RESTART: &str = "RestartingAllContainers";

pub(super) struct Containers {
    pub(super) executor: ContainerState,
    pub(super) failed_sidecar: Option<Termination>,
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
        let place = |name: &str| statuses.iter().position(|c| text(&c.name) == Some(name));
        // Kubelets sort the statuses by name, so the first container is taken from the spec.
        let first = declared.first().and_then(|c| text(&c.name));
        let has_named = declared
            .iter()
            .any(|c| text(&c.name) == Some(&*self.container));
        let executor = match place(&self.container) {
            Some(at) => Some(at),
            // The executor container has no status yet; do not take another container's.
            None if has_named => None,
            None => match first {
                Some(name) => place(name),
                None => (!statuses.is_empty()).then_some(0),
            },
        };
        let state = executor
            .and_then(|at| statuses.get(at))
            .map(container_state)
            .unwrap_or_default();
        let has_ended = matches!(text(&status.phase), Some("Failed" | "Succeeded"));
        let restart = Restart {
            possible: !deleting && !has_ended,
            declared,
            of_pod: text(&spec.restart_policy),
        };
        let restarts = executor
            .and_then(|at| statuses.get(at))
            .filter(|container| restart.is_declared(container))
            .and_then(restarts);
        let waits = matches!(
            state,
            ContainerState::Waiting { .. } | ContainerState::Absent
        );
        let state = (waits.then(|| before_it(status)).flatten()).unwrap_or(state);
        let decides_too = self.check_all_containers && text(&spec.restart_policy) == Some("Never");
        let sidecar = decides_too
            .then(|| {
                let others = statuses.iter().enumerate();
                others
                    .filter(|(at, _)| Some(*at) != executor)
                    .filter_map(|(_, c)| Some((c, c.state.as_ref()?.terminated.as_ref()?)))
                    .map(|(c, end)| (c, termination(end)))
                    .find(|(c, end)| {
                        end.exit_code.is_some_and(|code| code != 0) && !restart.follows(c, end)
                    })
                    .map(|(_, end)| end)
            })
            .flatten();
        Containers {
            executor: match state {
                ContainerState::Terminated(end)
                    if executor
                        .and_then(|at| statuses.get(at))
                        .is_some_and(|container| restart.follows(container, &end)) =>
                {
                    about_to_restart(&end)
                }
                state => state,
            },
            failed_sidecar: sidecar,
            restarts,
        }
    }
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

/// An init container that waits or has failed, as the executor's own waiting reason (spec A-51). The executor container
/// itself would report only [`NOT_ITS_TURN`].
fn before_it(status: &StatusWire<'_>) -> Option<ContainerState> {
    let statuses = status.init_container_statuses.as_deref()?;
    let of = |init: &ContainerWire<'_>, reason: Arc<str>, said: String| {
        let name = clean(text(&init.name).unwrap_or_default(), 63);
        ContainerState::Waiting {
            reason: Some(reason),
            message: Some(cut(&format!("init container {name}{said}"))),
        }
    };
    statuses
        .iter()
        .find_map(|init| match container_state(init) {
            ContainerState::Waiting {
                reason: Some(reason),
                message,
            } if *reason != *NOT_ITS_TURN => {
                let said = message.map_or_else(String::new, |message| format!(": {message}"));
                Some(of(init, reason, said))
            }
            ContainerState::Terminated(end) if end.exit_code != Some(0) => {
                let code = end.exit_code.map_or_else(
                    || "an unknown exit code".to_owned(),
                    |code| format!("exit {code}"),
                );
                let detail = end
                    .message
                    .map_or_else(String::new, |message| format!(": {message}"));
                let reason = end.reason.unwrap_or_else(|| Arc::from("Error"));
                Some(of(init, reason, format!(" ended with {code}{detail}")))
            }
            _ => None,
        })
}

fn termination(end: &TerminatedWire<'_>) -> Termination {
    Termination {
        exit_code: end.exit_code.and_then(|code| i32::try_from(code).ok()),
        reason: kept(&end.reason),
        message: kept(&end.message),
        started: time(&end.started_at),
        finished: time(&end.finished_at),
    }
}
