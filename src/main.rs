//! The `boatswain` binary. All code is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    boatswain::cli::main(std::env::args_os()).into()
}
