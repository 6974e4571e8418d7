//! A driver that runs in a pod.

use serde_json::Value;

use super::place::Place;
use super::process::{Log, until};

pub struct InPod<'a> {
    place: &'a Place,
}

impl<'a> InPod<'a> {
    pub const fn new(place: &'a Place) -> Self {
        Self { place }
    }

    /// The driver's pods, the oldest first.
    pub fn pods(&self) -> Vec<Value> {
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector=app.kubernetes.io/name%3Dboatswain",
            self.place.name()
        );
        let list = self.place.api.call("GET", &path, None).unwrap();
        let mut pods = list["items"].as_array().unwrap().clone();
        pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].to_string());
        pods
    }

    /// The newest pod that is not being deleted.
    pub fn pod(&self) -> Value {
        until("the driver has a pod", || {
            let mut pods = self.pods();
            pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            pods.pop()
        })
    }

    pub fn name(&self) -> String {
        self.pod()["metadata"]["name"].as_str().unwrap().to_owned()
    }

    /// What its pods have logged so far, as `kubectl logs` shows it.
    pub fn log(&self) -> Log {
        let mut lines = Vec::new();
        for pod in self.pods() {
            lines.extend(self.log_of(pod["metadata"]["name"].as_str().unwrap()).0);
        }
        Log(lines)
    }

    pub fn log_of(&self, pod: &str) -> Log {
        // Shortly after a restart of the API server or of a node it can fail for pods that have a log.
        let text = until(&format!("the log of {pod} can be read"), || {
            let output = self.place.kubectl(&["logs", pod]);
            let error = String::from_utf8_lossy(&output.stderr);
            let is_answered = output.status.success()
                || ["(NotFound)", "(BadRequest)"]
                    .iter()
                    .any(|has_none| error.contains(has_none));
            is_answered.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        let parse = |line: &str| serde_json::from_str(line).ok();
        Log(text.lines().filter_map(parse).collect())
    }

    pub fn until<T>(&self, what: &str, look: impl Fn(&Log) -> Option<T>) -> T {
        until(what, || look(&self.log()))
    }

    pub fn says(&self, message: &str) -> Value {
        self.until(&format!("the driver says {message:?}"), |log| {
            log.lines(message).first().map(|line| (*line).clone())
        })
    }

    pub fn end_of(&self, executor: u64) -> Value {
        self.until(&format!("executor {executor}'s end is logged"), |log| {
            log.end_of(executor).cloned()
        })
    }

    /// Waits until so many executors have registered, counted over all that the driver has had.
    pub fn registered(&self, count: usize) {
        self.until(&format!("{count} executors have registered"), |log| {
            (log.executors("executor registered").len() >= count).then_some(())
        });
    }
}
