//! Callers that are service accounts of the cluster (spec O-64).

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Addr;

use super::tokens::Right;
use crate::server::problem::Problem;
use crate::server::sessions::access::{Denied, TokenKeys, account};

/// The service accounts that may call, and how their tokens are verified.
#[derive(Clone)]
pub struct Callers {
    pub keys: Addr<TokenKeys>,
    /// The audience that tokens must be for.
    pub audience: Arc<str>,
    /// The rights of each account, by `namespace/name`.
    pub rights: Arc<BTreeMap<String, Right>>,
}

impl Callers {
    /// The right of the account whose token this is, and the account.
    ///
    /// # Errors
    ///
    /// The token proves nothing, or its account has no right here.
    pub(super) async fn right(&self, token: &[u8]) -> Result<(Right, String), Problem> {
        let token = std::str::from_utf8(token).map_err(|_| Problem::unauthorized())?;
        // Only tokens that may be of a service account are worth a look at the cluster's keys.
        if token.split('.').count() != 3 {
            return Err(Problem::unauthorized());
        }
        let account = account(&self.keys, token, &self.audience).await;
        let account = account.map_err(|denied| match denied {
            Denied::NoKeys | Denied::NoReview => Problem::unavailable_for(denied.to_string()),
            Denied::NoToken => Problem::unauthorized(),
            Denied::Untrue(why) => Problem::unauthorized_since(
                format!("the service account's token is not accepted: {why}"),
                format!("project a token for the audience {:?}", self.audience),
            ),
        })?;
        match self.rights.get(&account) {
            Some(right) => Ok((*right, account)),
            None => Err(Problem::forbidden(
                format!("the service account {account} has no right here"),
                format!(
                    "add {account:?} = \"read\" or \"full\" to the driver's api.service_accounts"
                ),
            )),
        }
    }
}
