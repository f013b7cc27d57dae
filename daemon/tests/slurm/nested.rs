//! `ringscope` inside a job that the prologs have watched already, and the templates.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cluster::Cluster;
use crate::common::stage::RINGSCOPE;
use crate::jobs::summed_as;

/// `ringscope run` in the script changes nothing: the job is one, and each call counts once.
pub(crate) async fn run_inside(cluster: &Cluster) {
    let summing = |meet: &str| cluster.summing(2, meet);
    let inside = format!("srun {RINGSCOPE} run -- bash -c '{}'", summing("nested-1"));
    let outside = format!("{RINGSCOPE} run -- srun bash -c '{}'", summing("nested-2"));
    let both = format!("{RINGSCOPE} run -- srun {RINGSCOPE} run -- bash -c '{}'", summing("nested-3"));
    for script in [inside, outside, both] {
        let id = cluster.submit(&["-N2", "--ntasks-per-node=1"], &script);
        summed_as(cluster, id, &format!("slurm-{id}"), 2).await;
        let mut lines: Vec<String> = cluster.output(id).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["rank 0 of 2: the sum is 1", "rank 1 of 2: the sum is 1"], "{script}");
    }
}

/// The template for torchrun, with something else in its place that says how it is started.
pub(crate) async fn torchrun_template(cluster: &Cluster) {
    let torchrun = cluster.dir.join("torchrun");
    fs::write(&torchrun, "#!/bin/bash\necho \"$MASTER_ADDR $*\"\n").unwrap();
    fs::set_permissions(&torchrun, fs::Permissions::from_mode(0o755)).unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm/torchrun.sbatch");
    // The nodes here have no GPUs to ask for.
    let template =
        fs::read_to_string(packaged).unwrap().replace("#SBATCH --gpus-per-node", "## --gpus-per-node");
    let path = format!("PATH={}:$PATH; set -- train.py --epochs 3", cluster.dir.display());
    let script = template.replace("set -eu\n", &format!("set -eu\n{path}\n"));
    let id = cluster.submit(&["-w", "n2,n3"], &script);
    cluster.until_state(id, "COMPLETED").await;
    let port = 20_000 + id % 10_000;
    let line = format!(
        "n2 --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id {id} --rdzv-endpoint n2:{port} train.py --epochs 3"
    );
    assert_eq!(cluster.output(id), format!("{line}\n{line}\n"));
}

/// `ringscope launch` finds the allocation, and its ranks are those of the job and of no other.
pub(crate) async fn launch_inside(cluster: &Cluster) {
    let summing = cluster.summing(2, "launched").replace("${SLURM_PROCID:-0}", "$RANK");
    let script = format!("{RINGSCOPE} launch --daemon {} -- bash -c '{summing}'", cluster.url());
    let id = cluster.submit(&["-N2", "--ntasks-per-node=1"], &script);
    summed_as(cluster, id, &format!("slurm-{id}"), 2).await;
    let mut lines: Vec<String> = cluster.output(id).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["[rank 0 n1] rank 0 of 2: the sum is 1", "[rank 1 n2] rank 1 of 2: the sum is 1"]);
}
