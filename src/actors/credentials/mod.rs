//! Credentials: reloads the driver's credentials when the API server refuses them, until it accepts them (spec A-22).
//!
//! All actors make their calls with copies of the same [`Calls`], which share the reloaded credentials. So no other
//! actor has to know that credentials can change.

pub mod standing;

use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::clock::Clock;
use crate::kubernetes::calls::CallMade;
use crate::kubernetes::client::FileState;
use crate::kubernetes::{Calls, ConnectError};
use crate::model::Tick;
use crate::planted::{self, Planted};
use crate::telemetry::millis;

use standing::{Heard, Standing, Step};

/// How often the credentials' files are looked at while the credentials do not work.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tracks whether the API server accepts the driver's credentials.
pub struct Credentials {
    standing: Standing,
    /// The states of the credentials' files before they were read last.
    read: Vec<FileState>,
    /// When the files were looked at last.
    looked: Option<Tick>,
    /// Whether a timer runs for the next look.
    waits: bool,
    /// Why the last reload failed.
    error: Option<ConnectError>,
    calls: Calls,
    clock: Clock,
    rng: StdRng,
}

impl Credentials {
    /// Starts with credentials that are assumed to be valid.
    pub fn new(calls: Calls, clock: Clock, rng: StdRng) -> Self {
        Self {
            standing: Standing::default(),
            read: calls.credential_files(),
            looked: None,
            waits: false,
            error: None,
            calls,
            clock,
            rng,
        }
    }

    /// Whether a file of the credentials has changed since they were read.
    fn has_changed(&mut self) -> bool {
        self.looked = Some(self.clock.now().tick);
        self.calls.credential_files() != self.read
    }

    fn reload(&mut self, ctx: &mut Context<Self>) {
        self.read = self.calls.credential_files();
        let calls = self.calls.clone();
        let renewed = async move { calls.renew_credentials().await };
        ctx.spawn(
            renewed
                .into_actor(self)
                .map(|renewed, this, ctx| this.reloaded(renewed, ctx)),
        );
    }

    fn reloaded(&mut self, renewed: Result<bool, ConnectError>, ctx: &mut Context<Self>) {
        let first = self.standing.is_first_reload();
        let (random, now) = (self.rng.random(), self.clock.now().tick);
        self.standing.renewed(random, now);
        let error = match renewed {
            // There is nothing that reloading could read.
            Ok(false) => return,
            Ok(true) => None,
            Err(error) => Some(error),
        };
        match &error {
            Some(error) if self.error.as_ref() != Some(error) => tracing::warn!(
                %error,
                "the API server refused the driver's credentials, and they could not be reloaded"
            ),
            None if first => tracing::info!(
                "the API server refused the driver's credentials: they were reloaded"
            ),
            _ => {}
        }
        self.error = error;
        self.look_later(ctx);
    }

    fn look_later(&mut self, ctx: &mut Context<Self>) {
        let is_given_up = planted::is(Planted::CredentialsReadOnce);
        if self.waits || !self.standing.is_refused() || is_given_up {
            return;
        }
        self.waits = true;
        ctx.run_later(LOOK_EVERY, |this, ctx| {
            this.waits = false;
            let changed = this.has_changed();
            let now = this.clock.now().tick;
            match this.standing.looked(changed, now) {
                Some(_) => this.reload(ctx),
                None => this.look_later(ctx),
            }
        });
    }

    /// Handles a call without an answer. A server whose certificate authority was replaced, or that accepts connections
    /// with a client certificate only, refuses the connection rather than the request.
    fn unanswered(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        let soon = self.looked.is_some_and(|last| now.since(last) < LOOK_EVERY);
        if !soon && !self.standing.is_refused() && self.has_changed() {
            tracing::info!(
                "the API server cannot be reached, and the driver's credentials have changed: they are reloaded"
            );
            self.reload(ctx);
        }
    }
}

impl Actor for Credentials {
    type Context = Context<Self>;
}

impl Handler<CallMade> for Credentials {
    type Result = ();

    fn handle(&mut self, call: CallMade, ctx: &mut Self::Context) {
        if !call.answered {
            return self.unanswered(ctx);
        }
        let Some(heard) = Heard::of(call.outcome) else {
            return;
        };
        match self.standing.heard(heard, call.took, self.clock.now().tick) {
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

#[cfg(test)]
mod tests;
