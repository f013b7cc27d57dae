//! Pods that ask for it by a label get the collector: what the daemon answers to Kubernetes before a pod is created. Pure: a
//! question in, an answer out. It never refuses a pod, and where it is not sure that a pod would start as before it leaves it alone
//! and says why.
//!
//! * `review`: the question and the answer. `pod`: what is done to a pod, `containers` to which of its containers
//!   (`chosen`).
//! * `environment`: the variables of a container. `job`: what the pod's job is called. `fit`: where the pod may run.
//! * `resources`: what the init container may take.
//! * `patch`: changes as JSON Patch (RFC 6902). `words`: what people are told, bounded.

mod chosen;
mod containers;
mod environment;
mod fit;
mod job;
mod patch;
mod pod;
mod resources;
mod review;
mod words;

pub use fit::Architecture;
pub use review::answer;

/// What pods get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Image with the `ringscope` program, from which an init container brings the collector.
    pub image: String,
    /// Folder on the nodes that the agent reads, in memory.
    pub folder: String,
    /// Architectures that the image has.
    pub architectures: Vec<Architecture>,
}

/// Label by which a pod asks for it, with the value `true`.
pub const LABEL: &str = "ringscope.io/watch";
/// Where the folder of segments is in watched containers, and in the agent's, because segments name logs by it.
pub const SEGMENTS: &str = "/run/ringscope/segments";
/// Where the collector is in watched containers.
pub const COLLECTOR: &str = "/run/ringscope/collector";

/// Below which nothing may be mounted that is not ours.
const MOUNT: &str = "/run/ringscope";
/// Which containers, with commas between. Default: all but known sidecars.
const CONTAINERS: &str = "ringscope.io/containers";
/// `plain`: what `envFrom` brings says nothing of preloaded libraries or of NCCL.
const ENV_FROM: &str = "ringscope.io/env-from";
/// What became of the pod, for people.
const DONE: &str = "ringscope.io/webhook";
