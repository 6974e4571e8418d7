//! Files of the submitter's machine: the Spark driver's pod gets a copy of each.

use std::path::Path;

use super::{MOUNTED_AT, ReadFile, Reading};

/// A file of this machine, and its name in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A Secret may have 1 MiB; the settings are in it too.
const MOST_BYTES: usize = 1_000_000;

/// The keys whose values are lists of files.
const LISTS: [&str; 4] = [
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.submit.pyFiles",
];

/// The path of a file of this machine. A URL with `local:` is a file of the image, and Spark fetches all others.
fn local_path(uri: &str) -> Option<&str> {
    match uri.split_once(':') {
        None => Some(uri),
        Some(("file", path)) => Some(path.strip_prefix("//").unwrap_or(path)),
        Some(_) => None,
    }
}

impl Reading {
    /// Takes the files of this machine, and names their copies instead.
    pub(super) fn ship(
        &mut self,
        program: &mut [String],
        files: &mut Vec<LocalFile>,
        read: &ReadFile<'_>,
    ) {
        for key in LISTS {
            let Some(list) = self.settings.get(key).cloned() else {
                continue;
            };
            let items = list
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            let copies: Vec<String> = items
                .map(|item| self.copy(key, item, files, read))
                .collect();
            self.settings.insert(key.to_owned(), copies.join(","));
        }
        if let Some(path) = program.first_mut() {
            *path = self.copy("the application", path, files, read);
        }
        let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
        if bytes > MOST_BYTES {
            let largest = files.iter().max_by_key(|file| file.bytes.len());
            let largest = largest.map_or("", |file| &file.name);
            self.refuse(
                "files of this machine",
                format_args!(
                    "they have {bytes} bytes together, {MOST_BYTES} are allowed, and the largest is {largest}: put it into \
                     the image and name it local:///PATH, or where Spark can read it, such as s3a:// or https://"
                ),
            );
        }
    }

    fn copy(
        &mut self,
        what: &str,
        uri: &str,
        files: &mut Vec<LocalFile>,
        read: &ReadFile<'_>,
    ) -> String {
        // An archive may have the name of its directory behind it.
        let (uri, fragment) = match uri.split_once('#') {
            Some((uri, name)) => (uri, format!("#{name}")),
            None => (uri, String::new()),
        };
        let Some(path) = local_path(uri) else {
            return format!("{uri}{fragment}");
        };
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| !name.chars().any(char::is_control)) else {
            self.refuse(format_args!("{what}: {path}"), "it names no file");
            return uri.to_owned();
        };
        match read(Path::new(path)) {
            Ok(bytes) => {
                let file = LocalFile {
                    name: name.to_owned(),
                    bytes,
                };
                match files.iter().find(|there| there.name == file.name) {
                    None => files.push(file),
                    Some(there) if *there == file => {}
                    Some(_) => self.refuse(
                        format_args!("{what}: {path}"),
                        "another file has the same name; rename one",
                    ),
                }
            }
            Err(error) => self.refuse(
                format_args!("{what}: {path}"),
                format_args!("{error}; a file of the image is named local:///PATH"),
            ),
        }
        format!("{MOUNTED_AT}/application/{name}{fragment}")
    }
}
