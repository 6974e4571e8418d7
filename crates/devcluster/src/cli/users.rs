//! Reads the further users of an embedded cluster from a file in kube-apiserver's format: lines of
//! `token,user,uid,"group1,group2"`.

use std::path::Path;

use super::private_file::{self, PrivateFileError};
use crate::KnownUser;

#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    #[error("line {0} is not of the form token,user,uid,\"group1,group2\"")]
    Line(usize),
}

pub fn read(path: &Path) -> Result<Vec<KnownUser>, UsersError> {
    parse(&private_file::read(path)?)
}

fn parse(text: &str) -> Result<Vec<KnownUser>, UsersError> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|(i, line)| user(line).ok_or(UsersError::Line(i + 1)))
        .collect()
}

fn user(line: &str) -> Option<KnownUser> {
    let fields = fields(line)?;
    let [token, name, uid, groups @ ..] = fields.as_slice() else {
        return None;
    };
    let usable = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    if !usable || name.is_empty() {
        return None;
    }
    let groups = groups.iter().flat_map(|g| g.split(','));
    Some(KnownUser {
        token: token.clone(),
        name: name.clone(),
        uid: uid.clone(),
        groups: groups
            .map(str::trim)
            .filter(|g| !g.is_empty())
            .map(str::to_owned)
            .collect(),
    })
}

/// Splits a line into fields. A quoted field may contain commas, and quotes as two quotes.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.trim().is_empty() => {
                field.clear();
                quoted = true;
            }
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    (!quoted).then(|| fields.iter().map(|f| f.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_user_with_its_groups() {
        let users = parse("# comment\nt1,ann,1,\"devs, ops\"\n\nt2,bob,\n").expect("two users");
        let shown: Vec<_> = users
            .iter()
            .map(|u| {
                (
                    u.token.as_str(),
                    u.name.as_str(),
                    u.uid.as_str(),
                    u.groups.join("+"),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("t1", "ann", "1", "devs+ops".to_owned()),
                ("t2", "bob", "", String::new())
            ]
        );
    }

    #[test]
    fn what_is_no_user_is_refused_by_its_line() {
        for bad in [
            "t1",
            "t1,ann",
            ",ann,1",
            "t 1,ann,1",
            "t1,,1",
            "t1,ann,1,\"devs",
        ] {
            let error = parse(&format!("ok,bob,2\n{bad}"))
                .expect_err(bad)
                .to_string();
            assert!(error.starts_with("line 2 "), "{error}");
        }
    }
}
