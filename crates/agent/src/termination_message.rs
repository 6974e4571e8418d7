//! Writes the container's termination message, which the kubelet reports with the container's end.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::identity;

/// Where the kubelet reads it. The file exists only in a pod.
const FILE: &str = "/dev/termination-log";

#[derive(Debug)]
pub(super) struct TerminationMessage {
    file: PathBuf,
    written: bool,
}

impl Default for TerminationMessage {
    fn default() -> Self {
        Self::in_file(identity::of_node(Path::new(FILE)))
    }
}

impl TerminationMessage {
    fn in_file(file: PathBuf) -> Self {
        let written = false;
        Self { file, written }
    }

    /// Writes this unless something is there, such as what the child has written.
    pub(super) fn write_once(&mut self, text: &str) {
        if std::mem::replace(&mut self.written, true) {
            return;
        }
        let is_empty = |meta: std::fs::Metadata| meta.is_file() && meta.len() == 0;
        if std::fs::metadata(&self.file).is_ok_and(is_empty) {
            self.write(text);
        }
    }

    /// Replaces what is there.
    pub(super) fn write(&self, text: &str) {
        if let Err(error) = write_existing(&self.file, text) {
            tracing::debug!(%error, "no termination message");
        }
    }
}

fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-121, L-20
    #[test]
    fn what_the_child_wrote_stays_and_a_missing_file_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("termination-log");
        let message = || TerminationMessage::in_file(file.clone());
        message().write_once("first");
        assert!(!file.exists());

        std::fs::write(&file, "").unwrap();
        message().write_once("first");
        message().write_once("second");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "first");
        message().write("last");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "last");
    }
}
