//! Calls about the keys that a cluster signs its service accounts' tokens with (spec O-50).

use bytes::Bytes;
use http::Method;

use super::Calls;
use super::transport::{Call, Query, path};
use crate::kubernetes::refusal::Failure;

/// A cluster has a key or a few.
const LIMIT: usize = 256 * 1024;

impl Calls {
    /// Who signs tokens, and where that is told: the discovery document of OpenID.
    ///
    /// # Errors
    /// Where the cluster does not answer it.
    pub async fn token_issuer(&self) -> Result<Bytes, Failure> {
        self.document(&[".well-known", "openid-configuration"])
            .await
    }

    /// The keys by which tokens can be verified, as a JSON Web Key Set.
    ///
    /// # Errors
    /// Where the cluster does not answer it.
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
