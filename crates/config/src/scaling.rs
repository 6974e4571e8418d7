//! The sections `[autoscaling]` and `[roll]`: targets that follow demand, and rolling replacement
//! (spec B-32, B-40).

use std::time::Duration;

use super::declare::{choice, section};
use super::kinds::{Flag, Text, Thousandths, Whole, one_of, span};
use super::sections::{DAY, HOUR, ms, secs};

section! {
    /// `[autoscaling]`: how demand determines the number of executors (spec B-40 to B-42).
    pub struct Autoscaling {
        pub enabled: bool = value(Flag) or false;
        /// The slots to provide for each task, in thousandths.
        pub ratio: u32 = value(Thousandths(1..=1_000_000)) or 1_000;
        /// How long demand must exceed supply before the first step up.
        pub backlog_timeout: Duration = value(span(ms(0)..=HOUR)) or secs(1);
        /// The interval between further steps up.
        pub sustained_timeout: Duration = value(span(ms(100)..=HOUR)) or secs(1);
        /// How long an executor must be idle before it is removed.
        pub idle_timeout: Duration = value(span(secs(1)..=DAY)) or secs(60);
        /// How long a demand is valid unless it is renewed.
        pub demand_ttl: Duration = value(span(secs(1)..=DAY)) or secs(60);
    }
}

choice! {
    /// Which executor is replaced next (spec B-32).
    #[derive(Default)]
    pub enum RollPolicy {
        /// The one with the lowest id.
        Id = "id",
        /// The one with the oldest pod.
        #[default]
        Oldest = "oldest",
        /// The one whose metric deviates most from the others'.
        Outlier = "outlier",
        /// The one whose metric is the highest.
        Highest = "highest",
    }
}

section! {
    /// `[roll]`: replacing one executor after the other.
    pub struct Roll {
        /// The interval between replacements; zero: executors are not replaced.
        pub interval: Duration = value(span(ms(0)..=DAY * 365)) or Duration::ZERO;
        pub policy: RollPolicy = value(one_of()) or RollPolicy::default();
        /// For the policies outlier and highest: the key in the `metrics` of heartbeats that is compared.
        pub metric: Option<String> = option(Text::SOME);
        /// The least value of the metric `tasks` of an executor that is replaced; zero: it needs none.
        pub min_tasks: u32 = value(Whole(0..=1_000_000_000)) or 0;
    }
}
