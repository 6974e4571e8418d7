//! Runs a driver: executes commands until a command, the application or a report ends it.

use std::pin::pin;

use crate::actors::driver_backend::messages::Stop;
use crate::exit::Exit;

use super::actors::Actors;
use super::early::Early;
use super::handle::Command;
use super::lease;
use super::reports::Reports;
use super::serving::Serving;

pub(super) struct Running {
    pub(super) actors: Actors,
    /// The commands, and those that arrived before the actors ran.
    pub(super) early: Early,
    pub(super) reports: Reports,
    /// Whether the record is kept at the end, because another driver may start.
    pub(super) keep_record: bool,
    pub(super) _serving: Serving,
}

impl Running {
    /// Executes commands until the driver ends, and returns its exit code. A standby takes over at once.
    pub(super) async fn until_it_ends(mut self) -> Exit {
        let exit = self.run().await;
        self.early.release().await;
        exit
    }

    async fn run(&mut self) -> Exit {
        let early_stop = self.early.stop.is_made();
        for command in std::mem::take(&mut self.early.kept) {
            // No executor may be requested any more, so no target is set.
            let skip = early_stop && matches!(command, Command::SetTargets(..));
            if !skip {
                self.actors.command(command).await;
            }
        }
        let stop = match self.until_it_is_stopped().await {
            Ok(stop) => stop,
            Err(exit) => return exit,
        };
        let grace = self.early.stop.left();
        let mut stopped = pin!(self.actors.stop(stop, self.keep_record, grace));
        loop {
            tokio::select! {
                biased;
                exit = lease::lost(&mut self.early.lease) => return exit,
                report = self.reports.fatal.next() => return report.exit(),
                exit = &mut stopped => return exit,
                Some(command) = self.early.commands.recv() => match command {
                    // Nothing changes any more.
                    Command::Reconfigure(..) => {}
                    command => self.actors.command(command).await,
                },
            }
        }
    }

    /// Returns how to stop, or the exit code if a report ends the driver at once. Until it is known what a signal means,
    /// the driver goes on.
    async fn until_it_is_stopped(&mut self) -> Result<Stop, Exit> {
        loop {
            tokio::select! {
                biased;
                exit = lease::lost(&mut self.early.lease) => return Err(exit),
                report = self.reports.fatal.next() => return Err(report.exit()),
                stop = self.early.stop.meaning() => return Ok(stop),
                Some(stop) = self.reports.stops.recv() => return Ok(stop),
                // If every handle is dropped, only the application can stop the driver.
                Some(command) = self.early.commands.recv() => match command {
                    Command::Stop(way) => self.early.stop.make(way),
                    command => self.actors.command(command).await,
                },
                else => return Err(Exit::Bug),
            }
        }
    }
}
