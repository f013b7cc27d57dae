//! A provider of a test's own: `provider.mjs`.

use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// One that runs; it ends with this.
pub(crate) struct Provider {
    _child: Child,
}

impl Provider {
    /// Starts one, and waits until it answers.
    pub(crate) async fn start(
        issuer: &str,
        client: &reqwest::Client,
        callback: &str,
        modes: &[&str],
    ) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc");
        assert!(
            folder.join("node_modules/oidc-provider").exists(),
            "the OpenID provider is not installed: npm ci --prefix daemon/tests/oidc"
        );
        let url = format!("{issuer}/.well-known/openid-configuration");
        let port = issuer.rsplit(':').next().unwrap();
        let ask = async || client.get(&url).send().await;
        // One of before may still end.
        crate::until("the port is free", async || ask().await.is_err()).await;
        let mut command = Command::new("node");
        command.arg(folder.join("provider.mjs")).arg(port).arg(callback).args(modes);
        let child = command.stdout(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.expect("node runs: install it, e.g. apt-get install nodejs");
        let answers = async || ask().await.is_ok_and(|answer| answer.status() == 200);
        crate::until("the provider answers", answers).await;
        Self { _child: child }
    }
}
