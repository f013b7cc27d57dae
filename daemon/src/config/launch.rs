//! What a launcher says of a process in its environment: the same rules as the collector's own (`config.rs` there).

use serde::Serialize;

use super::environment;

/// Where a process belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Launch {
    /// Host that the process counts itself to.
    pub(crate) host: String,
    /// Rank in the job.
    pub(crate) global_rank: Option<u32>,
    /// Ranks in the job.
    pub(crate) world_size: Option<u32>,
    /// Rank among the job's processes on this host.
    pub(crate) local_rank: Option<u32>,
    /// Kubernetes namespace. Empty: not on Kubernetes.
    pub(crate) k8s_namespace: String,
    /// Kubernetes pod.
    pub(crate) k8s_pod: String,
}

impl Launch {
    /// As the environment of this process says it.
    pub(crate) fn from_env() -> Self {
        Self::of(&environment, || {
            std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
        })
    }

    fn of(env: &dyn Fn(&str) -> Option<String>, host_name: impl FnOnce() -> String) -> Self {
        let text = |name: &str| env(name).unwrap_or_default();
        let number = |names: &[&str]| names.iter().find_map(|name| text(name).trim().parse::<u32>().ok());
        // The host name is the pod's name only inside Kubernetes.
        let in_kubernetes = env("KUBERNETES_SERVICE_HOST").is_some();
        let pod = Some(text("POD_NAME")).filter(|name| !name.is_empty() || !in_kubernetes);
        Self {
            host: HOST.iter().map(|name| text(name)).find(|host| !host.is_empty()).unwrap_or_else(host_name),
            global_rank: number(&["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]),
            world_size: number(&["WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]),
            local_rank: number(&["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"]),
            k8s_namespace: text("POD_NAMESPACE"),
            k8s_pod: pod.unwrap_or_else(|| text("HOSTNAME")),
        }
    }
}

/// Who names the host. ringscope's engine names its logs by the second, which only it reads.
const HOST: [&str; 2] = ["RINGSCOPE_HOST", "RSCCL_HOST"];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Launch {
        let env = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Launch::of(&env, || "machine".to_owned())
    }

    #[test]
    fn launchers_are_understood() {
        let torchrun = of(&[("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")]);
        let expected = Launch {
            host: "machine".into(),
            global_rank: Some(3),
            world_size: Some(8),
            local_rank: Some(1),
            ..Launch::default()
        };
        assert_eq!(torchrun, expected);
        let slurm = of(&[("SLURM_PROCID", "5"), ("RINGSCOPE_HOST", "node7"), ("RANK", "x")]);
        assert_eq!((slurm.global_rank, slurm.host.as_str()), (Some(5), "node7"));
        assert_eq!(of(&[("RANK", "-1")]).global_rank, None);
        assert_eq!(of(&[("RSCCL_HOST", "host-1")]).host, "host-1");
        assert_eq!(of(&[("RSCCL_HOST", "host-1"), ("RINGSCOPE_HOST", "node7")]).host, "node7");
        let pod = of(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "pod-1")]);
        assert_eq!(pod.k8s_pod, "pod-1");
        assert_eq!(of(&[("HOSTNAME", "machine")]).k8s_pod, "");
    }
}
