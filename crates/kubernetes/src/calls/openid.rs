//! API calls for the keys with which the cluster signs service account tokens (spec O-112).

use bytes::Bytes;
use http::Method;

use super::Calls;
use super::transport::{Call, Query, path};
use crate::refusal::Failure;

/// Much more than a cluster's few keys need.
const LIMIT: usize = 256 * 1024;

impl Calls {
    /// Gets the OpenID discovery document, which names the token issuer.
    pub async fn token_issuer(&self) -> Result<Bytes, Failure> {
        self.document(&[".well-known", "openid-configuration"])
            .await
    }

    /// Gets the keys that verify tokens, as a JSON Web Key Set.
    pub async fn token_keys(&self) -> Result<Bytes, Failure> {
        self.document(&["openid", "v1", "jwks"]).await
    }

    async fn document(&self, segments: &[&str]) -> Result<Bytes, Failure> {
        let call = Call {
            method: Method::GET,
            path: path(segments),
            query: Query::default(),
            body: None,
            limit: LIMIT,
        };
        let answer = self.answer(&self.clients().reads, call).await;
        answer.map_err(|rejection| rejection.failure)
    }
}
