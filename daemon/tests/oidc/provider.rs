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
    pub(crate) async fn start(port: u16, callback: &str, modes: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc");
        assert!(
            folder.join("node_modules/oidc-provider").exists(),
            "the OpenID provider is not installed: npm ci --prefix daemon/tests/oidc"
        );
        let url = format!("http://127.0.0.1:{port}/.well-known/openid-configuration");
        // One of before may still end.
        crate::until("the port is free", async || reqwest::get(&url).await.is_err()).await;
        let mut command = Command::new("node");
        command.arg(folder.join("provider.mjs")).arg(port.to_string()).arg(callback).args(modes);
        let child = command.stdout(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.expect("node runs: install it, e.g. apt-get install nodejs");
        let answers = async || reqwest::get(&url).await.is_ok_and(|answer| answer.status() == 200);
        crate::until("the provider answers", answers).await;
        Self { _child: child }
    }
}
