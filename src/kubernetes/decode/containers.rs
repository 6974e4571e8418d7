//! What a pod's containers say: how the executor's is, and what keeps it from its turn.

use std::sync::Arc;

use super::{PodReader, kept, text, time};
use crate::kubernetes::refusal::clean;
use crate::kubernetes::wire::{
    ContainerStateWire, ContainerWire, SpecWire, StatusWire, TerminatedWire,
};
use crate::model::pod::{ContainerState, Restarts, Termination, cut};

/// What a container waits for whose pod has init containers that have not ended.
const NOT_ITS_TURN: &str = "PodInitializing";

/// What a pod's containers say.
pub(super) struct Containers {
    pub(super) executor: ContainerState,
    pub(super) failed_sidecar: Option<Termination>,
    pub(super) restarts: Option<Arc<Restarts>>,
}

impl PodReader {
    /// The executor container's state, and another one's end where that decides too (spec E-12).
    pub(super) fn containers(
        &self,
        spec: &SpecWire<'_>,
        status: &StatusWire<'_>,
        deleting: bool,
    ) -> Containers {
        let statuses = status.container_statuses.as_deref().unwrap_or_default();
        let declared = spec.containers.as_deref().unwrap_or_default();
        let place = |name: &str| statuses.iter().position(|c| text(&c.name) == Some(name));
        // Kubelets sort the states by name: the first container is the first one of the spec.
        let first = declared.first().and_then(|c| text(&c.name));
        let has_named = declared
            .iter()
            .any(|c| text(&c.name) == Some(&*self.container));
        let executor = match place(&self.container) {
            Some(at) => Some(at),
            // It has one, of which nothing was reported yet: another one's state is not its.
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
        let goes_on = !deleting && text(&spec.restart_policy) == Some("Always");
        let restarts = executor
            .and_then(|at| statuses.get(at))
            .filter(|_| goes_on)
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
                    .filter_map(|(_, c)| c.state.as_ref()?.terminated.as_ref())
                    .map(termination)
                    .find(|end| end.exit_code.is_some_and(|code| code != 0))
            })
            .flatten();
        Containers {
            executor: match state {
                ContainerState::Terminated(end) if goes_on => about_to_restart(&end),
                state => state,
            },
            failed_sidecar: sidecar,
            restarts,
        }
    }
}

/// An end after which the kubelet starts the container again, in the same pod, is none of the executor's (spec A-80).
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
        // "If none of them is specified, the default one is waiting", says the API.
        _ => ContainerState::Waiting {
            reason: None,
            message: None,
        },
    }
}

/// What keeps an executor's container from its turn: an init container that waits for something, or has failed. It is
/// told as the executor's own waiting, and judged as that (spec A-51): its own would only say that it is not its turn.
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
