//! How the process ends, for whoever started it (spec O-2).

use std::process::ExitCode;

/// What the process exits with, and its successors do, when the application has failed too often (spec L-30).
pub const OVER_BUDGET: u8 = 11;

/// Every way the process ends by itself; the numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Stopped as asked, and nothing was left undone: 0.
    Clean,
    /// The command line was not understood: 64.
    Usage,
    /// The cluster did not answer within `cluster.start_timeout`: 69.
    Unreachable,
    /// The driver that was asked refuses, or what answered is none: 1.
    Refused,
    /// A bug, a panic among them (spec O-12): 70.
    Bug,
    /// Another driver has taken over, or was handed the application: 75.
    Superseded,
    /// The cluster refuses what is needed: 77.
    Rights,
    /// The configuration, or the pod it describes, cannot be used: 78.
    Configuration,
    /// The application was ended before, with this code, which a successor exits with (spec O-11).
    Finished(u8),
    /// The agent's child has ended, with this code, which is the agent's too (spec O-60).
    Child(u8),
    /// A second signal cut the stop short (spec O-11): 130, as a shell reports an interrupt.
    Interrupted,
}

impl Exit {
    /// The number that the parent process sees.
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
    }
}
