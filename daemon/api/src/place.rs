//! Where schedulers put jobs and their processes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scheduler.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// Kubernetes.
    Kubernetes,
}

/// What a scheduler calls a job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ScheduledJob {
    /// Which scheduler.
    pub by: Scheduler,
    /// In words: "Slurm job 14, task 3 of array 12, requeued once", "Kubernetes, namespace ml".
    pub words: String,
    /// Kubernetes namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub namespace: Option<String>,
    /// Slurm's job: that of `squeue` and `scontrol`. Of a heterogeneous job that of its first part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job_id: Option<u32>,
    /// Array that it is a task of ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub array_job_id: Option<u32>,
    /// ... and which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub array_task_id: Option<u32>,
    /// How often Slurm has put it back into the queue. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub restarts: Option<u32>,
}

impl ScheduledJob {
    /// Of which no more is known.
    #[must_use]
    pub const fn of(by: Scheduler) -> Self {
        Self {
            by,
            words: String::new(),
            namespace: None,
            job_id: None,
            array_job_id: None,
            array_task_id: None,
            restarts: None,
        }
    }
}

/// Where a scheduler has put a process.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Place {
    /// In words: "pod ml/train-3, container worker", "Slurm job 7, step 0, on node n3".
    pub words: String,
    /// Which scheduler.
    pub by: Scheduler,
    /// Kubernetes namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub namespace: Option<String>,
    /// Kubernetes pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pod: Option<String>,
    /// Container of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub container: Option<String>,
    /// Node, as the scheduler calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub node: Option<String>,
    /// Slurm's job; of a part of a heterogeneous job and of an array's task its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job_id: Option<u32>,
    /// Step of Slurm's job. Absent: the batch script, or not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub step_id: Option<u32>,
}
