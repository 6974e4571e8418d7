//! The newest state, for everybody who reads it.
//!
//! A `watch` channel holds it. It would wake its readers in an order drawn at random, though, and a cluster must do the
//! same when it is asked the same; so readers are woken here, in the order in which they began to wait.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::server::Published;

/// Where the newest state is put.
#[derive(Debug)]
pub struct Publisher {
    state: watch::Sender<Published>,
    news: Arc<Notify>,
}

/// Where it is read.
#[derive(Clone, Debug)]
pub struct Reader {
    state: watch::Receiver<Published>,
    news: Arc<Notify>,
}

/// The task that publishes is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Begins with this state.
pub fn publish(first: Published) -> (Publisher, Reader) {
    let (sender, state) = watch::channel(first);
    let news = Arc::new(Notify::new());
    let publisher = Publisher {
        state: sender,
        news: news.clone(),
    };
    (publisher, Reader { state, news })
}

impl Publisher {
    /// This is the newest state.
    pub fn put(&self, state: Published) {
        self.state.send_replace(state);
        self.news.notify_waiters();
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Nobody is left to put anything: who waits must not wait for ever.
        let (closed, _) = watch::channel(self.state.borrow().clone());
        self.state = closed;
        self.news.notify_waiters();
    }
}

impl Reader {
    /// The newest state.
    pub fn borrow(&self) -> watch::Ref<'_, Published> {
        self.state.borrow()
    }

    /// The newest state, which [`Reader::changed`] then takes for seen.
    pub fn borrow_and_update(&mut self) -> watch::Ref<'_, Published> {
        self.state.borrow_and_update()
    }

    /// Waits until there is a state that was not seen, and takes it for seen.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        loop {
            let mut news = pin!(self.news.notified());
            // From here on nothing that is put is missed.
            news.as_mut().enable();
            match self.state.has_changed() {
                Ok(true) => {
                    self.state.mark_unchanged();
                    return Ok(());
                }
                Ok(false) => news.await,
                Err(_) => return Err(Stopped),
            }
        }
    }

    /// Waits for a state of which this is true.
    pub async fn wait_for(
        &mut self,
        mut is_it: impl FnMut(&Published) -> bool,
    ) -> Result<watch::Ref<'_, Published>, Stopped> {
        while !is_it(&self.state.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(self.state.borrow())
    }
}
