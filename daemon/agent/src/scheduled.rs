//! Where a scheduler has put a process, as batches have it.

use ringscope_wire::batch;
use ringscope_wire::launch::{Scheduled, Slurm};

/// An identity that says this alone.
pub(super) fn told(scheduled: &Scheduled) -> batch::Identity {
    batch::Identity {
        k8s_namespace: scheduled.k8s_namespace.clone(),
        k8s_pod: scheduled.k8s_pod.clone(),
        k8s_node: scheduled.k8s_node.clone(),
        k8s_container: scheduled.k8s_container.clone(),
        slurm: scheduled.slurm.as_ref().map(slurm),
        ..batch::Identity::default()
    }
}

fn slurm(slurm: &Slurm) -> batch::Slurm {
    batch::Slurm {
        job_id: slurm.job_id,
        step_id: slurm.step_id,
        array_job_id: slurm.array_job_id,
        array_task_id: slurm.array_task_id,
        het_job_id: slurm.het_job_id,
        het_component: slurm.het_component,
        restarts: slurm.restarts,
        node: slurm.node.clone(),
    }
}
