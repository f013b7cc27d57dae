//! `ringscope` inside a job that the prologs have watched already.

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
