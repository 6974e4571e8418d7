//! Finds the modules of the driver's crate and which of them uses which, without the code of tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tokens::{tokens, without_tests};

/// Modules whose submodules are layers of their own.
const FOLDERS: [&str; 2] = ["actors", "server"];

#[derive(Debug, Default)]
pub struct Code {
    /// All modules that the table must contain.
    pub modules: BTreeSet<String>,
    pub uses: Vec<Use>,
}

/// One module's file mentions another module.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub from: String,
    pub to: String,
    pub file: PathBuf,
}

/// Reads the crate in this folder, starting with its `lib.rs`.
pub fn code(folder: &Path) -> Code {
    let mut code = Code::default();
    read(folder, &folder.join("lib.rs"), &[], &mut code);
    code.uses.sort();
    code.uses.dedup();
    code
}

/// Reads a module's file, and the files of its submodules.
fn read(root: &Path, file: &Path, module: &[String], code: &mut Code) {
    let text = fs::read_to_string(file).unwrap();
    let tokens = without_tests(tokens(&text));
    let from = layer(module);
    for path in paths(&tokens, module) {
        let to = layer(&path);
        if let (Some(from), Some(to)) = (&from, to)
            && *from != to
        {
            code.uses.push(Use {
                from: from.clone(),
                to,
                file: file
                    .strip_prefix(root.parent().unwrap())
                    .unwrap()
                    .to_owned(),
            });
        }
    }
    for name in submodules(&tokens) {
        let mut module = module.to_vec();
        module.push(name);
        code.modules.extend(layer(&module));
        let folder = root.join(module.join("/"));
        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
        let file = files.iter().find(|file| file.exists()).unwrap();
        read(root, file, &module, code);
    }
}

/// The table's module that a path belongs to; `None` outside of modules.
fn layer(path: &[String]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    match FOLDERS.contains(&first.as_str()) {
        true => rest.first().map(|second| format!("{first}::{second}")),
        false => Some(first.clone()),
    }
}

fn submodules(tokens: &[String]) -> Vec<String> {
    let declared = tokens.windows(3).filter(|t| t[0] == "mod" && t[2] == ";");
    declared.map(|t| t[1].clone()).collect()
}

/// All paths within the crate that the code mentions, starting at the crate's root; and the embedded cluster's crate.
fn paths(tokens: &[String], module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut module = module.to_vec();
    // The bracket depths at which inline modules begin.
    let mut inline = Vec::new();
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => {
                depth += 1;
                if at > 1 && tokens[at - 2] == "mod" {
                    module.push(tokens[at - 1].clone());
                    inline.push(depth);
                }
            }
            "}" => {
                if inline.pop_if(|opened| *opened == depth).is_some() {
                    module.pop();
                }
                depth -= 1;
            }
            "crate" | "super" if begins_path(tokens, at) => {
                let up = tokens[at..].iter().step_by(2);
                let up = up.take_while(|token| *token == "super").count();
                let base = match up {
                    0 => &[],
                    up => &module[..module.len() - up],
                };
                gather(tokens, at + 2 * up.max(1), base, &mut found);
            }
            "devcluster" if begins_path(tokens, at) => found.push(vec![token.clone()]),
            _ => {}
        }
    }
    found
}

fn begins_path(tokens: &[String], at: usize) -> bool {
    let follows = at > 0 && ["::", "$"].contains(&tokens[at - 1].as_str());
    !follows && tokens.get(at + 1).is_some_and(|next| next == "::")
}

/// Collects the paths of a use tree such as `a::{b, c::d}`, and returns the position after it.
fn gather(
    tokens: &[String],
    mut at: usize,
    base: &[String],
    found: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = base.to_vec();
    while let Some(token) = tokens.get(at) {
        if token == "{" {
            at += 1;
            while tokens[at] != "}" {
                at = match tokens[at].as_str() {
                    "," => at + 1,
                    "as" => at + 2,
                    _ => gather(tokens, at, &path, found),
                };
            }
            return at + 1;
        }
        path.push(token.clone());
        at += 1;
        if tokens.get(at).is_none_or(|next| next != "::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentioned(text: &str) -> Vec<String> {
        let module = ["actors".to_owned(), "left".to_owned(), "inner".to_owned()];
        let paths = paths(&without_tests(tokens(text)), &module);
        paths.iter().filter_map(|path| layer(path)).collect()
    }

    #[test]
    fn paths_of_imports_and_of_code_are_found() {
        let text = "
            use crate::{config::Config, actors::{right::{self, R as Q}, left::L}};
            pub(crate) use super::super::other::Other;
            fn f() -> crate::model::Id { crate::clock::now(super::near()) }
            mod nested { use super::super::super::outer::Outer; }
            use super::super::last::Last;
        ";
        let all = [
            "config",
            "actors::right",
            "actors::right",
            "actors::left",
            "actors::other",
        ];
        let inline = [
            "model",
            "clock",
            "actors::left",
            "actors::outer",
            "actors::last",
        ];
        assert_eq!(mentioned(text), [&all[..], &inline[..]].concat());
    }

    #[test]
    fn tests_comments_and_literals_are_ignored() {
        let text = r##"
            // use crate::a;
            /* crate::b /* crate::c */ crate::d */
            const TEXT: &str = "crate::e \" { crate::f";
            const RAW: &str = r#"crate::g " { "#;
            const MARKS: [char; 3] = ['"', '\'', '{'];
            #[cfg(test)] #[path = "x.rs"] mod tests { fn f<'a>() { crate::h::i(&[1; 2]); } }
            #[cfg(any(test, feature = "fuzzing"))] pub mod fuzzing;
            #[cfg(test)] use crate::testing::{a, b};
            #[cfg(unix)] use crate::kept::Kept;
        "##;
        assert_eq!(mentioned(text), ["kept"]);
        assert_eq!(submodules(&without_tests(tokens(text))), [""; 0]);
    }
}
