//! The section `[ha]`: several drivers of one application, of which one writes (spec O-32).

use std::time::Duration;

use humantime::format_duration;

use super::declare::section;
use super::kinds::{Flag, span};
use super::notes::Notes;
use super::sections::{DAY, HOUR, ms, secs};
use super::{ClusterMode, Config};

section! {
    /// `[ha]`: standby.
    pub struct Ha {
        /// Whether this driver writes only while it holds the application's Lease.
        pub lease: bool = value(Flag) or false;
        /// How long another driver waits after the last renewal that it saw, before it takes the Lease.
        pub lease_duration: Duration = value(span(secs(1)..=HOUR)) or secs(30);
        /// A driver whose last renewal is this old stops writing, and ends.
        pub renew_deadline: Duration = value(span(ms(100)..=HOUR)) or secs(20);
        /// From one renewal to the next.
        pub retry_period: Duration = value(span(ms(100)..=HOUR)) or secs(4);
    }
}

/// A holder has to stop before another driver begins, and to be able to renew a few times before that.
pub(super) fn check(config: &Config, notes: &mut Notes) {
    const DURATION: &str = "ha.lease_duration";
    const DEADLINE: &str = "ha.renew_deadline";
    const RETRY: &str = "ha.retry_period";
    let ha = &config.ha;
    let keys = [DURATION, DEADLINE, RETRY, "cluster.request_timeout"];
    if !notes.are_sound(&keys) {
        return;
    }
    let shown = |time: Duration| format_duration(time).to_string();
    // The factor that client-go's leader election requires.
    if ha.renew_deadline <= ha.retry_period.saturating_mul(6) / 5 {
        let found = format!(
            "found {}, not above 1.2 times ha.retry_period, which is {}",
            shown(ha.renew_deadline),
            shown(ha.retry_period)
        );
        notes.contradict(
            &[DEADLINE, RETRY],
            found,
            "raise it, or lower ha.retry_period",
        );
    }
    let timeout = config.cluster.request_timeout;
    let least = ha.renew_deadline.saturating_add(timeout);
    if ha.lease && ha.lease_duration < least && least < DAY {
        let found = format!(
            "found {}, and a write that is sent at ha.renew_deadline, {}, may take cluster.request_timeout, {}: another \
             driver would begin before it is over",
            shown(ha.lease_duration),
            shown(ha.renew_deadline),
            shown(timeout)
        );
        let fix = format!("allowed: at least {}", shown(least));
        notes.contradict(&[DURATION, DEADLINE, "cluster.request_timeout"], found, fix);
    }
    if !ha.lease {
        return;
    }
    if config.cluster.mode == ClusterMode::Embedded {
        notes.contradict(
            &["ha.lease", "cluster.mode"],
            "found true, and no other driver can reach the embedded cluster",
            "remove it, or set cluster.mode = \"kubernetes\"",
        );
    }
    if config.driver.pod_name.is_none() && !config.backend.sessions.service_selector.is_empty() {
        notes.contradict(
            &["driver.pod_name", "ha.lease", "backend.service_selector"],
            "missing, and with ha.lease the Service leads to the pod whose driver is active",
            "set it from the pod's metadata.name, or set backend.url instead of backend.service_selector",
        );
    }
}
