//! Where a scheduler has put a process, and so its job.

use ringscope_api::{Place, ScheduledJob, Scheduler};
use ringscope_wire::batch;

use super::names::{Name, Names};

/// Where a scheduler has put a process. Empty names and `None`: not said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's Identity")]
pub struct Scheduled {
    pub k8s_namespace: Name,
    pub k8s_pod: Name,
    pub k8s_node: Name,
    pub k8s_container: Name,
    pub slurm: Option<batch::Slurm>,
    /// All of it in words, as [`Place::words`]. Empty: no scheduler has placed it, as far as is known.
    pub words: Name,
}

impl Scheduled {
    /// What a process on this host was told.
    pub(super) fn of(told: &batch::Identity, host: &str, names: &mut Names) -> Self {
        Self {
            words: names.intern(&in_words(told, host)),
            k8s_namespace: names.intern(&told.k8s_namespace),
            k8s_pod: names.intern(&told.k8s_pod),
            k8s_node: names.intern(&told.k8s_node),
            k8s_container: names.intern(&told.k8s_container),
            slurm: told.slurm.clone(),
        }
    }

    /// In words. Absent: no scheduler has placed it, as far as is known.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        said(&self.words)
    }

    /// An identity that says this alone.
    pub(super) fn told(&self) -> batch::Identity {
        batch::Identity {
            k8s_namespace: self.k8s_namespace.to_string(),
            k8s_pod: self.k8s_pod.to_string(),
            k8s_node: self.k8s_node.to_string(),
            k8s_container: self.k8s_container.to_string(),
            slurm: self.slurm.clone(),
            ..batch::Identity::default()
        }
    }
}

impl Scheduled {
    /// Where a scheduler has put it. Absent: none has, as far as is known.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let told = self;
        let by = self.scheduler()?;
        let node = match &told.slurm {
            Some(slurm) if by == Scheduler::Slurm => said(&slurm.node),
            _ => said(&told.k8s_node),
        };
        let slurm = told.slurm.as_ref().filter(|_| by == Scheduler::Slurm);
        Some(Place {
            words: told.words.to_string(),
            by,
            namespace: said(&told.k8s_namespace).filter(|_| by == Scheduler::Kubernetes),
            pod: said(&told.k8s_pod),
            container: said(&told.k8s_container),
            node,
            job_id: slurm.map(|slurm| slurm.job_id),
            step_id: slurm.and_then(|slurm| slurm.step_id),
        })
    }

    /// The scheduler's job that it belongs to. Absent: as for its place.
    #[must_use]
    pub fn job(&self) -> Option<ScheduledJob> {
        let by = self.scheduler()?;
        let Some(slurm) = self.slurm.as_ref().filter(|_| by == Scheduler::Slurm) else {
            let namespace = said(&self.k8s_namespace);
            let words = match &namespace {
                Some(namespace) => format!("Kubernetes, namespace {namespace}"),
                None => "Kubernetes".to_owned(),
            };
            return Some(ScheduledJob { words, namespace, ..ScheduledJob::of(by) });
        };
        let array = slurm.array_job_id.zip(slurm.array_task_id);
        let which = match (slurm.het_job_id, array) {
            (Some(job), _) => format!("Slurm job {job}, heterogeneous"),
            (None, Some((array, task))) => {
                format!("Slurm job {}, task {task} of array {array}", slurm.job_id)
            }
            (None, None) => format!("Slurm job {}", slurm.job_id),
        };
        let words = match slurm.restarts {
            None | Some(0) => which,
            Some(1) => format!("{which}, requeued once"),
            Some(restarts) => format!("{which}, requeued {restarts} times"),
        };
        Some(ScheduledJob {
            words,
            job_id: Some(slurm.het_job_id.unwrap_or(slurm.job_id)),
            array_job_id: slurm.array_job_id,
            array_task_id: slurm.array_task_id,
            restarts: slurm.restarts,
            ..ScheduledJob::of(by)
        })
    }

    /// Whether a scheduler has placed it, as far as is known.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.scheduler().is_some()
    }

    /// Of a job of Slurm in a pod, as some run it, the pod is nearer to the process.
    fn scheduler(&self) -> Option<Scheduler> {
        let is_pod = !self.k8s_pod.is_empty();
        let by_slurm = self.slurm.as_ref().map(|_| Scheduler::Slurm);
        if is_pod { Some(Scheduler::Kubernetes) } else { by_slurm }
    }
}

/// "pod ml/train-3, container worker"; "Slurm job 7, step 0, on node n3". A node that is called as the host is not named again.
fn in_words(told: &batch::Identity, host: &str) -> String {
    let pod = Some(&told.k8s_pod).filter(|pod| !pod.is_empty());
    let (words, node) = match (pod, &told.slurm) {
        (Some(pod), _) => {
            let namespace = &told.k8s_namespace;
            let pod =
                if namespace.is_empty() { format!("pod {pod}") } else { format!("pod {namespace}/{pod}") };
            let container = said(&told.k8s_container).map(|container| format!("container {container}"));
            ([Some(pod), container], &told.k8s_node)
        }
        (None, Some(slurm)) => {
            let step = slurm.step_id.map(|step| format!("step {step}"));
            ([Some(format!("Slurm job {}", slurm.job_id)), step], &slurm.node)
        }
        (None, None) => return String::new(),
    };
    let node = (!node.is_empty() && node != host).then(|| format!("on node {node}"));
    words.into_iter().chain([node]).flatten().collect::<Vec<_>>().join(", ")
}

fn said(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_said_in_words() {
        let pod = batch::Identity {
            k8s_namespace: "ml".into(),
            k8s_pod: "train-3".into(),
            k8s_container: "worker".into(),
            k8s_node: "n4".into(),
            slurm: Some(batch::Slurm { job_id: 7, ..batch::Slurm::default() }),
            ..batch::Identity::default()
        };
        assert_eq!(in_words(&pod, "n4"), "pod ml/train-3, container worker");
        assert_eq!(in_words(&pod, "other"), "pod ml/train-3, container worker, on node n4");
        let slurm =
            batch::Slurm { job_id: 7, step_id: Some(0), node: "n3".into(), ..batch::Slurm::default() };
        let slurm = batch::Identity { slurm: Some(slurm), ..batch::Identity::default() };
        assert_eq!(in_words(&slurm, "machine"), "Slurm job 7, step 0, on node n3");
        assert_eq!(in_words(&batch::Identity::default(), "machine"), "");
    }
}
