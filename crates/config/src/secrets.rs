//! What is a secret, and so is neither shown nor taken from the command line (spec C-4, C-10).

use serde_json::Value as Json;

/// Printed in place of a secret value.
pub(super) const HIDDEN: &str = "\"(hidden)\"";

/// Whether the key may hold a secret, by its name. Such a value is not printed, and not accepted on the command
/// line, which every user of the machine can read (spec C-10, C-4). Only entries of `env` and
/// `properties` have names of the user's choosing; boatswain's own keys hold at most the names of
/// secrets.
pub fn is_secret(path: &str) -> bool {
    let tables = ["env", "properties"];
    // The table itself counts too, in case it was not written as a table.
    if tables
        .iter()
        .any(|table| path.ends_with(&format!(".{table}")))
    {
        return true;
    }
    let name = |table: &&str| {
        let after = |at: usize| &path[at + table.len() + 2..];
        let inner = path.find(&format!(".{table}.")).map(after);
        inner.or_else(|| path.strip_prefix(table)?.strip_prefix('.'))
    };
    let Some(name) = tables.iter().find_map(name) else {
        return false;
    };
    is_secret_name(name)
}

/// Whether something with this name is usually a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "secret",
        "password",
        "passwd",
        "passphrase",
        "token",
        "credential",
        "cookie",
        "webhook",
    ];
    // These are parts of other words, so they have to stand alone, as in DB_PASS. `sig` is a SAS's.
    let whole_words = ["pass", "pwd", "pat", "dsn", "sig", "signature"];
    let keys = ["api", "access", "private", "account"];
    let key_of = |of: &&str| {
        ["_", "-", ".", ""]
            .iter()
            .any(|sep| name.contains(&format!("{of}{sep}key")))
    };
    let mut parts = name.split(['_', '-', '.']);
    words.iter().any(|word| name.contains(word))
        || keys.iter().any(key_of)
        || parts.any(|part| whole_words.contains(&part))
}

/// Whether a text contains a secret, whatever its key: a private key, a URL with a password or of a webhook, or an
/// option, an assignment, a header or a JSON property with the name of a secret. A reference to an environment variable
/// is none.
pub fn holds_secret(text: &str) -> bool {
    // The text may be one of TOML or JSON.
    let text = text
        .replace("\\\"", "\"")
        .replace("\\n", "\n")
        .replace("\\t", "\t");
    if text.contains("PRIVATE KEY-----") || is_password_of_a_client(&text) {
        return true;
    }
    // A password may have what separates words.
    if text.split_ascii_whitespace().any(is_secret_url) {
        return true;
    }
    // Whether the word is a secret because of what came before it.
    let mut expected = false;
    let mut words = text.split(is_between).filter(|word| !word.is_empty());
    words.any(|word| {
        let follows = names_secret(word) || begins_header(word) || is_scheme(word);
        let named = std::mem::replace(&mut expected, follows);
        named && is_value(word) && !is_scheme(word) || is_assignment(word) || is_property(word)
    })
}

/// What separates words, also within a list, a query, a connection string or JSON.
fn is_between(c: char) -> bool {
    c.is_ascii_whitespace() || ";&,?|{}()[]".contains(c)
}

fn bare(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// Whether this is an option whose next argument is a secret, such as `--password`.
pub(crate) fn names_secret(word: &str) -> bool {
    let word = bare(word);
    let name = word.trim_start_matches('-');
    name != word && !name.contains('=') && is_secret_option(name)
}

/// Whether this may be the value of the option before it, and is no reference to a variable.
pub(crate) fn is_value(word: &str) -> bool {
    let word = bare(word);
    !word.is_empty() && !word.starts_with(['-', '$'])
}

/// The name of a header or of a JSON property, whose value comes next: `X-Api-Key:`.
fn begins_header(word: &str) -> bool {
    let name = bare(word).strip_suffix(':').map(bare);
    name.is_some_and(|name| is_secret_option(name) || name.eq_ignore_ascii_case("authorization"))
}

/// `Bearer` or `Basic`, also at the end of `AUTH="Basic`: credentials come next.
fn is_scheme(word: &str) -> bool {
    let word = word
        .rsplit(['=', ':', '"', '\''])
        .find(|part| !part.is_empty());
    word.is_some_and(|word| {
        ["bearer", "basic"]
            .iter()
            .any(|scheme| word.eq_ignore_ascii_case(scheme))
    })
}

fn is_assignment(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else {
        return false;
    };
    let name = name.trim_start_matches(['-', '"', '\'']);
    is_secret_option(name) && is_value(value)
}

/// `"password":"…"` in JSON, or `X-Api-Key:…`, where an image `token-service:1.2` is none.
fn is_property(word: &str) -> bool {
    let Some((name, value)) = word.split_once(':') else {
        return false;
    };
    let is_header = bare(name).to_ascii_lowercase().starts_with("x-");
    (name.ends_with(['"', '\'']) || is_header) && is_secret_option(bare(name)) && is_value(value)
}

/// A name such as `--token-file` says where the secret is.
fn is_secret_option(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let lower = name.to_ascii_lowercase();
    let is_place = ["file", "path", "dir", "name"]
        .iter()
        .any(|place| lower.ends_with(place));
    name.chars().all(is_name) && is_secret_name(name) && !is_place
}

/// Whether a word contains a URL with a password, `scheme://user:password@host`, or one that is a secret as a whole:
/// who knows the URL of a webhook may call it.
fn is_secret_url(word: &str) -> bool {
    word.split("://").skip(1).any(|rest| {
        let rest = rest.trim_end_matches(['"', '\'']);
        let authority = rest.split(['/', '?', '#', '"', '\'']).next();
        let authority = authority.unwrap_or_default();
        let has_path = rest.len() > authority.len() + 1;
        let is_hook =
            authority.starts_with("hooks.") || rest.to_ascii_lowercase().contains("webhook");
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let password = user.and_then(|user| user.split_once(':'));
        is_hook && has_path || password.is_some_and(|(_, password)| is_value(password))
    })
}

/// `-pSECRET`, as clients of databases and sshpass take it. With another program it has to look like a password,
/// because `-parallel` does not.
fn is_password_of_a_client(text: &str) -> bool {
    let mut client = false;
    text.split(is_between).any(|word| {
        let word = bare(word);
        let program = word.rsplit('/').next().unwrap_or_default();
        client |= ["mysql", "mariadb", "sshpass"]
            .iter()
            .any(|name| program.starts_with(name));
        let Some(password) = word.strip_prefix("-p").filter(|rest| is_value(rest)) else {
            return false;
        };
        let is_odd = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        let is_number = password.starts_with(|c: char| c.is_ascii_digit());
        let is_word = |c: char| c.is_ascii_alphanumeric() || "!#%*+@^_~".contains(c);
        client || !is_number && password.chars().all(is_word) && password.contains(is_odd)
    })
}

/// Hides the secrets in an object that is to be shown.
pub fn hide(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            let variable = fields.get("name").and_then(Json::as_str);
            let is_secret_variable = variable.is_some_and(is_secret_option);
            for (key, value) in fields {
                match value {
                    Json::String(text)
                        if key == "value" && is_secret_variable && is_value(text) =>
                    {
                        hidden(text)
                    }
                    value => hide(value),
                }
            }
        }
        Json::Array(items) => {
            let mut option = false;
            for item in items {
                match item {
                    Json::String(text) => {
                        let secret =
                            std::mem::replace(&mut option, names_secret(text)) && is_value(text);
                        if secret || holds_secret(text) {
                            hidden(text);
                        }
                    }
                    item => hide(item),
                }
            }
        }
        Json::String(text) if holds_secret(text) => hidden(text),
        _ => {}
    }
}

fn hidden(text: &mut String) {
    HIDDEN.trim_matches('"').clone_into(text);
}
