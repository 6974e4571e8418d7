//! Decodes the containers' states: the executor container's, and what it waits for.

use std::sync::Arc;

use super::{PodReader, kept, text, time};
use crate::kubernetes::refusal::clean;
use crate::kubernetes::wire::{
    ContainerStateWire, ContainerWire, SpecWire, StatusWire, TerminatedWire,
};
use crate::model::pod::{ContainerState, Restarts, Termination, cut};

/// The waiting reason of a container while init containers run.
const NOT_ITS_TURN: &str = "PodInitializing";

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
        let goes_on = !deleting && !has_ended && text(&spec.restart_policy) == Some("Always");
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
