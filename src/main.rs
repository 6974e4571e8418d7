//! The `boatswain` binary.
#![forbid(unsafe_code)]

use clap::Parser;

#[derive(Parser)]
#[command(name = "boatswain")]
enum Command {
    DevCluster(boatswain::cli::dev_cluster::DevClusterArgs),
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let Command::DevCluster(args) = Command::parse();
    if let Err(error) = boatswain::cli::dev_cluster::run(args).await {
        tracing::error!("{error}");
        std::process::exit(1);
    }
}
