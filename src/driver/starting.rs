//! The phases of a start: prepare, find and take over the application, create the actors, serve.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::actors::driver_backend::messages::Stop;
use crate::config::{Config, OnSignal};
use crate::exit::Exit;
use crate::kubernetes::owned_resources::Content;
use crate::planted::{self, Planted};
use crate::telemetry::millis;

use super::Environment;
use super::actors::Actors;
use super::certificates;
use super::early::Early;
use super::handle::Command;
use super::listener::Listener;
use super::owned_resources;
use super::profile_proofs::ProfileProofs;
use super::reports::Reports;
use super::running::Running;
use super::serving::Serving;
use super::stop_request::StopRequest;
use super::succession::authority::{self, Authorities};
use super::succession::{self, Application, Found, StartError};
use super::wiring;

/// A start that takes longer after it took over reads the record again (spec O-100).
const SLOW_START: Duration = Duration::from_secs(1);

/// # Errors
/// Returns the exit code of a driver that does not run. The reason is logged.
pub(super) async fn start(
    mut config: Config,
    environment: Environment,
    commands: mpsc::UnboundedReceiver<Command>,
) -> Result<Running, Exit> {
    let began = Instant::now();
    let (content, mut serving) = prepare(&config, &environment).await?;
    let (calls, _) = succession::calls(&config, &environment.clients);
    let mut early = Early::new(commands, StopRequest::awaited(&config, calls));
    let mut found = early.during(find(&config, &environment)).await?;
    early.stop.set_owner_chain(found.owner_chain.as_ref());
    early.hand_over()?;
    if config.ha.lease {
        stand_by(&mut found, &config, &environment, &mut early, &serving).await?;
    } else {
        wait_for_predecessor(&mut found, &config, &environment, &mut early, &serving).await?;
    }
    let active = activate(
        found,
        &mut config,
        &environment,
        content,
        &mut early,
        &mut serving,
    );
    let (actors, reports, listener) = match active.await {
        Ok(active) => active,
        Err(exit) => {
            early.release().await;
            return Err(exit);
        }
    };
    serving.serve(&actors, listener);
    early.stop.use_calls(&actors.calls);
    early.stop.follow_record(actors.record_is_gone.clone());
    tracing::debug!(duration_ms = millis(began.elapsed()), "actors started");
    Ok(Running {
        keep_record: config.driver.pod_name.is_some() || config.ha.lease,
        actors,
        early,
        reports,
        _serving: serving,
    })
}

/// Waits until this driver holds the Lease, and reads again what another driver may have changed meanwhile.
async fn stand_by(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    early: &mut Early,
    serving: &Serving,
) -> Result<(), Exit> {
    let begun = async { Ok(succession::wait_for_lease(found, config, environment).await) };
    let mut lease = early.standing_by(begun).await?;
    let stood_by = early.standing_by(lease.acquired(|holder| {
        serving.stand_by(&format!("{holder} holds the lease"));
    }));
    if let Err(exit) = stood_by.await {
        lease.release().await;
        return Err(exit);
    }
    serving.start();
    let gate = lease.gate();
    early.lease = Some(lease);
    let look = async {
        let looked = succession::become_active(found, config, environment, gate).await;
        looked.map_err(exit_of)
    };
    let looked = early.during(look).await;
    if looked.is_err() {
        early.release().await;
    }
    looked
}

/// Waits while the driver that holds the record lives in another pod (spec O-34).
async fn wait_for_predecessor(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    early: &mut Early,
    serving: &Serving,
) -> Result<(), Exit> {
    let looked = async { Ok(succession::predecessor(found).await) };
    let Some(pod) = early.during(looked).await? else {
        return Ok(());
    };
    let stands_by = |pod: &str| {
        tracing::info!(
            pod,
            "standby: another driver lives in that pod; set ha.lease where two are wanted"
        );
        serving.stand_by(&format!("the driver in pod {pod} is active"));
    };
    let over = succession::end_of_predecessor(found, config, environment, pod, stands_by);
    early.standing_by(over).await?;
    serving.start();
    Ok(())
}

/// Takes over the application, and starts the actors.
async fn activate(
    found: Found,
    config: &mut Config,
    environment: &Environment,
    content: Option<Content>,
    early: &mut Early,
    serving: &mut Serving,
) -> Result<(Actors, Reports, Option<Listener>), Exit> {
    let looked = async {
        let looked = succession::controller_is_gone(&found, config, environment).await;
        looked.map_err(exit_of)
    };
    if early.during(looked).await? {
        tracing::info!("the controller of this driver's pod is gone: the application is over");
        early.stop.make(Some(OnSignal::End));
    }
    let deleted = async {
        let deleted = succession::delete_leftovers(&found, config, environment).await;
        deleted.map_err(exit_of)
    };
    early.during(deleted).await?;
    let nothing_made = found.record.is_none() || planted::is(Planted::EarlyEndForgotten);
    if nothing_made && let Some(meaning) = early.learned().await? {
        tracing::info!("stopped at the first start, before anything was made");
        return Err(match meaning {
            Stop::LetGo | Stop::HandOver => Exit::Superseded,
            Stop::End { .. } | Stop::OverBudget { .. } | Stop::Collected => Exit::Clean,
        });
    }
    let taken = take_over(found, config, environment, content);
    let (mut application, authorities) = early.during(taken).await?;
    succession::end_removals(&mut application.record, &application.configured);
    let proofs = ProfileProofs::of(config);
    succession::take_over_profiles(config, &application.record, &proofs);
    let (reporter, reports) = Reports::channels();
    let listener = Listener::open(config).await.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the port for the executors' sessions cannot be opened"
        );
        Exit::Configuration
    })?;
    if let Some(authorities) = authorities {
        // A pod's clients are on other machines.
        let here = (config.api.token_file.as_ref()).filter(|_| application.owner_chain.is_none());
        if let Some(token_file) = here {
            certificates::write_ca_beside(token_file, authorities.trusted()).await;
        }
        let names = certificates::names(config, &application, listener.as_ref());
        serving
            .certify(authorities.present, names)
            .map_err(|error| {
                tracing::error!(%error, "no certificate can be issued");
                Exit::Configuration
            })?;
    }
    let actors = wiring::wire(
        Arc::new(config.clone()),
        environment,
        &application,
        listener.as_ref(),
        reporter,
    )
    .map_err(|error| {
        tracing::error!(%error, "the executors' pods cannot be made as configured");
        Exit::Configuration
    })?;
    Ok((actors, reports, listener))
}

/// Reads the files that the configuration names and opens the ports of API, metrics and probes, before any call to the
/// cluster.
async fn prepare(
    config: &Config,
    environment: &Environment,
) -> Result<(Option<Content>, Serving), Exit> {
    let content = owned_resources::content_in_time(config).await;
    let content = content.map_err(|error| {
        tracing::error!(%error, "the application's ConfigMap cannot be made as configured");
        Exit::Configuration
    })?;
    let serving = Serving::open(config, environment.clock)
        .await
        .map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the driver's ports cannot be opened"
            );
            Exit::Configuration
        })?;
    Ok((content, serving))
}

/// Finds the application, and writes nothing.
async fn find(config: &Config, environment: &Environment) -> Result<Found, Exit> {
    let found = succession::find_application(config, environment).await;
    found.map_err(exit_of)
}

/// Takes over the application, and creates or corrects the owned resources. Returns the driver's
/// own CA too, if it has one.
async fn take_over(
    found: Found,
    config: &Config,
    environment: &Environment,
    mut content: Option<Content>,
) -> Result<(Application, Option<Authorities>), Exit> {
    let taken_over = async {
        let mut application = succession::take_over_application(found, config, environment).await?;
        let taken_at = Instant::now();
        let (authorities, secret) = match config.tls.generate {
            true => Some(authority::ensure(config, environment, &application).await?),
            false => None,
        }
        .unzip();
        if let (Some(content), Some(authorities)) = (&mut content, &authorities) {
            owned_resources::hand_out(authorities.trusted(), content);
        }
        let content = content.as_ref();
        succession::ensure_owned_resources(config, environment, &mut application, content, secret)
            .await?;
        if taken_at.elapsed() >= SLOW_START {
            succession::read_again(config, environment, &application).await?;
        }
        Ok((application, authorities))
    };
    taken_over.await.map_err(exit_of)
}

fn exit_of(error: StartError) -> Exit {
    tracing::error!(exit = error.exit.code(), "{error}");
    error.exit
}
