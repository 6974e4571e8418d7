//! The applications of a cluster, and which of them is meant by an id or a name (spec O-137, O-86).

use std::fmt::Write as _;

use crate::kubernetes::Failure;
use crate::kubernetes::calls::Application;
use crate::kubernetes::{Calls, FailureKind};

use super::clean::{NotRead, Place};

/// The most applications that an error names.
const NAMED: usize = 10;

/// What is known of an application's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverState {
    Runs,
    /// Its pod is gone, or does not run.
    Gone,
    /// It runs outside a pod, or its pod may not be read.
    Unknown,
}

/// An application, and its driver.
#[derive(Debug)]
pub struct Listed {
    pub application: Application,
    /// The name of the driver's pod; `None` outside a cluster.
    pub pod: Option<String>,
    pub driver: DriverState,
}

/// Why no application is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotNamed {
    #[error("no application {given} has a record in namespace {namespace}{}\nlook at --namespace", listing(.others))]
    None {
        given: String,
        namespace: String,
        /// Ids and names of the others.
        others: Vec<String>,
    },
    #[error("{} applications are called {given}: name one by its id, {}", .ids.len(), .ids.join(" or "))]
    Several { given: String, ids: Vec<String> },
}

fn listing(others: &[String]) -> String {
    if others.is_empty() {
        return ", nor any other".to_owned();
    }
    let mut text = format!(
        "; there is {}",
        others[..others.len().min(NAMED)].join(", ")
    );
    if others.len() > NAMED {
        // Writing into a `String` cannot fail.
        let _ = write!(text, " and {} more: `boatswain list`", others.len() - NAMED);
    }
    text
}

/// The id of the application with this id, or else of the one with this name.
///
/// # Errors
/// If there is none, or if several have this name.
pub fn id_of(given: &str, namespace: &str, all: &[Application]) -> Result<String, NotNamed> {
    if all.iter().any(|application| application.id == given) {
        return Ok(given.to_owned());
    }
    let named = all.iter().filter(|application| application.name == given);
    let mut ids: Vec<String> = named.map(|application| application.id.clone()).collect();
    match ids.len() {
        0 => Err(NotNamed::None {
            given: given.to_owned(),
            namespace: namespace.to_owned(),
            others: all.iter().map(described).collect(),
        }),
        1 => Ok(ids.remove(0)),
        _ => Err(NotNamed::Several {
            given: given.to_owned(),
            ids,
        }),
    }
}

fn described(application: &Application) -> String {
    let Application { id, name, .. } = application;
    match name.is_empty() || name == id {
        true => id.clone(),
        false => format!("{id} ({name})"),
    }
}

/// Lists the applications of a namespace, or of all.
///
/// # Errors
/// If the cluster cannot be reached or refuses to list the records.
pub async fn list(place: Place, everywhere: bool) -> Result<Vec<Listed>, NotRead> {
    let (calls, _) = place.connect().await?;
    let mut all = Vec::new();
    for application in calls.list_applications(everywhere).await? {
        all.push(looked_at(&calls, application).await?);
    }
    let key = |one: &Listed| {
        (
            one.application.namespace.clone(),
            one.application.id.clone(),
        )
    };
    all.sort_by_key(key);
    Ok(all)
}

/// The names and ids of the namespace's applications.
///
/// # Errors
/// If the cluster cannot be reached or refuses to list the records.
pub async fn names(place: Place) -> Result<Vec<String>, NotRead> {
    let (calls, _) = place.connect().await?;
    let all = calls.list_applications(false).await?;
    Ok(all.into_iter().flat_map(|one| [one.name, one.id]).collect())
}

async fn looked_at(calls: &Calls, application: Application) -> Result<Listed, Failure> {
    let record = application.record.as_ref().ok();
    let holder = record.and_then(|record| record.driver_pod());
    let Some((pod, uid)) = holder else {
        return Ok(Listed {
            application,
            pod: None,
            driver: DriverState::Unknown,
        });
    };
    let read = calls.controller_of_pod_in(&application.namespace, pod);
    let driver = match read.await {
        Ok(found) => match found.is_some_and(|found| found.uid == uid && found.runs) {
            true => DriverState::Runs,
            false => DriverState::Gone,
        },
        Err(failure) if failure.kind == FailureKind::Rights => DriverState::Unknown,
        Err(failure) => return Err(failure),
    };
    let pod = Some(pod.to_owned());
    Ok(Listed {
        application,
        pod,
        driver,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::record::RecordError;

    fn application(id: &str, name: &str) -> Application {
        Application {
            namespace: "jobs".to_owned(),
            id: id.to_owned(),
            name: name.to_owned(),
            since: None,
            record: Err(RecordError::Newer {
                map: "x-app".to_owned(),
                found: 9,
            }),
        }
    }

    // spec: O-86
    #[test]
    fn an_application_is_meant_by_its_id_or_by_a_name_that_it_alone_has() {
        let all = [
            application("etl-1", "etl"),
            application("etl", "daily"),
            application("a-1", "a"),
            application("a-2", "a"),
        ];
        let id = |given: &str| id_of(given, "jobs", &all);
        assert_eq!(id("etl").unwrap(), "etl", "an id comes before a name");
        assert_eq!(id("daily").unwrap(), "etl");
        let several = id("a").unwrap_err().to_string();
        assert_eq!(
            several,
            "2 applications are called a: name one by its id, a-1 or a-2"
        );
        let none = id("etk").unwrap_err().to_string();
        assert!(
            none.starts_with(
                "no application etk has a record in namespace jobs; there is etl-1 (etl), etl (daily), a-1 (a)"
            ),
            "{none}"
        );
        let alone = id_of("etl", "jobs", &[]).unwrap_err().to_string();
        assert!(alone.contains("namespace jobs, nor any other"), "{alone}");
    }
}
