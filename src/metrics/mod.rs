//! The numbers that Prometheus scrapes (spec O-41). `table` has all of them; whoever counts has a clone.

mod process;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use actix::{Message, Recipient};
use futures::future::join_all;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::kubernetes::calls::CallMade;
use crate::model::{AppId, Incarnation, ProfileName};

use table::Families;

/// Names of the driver's own metrics begin so.
const PREFIX: &str = "boatswain";

/// The value of a label.
pub type Value = Cow<'static, str>;

/// Metrics of one kind, one for each combination of their labels' values.
#[derive(Debug, Clone)]
pub struct Labelled<M, const N: usize> {
    labels: [&'static str; N],
    family: Family<[(&'static str, Value); N], M>,
}

impl<M: Clone, const N: usize> Labelled<M, N> {
    fn made(labels: [&'static str; N], begin: fn() -> M) -> Self {
        Self {
            labels,
            family: Family::new_with_constructor(begin),
        }
    }

    fn by(labels: [&'static str; N]) -> Self
    where
        M: Default,
    {
        Self::made(labels, M::default)
    }

    fn with(&self, values: [Value; N]) -> [(&'static str, Value); N] {
        let mut values = values.into_iter();
        self.labels
            .map(|label| (label, values.next().unwrap_or_default()))
    }

    /// The metric with these values of its labels.
    pub fn of(&self, values: [Value; N]) -> M {
        self.family.get_or_create_owned(&self.with(values))
    }

    /// Removes all values.
    pub fn clear(&self) {
        self.family.clear();
    }

    /// Removes the metric with these values of its labels.
    pub fn remove(&self, values: [Value; N]) {
        self.family.remove(&self.with(values));
    }
}

/// What may have a value for each profile.
trait ByProfile {
    fn remove_profile(&self, profile: &str);
}

impl<M: Clone, const N: usize> ByProfile for Labelled<M, N> {
    fn remove_profile(&self, profile: &str) {
        if self.labels.iter().all(|label| *label == "profile") {
            self.remove(std::array::from_fn(|_| profile.to_owned().into()));
        }
    }
}

impl ByProfile for Gauge {
    fn remove_profile(&self, _: &str) {}
}

impl ByProfile for Counter {
    fn remove_profile(&self, _: &str) {}
}

impl<M: EncodeMetric + TypedMetric, const N: usize> EncodeMetric for Labelled<M, N> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

/// All metrics of the driver. The clones count together.
///
/// This is the one exception to the rule that nothing is shared. What happens is counted where it happens, with
/// prometheus-client's own handles; no decision reads a metric.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

impl Deref for Metrics {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.0
    }
}

impl Metrics {
    pub fn new(app: &AppId, incarnation: Incarnation) -> Self {
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("app", app.to_string()),
            ("incarnation", incarnation.to_string()),
        ];
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let ours = registry.sub_registry_with_prefix(PREFIX);
        ours.register("build", "This driver", Info::new(build.to_vec()));
        Self(Arc::new(Families::in_registry(registry)))
    }

    /// Counts a call to the API server.
    pub fn count_call(&self, call: &CallMade) {
        let (verb, resource) = (call.verb, call.resource);
        let by_outcome = [verb.into(), resource.into(), call.outcome().into()];
        self.calls.of(by_outcome).inc();
        let times = self.call_times.of([verb.into(), resource.into()]);
        times.observe(call.took.as_secs_f64());
    }

    /// Sets how many failures of each profile count, and how many may.
    pub fn show_failures<'a>(&self, counted: impl Iterator<Item = (&'a ProfileName, u32, u32)>) {
        for (profile, failures, allowed) in counted {
            let name = || [profile.to_string().into()];
            self.failures.of(name()).set(failures.into());
            self.allowed.of(name()).set(allowed.into());
        }
    }

    /// All metrics in the text format of Prometheus.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The value of a gauge.
pub fn whole(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Requests that an actor sets the gauges of its own state. The time until the answer shows how long messages wait in
/// its mailbox.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct Measure(pub Metrics);

/// What is asked for before the metrics are shown.
#[derive(Clone)]
pub struct Scraper {
    pub metrics: Metrics,
    /// The actors with gauges, by their names in the metrics.
    pub actors: Vec<(&'static str, Recipient<Measure>)>,
}

impl Scraper {
    /// All metrics, as they are now.
    pub async fn scrape(&self) -> Result<String, fmt::Error> {
        let measured = self.actors.iter().map(|(actor, asked)| {
            let (begun, answer) = (Instant::now(), asked.send(Measure(self.metrics.clone())));
            async move {
                // An actor that has stopped is skipped: the driver is ending, and the counters are still useful.
                if answer.await.is_ok() {
                    let took = begun.elapsed().as_secs_f64();
                    self.metrics.mailboxes.of([(*actor).into()]).observe(took);
                }
            }
        });
        join_all(measured).await;
        self.metrics.text()
    }
}

#[cfg(test)]
mod tests;
