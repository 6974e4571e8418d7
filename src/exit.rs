//! The exit codes of the process (spec O-2).

use std::process::ExitCode;

/// The exit code of the driver and of its successors when the application has failed too often (spec L-30).
pub const OVER_BUDGET: u8 = 11;

/// Every way in which the process ends by itself. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: stopped as requested, with nothing left to do.
    Clean,
    /// 64: the command line is invalid.
    Usage,
    /// 69: the cluster did not answer within `cluster.start_timeout`.
    Unreachable,
    /// 1: the driver refuses the request, or the server that answers is no driver.
    Refused,
    /// 70: a bug, such as a panic.
    Bug,
    /// 75: another driver has taken over, or a hand-over left the application to one.
    Superseded,
    /// 77: the cluster refuses rights that the driver needs.
    Rights,
    /// 78: the configuration, or the pod that it describes, is invalid.
    Configuration,
    /// The application ended earlier with this code; a successor exits with it too.
    Finished(u8),
    /// The agent's child ended with this code; the agent exits with it too.
    Child(u8),
    /// 130, as a shell reports an interrupt: a second signal aborted the stop, or a signal ended what was waited for.
    Interrupted,
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Refused => 1,
            Self::Bug => 70,
            Self::Superseded => 75,
            Self::Rights => 77,
            Self::Configuration => 78,
            Self::Finished(code) | Self::Child(code) => code,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pages::rows;

    // spec: O-2
    #[test]
    fn the_exit_codes_are_the_documented_ones() {
        let codes = [
            (Exit::Clean, 0),
            (Exit::Usage, 64),
            (Exit::Unreachable, 69),
            (Exit::Refused, 1),
            (Exit::Bug, 70),
            (Exit::Superseded, 75),
            (Exit::Rights, 77),
            (Exit::Configuration, 78),
            (Exit::Finished(3), 3),
            (Exit::Child(143), 143),
            (Exit::Interrupted, 130),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
        let page = include_str!("../docs/operations.md");
        let documented: Vec<u8> = rows(page, "## Exit codes")
            .iter()
            .filter_map(|row| row[0].parse().ok())
            .collect();
        let ends = codes.iter().filter(|(exit, _)| is_drivers(*exit));
        let mut ends: Vec<u8> = ends.map(|(_, code)| *code).collect();
        ends.extend([
            OVER_BUDGET,
            crate::actors::driver_backend::commands::ABANDONED,
        ]);
        ends.sort_unstable();
        assert_eq!(documented, ends);
    }

    /// Whether a driver ends with this code by itself. A new code also belongs in the test above.
    fn is_drivers(exit: Exit) -> bool {
        match exit {
            Exit::Clean
            | Exit::Usage
            | Exit::Unreachable
            | Exit::Bug
            | Exit::Superseded
            | Exit::Rights
            | Exit::Configuration
            | Exit::Interrupted => true,
            Exit::Refused | Exit::Finished(_) | Exit::Child(_) => false,
        }
    }
}
