//! Fuzz target: continue tokens, as any text and as any encoded content.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Fixture, NAMESPACE, pod};
use crate::api::token::Position;
use crate::objects::resource::Resource;
use crate::storage::store::range;

/// The input is used as a token and as the content of one. It is refused as a bad request or decoded to a position;
/// encoding that yields the same position, and only later objects are listed after it.
pub fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for token in [text.into_owned(), URL_SAFE_NO_PAD.encode(data)] {
        for listed in [None, Some(NAMESPACE)] {
            match Position::decode(&token, listed) {
                Ok(position) => check_continuation(&position, listed),
                Err(error) => assert_eq!((error.code, error.reason), (400, "BadRequest")),
            }
        }
    }
}

fn check_continuation(position: &Position, listed: Option<&str>) {
    let written = position.encode(listed);
    let read = Position::decode(&written, listed);
    assert_eq!(read.as_ref(), Ok(position), "{written}");
    let mut fixture = Fixture::new();
    for name in ["a", "b", "c"] {
        fixture.create(Resource::Pods, pod(name));
    }
    let version = position.version.unwrap_or(fixture.state.resource_version());
    let Ok(objects) = fixture.state.objects_at(version) else {
        return;
    };
    let after = (&*position.namespace, &*position.name);
    for object in range(&objects, Resource::Pods, listed, Some(after)) {
        let key = object.key();
        assert!(
            (&*key.namespace, &*key.name) > after,
            "{key:?} after {position:?}"
        );
    }
}
