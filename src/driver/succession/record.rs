//! Takes over the application record at a start: reads or creates it, and raises its incarnation
//! (spec O-30).

use std::sync::Arc;

use super::{Retries, StartError, holder, new_app_id};
use crate::actors::pod_allocator::ids::RESERVED_BLOCK;
use crate::config::Config;
use crate::driver::{Environment, predecessor};
use crate::exit::{Exit, OVER_BUDGET};
use crate::kubernetes::Calls;
use crate::kubernetes::calls::{ConfigMap, Reference};
use crate::kubernetes::record::{
    NoSuccession, Record, RecordError, RecordPlace, check_name, record_name,
};
use crate::model::ids::id_in_pod_name;
use crate::model::ledger::PLAUSIBLE_ID;
use crate::model::pod::{PodIdentity, Sighting};
use crate::model::{AppId, ExecutorId};

pub(super) struct Taken {
    pub(super) record: Record,
    pub(super) inherited: Option<Record>,
    pub(super) map: ConfigMap,
}

/// `None` if there is no record.
pub(super) async fn read(
    calls: &Calls,
    retries: &Retries<'_>,
    place: &RecordPlace,
) -> Result<Option<ConfigMap>, StartError> {
    let name = record_name(&place.prefix);
    let read = || calls.get_config_map(&name);
    retries.call("the application record", read).await
}

/// `found`: the record as it was read. The version is the precondition of the write, so that concurrent starts get different
/// incarnations.
pub(super) async fn take_over(
    config: &Config,
    calls: &Calls,
    retries: &Retries<'_>,
    place: &RecordPlace,
    found: Option<ConfigMap>,
    pod: Option<&Reference>,
    environment: &Environment,
) -> Result<Taken, StartError> {
    let mut found = Some(found);
    let name = record_name(&place.prefix);
    let holder = holder(environment.holder);
    let mut failures = 0;
    // The last write whose outcome is unknown, and the record before it.
    let mut attempt: Option<(Record, Option<Record>)> = None;
    loop {
        let found = match found.take() {
            Some(found) => found,
            None => read(calls, retries, place).await?,
        };
        let inherited = match &found {
            None => None,
            Some(map) => Some(understand(map, config)?),
        };
        if let (Some(map), Some(record), Some((sent, before))) = (&found, &inherited, &attempt)
            && (record.incarnation, &record.holder) == (sent.incarnation, &sent.holder)
        {
            return Ok(Taken {
                record: record.clone(),
                inherited: before.clone(),
                map: map.clone(),
            });
        }
        // Of two drivers that start at once, the one whose write comes second gives way (spec O-34). With the Lease there
        // is no doubt who goes on.
        if attempt.is_some()
            && !config.ha.lease
            && let Some(by) = predecessor::living(calls, pod, inherited.as_ref()).await
        {
            let why = format!("pod {by} has started at the same time: start again to wait for it");
            return Err(StartError::new(Exit::Superseded, why));
        }
        let app_id = (inherited.as_ref().map(|record| record.app_id.clone()))
            .or_else(|| config.app.id.clone())
            .unwrap_or_else(|| new_app_id(&place.prefix, environment.seed));
        let succession = Record::succeed(inherited.as_ref(), &app_id, RESERVED_BLOCK)
            .map_err(|why| no_succession(why, &app_id, &name))?;
        let mut record = succession.record;
        record.holder = Some(Arc::clone(&holder));
        record.holder_pod = pod.map(predecessor::pod_text);
        record.origin.get_or_insert_with(|| Arc::clone(&holder));
        if found.is_none()
            && let Some(last) = last_id_of_pods(config, calls, retries, place).await?
        {
            record.reserve(last, RESERVED_BLOCK);
        }
        let written = match &found {
            None => {
                calls
                    .create_config_map(&record.to_config_map(place, None))
                    .await
            }
            Some(map) => {
                let replaces = Some((&map.uid, &map.version));
                calls
                    .replace_config_map(&name, &record.to_config_map(place, replaces))
                    .await
            }
        };
        match written {
            Ok(map) => {
                return Ok(Taken {
                    record,
                    inherited,
                    map,
                });
            }
            // Another driver has written the record, or the outcome is unknown. Reading it again
            // decides.
            Err(failure) => {
                failures += 1;
                attempt = Some((record, inherited));
                retries
                    .wait("the application record", failures, &failure)
                    .await?;
            }
        }
    }
}

/// The last id that a pod of the application bears. A record that was deleted had reserved it. The new one reserves it
/// before any of these pods is adopted or deleted: otherwise a successor that does not find them would give their ids to
/// others (spec I-1). Only with a configured id the application is the one that these pods belong to.
async fn last_id_of_pods(
    config: &Config,
    calls: &Calls,
    retries: &Retries<'_>,
    place: &RecordPlace,
) -> Result<Option<ExecutorId>, StartError> {
    let Some(app_id) = &config.app.id else {
        return Ok(None);
    };
    let calls = &calls.clone().of_app(app_id.clone());
    let list = || async {
        let mut last = None;
        // A pod of a set has its id as a label alone.
        let id = |pod: &Sighting| {
            let named = |name: &Arc<str>| id_in_pod_name(&place.prefix, name);
            (pod.identity().and_then(PodIdentity::executor)).or_else(|| pod.name().and_then(named))
        };
        let plausible = |id: &ExecutorId| id.get() < PLAUSIBLE_ID;
        let visit = |pod: &Sighting| last = last.max(id(pod).filter(plausible));
        (calls.for_each_pod(config.tuning.page_size, visit).await).map(|()| last)
    };
    retries.call("the application's pods", list).await
}

/// Refuses the record of an application with another name: two names may be made into one prefix. An id that is
/// configured says more than a name.
pub(super) fn refuse_another_name(map: &ConfigMap, config: &Config) -> Result<(), StartError> {
    if config.app.id.is_some() {
        return Ok(());
    }
    check_name(map, &config.app.name)
        .map_err(|error| StartError::new(Exit::Configuration, error.to_string()))
}

pub(super) fn understand(map: &ConfigMap, config: &Config) -> Result<Record, StartError> {
    refuse_another_name(map, config)?;
    let record = match &config.app.id {
        Some(app_id) => Record::read_own(map, app_id),
        None => Record::read(map),
    };
    record.map_err(|error| {
        let hint = match &error {
            RecordError::Newer { .. } | RecordError::AnotherApplication { .. } => "",
            RecordError::Unreadable { .. } => {
                ": mend it, or delete the ConfigMap where no executor of the application is left"
            }
        };
        StartError::new(Exit::Configuration, format!("{error}{hint}"))
    })
}

fn no_succession(why: NoSuccession, app: &AppId, record: &str) -> StartError {
    match why {
        NoSuccession::Finished { code, .. } => {
            let fix = match code {
                OVER_BUDGET => format!("`boatswain reset --app {app}` lets it go on"),
                _ => format!("delete ConfigMap {record} to run it anew"),
            };
            StartError::new(Exit::Finished(code), format!("{why}: {fix}"))
        }
        NoSuccession::NoMoreIds | NoSuccession::NoMoreIncarnations => StartError::new(
            Exit::Configuration,
            format!("{why}: choose another app.id and executors.pod_name_prefix"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::body::Body;
    use http::{Method, Request};
    use tower::{BoxError, ServiceExt, service_fn};

    use super::*;
    use crate::clock::Clock;
    use crate::config::Strategy;
    use crate::driver::succession::{Application, find_application, take_over_application};
    use crate::kubernetes::Clients;
    use devcluster::{self, DevCluster};

    /// A start whose first write is committed but not answered.
    async fn start(cluster: &DevCluster, holder: u64) -> Application {
        start_of(cluster, holder, &Config::default()).await.unwrap()
    }

    async fn start_of(
        cluster: &DevCluster,
        holder: u64,
        config: &Config,
    ) -> Result<Application, StartError> {
        let router = cluster.router();
        let answers = Arc::new(AtomicBool::new(false));
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (router, answers) = (router.clone(), Arc::clone(&answers));
            async move {
                let writes = request.method() != Method::GET;
                let response = router.oneshot(request.map(Body::new)).await?;
                if writes && !answers.swap(true, Ordering::Relaxed) {
                    return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
                }
                Ok::<_, BoxError>(response)
            }
        });
        let environment = Environment {
            clients: Clients::in_process(service, "default"),
            clock: Clock::system(),
            seed: 1,
            holder,
        };
        let found = find_application(config, &environment).await?;
        take_over_application(found, config, &environment).await
    }

    // spec: O-30, K-7
    #[tokio::test(start_paused = true)]
    async fn the_record_of_an_application_with_another_name_is_refused_before_anything_waits_for_it()
     {
        let cluster = devcluster::start(devcluster::Options::default());
        let named = |name: &str| {
            let mut config = Config::default();
            config.app.name = name.to_owned();
            config.executors.pod_name_prefix = Some("sales-etl".to_owned());
            config
        };
        let first = start_of(&cluster, 1, &named("sales etl")).await.unwrap();
        let refused = start_of(&cluster, 2, &named("Sales.ETL"))
            .await
            .err()
            .unwrap();
        assert_eq!(refused.exit, Exit::Configuration);
        let why = refused.to_string();
        assert!(
            why.contains("is the record of the application \"sales etl\", not of \"Sales.ETL\""),
            "{why}"
        );
        // The same application under another name: its id says so.
        let mut renamed = named("Sales.ETL");
        renamed.app.id = Some(first.record.app_id.clone());
        assert!(start_of(&cluster, 3, &renamed).await.is_ok());
        assert!(start_of(&cluster, 4, &named("Sales.ETL")).await.is_ok());
    }

    // spec: I-1, O-31
    #[tokio::test(start_paused = true)]
    async fn a_record_that_is_made_anew_reserves_the_ids_of_the_pods_that_are_there() {
        let cluster = devcluster::start(devcluster::Options::default());
        let mut config = Config::default();
        config.app.id = Some(AppId::from("etl-1"));
        for name in [
            "boatswain-exec-5007",
            "boatswain-exec-12",
            "other-exec-9000",
        ] {
            create_pod(&cluster, name, name).await;
        }
        let made = start_of(&cluster, 1, &config).await.unwrap();
        assert_eq!(made.inherited, None);
        assert_eq!(
            made.record.reserved,
            ExecutorId::new(5_007 + RESERVED_BLOCK - 1)
        );
        // An absurd id does not use up all others.
        let cluster = devcluster::start(devcluster::Options::default());
        let absurd = format!("boatswain-exec-{}", u64::MAX >> 1);
        create_pod(&cluster, &absurd, &absurd).await;
        let made = start_of(&cluster, 1, &config).await.unwrap();
        assert_eq!(made.record.reserved, ExecutorId::new(RESERVED_BLOCK));
        // A pod of a set is named by the set.
        let cluster = devcluster::start(devcluster::Options::default());
        create_pod(&cluster, "boatswain-default-0", "7001").await;
        config.allocation.strategy = Strategy::StatefulSet;
        let made = start_of(&cluster, 1, &config).await.unwrap();
        assert_eq!(made.record.reserved, ExecutorId::new(8_000));
    }

    /// `id`: it ends with the executor's.
    async fn create_pod(cluster: &DevCluster, name: &str, id: &str) {
        let id = id.rsplit('-').next();
        let pod = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {
                "boatswain.dev/app-id": "etl-1",
                "boatswain.dev/role": "executor",
                "boatswain.dev/executor-id": id,
                "boatswain.dev/profile": "default",
            }},
            "spec": {"containers": [{"name": "executor", "image": "busybox"}]},
        });
        let request = Request::post("/api/v1/namespaces/default/pods")
            .header("content-type", "application/json")
            .body(Body::from(pod.to_string()))
            .unwrap();
        let answer = cluster.router().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 201);
    }

    // spec: O-30, O-31
    #[tokio::test(start_paused = true)]
    async fn a_start_recognises_its_unanswered_write_and_skips_no_incarnation() {
        let cluster = devcluster::start(devcluster::Options::default());
        let first = start(&cluster, 1).await;
        assert_eq!((first.record.incarnation.0, first.inherited), (1, None));
        let second = start(&cluster, 2).await;
        assert_eq!(second.record.incarnation.0, 2);
        assert_eq!(second.record.origin, first.record.holder);
        assert_eq!(second.inherited, Some(first.record));
    }
}
