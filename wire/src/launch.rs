//! What launchers and schedulers say of a process in its environment. One rule, by which the collector, `ringscope run` and
//! `ringscope launch` take a process for the same rank of the same job.

/// Where a process belongs. Empty texts and `None`: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Host that the process counts itself to.
    pub host: String,
    /// Job id.
    pub job: String,
    /// Rank in the job.
    pub global_rank: Option<u32>,
    /// Ranks in the job.
    pub world_size: Option<u32>,
    /// Rank among the job's processes on its host.
    pub local_rank: Option<u32>,
    /// What the scheduler has put it into.
    pub scheduled: Scheduled,
}

/// Where a scheduler has put a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Kubernetes namespace.
    pub k8s_namespace: String,
    /// Kubernetes pod.
    pub k8s_pod: String,
    /// Kubernetes node that the pod runs on.
    pub k8s_node: String,
    /// Container of the pod.
    pub k8s_container: String,
    /// Slurm. `None`: not in a job of it.
    pub slurm: Option<Slurm>,
}

/// Where Slurm has put a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slurm {
    /// `SLURM_JOB_ID`: of an array's task and of a part of a heterogeneous job its own.
    pub job_id: u32,
    /// Step that `srun` started it in. `None`: the batch script, or a shell of `salloc`.
    pub step_id: Option<u32>,
    /// Array that it is a task of ...
    pub array_job_id: Option<u32>,
    /// ... and which.
    pub array_task_id: Option<u32>,
    /// Heterogeneous job that it is a part of ...
    pub het_job_id: Option<u32>,
    /// ... and which, from 0.
    pub het_component: Option<u32>,
    /// How often the job was put back into the queue.
    pub restarts: Option<u32>,
    /// Node, as Slurm names it.
    pub node: String,
}

impl Launch {
    /// As these variables say it.
    pub fn of(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let scheduled = Scheduled::of(env);
        let [global_rank, world_size, local_rank] = ranks(env, scheduled.slurm.as_ref());
        Self {
            host: first(env, &HOST),
            job: job(env, scheduled.slurm.as_ref()),
            global_rank,
            world_size,
            local_rank,
            scheduled,
        }
    }
}

impl Scheduled {
    fn of(env: &dyn Fn(&str) -> Option<String>) -> Self {
        // The host name is the pod's name only inside Kubernetes.
        let pod: &[&str] =
            if env("KUBERNETES_SERVICE_HOST").is_some() { &["POD_NAME", "HOSTNAME"] } else { &["POD_NAME"] };
        let k8s_pod = first(env, pod);
        // Other programs use these two names as well.
        let of_pod = |name| if k8s_pod.is_empty() { String::new() } else { first(env, &[name]) };
        Self {
            k8s_namespace: first(env, &["POD_NAMESPACE"]),
            k8s_node: of_pod("NODE_NAME"),
            k8s_container: of_pod("CONTAINER_NAME"),
            k8s_pod,
            slurm: Slurm::of(env),
        }
    }
}

impl Slurm {
    fn of(env: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let id = |name| number(env, name);
        let array_job_id = id("SLURM_ARRAY_JOB_ID");
        let het_job_id = id("SLURM_HET_JOB_ID").or_else(|| id("SLURM_JOB_ID_HET_GROUP_0"));
        Some(Self {
            job_id: id("SLURM_JOB_ID")?,
            step_id: id("SLURM_STEP_ID"),
            array_job_id,
            array_task_id: id("SLURM_ARRAY_TASK_ID").filter(|_| array_job_id.is_some()),
            het_job_id,
            het_component: id("SLURM_HET_JOB_OFFSET").filter(|_| het_job_id.is_some()),
            restarts: id("SLURM_RESTART_COUNT").filter(|restarts| *restarts > 0),
            node: first(env, &["SLURMD_NODENAME"]),
        })
    }

    /// What a process of it takes for its job's name: "slurm-7", "slurm-12_3", "slurm-7.1".
    #[must_use]
    pub fn job(&self) -> String {
        let job = match (self.het_job_id, self.array_job_id, self.array_task_id) {
            (Some(job), ..) => format!("slurm-{job}"),
            (None, Some(job), Some(task)) => format!("slurm-{job}_{task}"),
            _ => format!("slurm-{}", self.job_id),
        };
        // The first step is what a script without `srun` would have done itself; further ones are programs of their own.
        match self.step_id {
            Some(step) if step > 0 => format!("{job}.{step}"),
            _ => job,
        }
    }
}

fn job(env: &dyn Fn(&str) -> Option<String>, slurm: Option<&Slurm>) -> String {
    // torchrun says "none" where it was given no --rdzv-id.
    let elastic = || Some(first(env, &["TORCHELASTIC_RUN_ID"])).filter(|id| !id.is_empty() && id != "none");
    Some(first(env, &["RINGSCOPE_JOB"]))
        .filter(|job| !job.is_empty())
        .or_else(|| slurm.map(Slurm::job))
        .or_else(elastic)
        .unwrap_or_else(|| first(env, &["JOB_NAME"]))
}

/// Rank, world size and local rank of the innermost launcher that gives a rank: what another one says beside it is of
/// other processes.
fn ranks(env: &dyn Fn(&str) -> Option<String>, slurm: Option<&Slurm>) -> [Option<u32>; 3] {
    let in_a_step = slurm.is_some_and(|slurm| slurm.step_id.is_some());
    let launchers = LAUNCHERS.iter().chain(in_a_step.then_some(&SLURM_STEP)).chain([&INDEXED_JOB]);
    for [rank, world_size, local_rank] in launchers {
        if let Some(rank) = number(env, rank) {
            let (world_size, local_rank) = (number(env, world_size), number(env, local_rank));
            let of_srun = || local_rank_of_step(env, rank, world_size).filter(|_| in_a_step);
            return [Some(rank), world_size, local_rank.or_else(of_srun)];
        }
    }
    [None, number(env, LAUNCHERS[0][1]), number(env, LAUNCHERS[0][2])]
}

/// `srun --mpi=pmi2` says rank and size by PMI's names and the local rank by its own: it is meant where these are the same ranks.
fn local_rank_of_step(
    env: &dyn Fn(&str) -> Option<String>,
    rank: u32,
    world_size: Option<u32>,
) -> Option<u32> {
    let [step_rank, step_size, local_rank] = SLURM_STEP;
    let size = number(env, step_size).or_else(|| number(env, "SLURM_NTASKS"));
    let is_same = number(env, step_rank) == Some(rank) && size.is_some() && size == world_size;
    if is_same { number(env, local_rank) } else { None }
}

/// Who names the host. ringscope's engine names its logs by the second, which only it reads.
const HOST: [&str; 2] = ["RINGSCOPE_HOST", "RSCCL_HOST"];
/// Rank, world size, local rank: torchrun and `ringscope launch`, Open MPI, MPICH and Intel MPI.
const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
];
/// `srun`. A batch script has these too, and is no rank.
const SLURM_STEP: [&str; 3] = ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"];
/// An indexed Job of Kubernetes with one rank a pod.
const INDEXED_JOB: [&str; 3] = ["JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK"];
/// What a segment has room for. Slurm's larger numbers mean "none", "the batch script" and the like (`slurm.h`, `NO_VAL`).
const MAX_NUMBER: u32 = i32::MAX as u32;

/// The first of these that says anything.
fn first(env: &dyn Fn(&str) -> Option<String>, names: &[&str]) -> String {
    names.iter().filter_map(|name| env(name)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// What stands there, if it is a number that a rank can be.
fn number(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<u32> {
    env(name)?.trim().parse().ok().filter(|number| *number <= MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Launch {
        Launch::of(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn ranks(variables: &[(&str, &str)]) -> [Option<u32>; 3] {
        let launch = of(variables);
        [launch.global_rank, launch.world_size, launch.local_rank]
    }

    #[test]
    fn a_job_has_the_name_that_its_user_would_give_it() {
        for (variables, job) in [
            (&[("RINGSCOPE_JOB", "llama"), ("SLURM_JOB_ID", "7")][..], "llama"),
            (&[("SLURM_JOB_ID", "7"), ("TORCHELASTIC_RUN_ID", "x")], "slurm-7"),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")], "slurm-7"),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "2")], "slurm-7.2"),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "4294967291")], "slurm-7"),
            (
                &[("SLURM_JOB_ID", "14"), ("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "3")],
                "slurm-12_3",
            ),
            // The last task of an array has the array's own number.
            (
                &[("SLURM_JOB_ID", "12"), ("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "4")],
                "slurm-12_4",
            ),
            (&[("SLURM_JOB_ID", "9"), ("SLURM_JOB_ID_HET_GROUP_0", "8")], "slurm-8"),
            (&[("SLURM_JOB_ID", "9"), ("SLURM_HET_JOB_ID", "8"), ("SLURM_HET_JOB_OFFSET", "1")], "slurm-8"),
            (&[("SLURM_JOB_ID", ""), ("TORCHELASTIC_RUN_ID", "none"), ("JOB_NAME", "pod")], "pod"),
            (&[("TORCHELASTIC_RUN_ID", "run")], "run"),
            (&[("SLURM_JOB_ID", "-1")], ""),
        ] {
            assert_eq!(of(variables).job, job, "{variables:?}");
        }
    }

    #[test]
    fn ranks_are_those_of_the_innermost_launcher() {
        let slurm = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_LOCALID", "1"),
        ];
        assert_eq!(ranks(&slurm), [Some(5), Some(8), Some(1)]);
        let torchrun = [("RANK", "3"), ("WORLD_SIZE", "16"), ("LOCAL_RANK", "3")];
        assert_eq!(ranks(&[&slurm[..], &torchrun].concat()), [Some(3), Some(16), Some(3)]);
        // mpirun in a batch script, whose own number is of one process for all.
        let mpi = [("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "2")];
        assert_eq!(ranks(&mpi), [Some(2), None, None]);
        assert_eq!(ranks(&mpi[..2]), [None; 3]);
        assert_eq!(ranks(&[("JOB_COMPLETION_INDEX", "4"), ("WORLD_SIZE", "8")]), [Some(4), Some(8), None]);
        assert_eq!(ranks(&[("RANK", "x"), ("WORLD_SIZE", "8")]), [None, Some(8), None]);
        assert_eq!(ranks(&[("RANK", "-1")]), [None; 3]);
        assert_eq!(ranks(&[("RANK", "4000000000")]), [None; 3]);
    }

    #[test]
    fn srun_says_the_local_rank_of_ranks_that_pmi_names() {
        let step = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_LOCALID", "1"),
        ];
        let pmi = |rank, size| [&step[..], &[("PMI_RANK", rank), ("PMI_SIZE", size)]].concat();
        assert_eq!(ranks(&pmi("5", "8")), [Some(5), Some(8), Some(1)]);
        let older = [("SLURM_NTASKS", "8"), ("PMI_RANK", "5"), ("PMI_SIZE", "8")];
        assert_eq!(ranks(&[&step[..3], &step[4..], &older].concat()), [Some(5), Some(8), Some(1)]);
        // mpiexec, started once by srun on each node, or in a batch script.
        assert_eq!(ranks(&pmi("4", "8")), [Some(4), Some(8), None]);
        assert_eq!(ranks(&pmi("5", "16")), [Some(5), Some(16), None]);
        let batch = [&pmi("5", "8")[..1], &pmi("5", "8")[2..]].concat();
        assert_eq!(ranks(&batch), [Some(5), Some(8), None]);
        let intel = [&pmi("5", "8")[..], &[("MPI_LOCALRANKID", "3")]].concat();
        assert_eq!(ranks(&intel), [Some(5), Some(8), Some(3)]);
    }

    #[test]
    fn a_host_is_named_by_its_user_and_a_pod_by_kubernetes() {
        assert_eq!(of(&[("RSCCL_HOST", "host-1")]).host, "host-1");
        assert_eq!(of(&[("RSCCL_HOST", "host-1"), ("RINGSCOPE_HOST", "node7")]).host, "node7");
        let pod = of(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "pod-1"), ("NODE_NAME", "n1")]);
        assert_eq!((&*pod.scheduled.k8s_pod, &*pod.scheduled.k8s_node), ("pod-1", "n1"));
        let machine = of(&[("HOSTNAME", "machine"), ("NODE_NAME", "n1"), ("CONTAINER_NAME", "c")]);
        assert_eq!(machine.scheduled, Scheduled::default());
    }

    #[test]
    fn slurms_facts_are_taken_apart() {
        let slurm = of(&[
            ("SLURM_JOB_ID", "14"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_ARRAY_JOB_ID", "12"),
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_RESTART_COUNT", "2"),
            ("SLURMD_NODENAME", "n1"),
        ]);
        let expected = Slurm {
            job_id: 14,
            step_id: Some(1),
            array_job_id: Some(12),
            array_task_id: Some(3),
            restarts: Some(2),
            node: "n1".into(),
            ..Slurm::default()
        };
        assert_eq!(slurm.scheduled.slurm, Some(expected));
        assert_eq!(of(&[("SLURM_ARRAY_JOB_ID", "12")]).scheduled.slurm, None);
    }
}
