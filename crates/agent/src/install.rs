//! Copies this program to a directory from which an executor's container runs it (spec O-65).

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "boatswain-agent";

/// Everyone may execute it: the executor's user is not known.
const MODE: u32 = 0o555;

#[derive(Debug, thiserror::Error)]
#[error("{step} {}", path.display())]
pub struct InstallError {
    step: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Returns the path of the copy. The copy appears whole or not at all, and replaces an earlier one.
///
/// # Errors
///
/// This program cannot be read, or the directory cannot be written to.
pub fn install(directory: &Path) -> Result<PathBuf, InstallError> {
    let failed = |step, path: &Path| {
        let path = path.to_owned();
        move |source| InstallError { step, path, source }
    };
    let this = Path::new("/proc/self/exe");
    let (new, copy) = (directory.join(".new"), directory.join(NAME));
    // One that an interrupted container left cannot be written to.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("cannot remove", &new)(error));
        }
        Ok(()) | Err(_) => {}
    }
    fs::copy(this, &new).map_err(failed("cannot copy this program to", &new))?;
    fs::set_permissions(&new, Permissions::from_mode(MODE))
        .map_err(failed("cannot make executable", &new))?;
    fs::rename(&new, &copy).map_err(failed("cannot rename the copy to", &copy))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-65
    #[test]
    fn the_copy_can_be_executed_by_everyone_and_replaces_an_earlier_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".new"), "half").unwrap();
        for _ in 0..2 {
            let copy = install(directory.path()).unwrap();
            assert_eq!(copy, directory.path().join(NAME));
            let mode = fs::metadata(&copy).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, MODE);
            let this = fs::read("/proc/self/exe").unwrap();
            assert!(fs::read(&copy).unwrap() == this, "another program");
            assert!(!directory.path().join(".new").exists());
        }
    }

    // spec: O-65
    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        let error = install(Path::new("/nowhere/here")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot copy this program to /nowhere/here/.new"
        );
    }
}
