//! The requests of `crates/client` are made from the driver's OpenAPI document.

mod generate;

use std::path::Path;

use crate::world::driver;

// spec: O-42
#[actix::test]
async fn the_rust_client_has_what_the_openapi_document_has() {
    let (_world, driver) = driver(&[]).await;
    let made = generate::api(&driver.document().await);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/client/src/api.rs");
    if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == made,
        "write it anew: BOATSWAIN_WRITE_EXPECTED=1 cargo test --test commands rust_client"
    );
}
