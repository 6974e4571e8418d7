//! Credentials: reloads the driver's credentials once when the API server refuses them (spec A-22).

pub mod standing;

use actix::{Actor, ActorFutureExt, Context, Handler, WrapFuture};

use crate::clock::Clock;
use crate::kubernetes::Calls;
use crate::kubernetes::calls::CallMade;
use crate::telemetry::millis;

use standing::{Heard, Standing, Step};

/// Tracks whether the API server accepts the driver's credentials.
pub struct Credentials {
    standing: Standing,
    calls: Calls,
    clock: Clock,
}

impl Credentials {
    /// Starts with credentials that are assumed to be valid.
    pub fn new(calls: Calls, clock: Clock) -> Self {
        Self {
            standing: Standing::default(),
            calls,
            clock,
        }
    }
}

impl Actor for Credentials {
    type Context = Context<Self>;
}

impl Handler<CallMade> for Credentials {
    type Result = ();

    fn handle(&mut self, call: CallMade, ctx: &mut Self::Context) {
        let heard = match call.outcome {
            _ if !call.answered => return,
            outcome if outcome == crate::kubernetes::Kind::Credentials.word() => Heard::Refused,
            _ => Heard::Accepted,
        };
        match self.standing.heard(heard, call.took, self.clock.now().tick) {
            None => {}
            Some(Step::Renew) => {
                let calls = self.calls.clone();
                let renewed = async move { calls.renew_credentials().await };
                actix::AsyncContext::spawn(ctx, renewed.into_actor(self).map(|renewed, this, _| {
                    match renewed {
                        Ok(true) => tracing::info!(
                            "the API server refused the driver's credentials: they were reloaded"
                        ),
                        Ok(false) => {}
                        Err(error) => tracing::warn!(
                            %error,
                            "the API server refused the driver's credentials, and they could not be reloaded"
                        ),
                    }
                    this.standing.renewed(this.clock.now().tick);
                }));
            }
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
