//! The requests of `crates/client` are made from the driver's OpenAPI document.

mod generate;

use std::path::Path;

use crate::world::driver;

// spec: O-42
#[actix::test]
async fn the_rust_client_has_what_the_openapi_document_has() {
    let (_world, driver) = driver(&[]).await;
    let document = driver.document().await;
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/client/src");
    for (file, made) in [
        ("types.rs", generate::types(&document)),
        ("words.rs", generate::words(&document)),
        ("requests.rs", generate::requests(&document)),
    ] {
        let file = src.join(file);
        if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            there == made,
            "write it anew: BOATSWAIN_WRITE_EXPECTED=1 cargo test --test commands rust_client"
        );
    }
}
