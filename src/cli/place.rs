//! Which namespace of which cluster a command looks at.

use std::path::PathBuf;

use clap::Args;

use crate::driver::clean::Place;

#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl PlaceArgs {
    pub(super) fn is_given(&self) -> bool {
        self.namespace.is_some() || self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(super) fn of(&self, app: String) -> Place {
        Place {
            app,
            namespace: self.namespace.clone(),
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}
