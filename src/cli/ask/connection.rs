//! How a command reaches the driver, and what proves to it who calls (spec O-43, O-63, O-86).

use std::net::IpAddr;
use std::path::PathBuf;

use boatswain_client::{Ca, Client, ClientError, Token};
use clap::Args;
use http::Uri;

use super::in_cluster::InCluster;
use crate::cli::{fail, fail_with, wait_for};
use crate::exit::Exit;
use crate::server::api::tokens;

/// Where the driver is, and what proves to it who calls.
#[derive(Debug, Args)]
pub(in crate::cli) struct Connection {
    /// URL of the driver's API
    #[arg(
        long,
        env = "BOATSWAIN_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7117",
        value_parser = server
    )]
    pub(in crate::cli) server: Uri,
    /// File with the API token: the driver's api.token_file, or a file with one of its lines
    /// [default, for a driver on this machine: ~/.boatswain/driver-token, if it exists]
    #[arg(long, env = "BOATSWAIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA that the driver's certificate has to lead to, in PEM; for https [default:
    /// with --app the CA in the driver's ConfigMap, otherwise that beside the token file, or this
    /// machine's CAs]
    #[arg(long, env = "BOATSWAIN_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) in_cluster: InCluster,
}

/// An address, with or without its scheme.
fn server(text: &str) -> Result<Uri, String> {
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let uri: Uri = url.parse().map_err(|error| format!("{error}: {URL}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(URL.to_owned()),
    }
}

const URL: &str =
    "expected a URL such as http://127.0.0.1:7117, or https:// if the driver has [tls]";

impl Connection {
    /// Runs requests to the driver. Their failures are reported.
    pub(in crate::cli) fn ask(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        if self.in_cluster.lacks_an_app() {
            let why = "--namespace, --kubeconfig and --context say where the application of --app is: name one";
            return fail(Exit::Usage, why);
        }
        self.ask_beside_a_cluster(asking)
    }

    /// The same for a command that calls a cluster too.
    pub(super) fn ask_beside_a_cluster(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        wait_for(self.ask_now(asking))
    }

    pub(super) async fn ask_now(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        let given = || self.ca_file.clone().map(Ca::File);
        let reached = self.in_cluster.reach(self.token_file.is_none()).await;
        let (server, token, ca, pod) = match reached {
            Ok(Some(reached)) => {
                let found = reached.ca.map(Ca::Pem);
                let pod = Some(reached.pod);
                (reached.server, reached.token, given().or(found), pod)
            }
            Ok(None) => {
                let ca = given().or_else(|| self.ca_here());
                (self.server.clone(), None, ca, None)
            }
            Err(exit) => return exit,
        };
        let token = match token.map_or_else(|| self.token(), Ok) {
            Ok(token) => token,
            Err(exit) => return exit,
        };
        let client = match Client::new(server, Token::Text(token), ca) {
            Ok(client) => client,
            Err(error) => return fail_with(Exit::Configuration, &error),
        };
        asking(&client).await.unwrap_or_else(|error| {
            let exit = match &error {
                // The forwarded port's address would tell nobody anything.
                ClientError::Unreachable { why, .. } if let Some(pod) = pod => {
                    let why = format_args!(
                        "the driver in pod {pod} does not answer: {why}\nsee kubectl logs {pod}, and ask for the status \
                         once it, or another driver, is ready: a command may have been carried out"
                    );
                    return fail(Exit::Unreachable, why);
                }
                ClientError::Unreachable { .. } | ClientError::Untrusted { .. } => {
                    Exit::Unreachable
                }
                ClientError::Refused { .. } | ClientError::Foreign { .. } => Exit::Refused,
                ClientError::Token { .. } => Exit::Configuration,
            };
            fail_with(exit, &error)
        })
    }

    fn token(&self) -> Result<String, Exit> {
        let fix = "set --token-file, or BOATSWAIN_TOKEN_FILE, to the driver's api.token_file";
        let Some(file) = self.token_place() else {
            return Err(fail(
                Exit::Usage,
                format_args!("the API token is missing\n{fix}"),
            ));
        };
        tokens::first(&file)
            .map_err(|error| fail(Exit::Configuration, format_args!("{error}\n{fix}")))
    }

    fn token_place(&self) -> Option<PathBuf> {
        self.token_file.clone().or_else(|| self.token_here())
    }

    /// What a driver of this machine that is its own CA has written.
    fn ca_here(&self) -> Option<Ca> {
        let file = tokens::ca_beside(&self.token_place()?);
        let has_tls = self.server.scheme_str() == Some("https");
        (has_tls && file.exists()).then_some(Ca::File(file))
    }

    /// Where the documentation's drivers on one machine keep their token. No other driver is sent it.
    fn token_here(&self) -> Option<PathBuf> {
        let is_here = !self.in_cluster.is_given() && is_this_machine(&self.server);
        let file = std::env::home_dir()?.join(".boatswain/driver-token");
        (is_here && file.exists()).then_some(file)
    }
}

fn is_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || (address.parse::<IpAddr>()).is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-43
    #[test]
    fn a_server_may_be_given_without_its_scheme() {
        for (given, means) in [
            ("127.0.0.1:7117", "http://127.0.0.1:7117/"),
            ("localhost:7117", "http://localhost:7117/"),
            ("driver", "http://driver/"),
            ("[::1]:7117", "http://[::1]:7117/"),
            ("https://driver:7117", "https://driver:7117/"),
        ] {
            assert_eq!(server(given).unwrap().to_string(), means);
        }
        for bad in ["", "ftp://driver", "http://", "a b"] {
            assert!(server(bad).unwrap_err().contains("expected a URL"), "{bad}");
        }
    }

    // spec: O-43
    #[test]
    fn the_token_of_this_machine_is_for_drivers_on_it() {
        for here in [
            "127.0.0.1:7117",
            "localhost",
            "[::1]:7117",
            "https://127.8.0.1",
        ] {
            assert!(is_this_machine(&server(here).unwrap()), "{here}");
        }
        for elsewhere in [
            "10.0.0.1:7117",
            "driver:7117",
            "localhost.example",
            "[fd00::1]",
        ] {
            assert!(!is_this_machine(&server(elsewhere).unwrap()), "{elsewhere}");
        }
    }
}
