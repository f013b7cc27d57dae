//! Pods that run: the daemon's and the agent's as the chart has them, and a job's as the webhook gives them the collector.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use crate::asked::patched;
use crate::common::{TempDir, eventually};
use crate::images;
use crate::kubelet::{Kubelet, decoded};
use crate::podman::Podman;
use crate::programs::{documents, rendered, root};

const NAME: &str = "rings-ringscope.rings.svc";
const PORT: u16 = 9440;
/// A rank sums 100 times 65536 floats.
const BYTES_PER_RANK: u64 = 100 * 65_536 * 4;

/// A cluster of one node, as far as it is needed here.
struct Cluster<'p> {
    podman: &'p Podman,
    /// In memory, and shared by all pods of the node.
    _memory: TempDir,
    client: Client,
    dir: PathBuf,
    /// The node's folder that its pods share.
    segments: PathBuf,
    objects: Vec<Value>,
}

impl<'p> Cluster<'p> {
    /// The chart's pods, started.
    async fn start(podman: &'p Podman) -> Self {
        let (memory, dir) = (TempDir::new_in(Path::new("/dev/shm"), "kube"), podman.dir().join("node"));
        fs::create_dir(&dir).unwrap();
        let objects = rendered(&json!({
            "image": {"repository": "localhost/ringscope", "tag": "test"},
            "webhook": {"enabled": true},
            "agent": {"folder": memory.join("segments"), "stateFolder": dir.join("state"), "nvidia": {"enabled": false}},
        }));
        let of = |kind: &str| objects.iter().find(|one| one["kind"] == kind).unwrap();
        let address = daemon(podman, &dir, &objects, "daemon");
        let mut kubelet =
            Kubelet { node: "node-1", namespace: "rings", dir: &dir, objects: &objects, hosts: Vec::new() };
        kubelet.hosts.push((address.clone(), vec![NAME.to_owned()]));
        podman.play(&kubelet.pod("agent", &of("DaemonSet")["spec"]["template"]));
        let client = client(&objects, &address);
        let segments = memory.join("segments");
        Self { podman, _memory: memory, client, dir, segments, objects }
    }

    /// The daemon's pod is replaced, as by an upgrade.
    async fn replace_daemon(&mut self) {
        self.podman.remove("daemon");
        let address = daemon(self.podman, &self.dir, &self.objects, "later-daemon");
        self.client = client(&self.objects, &address);
        eventually("the daemon is ready again", async || self.json("/readyz").await).await;
    }

    async fn json(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(format!("https://{NAME}:{PORT}{path}")).send().await.ok()?;
        if answer.status().is_success() { answer.json().await.ok() } else { None }
    }

    /// The pod as it would be created: with what the webhook answers, if it does.
    async fn admitted(&self, pod: Value) -> Value {
        let request = json!({"uid": uuid::Uuid::new_v4().to_string(), "operation": "CREATE", "namespace": "ml", "object": pod,
            "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"}});
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let asked = self.client.post(format!("https://{NAME}:{PORT}/kubernetes/admission"));
        let answer: Value = asked.json(&review).send().await.unwrap().json().await.unwrap();
        patched(&review, &answer["response"]).unwrap_or_else(|| panic!("not watched: {answer}"))
    }

    /// Starts a pod of namespace `ml` on the node.
    fn start_pod(&self, mut pod: Value) {
        let kubelet =
            Kubelet { node: "node-1", namespace: "ml", dir: &self.dir, objects: &[], hosts: Vec::new() };
        kubelet.complete(&mut pod);
        self.podman.play(&pod);
    }

    /// Starts both ranks of a job, each in a pod of that name; the folder in which they meet.
    async fn train(&self, job: &str, pods: [&str; 2], security: Value) -> TempDir {
        let meet = self.meet();
        for (rank, name) in pods.into_iter().enumerate() {
            let pod = worker(job, name, rank, &meet, &security);
            self.start_pod(self.admitted(pod).await);
        }
        self.until_trained(pods, 1).await;
        meet
    }

    /// Where ranks meet.
    fn meet(&self) -> TempDir {
        let meet = TempDir::new_in(&self.dir, "meet");
        fs::set_permissions(&meet, fs::Permissions::from_mode(0o777)).unwrap();
        meet
    }

    /// Until both have ended, having trained so many times, with nothing of ours in what they said.
    async fn until_trained(&self, pods: [&str; 2], n_times: usize) {
        for (rank, name) in pods.into_iter().enumerate() {
            let status = async || self.podman.exit_status(name, "worker");
            assert_eq!(eventually("the job ends", status).await, 0, "{:?}", self.podman.logs(name, "worker"));
            let said = format!("rank {rank} of 2: the sum is 1\n").repeat(n_times);
            let all_said = async || Some(self.podman.logs(name, "worker")).filter(|logs| logs.0 == said);
            assert_eq!(eventually("the rank says its sum", all_said).await.1, "");
        }
    }

    /// The communicators of a job, once all of so many are seen whole.
    async fn seen(&self, job: &str, n: usize) -> Vec<Value> {
        eventually("the job is seen whole", async || {
            let list = self.json(&format!("/api/v1/communicators?job={job}")).await?;
            let items = list["items"].as_array()?;
            let is_whole = |one: &Value| {
                one["coverage"]["state"] == "full" && one["coverage"]["log"] == 2 && one["state"] == "ended"
            };
            let mut all = Vec::new();
            for one in items.iter().filter(|one| is_whole(one)) {
                all.push(self.json(&format!("/api/v1/communicators/{}", one["id"].as_str()?)).await?);
            }
            (all.len() == n).then_some(all)
        })
        .await
    }
}

/// Starts the daemon's pod; its address.
fn daemon(podman: &Podman, dir: &Path, objects: &[Value], name: &str) -> String {
    let kubelet = Kubelet { node: "node-1", namespace: "rings", dir, objects, hosts: Vec::new() };
    let deployment = objects.iter().find(|one| one["kind"] == "Deployment").unwrap();
    podman.play(&kubelet.pod(name, &deployment["spec"]["template"]));
    podman.address(name)
}

/// Trusts the chart's CA alone, shows the token of an admin, and finds the daemon's pod.
fn client(objects: &[Value], address: &str) -> Client {
    let secret = |name: &str| {
        let found = objects.iter().find(|one| one["kind"] == "Secret" && one["metadata"]["name"] == name);
        decoded(&found.unwrap()["data"])
    };
    let token = &secret("rings-ringscope-tokens")["admin"];
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    let root = reqwest::Certificate::from_pem(secret("rings-ringscope-tls")["ca.crt"].as_bytes()).unwrap();
    let builder = Client::builder().tls_built_in_root_certs(false).add_root_certificate(root);
    let address = SocketAddr::new(address.parse().unwrap(), PORT);
    builder.default_headers(headers).resolve(NAME, address).timeout(Duration::from_secs(10)).build().unwrap()
}

/// A pod of an indexed Job, as its controller creates it.
fn worker(job: &str, name: &str, rank: usize, meet: &Path, security: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ml",
            "labels": {"ringscope.io/watch": "true", "batch.kubernetes.io/job-name": job},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "worker", "image": images::JOB, "imagePullPolicy": "IfNotPresent",
                "command": ["/opt/job/job", rank.to_string(), "2", "/meet/id"],
                "env": [{"name": "JOB_COMPLETION_INDEX", "value": rank.to_string()}],
                "volumeMounts": [{"name": "meet", "mountPath": "/meet"}],
                "securityContext": security,
            }],
            "volumes": [{"name": "meet", "hostPath": {"path": meet, "type": "Directory"}}],
        },
    })
}

fn is_seen_where_it_ran(communicator: &Value, pods: [&str; 2]) {
    assert_eq!(communicator["issued_bytes"], 2 * BYTES_PER_RANK, "{communicator:#}");
    for (rank, pod) in pods.into_iter().enumerate() {
        let seen = &communicator["ranks"][rank];
        assert_eq!((&seen["host"], &seen["global_rank"]), (&json!("node-1"), &json!(rank)), "{seen:#}");
        let place = &seen["place"];
        let told = [&place["pod"], &place["namespace"], &place["container"], &place["node"]];
        assert_eq!(told, [pod, "ml", "worker", "node-1"], "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_chart_starts_sees_what_the_webhook_watches() {
    let podman = Podman::new();
    images::build(&podman);
    let mut cluster = Cluster::start(&podman).await;
    eventually("the daemon is ready", async || cluster.json("/readyz").await).await;

    let first = ["train-0-aaaaa", "train-1-bbbbb"];
    cluster.train("train", first, json!({})).await;
    let seen = cluster.seen("ml/train", 1).await;
    is_seen_where_it_ran(&seen[0], first);

    // Its pods come back under other names: the ranks of the same job.
    let second = ["train-0-ccccc", "train-1-ddddd"];
    cluster.train("train", second, json!({})).await;
    let seen = cluster.seen("ml/train", 2).await;
    let later = seen.iter().find(|one| one["ranks"][0]["place"]["pod"] == second[0]).unwrap();
    is_seen_where_it_ran(later, second);
    let job = cluster.json("/api/v1/jobs/ml%2Ftrain").await.unwrap();
    assert_eq!(job["completed_bytes"], 4 * BYTES_PER_RANK);

    // Another user, who may write nowhere but where the agent reads.
    let restricted = json!({"runAsUser": 1000, "runAsGroup": 1000, "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pods = ["plain-0", "plain-1"];
    let meet = cluster.train("plain", pods, restricted).await;
    is_seen_where_it_ran(&cluster.seen("ml/plain", 1).await[0], pods);
    // Its containers start again in their pods, with the same numbers and variables.
    fs::remove_file(meet.join("id")).unwrap();
    pods.iter().for_each(|pod| podman.restart(pod, "worker"));
    cluster.until_trained(pods, 2).await;
    cluster.seen("ml/plain", 2).await.iter().for_each(|one| is_seen_where_it_ran(one, pods));

    by_hand(&cluster).await;

    without_the_collector_the_job_runs(&cluster).await;

    cluster.replace_daemon().await;
    let job = eventually("the job is known", async || cluster.json("/api/v1/jobs/ml%2Ftrain").await).await;
    assert_eq!(job["completed_bytes"], 4 * BYTES_PER_RANK, "an upgrade keeps what was seen");
}

/// As docs/kubernetes.md shows it to users of clusters without the webhook.
async fn by_hand(cluster: &Cluster<'_>) {
    let mut pod = documents(&fs::read(root().join("packaging/kubernetes/by-hand.yaml")).unwrap()).remove(0);
    let worker = &mut pod["spec"]["containers"][0];
    worker["image"] = images::JOB.into();
    let command = worker["command"].as_array_mut().unwrap();
    let own = command.iter().position(|word| word == "--").unwrap();
    command.truncate(own + 1);
    command.extend(["job", "0", "1", "/tmp/id"].map(Value::from));
    pod["spec"]["volumes"][0]["hostPath"]["path"] = cluster.segments.to_str().unwrap().into();
    cluster.start_pod(pod);
    let status = async || cluster.podman.exit_status("train", "worker");
    assert_eq!(eventually("the job ends", status).await, 0, "{:?}", cluster.podman.logs("train", "worker"));
    let seen = eventually("it is seen", async || {
        let list = cluster.json("/api/v1/communicators?job=research/train").await?;
        let id = list["items"][0]["id"].as_str()?.to_owned();
        cluster.json(&format!("/api/v1/communicators/{id}")).await.filter(|one| one["coverage"]["log"] == 1)
    })
    .await;
    let rank = &seen["ranks"][0];
    let told = [&rank["place"]["pod"], &rank["place"]["node"], &rank["host"]];
    assert_eq!(
        (told, &seen["issued_bytes"]),
        (["train", "node-1", "node-1"].map(Value::from).each_ref(), &json!(BYTES_PER_RANK))
    );
}

/// The init container has brought nothing, for the disk was full.
async fn without_the_collector_the_job_runs(cluster: &Cluster<'_>) {
    let meet = cluster.meet();
    for rank in [0, 1] {
        let pod = worker("bare", ["bare-0", "bare-1"][rank], rank, &meet, &json!({}));
        let mut pod = cluster.admitted(pod).await;
        pod["spec"]["initContainers"][0]["args"] = json!(["collector", "install", "--go-on", "/proc/none"]);
        cluster.start_pod(pod);
    }
    for name in ["bare-0", "bare-1"] {
        let status = async || cluster.podman.exit_status(name, "worker");
        assert_eq!(eventually("the job ends", status).await, 0);
        let (said, errors) = cluster.podman.logs(name, "worker");
        assert!(said.ends_with("the sum is 1\n"), "{said}");
        let lines: Vec<&str> = errors.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("ERROR: ld.so:"), "{errors}");
    }
}
