//! A simulation case: the script of a seed, in full or shortened, and the environment variables that reproduce it on
//! the command line.

use std::env;
use std::fmt;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::planted::Planted;

use crate::node::Pace;
use crate::script::Script;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub seed: u64,
    /// Whether StatefulSets or Deployments make the executors' pods (spec A-80).
    pub of_sets: bool,
    /// A fault planted in the driver.
    pub planted: Option<Planted>,
    /// Indices of the script's steps that are executed; `None` for all of them.
    pub steps: Option<Vec<usize>>,
    pub simplifications: Vec<Simplification>,
}

/// A way to simplify a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simplification {
    /// Default settings.
    Settings,
    /// Only the first profile.
    OneProfile,
    /// At most two executors for each profile.
    FewExecutors,
    /// Wall clocks without skew and steps.
    NoClockSkew,
    /// Pods are bound, started and removed immediately.
    NoPodDelays,
    /// Faults end right after the last step.
    EndEarly,
}

/// All simplifications, those that remove most first.
pub const SIMPLIFICATIONS: [Simplification; 6] = [
    Simplification::Settings,
    Simplification::OneProfile,
    Simplification::FewExecutors,
    Simplification::NoClockSkew,
    Simplification::NoPodDelays,
    Simplification::EndEarly,
];

/// Time from the last step to the end of the faults under [`Simplification::EndEarly`].
const END_DELAY: Duration = Duration::from_secs(5);

impl Case {
    /// The whole script of a seed.
    pub fn of(seed: u64) -> Self {
        Self::with_fault(None, seed)
    }

    /// The whole script of a seed in which sets make the pods.
    pub fn of_sets(planted: Option<Planted>, seed: u64) -> Self {
        Self {
            of_sets: true,
            ..Self::with_fault(planted, seed)
        }
    }

    /// The whole script of a seed with a planted fault. Faults in the handling of sets get a script with sets.
    pub fn with_fault(planted: Option<Planted>, seed: u64) -> Self {
        Self {
            seed,
            of_sets: planted.is_some_and(needs_sets),
            planted,
            steps: None,
            simplifications: Vec::new(),
        }
    }

    /// The case that the environment names, if it names a seed.
    pub fn from_env() -> Option<Self> {
        let list = |name: &str| {
            let text = env::var(name).ok()?;
            let list = text.split(',').map(|word| word.trim().to_owned());
            Some(list.filter(|word| !word.is_empty()).collect::<Vec<_>>())
        };
        let seed = env::var("BOATSWAIN_SIM_SEED").ok()?;
        let steps = list("BOATSWAIN_SIM_STEPS");
        let planted = fault_from_env();
        Some(Self {
            seed: seed.parse().unwrap(),
            of_sets: planted.is_some_and(needs_sets),
            planted,
            steps: steps.map(|steps| steps.iter().map(|step| step.parse().unwrap()).collect()),
            simplifications: (list("BOATSWAIN_SIM_SIMPLER").unwrap_or_default().iter())
                .map(|name| simplification(name))
                .collect(),
        })
    }

    /// The script with this case's reductions applied.
    pub fn script(&self) -> Script {
        let mut script = self.whole_script();
        if let Some(kept) = &self.steps {
            let mut index = 0..;
            script
                .steps
                .retain(|_| index.next().is_some_and(|index| kept.contains(&index)));
        }
        for simplification in &self.simplifications {
            simplification.apply(&mut script);
        }
        script
    }

    /// Indices of the steps that are executed.
    pub fn step_indices(&self) -> Vec<usize> {
        match &self.steps {
            Some(kept) => kept.clone(),
            None => (0..self.whole_script().steps.len()).collect(),
        }
    }

    fn whole_script(&self) -> Script {
        match self.of_sets {
            true => Script::of_sets(self.seed),
            false => Script::of(self.seed),
        }
    }

    /// Name of the test that runs this case.
    pub fn test(&self) -> &'static str {
        match self.of_sets {
            true => "sim_sets_converge",
            false => "all_invariants",
        }
    }
}

/// The environment variables that reproduce the case.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BOATSWAIN_SIM_SEED={}", self.seed)?;
        if let Some(fault) = self.planted {
            write!(f, " BOATSWAIN_SIM_PLANTED={fault:?}")?;
        }
        if let Some(kept) = &self.steps {
            let kept: Vec<String> = kept.iter().map(usize::to_string).collect();
            write!(f, " BOATSWAIN_SIM_STEPS={}", kept.join(","))?;
        }
        if !self.simplifications.is_empty() {
            let names: Vec<String> = self
                .simplifications
                .iter()
                .map(|simplification| format!("{simplification:?}"))
                .collect();
            write!(f, " BOATSWAIN_SIM_SIMPLER={}", names.join(","))?;
        }
        Ok(())
    }
}

impl Simplification {
    fn apply(self, script: &mut Script) {
        let config = &mut script.config;
        match self {
            Simplification::Settings => {
                let default = Config::default();
                let strategy = config.allocation.strategy;
                script.config = Config {
                    app: config.app.clone(),
                    profiles: config.profiles.clone(),
                    shutdown: config.shutdown.clone(),
                    // With the default budget the application would end for other reasons than before.
                    failures: config.failures.clone(),
                    ..default
                };
                script.config.allocation.strategy = strategy;
            }
            Simplification::OneProfile => {
                let first = config.profiles.keys().next().cloned();
                config
                    .profiles
                    .retain(|name, _| Some(name) == first.as_ref());
            }
            Simplification::FewExecutors => {
                for profile in config.profiles.values_mut() {
                    profile.executors = profile.executors.min(2);
                }
            }
            Simplification::NoClockSkew => {
                script.skew = Duration::ZERO;
                script.clock_steps.clear();
            }
            Simplification::NoPodDelays => {
                script.pace = Pace {
                    bind: Duration::ZERO,
                    start: Duration::ZERO,
                    stop: Duration::ZERO,
                };
            }
            Simplification::EndEarly => {
                let last = script.steps.last().map_or(Duration::ZERO, |step| step.at);
                script.faults_end = script.faults_end.min(last + END_DELAY);
            }
        }
    }
}

/// Whether only scripts with sets can reveal this fault.
fn needs_sets(fault: Planted) -> bool {
    matches!(fault, Planted::NumberReused | Planted::SetsLookedAtOnce)
}

/// The planted fault that the environment names.
pub fn fault_from_env() -> Option<Planted> {
    let name = env::var("BOATSWAIN_SIM_PLANTED").ok()?;
    if name == "all" {
        return None;
    }
    Some(planted(&name))
}

pub fn planted(name: &str) -> Planted {
    let found = Planted::ALL
        .iter()
        .find(|fault| format!("{fault:?}") == name);
    *found.unwrap_or_else(|| {
        panic!(
            "unknown fault {name}, the known ones are {:?}",
            Planted::ALL
        )
    })
}

fn simplification(name: &str) -> Simplification {
    let found = SIMPLIFICATIONS
        .iter()
        .find(|simplification| format!("{simplification:?}") == name);
    *found.unwrap_or_else(|| {
        panic!("unknown simplification {name}, the known ones are {SIMPLIFICATIONS:?}")
    })
}
