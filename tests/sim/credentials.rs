//! The drivers' token, which expires in some runs while its file still contains it: the API server refuses every call
//! until the file is rewritten and the driver has read it again (spec A-22).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use boatswain::kubernetes::Clients;
use futures::FutureExt;
use tempfile::{NamedTempFile, TempPath};
use tokio::time::Instant;

use crate::checks::Verdict;
use crate::network::Network;
use crate::objects::NAMESPACE;
use crate::script::{Fault, Script};
use crate::trace::trace_line;
use crate::world::World;

/// A driver whose call was refused reads a changed file within 1 s, and makes no other call first.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// The drivers' token at the API server and in its file. A higher number is a later token.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The earliest token that the server accepts.
    accepted: u64,
    /// The token in the file, and since when it is there.
    written: (u64, Option<Instant>),
    /// The token that each driver has read last.
    read: BTreeMap<usize, u64>,
    /// Since when each driver knows that its token is refused.
    refused: BTreeMap<usize, Instant>,
}

impl Tokens {
    pub fn refuses(&self, token: u64) -> bool {
        token < self.accepted
    }

    /// Whether the server refuses the token in the file.
    pub fn are_expired(&self) -> bool {
        self.refuses(self.written.0)
    }

    /// A driver reads the file.
    pub fn read(&mut self, driver: usize) -> u64 {
        self.read.insert(driver, self.written.0);
        self.refused.remove(&driver);
        self.written.0
    }

    /// A driver has got the answer that this token is refused. It may have read a later one meanwhile.
    pub fn note_refusal(&mut self, driver: usize, token: u64) {
        if self.read.get(&driver) == Some(&token) {
            self.refused.entry(driver).or_insert_with(Instant::now);
        }
    }

    /// Whether this driver has known for long that its token is refused, and has not read the file that was rewritten.
    fn is_overdue(&self, driver: usize) -> bool {
        let read = self.read.get(&driver).copied().unwrap_or_default();
        let (written, at) = self.written;
        let since = self.refused.get(&driver).copied().max(at);
        self.refuses(read)
            && !self.refuses(written)
            && self.refused.contains_key(&driver)
            && since.is_some_and(|since| since.elapsed() > READ_WITHIN)
    }
}

/// The file of the token; `None` if the token never expires.
pub fn file(script: &Script) -> Option<TempPath> {
    let mut faults = script.steps.iter().map(|step| &step.fault);
    let expires = faults.any(|fault| matches!(fault, Fault::ExpireToken { .. }));
    expires.then(|| new_file().into_temp_path())
}

fn new_file() -> NamedTempFile {
    NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The clients of a driver that has just read the token.
pub fn clients(network: &Network, file: Option<Arc<Path>>) -> Clients {
    let network = network.with_token_of_file();
    let clients = Clients::in_process(network.clone(), NAMESPACE);
    let Some(file) = file else {
        return clients;
    };
    let files = vec![file.to_path_buf()];
    let renew = move || {
        let renewed = clients_again(&network, &file);
        async move { Ok(renewed) }.boxed()
    };
    Clients {
        renew: Some(Arc::new(renew)),
        files,
        ..clients
    }
}

fn clients_again(network: &Network, file: &Arc<Path>) -> Clients {
    let renewed = clients(network, Some(Arc::clone(file)));
    trace_line!("d{} reads its token again", network.driver());
    renewed
}

impl World {
    /// The token expires, and its file is rewritten after this long.
    pub fn expire_token(&mut self, late: Duration) {
        {
            let tokens = &mut self.network.shared().tokens;
            tokens.accepted = tokens.written.0 + 1;
        }
        match late.is_zero() {
            true => self.rewrite_token(),
            false => self.undo_after(late, Fault::RewriteToken),
        }
    }

    pub fn rewrite_token(&mut self) {
        {
            let tokens = &mut self.network.shared().tokens;
            if !tokens.are_expired() {
                return;
            }
            tokens.written = (tokens.accepted, Some(Instant::now()));
        }
        if let Some(path) = &self.token_file {
            new_file().persist(path).unwrap();
        }
    }

    /// Each driver that knows that its token is refused has read the rewritten file soon.
    // spec: A-22
    pub fn check_tokens(&mut self) -> Verdict {
        let tokens = &mut self.network.shared().tokens;
        for driver in self.drivers.borrow().iter() {
            let number = driver.number;
            let runs = driver.is_alive() && driver.stop_requested.is_none();
            // A driver that is starting ends, and the next one reads the file. A paused one does nothing.
            if !runs || driver.paused || self.checks.last_ledger(number).is_none() {
                tokens.refused.remove(&number);
            } else if tokens.is_overdue(number) {
                return Err(format!(
                    "A-22: d{number} has not read its token again within {READ_WITHIN:?}"
                ));
            }
        }
        Ok(())
    }
}
