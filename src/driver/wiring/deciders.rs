//! The actors that decide on executors: LifecycleManager, and PodAllocator or SetScaler.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use tokio::sync::watch;

use crate::actors::lifecycle_manager::{self, LifecycleManager, pending_actions};
use crate::actors::pod_allocator::queue::Queue;
use crate::actors::pod_allocator::{self, PodAllocator, Pods, allocation};
use crate::actors::set_scaler::{self, SetScaler};
use crate::actors::snapshot_store::handle::StoreHandle;
use crate::actors::snapshot_store::messages::Subscriber;
use crate::driver::listener;
use crate::driver::profile_spec;
use crate::driver::provisioners;
use crate::driver::settings;
use crate::kubernetes::pod_template::gangs::Gangs;
use crate::kubernetes::pod_template::{Common, TemplateError};
use crate::kubernetes::set_template::Sets;
use crate::kubernetes::{ProfileSpec, SetKind};
use crate::model::ProfileName;

use super::basis::Basis;
use super::links::{Links, ProvisionerContext};

pub(super) fn lifecycle_manager(basis: &Basis<'_>, links: &Links, rng: StdRng) -> LifecycleManager {
    let config = &basis.config;
    let adoption_grace = basis.must_register().then_some(config.adoption.grace);
    let settings = settings::lifecycle_settings(config, adoption_grace);
    LifecycleManager::new(lifecycle_manager::Wiring {
        pending_actions: pending_actions::PendingActions::new(settings, rng),
        calls: links.calls.clone(),
        prefix: Arc::clone(&basis.prefix),
        labels: basis.application.labels,
        clock: basis.clock,
        store: StoreHandle::new(links.store.clone(), Subscriber::Lifecycle),
        sessions: links.registry.clone().recipient(),
        reports: links.record.clone().recipient(),
    })
}

/// Creates the provisioner. Calling the returned function starts it.
///
/// # Errors
/// If the API server would refuse the pods.
pub(super) fn provisioner(
    context: ProvisionerContext,
    left: watch::Sender<u32>,
    basis: &Basis<'_>,
    links: &Links,
    rng: StdRng,
) -> Result<Box<dyn FnOnce()>, TemplateError> {
    match context {
        ProvisionerContext::Direct(context) => {
            let allocator = pod_allocator(basis, links, left, rng)?;
            Ok(Box::new(move || drop(context.run(allocator))))
        }
        ProvisionerContext::Sets(kind, context) => {
            let scaler = set_scaler(basis, links, left, kind)?;
            Ok(Box::new(move || drop(context.run(scaler))))
        }
    }
}

fn pod_allocator(
    basis: &Basis<'_>,
    links: &Links,
    left: watch::Sender<u32>,
    rng: StdRng,
) -> Result<PodAllocator, TemplateError> {
    let config = &basis.config;
    let record = &basis.application.record;
    let (common, specs) = (common(basis), specs(basis));
    let least = settings::least(&config.profiles);
    let mut settings = settings::allocation_settings(
        &config.cluster,
        &config.allocation,
        (&config.failures, &basis.application.configured),
        settings::caps(&config.app, &config.allocation, &config.profiles),
        config.backend.decommission_timeout,
        settings::claims(&config.claims, &common.prefix, &specs),
        settings::gangs(&config.scheduling, basis.must_register()),
    );
    settings.failures.growth = settings::growth(&config.profiles);
    let known = settings::known_to_the_allocator(record, basis.now);
    let pods = Pods::new(common, specs)?.with_queue(settings::queue(&config.scheduling));
    let allocation = allocation::Allocation::new(settings, rng, &known, &least, basis.now);
    Ok(PodAllocator::new(pod_allocator::Wiring {
        allocation: allocation.with_queue(queue(basis, &pods, &least)),
        calls: links.calls.clone(),
        pods,
        clock: basis.clock,
        store: StoreHandle::new(links.store.clone(), Subscriber::Allocator),
        reserve: links.record.clone().recipient(),
        keep_backoffs: links.record.clone().recipient(),
        keep_failures: links.record.clone().recipient(),
        cannot_start: links.reporter.cannot_start.clone(),
        stop: links.backend.clone().recipient(),
        paused: links.backend.clone().recipient(),
        left,
        event_recorder: links.event_recorder.clone(),
    }))
}

/// `None`: executors are requested without a queue.
fn queue(basis: &Basis<'_>, pods: &Pods, least: &BTreeMap<ProfileName, u32>) -> Option<Queue> {
    settings::queue(&basis.config.scheduling)?;
    let mut queue = Queue::new(basis.now.tick);
    for (profile, least) in least {
        if let Some(pods) = pods.queued(profile) {
            queue.add_profile(profile.clone(), pods.hash, *least);
        }
    }
    Some(queue)
}

/// SetScaler's StatefulSets or Deployments make the pods (spec A-80).
fn set_scaler(
    basis: &Basis<'_>,
    links: &Links,
    left: watch::Sender<u32>,
    kind: SetKind,
) -> Result<SetScaler, TemplateError> {
    let config = &basis.config;
    let sets = Sets::new(kind, common(basis), &specs(basis))?;
    let names: Vec<ProfileName> = config.profiles.keys().cloned().collect();
    let scaling = provisioners::scaling(
        kind,
        &sets,
        &names,
        (&config.allocation, &config.poll, &config.backend),
        (
            settings::failure_settings(&config.failures, &basis.application.configured),
            &basis.application.record,
            basis.now,
        ),
    );
    Ok(SetScaler::new(set_scaler::Wiring {
        scaling,
        sets,
        calls: links.calls.clone(),
        clock: basis.clock,
        store: StoreHandle::new(links.store.clone(), Subscriber::Allocator),
        reserve: links.record.clone().recipient(),
        keep_failures: links.record.clone().recipient(),
        stop: links.backend.clone().recipient(),
        left,
        event_recorder: links.event_recorder.clone(),
    }))
}

/// What the pods of all profiles have in common.
fn common(basis: &Basis<'_>) -> Common {
    let application = basis.application;
    let record = &application.record;
    let mounts_config_map = (application.owned_resources.iter())
        .any(|owned_resource| owned_resource.resource == "configmaps");
    Common {
        app_id: record.app_id.clone(),
        app_name: basis.config.app.name.clone(),
        namespace: application.namespace.clone(),
        prefix: application.prefix.clone(),
        labels: application.labels,
        incarnation: record.incarnation,
        record_uid: application.uid.clone(),
        driver_url: basis.driver_url.clone(),
        token: (basis.listener).map(|listener| listener.token_source(&record.app_id)),
        agent: basis.agent.clone(),
        injection: listener::injection(&basis.config),
        protects: basis.config.nodes.protect_busy,
        ca_file: listener::ca_path(&basis.config),
        config_map: mounts_config_map.then(|| basis.config.config_map.mount_path.clone()),
        avoid: Default::default(),
        preferred: Default::default(),
    }
}

fn specs(basis: &Basis<'_>) -> BTreeMap<ProfileName, ProfileSpec> {
    specs_and_gangs(basis).0
}

/// The gangs of all profiles; `None` if no gang scheduler is informed of gangs.
pub(super) fn gangs(basis: &Basis<'_>) -> Option<Gangs> {
    specs_and_gangs(basis).1
}

fn specs_and_gangs(basis: &Basis<'_>) -> (BTreeMap<ProfileName, ProfileSpec>, Option<Gangs>) {
    let profiles = &basis.config.profiles;
    let mut specs = profile_spec::specs(profiles.clone());
    let least = settings::least(profiles);
    let gangs = settings::mark_gangs(&basis.config.scheduling, &least, &mut specs);
    (specs, gangs)
}
