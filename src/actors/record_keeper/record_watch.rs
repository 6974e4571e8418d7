//! The actor's watch on the application record (spec W-10).

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, StreamHandler, WrapFuture};
use futures::StreamExt;

use super::keeping::Effect;
use super::watching::{self, Said};
use super::{RecordKeeper, record_name};
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::{Failure, WatchLine};
use crate::model::Tick;
use crate::planted::{self, Planted};

impl RecordKeeper {
    /// Opens the watch if none is open.
    ///
    /// It begins from no version. The record's own would be too old (410) as soon as the server's history has moved on,
    /// and a record changes rarely. What changed before the watch began is not shown then, so the record is read when
    /// the watch is open.
    pub(super) fn rewatch(&mut self, now: Tick, ctx: &mut Context<Self>) {
        if !self.keeping.is_settled() || !self.watching.is_due(now) {
            return;
        }
        self.watching.begin(now);
        let (calls, name) = (self.calls.clone(), record_name(&self.prefix));
        let of_record = planted::is(Planted::RecordWatchedFromItsVersion);
        let from = self.keeping.version().filter(|_| of_record).cloned();
        let open = async move {
            let watch = calls.watch_config_map(&name, from.as_ref(), watching::SECONDS);
            watch.await
        };
        let opening = ctx.spawn(open.into_actor(self).map(|opened, this, ctx| match opened {
            Ok(lines) => {
                let deadline = tokio::time::sleep(watching::DEADLINE);
                this.watch = Some(ctx.add_stream(lines.take_until(Box::pin(deadline))));
                this.keeping.check();
                this.pump(ctx);
            }
            Err(failure) => {
                this.watching.failed(failure.message);
                this.watch_ended(ctx);
            }
        }));
        self.watch = Some(opening);
    }

    /// Closes the watch after an outage: its connection may be dead (spec W-14).
    pub(super) fn watch_anew(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        if let Some(watch) = self.watch.take() {
            ctx.cancel_future(watch);
            self.watching.cancelled();
        }
        self.watching.server_is_back(now);
    }

    /// The stream has shown that it is about to end.
    fn doubt(&mut self, error: Arc<str>) -> Vec<Effect> {
        self.watching.failed(error);
        self.keeping.check();
        Vec::new()
    }

    fn watch_ended(&mut self, ctx: &mut Context<Self>) {
        self.watch = None;
        let said = self.watching.ended(self.clock.now().tick);
        say(said);
        self.keeping.check();
        self.check_what_is_owned();
        self.pump(ctx);
    }
}

fn say(said: Option<Said>) {
    match said {
        Some(Said::Fails(error)) => tracing::warn!(
            %error,
            "the watch on the application record ends at once, again and again: until it stays open the record is read \
             at each attempt"
        ),
        Some(Said::Works) => tracing::info!("the watch on the application record stays open again"),
        None => {}
    }
}

impl StreamHandler<Result<WatchLine<ConfigMap>, Failure>> for RecordKeeper {
    fn handle(&mut self, line: Result<WatchLine<ConfigMap>, Failure>, ctx: &mut Self::Context) {
        let effects = match line {
            Ok(WatchLine::Seen(map)) => self.keeping.seen(&map),
            Ok(WatchLine::Deleted(map)) => self.keeping.seen_deleted(&map.uid),
            Ok(WatchLine::Bookmark(version)) => {
                self.keeping.came_to(version);
                say(self.watching.works());
                Vec::new()
            }
            Ok(WatchLine::UnknownType(_)) => Vec::new(),
            // The stream may end after these. The record is read in any case.
            Ok(WatchLine::Expired) => self.doubt("its version has expired".into()),
            Ok(WatchLine::Error(failure)) | Err(failure) => self.doubt(failure.message),
        };
        self.carry_out(effects);
        self.pump(ctx);
    }

    fn finished(&mut self, ctx: &mut Self::Context) {
        self.watch_ended(ctx);
    }
}
