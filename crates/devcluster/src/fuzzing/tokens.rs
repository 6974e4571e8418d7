//! Fuzz target: continue tokens, as any text and as any encoded content.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Bench, NAMESPACE, pod};
use crate::api::token::Place;
use crate::objects::resource::Resource;
use crate::storage::store::range;

/// The input is used as a token and as the content of one. It is refused as a bad request or decoded to a place;
/// encoding that yields the same place, and only later objects are listed after it.
pub fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for token in [text.into_owned(), URL_SAFE_NO_PAD.encode(data)] {
        for listed in [None, Some(NAMESPACE)] {
            match Place::decode(&token, listed) {
                Ok(place) => leads_on(&place, listed),
                Err(error) => assert_eq!((error.code, error.reason), (400, "BadRequest")),
            }
        }
    }
}

fn leads_on(place: &Place, listed: Option<&str>) {
    let written = place.encode(listed);
    let read = Place::decode(&written, listed);
    assert_eq!(read.as_ref(), Ok(place), "{written}");
    let mut bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.create(Resource::Pods, pod(name));
    }
    let version = place.version.unwrap_or(bench.state.resource_version());
    let Ok(objects) = bench.state.objects_at(version) else {
        return;
    };
    let after = (&*place.namespace, &*place.name);
    for object in range(&objects, Resource::Pods, listed, Some(after)) {
        let key = object.key();
        assert!(
            (&*key.namespace, &*key.name) > after,
            "{key:?} after {place:?}"
        );
    }
}
