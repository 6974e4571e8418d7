//! Publishes the newest state to all readers.
//!
//! A `watch` channel holds it. Such a channel wakes its readers in random order, but a run must be reproducible;
//! therefore readers are woken here, in the order in which they began to wait.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::server::Published;

#[derive(Debug)]
pub struct Publisher {
    state: watch::Sender<Published>,
    news: Arc<Notify>,
}

#[derive(Clone, Debug)]
pub struct Reader {
    state: watch::Receiver<Published>,
    news: Arc<Notify>,
}

/// The publishing task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Makes a publisher and a reader, with a first state.
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
    pub fn put(&self, state: Published) {
        self.state.send_replace(state);
        self.news.notify_waiters();
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Closes the channel and wakes the readers, so that none waits for ever.
        let (closed, _) = watch::channel(self.state.borrow().clone());
        self.state = closed;
        self.news.notify_waiters();
    }
}

impl Reader {
    pub fn borrow(&self) -> watch::Ref<'_, Published> {
        self.state.borrow()
    }

    /// The newest state; [`Reader::changed`] will not return for it.
    pub fn borrow_and_update(&mut self) -> watch::Ref<'_, Published> {
        self.state.borrow_and_update()
    }

    /// Waits for a state that this reader has not seen, and marks it as seen.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        loop {
            let mut news = pin!(self.news.notified());
            // From here on, no `put` is missed.
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

    /// Waits for a state that satisfies the predicate.
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
