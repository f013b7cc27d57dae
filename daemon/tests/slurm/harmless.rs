//! Whatever is wrong with ringscope, and whoever does not want it: jobs run as they would without.

use std::time::Duration;

use ringscope_api::clock;

use crate::cluster::Cluster;
use crate::degraded::drained;

/// Longer than a job takes, where nothing holds it up.
const LONG: Duration = Duration::from_secs(30);

/// Runs a script to its end, and returns what it printed, and what the job is shown as.
async fn run(cluster: &Cluster, options: &[&str], script: &str) -> (String, Vec<String>) {
    let clock = clock::monotonic();
    let id = cluster.submit(options, script);
    cluster.until_state(id, "COMPLETED").await;
    assert!(clock.elapsed() < LONG, "it was held up: {script}");
    (cluster.output(id), cluster.shown_as(id).await)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

const SUMS: [&str; 2] = ["rank 0 of 2: the sum is 1", "rank 1 of 2: the sum is 1"];
/// What says of a process whether anything is there.
const BARE: &str =
    "env | grep -E '^(LD_PRELOAD|NCCL|RINGSCOPE|RSUM)' | grep -vE '^RINGSCOPE_(OFF|DIR)=' | sort";

pub(crate) async fn not_wanted(cluster: &Cluster) {
    let bare = format!("{BARE}; srun bash -c \"{BARE}\"");
    let none = (String::new(), Vec::new());
    assert_eq!(run(cluster, &["-N1", "-p", "other"], &bare).await, none, "of another partition");
    // The user says so in the script, where the prolog has set it all for the script itself.
    let script = format!("export RINGSCOPE_OFF=1; srun bash -c \"{BARE}\"");
    assert_eq!(run(cluster, &["-N1"], &script).await, none, "a user's step");
    let (printed, _) = run(cluster, &["-N1"], &bare).await;
    assert_eq!(printed.matches("LD_PRELOAD=").count(), 2, "otherwise it is there: {printed}");
}

/// The job begins where ringscope is, and goes on where it is not.
pub(crate) async fn missing_on_a_node(cluster: &Cluster) {
    cluster.settings("case $SLURMD_NODENAME in n2) RINGSCOPE=/nonexistent/ringscope;; esac");
    let script = format!("srun bash -c '{}'", cluster.summing(2, "missing"));
    let (printed, _) = run(cluster, &["-N2", "--ntasks-per-node=1", "-w", "n1,n2"], &script).await;
    assert_eq!(sorted(&printed), SUMS, "the loader does not complain");
    cluster.settings("RINGSCOPE=/nonexistent/ringscope");
    let script = format!("srun bash -c '{}'", cluster.summing(2, "nowhere"));
    let (printed, shown) = run(cluster, &["-N2", "--ntasks-per-node=1"], &script).await;
    assert_eq!((sorted(&printed), shown), (SUMS.to_vec(), Vec::new()));
    cluster.settings("");
}

/// The package is on no node any more: Slurm would fail the tasks, and drain the nodes, where it found no script.
pub(crate) async fn not_installed(cluster: &Cluster) {
    let (scripts, away) = (cluster.dir.join("scripts"), cluster.dir.join("scripts.away"));
    std::fs::rename(&scripts, &away).unwrap();
    let script = format!("srun bash -c '{}'", cluster.summing(2, "not-installed"));
    let (printed, shown) = run(cluster, &["-N2", "--ntasks-per-node=1"], &script).await;
    assert_eq!((sorted(&printed), shown), (SUMS.to_vec(), Vec::new()));
    std::fs::rename(away, scripts).unwrap();
    assert_eq!(drained(cluster), []);
}

/// One that hangs, one that dies in the middle of a line, one that prints nonsense; settings that are none.
pub(crate) async fn broken(cluster: &Cluster) {
    for (name, text) in [
        ("hangs", "trap '' TERM; while :; do sleep 1; done"),
        ("dies", "printf 'export LD_PRELOAD=/nonexist'; kill -9 $$"),
        ("nonsense", "echo 'export LD_PRELOAD=/nonexistent.so'; exit 1"),
    ] {
        let path = cluster.dir.join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        cluster.settings(&format!("RINGSCOPE={}; RINGSCOPE_LIMIT=1", path.display()));
        let script = format!("srun bash -c '{}'", cluster.summing(2, name));
        let (printed, shown) = run(cluster, &["-N2", "--ntasks-per-node=1"], &script).await;
        assert_eq!((sorted(&printed), shown), (SUMS.to_vec(), Vec::new()), "{name}");
    }
    // As much as `ringscope env` prints at most reaches the task.
    let path = cluster.dir.join("long");
    let text = "printf 'export RINGSCOPE_DIR=/x\\nexport LONG=%04081d\\n' 7";
    std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    cluster.settings(&format!("RINGSCOPE={}", path.display()));
    let (printed, _) = run(cluster, &["-N1"], "srun bash -c 'echo ${#LONG} ${LONG: -2}'").await;
    assert_eq!(printed, "4081 07\n");
    cluster.settings("if then \"");
    let (printed, _) = run(cluster, &["-N1"], "srun echo well").await;
    assert_eq!(printed, "well\n", "with settings that are none");
    cluster.settings("");
    assert_eq!(drained(cluster), [], "no node is taken out of service");
}

/// Who asks for the library's log gets it, whenever he does so, and nobody else's does.
pub(crate) async fn the_users_own_log(cluster: &Cluster) {
    let options = ["-N1", "-n2"];
    let before = format!("export NCCL_DEBUG=INFO; srun bash -c '{}'", cluster.summing(2, "log-before"));
    let within = format!("srun bash -c 'export NCCL_DEBUG=INFO; {}'", cluster.summing(2, "log-within"));
    for script in [before, within] {
        let id = cluster.submit(&options, &script);
        cluster.until_state(id, "COMPLETED").await;
        let printed = cluster.output(id);
        assert!(printed.contains("NCCL INFO"), "{script}: {printed}");
        let seen = async || Some(cluster.shown_as(id).await).filter(|shown| !shown.is_empty());
        let shown = cluster.eventually("the job is seen all the same", seen).await;
        assert_eq!(shown, [format!("slurm-{id}")]);
    }
    let file = cluster.dir.join("mine.%p");
    let to_file = format!(
        "srun bash -c 'export NCCL_DEBUG=INFO NCCL_DEBUG_FILE={}; {}'",
        file.display(),
        cluster.summing(2, "log-file")
    );
    let (printed, _) = run(cluster, &options, &to_file).await;
    assert_eq!(sorted(&printed), SUMS);
    let files = std::fs::read_dir(&cluster.dir).unwrap().flatten();
    let mine = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("mine."));
    assert_eq!(mine.count(), 2, "in the files that he names");
}
