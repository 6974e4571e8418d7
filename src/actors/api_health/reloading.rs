//! Reloads the driver's credentials while the API server refuses them (spec A-22).

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::kubernetes::calls::CallMade;
use crate::kubernetes::client::FileState;
use crate::kubernetes::{Calls, ConnectError};
use crate::model::Tick;
use crate::planted::{self, Planted};
use crate::telemetry::millis;

use super::ApiHealth;
use super::acceptance::{Acceptance, CredentialAnswer, Step};

/// How often the credentials' files are looked at while the credentials do not work.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Reloading {
    acceptance: Acceptance,
    /// The states of the credentials' files before they were read last.
    read: Vec<FileState>,
    /// When the files were looked at last.
    looked: Option<Tick>,
    /// Whether a timer runs for the next look.
    waits: bool,
    /// Why the last reload failed.
    error: Option<ConnectError>,
    rng: StdRng,
}

impl Reloading {
    /// The credentials are assumed to be valid.
    pub(super) fn new(calls: &Calls, rng: StdRng) -> Self {
        Self {
            acceptance: Acceptance::default(),
            read: calls.credential_files(),
            looked: None,
            waits: false,
            error: None,
            rng,
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.acceptance.is_refused()
    }
}

impl ApiHealth {
    /// Whether a file of the credentials has changed since they were read.
    fn has_changed(&mut self) -> bool {
        self.reloading.looked = Some(self.clock.now().tick);
        self.calls.credential_files() != self.reloading.read
    }

    fn reload(&mut self, ctx: &mut Context<Self>) {
        self.reloading.read = self.calls.credential_files();
        let calls = self.calls.clone();
        let renewed = async move { calls.renew_credentials().await };
        let renewed = renewed.into_actor(self);
        ctx.spawn(renewed.map(|renewed, this, ctx| this.reloaded(renewed, ctx)));
    }

    fn reloaded(&mut self, renewed: Result<bool, ConnectError>, ctx: &mut Context<Self>) {
        let (now, reloading) = (self.clock.now().tick, &mut self.reloading);
        let first = reloading.acceptance.is_first_reload();
        let random = reloading.rng.random();
        reloading.acceptance.renewed(random, now);
        let error = match renewed {
            // There is nothing that reloading could read.
            Ok(false) => return,
            Ok(true) => None,
            Err(error) => Some(error),
        };
        match &error {
            Some(error) if reloading.error.as_ref() != Some(error) => tracing::warn!(
                %error,
                "the API server refused the driver's credentials, and they could not be reloaded"
            ),
            None if first => tracing::info!(
                "the API server refused the driver's credentials: they were reloaded"
            ),
            _ => {}
        }
        reloading.error = error;
        self.look_later(ctx);
    }

    fn look_later(&mut self, ctx: &mut Context<Self>) {
        let is_given_up = planted::is(Planted::CredentialsReadOnce);
        if self.reloading.waits || !self.reloading.is_refused() || is_given_up {
            return;
        }
        self.reloading.waits = true;
        ctx.run_later(LOOK_EVERY, |this, ctx| {
            this.reloading.waits = false;
            let changed = this.has_changed();
            let now = this.clock.now().tick;
            match this.reloading.acceptance.looked(changed, now) {
                Some(_) => this.reload(ctx),
                None => this.look_later(ctx),
            }
        });
    }

    /// Handles a call without an answer. A server whose certificate authority was replaced, or that accepts connections
    /// with a client certificate only, refuses the connection rather than the request.
    fn unanswered(&mut self, ctx: &mut Context<Self>) {
        let (now, looked) = (self.clock.now().tick, self.reloading.looked);
        let soon = looked.is_some_and(|last| now.since(last) < LOOK_EVERY);
        if !soon && !self.reloading.is_refused() && self.has_changed() {
            tracing::info!(
                "the API server cannot be reached, and the driver's credentials have changed: they are reloaded"
            );
            self.reload(ctx);
        }
    }

    /// Processes what a call shows of the credentials.
    pub(super) fn called(&mut self, call: &CallMade, ctx: &mut Context<Self>) {
        if !call.is_answered() {
            return self.unanswered(ctx);
        }
        let Some(heard) = CredentialAnswer::of(call.failure) else {
            return;
        };
        let now = self.clock.now().tick;
        match self.reloading.acceptance.called(heard, call.took, now) {
            None => {}
            Some(Step::Renew) => self.reload(ctx),
            Some(Step::SayRefused) => tracing::warn!(
                hint = "check the kubeconfig's user, or the pod's service account",
                "the API server refuses the driver's credentials even after reloading: degraded"
            ),
            Some(Step::SayAccepted(after)) => tracing::info!(
                duration_ms = millis(after),
                "the API server accepts the driver's credentials again"
            ),
        }
    }
}
