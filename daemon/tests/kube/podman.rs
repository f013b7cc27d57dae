//! podman and buildah with folders and a network of their own, which are gone with the value, also after a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::common::TempDir;

/// Images, containers and networks of one test.
pub(crate) struct Podman {
    dir: TempDir,
    /// Of its network, and of the bridge.
    name: String,
}

impl Podman {
    pub(crate) fn new() -> Self {
        for program in ["podman", "buildah"] {
            let found = Command::new(program).arg("--version").output();
            assert!(
                found.is_ok(),
                "{program} is not there: apt-get install podman buildah runc catatonit busybox-static"
            );
        }
        let podman = Self { dir: TempDir::new("podman"), name: format!("rsk{}", std::process::id()) };
        fs::create_dir(podman.dir.join("networks")).unwrap();
        fs::write(podman.dir.join("containers.conf"), podman.settings()).unwrap();
        fs::write(podman.dir.join("networks/network.conflist"), podman.network().to_string()).unwrap();
        podman
    }

    /// Everything of podman's is in this folder. Hard limits can't be raised everywhere, and soft ones must equal them.
    fn settings(&self) -> String {
        let at = |folder: &str| self.dir.join(folder).display().to_string();
        format!(
            "[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=4096:4096\"]\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nlock_type = \"file\"\n\
             tmp_dir = \"{}\"\nstatic_dir = \"{}\"\nvolume_path = \"{}\"\n\
             [network]\nnetwork_backend = \"cni\"\nnetwork_config_dir = \"{}\"\n",
            at("tmp"),
            at("static"),
            at("volumes"),
            at("networks"),
        )
    }

    /// A bridge and nothing else: what podman would make itself leaves chains of iptables behind.
    fn network(&self) -> Value {
        let subnet = format!("10.213.{}", std::process::id() % 250);
        let ranges = json!([[{"subnet": format!("{subnet}.0/24"), "gateway": format!("{subnet}.1")}]]);
        let addresses = json!({"type": "host-local", "dataDir": self.dir.join("addresses"), "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}]});
        let bridge = json!({"type": "bridge", "bridge": self.name, "isGateway": true, "ipam": addresses});
        json!({"cniVersion": "0.4.0", "name": self.name, "plugins": [bridge]})
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--root").arg(self.dir.join("root")).arg("--runroot").arg(self.dir.join("run"));
        command.args(["--storage-driver", "overlay"]);
        command.env("CONTAINERS_CONF", self.dir.join("containers.conf"));
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command("podman").args(arguments).output().unwrap()
    }

    /// What it prints; panics if it fails.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {arguments:?}: {told}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Builds an image of a folder.
    pub(crate) fn build(&self, file: &Path, name: &str, context: &Path, arguments: &[&str]) {
        let mut build = self.command("buildah");
        build
            .args(["build", "--quiet", "--network", "none", "--tag", name, "--file"])
            .arg(file)
            .args(arguments)
            .arg(context);
        let output = build.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts a pod as kubelet has completed it, in the network of this test.
    pub(crate) fn play(&self, pod: &Value) {
        let file = self.dir.join(format!("{}.json", pod["metadata"]["name"].as_str().unwrap()));
        fs::write(&file, pod.to_string()).unwrap();
        self.run(&["play", "kube", "--network", &self.name, file.to_str().unwrap()]);
    }

    /// Starts a container again that has ended, as kubelet does where the pod's restartPolicy says so.
    pub(crate) fn restart(&self, pod: &str, container: &str) {
        self.run(&["start", &format!("{pod}-{container}")]);
    }

    /// Ends a pod as kubelet does, and forgets it.
    pub(crate) fn remove(&self, pod: &str) {
        self.run(&["pod", "stop", "--time", "30", pod]);
        self.run(&["pod", "rm", pod]);
    }

    /// The exit status of a pod's container, once it has one.
    pub(crate) fn exit_status(&self, pod: &str, container: &str) -> Option<i32> {
        let name = format!("{pod}-{container}");
        let told = self.run(&["inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", &name]);
        told.strip_prefix("exited ").map(|status| status.parse().unwrap())
    }

    /// What a container has printed: its standard output and its standard error.
    pub(crate) fn logs(&self, pod: &str, container: &str) -> (String, String) {
        let output = self.output(&["logs", &format!("{pod}-{container}")]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// The pod's own address.
    pub(crate) fn address(&self, pod: &str) -> String {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let infra = self.run(&["pod", "inspect", "--format", "{{.InfraContainerID}}", pod]);
        self.run(&["inspect", "--format", format, &infra])
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.to_path_buf()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let names = self.output(&["ps", "--all", "--format", "{{.Names}}"]).stdout;
            for name in String::from_utf8_lossy(&names).lines() {
                let logs = self.output(&["logs", name]);
                let logs = [logs.stdout, logs.stderr].concat();
                println!("--- {name}\n{}", String::from_utf8_lossy(&logs));
            }
        }
        for arguments in [
            &["pod", "rm", "--force", "--all", "--time", "0"][..],
            &["rm", "--force", "--all", "--time", "0"],
            &["rmi", "--force", "--all"],
            &["volume", "rm", "--force", "--all"],
        ] {
            let _ = self.output(arguments);
        }
        let overlay = self.dir.join("root/overlay");
        let _ = Command::new("umount").arg("--quiet").arg(overlay).output();
        let _ = Command::new("ip").args(["link", "delete", &self.name]).output();
        let hierarchies =
            fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
        hierarchies
            .chain([PathBuf::from("/sys/fs/cgroup")])
            .for_each(|one| remove_groups(&one.join("libpod_parent")));
    }
}

/// Removes control groups that hold nobody: those of other people's pods stay.
fn remove_groups(group: &Path) {
    let inner = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    inner.filter(|path| path.is_dir()).for_each(|path| remove_groups(&path));
    let _ = fs::remove_dir(group);
}
