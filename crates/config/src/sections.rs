//! The sections about the application, the cluster, this process, the API and logs, with their
//! defaults. The bounds of durations catch typing errors and values that timers cannot represent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::declare::{choice, section};
use super::kinds::{ADDRESS, Flag, PATH, Parsed, Percent, Text, Whole, one_of, seconds, span};
use super::names::{LONGEST_PREFIX, NameRule, is_dns_label, is_dns_subdomain, is_label_value};
use boatswain_model::AppId;

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) const HOUR: Duration = secs(3600);
pub(super) const DAY: Duration = secs(24 * 3600);
pub(super) const YEAR: Duration = secs(365 * 24 * 3600);

section! {
    /// `[app]`: the application that the executors belong to.
    pub struct App {
        /// `None`: the id in the application record, or else a new one that is stored there (spec
        /// O-30).
        pub id: Option<AppId> = option(APP_ID);
        /// A human-readable name, from which the prefix of pod names is derived (spec K-7).
        pub name: String = value(Text::SOME) or "boatswain".to_owned();
        /// Properties that every executor receives when it registers (spec B-68).
        pub properties: BTreeMap<String, String> = table(PROPERTY, Text::ANY);
        /// The application is ready when this percentage of the initial executors has registered
        /// (spec B-20).
        pub min_registered_ratio: u32 = value(Percent(0..=100)) or 80;
        /// The application is ready after this time at the latest (spec B-20).
        pub max_wait: Duration = value(span(ms(0)..=DAY)) or secs(30);
        /// The most executors over the application's life. `None`: no limit (spec A-5).
        pub max_executors: Option<u32> = option(Whole(1..=u32::MAX));
        /// The application is held after this time without a renewal, and ends after twice this
        /// time. `None`: forever (spec B-35).
        pub ttl: Option<Duration> = option(span(secs(1)..=DAY));
    }
}

const APP_ID: Parsed<AppId> = Parsed {
    read: |id| (!id.is_empty() && is_label_value(id)).then(|| id.into()),
    show: AppId::to_string,
    allowed: "up to 63 letters, digits, dashes, dots and underscores, as a label's value",
};

const PROPERTY: NameRule = (
    |name| (1..=128).contains(&name.len()) && !name.contains('\0'),
    "a name of up to 128 bytes",
);

choice! {
    /// Where the executors run.
    #[derive(Default)]
    pub enum ClusterMode {
        #[default]
        Kubernetes = "kubernetes",
        /// The cluster embedded in this process (spec O-70).
        Embedded = "embedded",
    }
}

section! {
    /// `[cluster]`: which cluster to use, and timeouts for calls to it.
    pub struct Cluster {
        pub mode: ClusterMode = value(one_of()) or ClusterMode::default();
        /// Only for a Kubernetes cluster. `None`: the pod's service account, or else the usual
        /// lookup of a kubeconfig.
        pub kubeconfig: Option<PathBuf> = option(PATH);
        /// The kubeconfig's context, only for a Kubernetes cluster. `None`: the current one.
        pub context: Option<String> = option(Text::SOME);
        /// The executors' namespace. `None`: that of the service account or the context.
        pub namespace: Option<String> = option(NAMESPACE);
        /// The timeout of one call, which is also sent to the server (spec A-11).
        pub request_timeout: Duration = value(span(ms(100)..=HOUR)) or secs(10);
        /// How long the cluster may be unreachable at the start (spec O-2).
        pub start_timeout: Duration = value(span(ms(100)..=DAY)) or secs(60);
    }
}

const NAMESPACE: Text = Text {
    rule: |name| is_dns_label(name, 63),
    allowed: "a namespace: lowercase letters, digits and inner dashes",
};

choice! {
    /// What runs the pods of the embedded cluster.
    #[derive(Default)]
    pub enum EmbeddedNode {
        /// Each pod is a local process (spec O-73).
        #[default]
        Process = "process",
        /// Nothing runs; pods only pass through their phases (spec O-73).
        Simulated = "simulated",
    }
}

section! {
    /// `[embedded]`: the cluster inside this process; only for `cluster.mode = "embedded"`.
    pub struct Embedded {
        pub node: EmbeddedNode = value(one_of()) or EmbeddedNode::default();
        /// Where the working directories and logs of the processes are, only for local processes.
        /// `None`: a new temporary directory.
        pub state_dir: Option<PathBuf> = option(PATH);
        /// How long a simulated pod takes to start.
        pub start_delay: Duration = value(span(ms(0)..=HOUR)) or ms(0);
    }
}

section! {
    /// `[driver]`: this process.
    pub struct Driver {
        /// The pod that this process runs in. `None`: it does not run in a pod.
        pub pod_name: Option<String> = option(POD_NAME);
    }
}

const POD_NAME: Text = Text {
    rule: is_dns_subdomain,
    allowed: "a pod's name: lowercase letters, digits, inner dashes and dots",
};

choice! {
    /// The scheme of the executors' labels (spec K-3).
    #[derive(Default)]
    pub enum Labels {
        #[default]
        Boatswain = "boatswain",
        /// Spark's labels, so that tools made for Spark keep working.
        Spark = "spark",
    }
}

section! {
    /// `[executors]`: what all executors have in common.
    pub struct Executors {
        /// The prefix of the names of all objects. `None`: derived from `app.name` (spec K-7).
        pub pod_name_prefix: Option<String> = option(PREFIX);
        pub labels: Labels = value(one_of()) or Labels::default();
    }
}

const PREFIX: Text = Text {
    rule: |p| is_dns_label(p, LONGEST_PREFIX) && p.starts_with(|c: char| c.is_ascii_lowercase()),
    allowed: "at most 38 lowercase letters, digits and inner dashes, a letter first",
};

choice! {
    /// What a service account may do (spec O-64).
    pub enum AccountRight {
        Read = "read",
        Full = "full",
    }
}

const ACCOUNT: NameRule = (
    |account| {
        let parts = account.split_once('/');
        parts.is_some_and(|(namespace, name)| is_dns_label(namespace, 63) && is_dns_subdomain(name))
    },
    "a namespace and a service account in it, such as \"jobs/spark-driver\"",
);

section! {
    /// `[api]`: the HTTP API for operators and clients (spec O-50).
    pub struct Api {
        /// `None`: the API is off.
        pub listen: Option<SocketAddr> = option(ADDRESS);
        /// The file with the accepted tokens; required where the API listens.
        pub token_file: Option<PathBuf> = option(PATH);
        /// The service accounts that may call, as `namespace/name`, with their rights.
        pub service_accounts: BTreeMap<String, AccountRight> = table(ACCOUNT, one_of());
        /// The audience of their tokens. `None`: `boatswain.dev/<namespace>/<prefix>`.
        pub audience: Option<String> = option(Text::SOME);
        /// Whether it speaks plain HTTP, with `[tls]` or on an address that others can reach.
        pub plain_http: bool = value(Flag) or false;
        /// Whether explanations have pods' warnings and logs (spec O-78).
        pub evidence: bool = value(Flag) or false;
    }
}

choice! {
    /// What SIGTERM and SIGINT do (spec O-10).
    #[derive(Default)]
    pub enum OnSignal {
        /// In a pod, what the pod and its controllers say (spec O-66); elsewhere `End`, or `HandOver` with `ha.lease`.
        #[default]
        Auto = "auto",
        /// End the application: its executors are deleted.
        End = "end",
        /// End only this process: its executors keep running for a successor.
        HandOver = "hand-over",
    }
}

section! {
    /// `[shutdown]`: how this process stops.
    pub struct Shutdown {
        pub on_signal: OnSignal = value(one_of()) or OnSignal::default();
        /// How long the shutdown may take (spec O-109).
        pub grace: Duration = value(seconds(secs(1)..=DAY)) or secs(20);
    }
}
