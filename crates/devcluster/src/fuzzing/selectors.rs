//! Fuzz target: label and field selectors.

use super::{Fixture, pod};
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;

/// The input is a label selector followed by a field selector. They are parsed or refused as a bad request. Repeating a
/// selector does not change the selection, and a further requirement does not enlarge it.
pub fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (labels, fields) = text.split_once("\n%\n").unwrap_or((&text, ""));
    let mut fixture = Fixture::new();
    for name in ["a", "b"] {
        fixture.create(Resource::Pods, pod(name));
    }
    for resource in Resource::ALL {
        let selector = match Selector::parse(resource, labels, fields) {
            Ok(selector) => selector,
            Err(error) => {
                assert_eq!((error.code, error.reason), (400, "BadRequest"), "{error:?}");
                continue;
            }
        };
        let twice = |text: &str| match text.trim() {
            "" => String::new(),
            _ => format!("{text},{text}"),
        };
        let narrower = match labels.trim() {
            "" => "app".to_owned(),
            _ => format!("{labels},app"),
        };
        let of = |labels: &str, fields: &str| {
            Selector::parse(resource, labels, fields).unwrap_or_else(|why| panic!("{why:?}"))
        };
        let doubled = of(&twice(labels), &twice(fields));
        let narrower = of(&narrower, fields);
        for object in fixture.state.objects().values() {
            let selected = selector.matches(object);
            assert_eq!(doubled.matches(object), selected);
            assert!(
                selected || !narrower.matches(object),
                "more by one requirement more"
            );
        }
    }
}
