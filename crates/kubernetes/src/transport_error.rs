//! Classifies connection errors: the request was never sent, or the connection broke after that (spec ).

use std::error::Error;
use std::io;

use boatswain_agent::trust;
use hyper_util::client::legacy::Error as HyperError;
use kube::client::AuthError;

use super::refusal::{Failure, FailureKind};

/// Classifies an error of the client; `place` names the call.
pub(super) fn of_error(place: &str, error: &kube::Error) -> Failure {
    let kind = kind_of(error);
    let said = match find::<AuthError>(error) {
        Some(_) => UNUSABLE.to_owned(),
        None => trust::refused_by_client(error).unwrap_or_else(|| chain_text(error)),
    };
    Failure::new(kind, &format!("{place}: {said}"))
}

fn kind_of(error: &(dyn Error + 'static)) -> FailureKind {
    if find::<AuthError>(error).is_some() {
        return FailureKind::Credentials;
    }
    // If there is a hyper error, it alone decides: an established connection, too, may end with "no route to host".
    if let Some(hyper) = find::<HyperError>(error) {
        return if hyper.is_connect() {
            FailureKind::Unreachable
        } else {
            FailureKind::Broken
        };
    }
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable,
        ) => FailureKind::Unreachable,
        _ => FailureKind::Broken,
    }
}

/// Finds the outermost error of this type in the chain.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The chain in one line, without links that repeat a previous one.
pub(super) fn chain_text(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = error.source();
    }
    text
}

/// Omits the texts of these errors, because they may quote secrets.
pub(super) const UNUSABLE: &str = "the credentials cannot be obtained or used";
