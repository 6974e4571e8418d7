//! What a record says its application is called, whether or not it can be read as a whole.

use super::keys::Keys;
use super::{AnotherName, LONGEST_TEXT, key};
use crate::calls::ConfigMap;
use crate::refusal::clean;

/// Fails if the record says that its application has another name. One of an older program says none.
pub fn check_name(map: &ConfigMap, wanted: &str) -> Result<(), AnotherName> {
    let found = Keys { map }.get(key::APP_NAME).unwrap_or_default();
    if found.is_empty() || found == wanted.trim() {
        return Ok(());
    }
    Err(AnotherName {
        map: map.name.clone(),
        found: name_in(map),
        wanted: wanted.trim().to_owned(),
        id: id_in(map),
    })
}

/// The application's name that a record says; empty if it says none.
pub fn name_in(map: &ConfigMap) -> String {
    text_in(map, key::APP_NAME)
}

/// The application's id that a record says, whether or not the record can be read; empty if it says none.
pub fn id_in(map: &ConfigMap) -> String {
    text_in(map, key::APP_ID)
}

fn text_in(map: &ConfigMap, key: &str) -> String {
    let text = Keys { map }.get(key).unwrap_or_default();
    clean(text, LONGEST_TEXT).trim().to_owned()
}
