//! Credentials: where the API server does not accept the driver's any more, they are read anew, once (spec A-22).

pub mod standing;

use actix::{Actor, ActorFutureExt, Context, Handler, WrapFuture};

use crate::clock::Clock;
use crate::kubernetes::Calls;
use crate::kubernetes::calls::CallMade;
use crate::telemetry::millis;

use standing::{Heard, Standing, Step};

/// Sees to it that the driver's credentials are those that there are.
pub struct Credentials {
    standing: Standing,
    calls: Calls,
    clock: Clock,
}

impl Credentials {
    /// They are believed to be good.
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
                            "the API server does not accept the driver's credentials: they were read anew"
                        ),
                        Ok(false) => {}
                        Err(error) => tracing::warn!(
                            %error,
                            "the API server does not accept the driver's credentials, and they cannot be read anew"
                        ),
                    }
                    this.standing.renewed(this.clock.now().tick);
                }));
            }
            Some(Step::SayRefused) => tracing::warn!(
                hint = "look at the kubeconfig's user, or at the pod's service account",
                "the API server does not accept the driver's credentials, though they were read anew: degraded"
            ),
            Some(Step::SayAccepted(after)) => tracing::info!(
                duration_ms = millis(after),
                "the API server accepts the driver's credentials again"
            ),
        }
    }
}
