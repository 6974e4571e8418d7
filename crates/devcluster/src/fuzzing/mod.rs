//! Fuzz targets: properties that hold for any input the embedded cluster receives.

mod patches;
mod requests;
mod selectors;
mod tokens;

pub use patches::patch;
pub use requests::requests;
pub use selectors::selectors;
pub use tokens::token;

use serde_json::{Value, json};

use super::api::decode;
use super::changes::write::{Answer, Caller, Write, WriteContext};
use super::objects::ids::Ids;
use super::objects::object::Key;
use super::objects::resource::Resource;
use super::storage::store::State;
use crate::api::status::ApiError;

const NAMESPACE: &str = "default";

/// A fixed time for every write.
const NOW: &str = "2026-01-01T00:00:00Z";

/// How real servers refuse an item that lacks the merge key of its list.
const NO_MERGE_KEY: &str = "does not contain declared merge key";

/// Splits an input that is not all text into its parts.
fn parts(data: &[u8]) -> Vec<&[u8]> {
    const SEPARATOR: &[u8] = b"\n%\n";
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|w| w == SEPARATOR) {
        parts.push(&rest[..at]);
        rest = &rest[at + SEPARATOR.len()..];
    }
    parts.push(rest);
    parts
}

/// Runs with a clock that does not wait.
fn in_runtime(run: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let Ok(runtime) = runtime else {
        panic!("no runtime");
    };
    runtime.block_on(run);
}

/// A state, with the ids for its writes.
struct Fixture {
    state: State,
    ids: Ids,
}

impl Fixture {
    fn new() -> Self {
        let mut state = State::new(100);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "uid": "0"},
        });
        state.seed(Key::new(Resource::Namespaces, "", NAMESPACE), namespace, 1);
        Self {
            state,
            ids: Ids::new(0),
        }
    }

    fn write(&mut self, write: Write) -> Result<Answer, ApiError> {
        let caller = Caller::default();
        let now = NOW.parse().unwrap_or_default();
        let mut context = WriteContext::new(now, &mut self.ids);
        context.caller = Some(&caller);
        self.state.write(write, false, &mut context)
    }

    /// Creates an object of this kind, as a client would; `None` if it is refused.
    fn create(&mut self, resource: Resource, object: Value) -> Option<Key> {
        let object = decode::object(resource, object).ok()?.object;
        let create = Write::Create {
            resource,
            namespace: resource.namespace(NAMESPACE).to_owned(),
            object,
        };
        match self.write(create) {
            Ok(Answer::Object(object, true)) => Some(object.key().clone()),
            _ => None,
        }
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "demo", "n": "5", "empty": ""},
            "annotations": {"a": "b"},
            "finalizers": ["example.com/a", "example.com/b"],
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "d", "image": "j", "ports": [{"containerPort": 80}]},
            ],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        },
    })
}
