//! Authentication: identifies the user of a request by a configured bearer token or by a signed service account token.

use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::account::{self, Account};
use super::attributes::Attributes;
use super::rights::{AUTHENTICATED, MASTERS, Rights, User};
use super::signing::Keys;
use crate::api::status::ApiError;
use crate::storage::store::State;

/// The user of the server's own token, who may do anything.
const USER: &str = "devcluster";

/// A user with a fixed bearer token.
#[derive(Clone, PartialEq)]
pub struct KnownUser {
    pub token: String,
    pub name: String,
    /// Distinguishes users of the same name.
    pub uid: String,
    pub groups: Vec<String>,
}

impl std::fmt::Debug for KnownUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A token must not appear in logs.
        f.debug_struct("KnownUser")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The accepted credentials. If no token is configured, every request is attributed to the server's own user.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    known: Option<Arc<Vec<KnownUser>>>,
    keys: Keys,
}

impl Credentials {
    /// Accepts `token` as that of the server's own user, the tokens of `others`, and tokens signed with `keys`.
    pub(crate) fn new(token: Option<String>, others: Vec<KnownUser>, keys: Keys) -> Self {
        let known = token.map(|token| {
            let own = KnownUser {
                token,
                name: USER.to_owned(),
                uid: String::new(),
                groups: vec![MASTERS.to_owned()],
            };
            Arc::new(std::iter::once(own).chain(others).collect())
        });
        Self { known, keys }
    }

    /// The token of the server's own user; `None` if no token is required.
    pub(crate) fn own_token(&self) -> Option<&str> {
        let own = self.known.as_ref()?.first()?;
        Some(&own.token)
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn user(
        &self,
        parts: &Parts,
        state: &State,
        now: Timestamp,
    ) -> Result<User, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let Some(header) = header else {
            return Ok(match &self.known {
                Some(_) => User::anonymous(),
                None => own_user(),
            });
        };
        let space = header
            .iter()
            .position(|b| *b == b' ')
            .unwrap_or(header.len());
        let (scheme, given) = header.split_at(space);
        let given = given.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Err(ApiError::unauthorized());
        }
        self.bearer(given, state, now)
            .ok_or_else(ApiError::unauthorized)
    }

    /// The user of a bearer token; `None` if the token is not accepted.
    pub(crate) fn bearer(&self, token: &[u8], state: &State, now: Timestamp) -> Option<User> {
        let Some(known) = &self.known else {
            return Some(own_user());
        };
        // All tokens are compared in constant time, so that timing reveals neither a token nor the number of users.
        let mut found = None;
        for user in known.iter() {
            if token.ct_eq(user.token.as_bytes()).into() {
                found = Some(user);
            }
        }
        if let Some(user) = found {
            return Some(with_authenticated_group(User {
                name: user.name.clone(),
                uid: user.uid.clone(),
                groups: user.groups.clone(),
                extra: Value::Null,
            }));
        }
        let token = std::str::from_utf8(token).ok()?;
        let account = Account::read(&self.keys, token, state, now)?;
        account
            .is_for(account::own_audiences())
            .then(|| account.user())
    }
}

fn own_user() -> User {
    with_authenticated_group(User {
        name: USER.to_owned(),
        groups: vec![MASTERS.to_owned()],
        ..User::default()
    })
}

fn with_authenticated_group(mut user: User) -> User {
    user.groups.push(AUTHENTICATED.to_owned());
    user
}

/// Applies the impersonation headers, if the user has the right to impersonate.
pub(crate) fn impersonated(
    parts: &Parts,
    state: &State,
    rights: Rights,
    user: User,
) -> Result<User, ApiError> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let Some(name) = parts.headers.get("impersonate-user").map(text) else {
        let mut names = parts.headers.keys();
        return match names.find(|name| name.as_str().starts_with("impersonate-")) {
            Some(_) => Err(ApiError::bad_request(
                "requested without impersonating a user name",
            )),
            None => Ok(user),
        };
    };
    let groups: Vec<String> = parts
        .headers
        .get_all("impersonate-group")
        .iter()
        .map(text)
        .collect();
    let wants = |resource: &str, name: &str| Attributes {
        verb: "impersonate".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    rights.check(state, &user, &wants("users", &name))?;
    for group in &groups {
        rights.check(state, &user, &wants("groups", group))?;
    }
    let mut other = User {
        name,
        groups,
        ..User::default()
    };
    if other.name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    let account = other.name.strip_prefix("system:serviceaccount:");
    if let Some((namespace, _)) = account.and_then(|a| a.split_once(':'))
        && other.groups.is_empty()
    {
        other.groups.extend(account::groups(namespace));
    }
    Ok(with_authenticated_group(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(credentials: &Credentials, header: Option<&str>) -> Result<String, u16> {
        let mut request = http::Request::get("/");
        if let Some(header) = header {
            request = request.header(AUTHORIZATION, header);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let user = credentials.user(&parts, &State::new(1), Timestamp::UNIX_EPOCH);
        user.map(|u| u.name).map_err(|e| e.code)
    }

    #[test]
    fn a_token_identifies_its_user() {
        let ann = KnownUser {
            token: "of-ann".to_owned(),
            name: "ann".to_owned(),
            uid: String::new(),
            groups: Vec::new(),
        };
        let credentials = Credentials::new(Some("own".to_owned()), vec![ann], Keys::generate());
        assert_eq!(who(&credentials, Some("Bearer own")), Ok(USER.to_owned()));
        assert_eq!(
            who(&credentials, Some("bearer of-ann")),
            Ok("ann".to_owned())
        );
        for wrong in ["Bearer x", "Bearer", "Basic YTpvd24=", "own", "Digest own"] {
            assert_eq!(who(&credentials, Some(wrong)), Err(401), "{wrong}");
        }
        assert_eq!(who(&credentials, None), Ok("system:anonymous".to_owned()));
        assert_eq!(
            who(&Credentials::new(None, Vec::new(), Keys::generate()), None),
            Ok(USER.to_owned())
        );
    }
}
