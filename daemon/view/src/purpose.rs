//! What a communicator is for: by its name where that says so, else by its shape within its job, which is a guess. In
//! doubt nothing is said.
//!
//! By name: the program's, or that of the framework's group of the same ranks ([`Communicator::name`]). PyTorch, Megatron and DeepSpeed put the dimension into the names of their groups (`default_pg`, `mesh_dp`,
//! `TENSOR_MODEL_PARALLEL_GROUP`, `tp0`). Whole words count, never parts of others, and only if all that are known mean the
//! same: a group `dp_cp` spans two dimensions.
//!
//! By shape: as many ranks as the job has is the world. Several ranks, all on one host, of a job on several hosts:
//! tensor, which nobody stretches over a network. One rank on every host of the job, everywhere the same local rank: data.
//! One rank on each of some hosts is data in one job and pipeline in another, so nothing is said.

use std::collections::HashSet;

use ringscope_api::{Dimension, Purpose};
use ringscope_model::{Communicator, Model, Name};

/// The purpose of a communicator with this name.
pub(super) fn purpose(model: &Model, known: &Communicator, name: Option<&str>) -> Option<Purpose> {
    let named = name.and_then(by_name).map(|dimension| Purpose { dimension, named: true });
    named.or_else(|| by_shape(model, known).map(|dimension| Purpose { dimension, named: false }))
}

fn by_name(name: &str) -> Option<Dimension> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        // The number of the group may stand right behind: tp0.
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    if words.windows(2).any(|pair| pair == ["default", "pg"]) {
        return Some(Dimension::World);
    }
    let mut told = words.iter().filter_map(|word| of_word(word));
    let first = told.next()?;
    told.all(|dimension| dimension == first).then_some(first)
}

fn of_word(word: &str) -> Option<Dimension> {
    WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(dimension, _)| *dimension)
}

fn by_shape(model: &Model, known: &Communicator) -> Option<Dimension> {
    let first = known.ranks(model).next()?;
    if known.n_ranks() < 2 || known.n_ranks_seen() < known.n_ranks() {
        return None;
    }
    let world_size = known.ranks(model).map(|rank| rank.identity.world_size).max().flatten();
    if world_size == Some(known.n_ranks()) {
        return Some(Dimension::World);
    }
    if known.is_one_host(model) {
        return hosts_of_job(model, known)
            .any(|host| *host != first.identity.host)
            .then_some(Dimension::Tensor);
    }
    let mut hosts = HashSet::new();
    let one_a_host = first.identity.local_rank.is_some()
        && known.ranks(model).all(|rank| {
            rank.identity.local_rank == first.identity.local_rank && hosts.insert(&rank.identity.host)
        });
    let on_every_host = || hosts_of_job(model, known).all(|host| hosts.contains(host));
    (one_a_host && on_every_host()).then_some(Dimension::Data)
}

/// The hosts of its job, by process.
fn hosts_of_job<'a>(model: &'a Model, known: &Communicator) -> impl Iterator<Item = &'a Name> {
    let processes = model.job(known.job()).into_iter().flat_map(|(_, job)| job.processes(model));
    processes.filter_map(|process| Some(&process.identity()?.host))
}

const WORDS: [(Dimension, &[&str]); 6] = [
    (Dimension::World, &["world"]),
    (Dimension::Data, &["dp", "ddp", "data", "fsdp"]),
    (Dimension::Tensor, &["tp", "mp", "tensor"]),
    (Dimension::Pipeline, &["pp", "pipeline"]),
    (Dimension::Expert, &["ep", "expert"]),
    (Dimension::Context, &["cp", "sp", "context", "sequence"]),
];

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{self, Batch, Counters, Process, RankGroup};
    use ringscope_wire::segment::groups::ranks_hash;

    use super::*;
    use ringscope_samples::cluster::{Cluster, at};

    #[test]
    fn names() {
        for (name, dimension) in [
            ("default_pg", Some(Dimension::World)),
            ("default_pg:0", Some(Dimension::World)),
            ("world", Some(Dimension::World)),
            ("mesh_dp", Some(Dimension::Data)),
            ("FSDP-1", Some(Dimension::Data)),
            ("DATA_PARALLEL_GROUP", Some(Dimension::Data)),
            ("TENSOR_MODEL_PARALLEL_GROUP", Some(Dimension::Tensor)),
            ("tp0", Some(Dimension::Tensor)),
            ("mp", Some(Dimension::Tensor)),
            ("PIPELINE_MODEL_PARALLEL_GROUP", Some(Dimension::Pipeline)),
            ("ep.3", Some(Dimension::Expert)),
            ("context parallel", Some(Dimension::Context)),
            ("sequence_data_parallel", None),
            ("dp_cp", None),
            ("model_parallel_group", None),
            ("http_pool", None),
            ("database", None),
            ("undefined", None),
            ("", None),
        ] {
            assert_eq!(by_name(name), dimension, "{name}");
        }
    }

    fn model_of(processes: Vec<Process>) -> Model {
        let mut model = Model::new();
        let agent_id = "one".to_owned();
        model.apply(&Batch { agent_id, seq_number: 1, processes, ..Batch::default() }, at(2));
        model
    }

    /// A job of two hosts with two ranks each, and one communicator without a name over `members`, which calls this; its processes
    /// have told of these groups. What the communicator is called, and what it is for.
    fn in_groups(
        members: &[u32],
        primitive: batch::Primitive,
        groups: &[(&str, &[u32])],
    ) -> (Option<String>, Option<Dimension>) {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
        let process = |rank: u32| {
            let mut process = cluster.process(rank);
            process.identity.as_mut().unwrap().global_rank = Some(rank);
            let told = groups.iter().map(|(name, ranks)| RankGroup {
                ranks_hash: ranks_hash(ranks.iter().copied()),
                n_ranks: ranks.len() as u64,
                name: (*name).to_owned(),
            });
            process.groups = told.collect();
            match members.iter().position(|member| *member == rank) {
                Some(place) => {
                    let communicator = &mut process.communicators[0];
                    communicator.name.clear();
                    communicator.rank = u32::try_from(place).unwrap();
                    communicator.n_ranks = u32::try_from(members.len()).unwrap();
                    let local_id = communicator.local_id;
                    let primitive = primitive.into();
                    process.counters =
                        vec![Counters { local_id, primitive, issued_calls: 1, ..Counters::default() }];
                }
                None => process.communicators.clear(),
            }
            process
        };
        let model = model_of((0..4).map(process).collect());
        let known = model.communicators().next().unwrap();
        let name = known.name(&model).map(ToString::to_string);
        let purpose = purpose(&model, known, name.as_deref());
        (name, purpose.filter(|purpose| purpose.named).map(|purpose| purpose.dimension))
    }

    #[test]
    fn a_communicator_without_a_name_is_called_as_the_only_group_of_its_ranks() {
        use batch::Primitive::{AllReduce, Send};
        let groups: &[(&str, &[u32])] =
            &[("world", &[0, 1, 2, 3]), ("dp 0,2", &[2, 0]), ("tp 2-3", &[2, 3]), ("pp 1,3", &[1, 3])];
        let called = |members: &[u32], primitive, groups| in_groups(members, primitive, groups);
        let named = |name: &str, dimension| (Some(name.to_owned()), Some(dimension));
        assert_eq!(called(&[0, 2], AllReduce, groups), named("dp 0,2", Dimension::Data));
        assert_eq!(called(&[2, 3], AllReduce, groups), named("tp 2-3", Dimension::Tensor));
        assert_eq!(called(&[0, 1, 2, 3], AllReduce, groups), named("world", Dimension::World));
        assert_eq!(called(&[0, 3], AllReduce, groups), (None, None), "no group has these ranks");
        assert_eq!(called(&[2, 3], Send, groups), (None, None), "two that send to each other in any group");
        let both: &[(&str, &[u32])] = &[("tp 2-3", &[2, 3]), ("pp 2-3", &[2, 3])];
        assert_eq!(called(&[2, 3], AllReduce, both), (None, None), "two groups have these ranks");
        assert_eq!(called(&[2, 3], AllReduce, &[]), (None, None), "nobody says anything of groups");
    }

    /// A job of two hosts with two ranks each, and one communicator without a name over `members`.
    fn shape(members: &[u32]) -> Option<Purpose> {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 2);
        let process = |rank: u32| {
            let mut process = cluster.process(rank);
            process.identity.as_mut().unwrap().local_rank = Some(rank % 2);
            match members.iter().position(|member| *member == rank) {
                Some(place) => {
                    let communicator = &mut process.communicators[0];
                    communicator.name.clear();
                    communicator.rank = u32::try_from(place).unwrap();
                    communicator.n_ranks = u32::try_from(members.len()).unwrap();
                }
                None => process.communicators.clear(),
            }
            process
        };
        let model = model_of((0..4).map(process).collect());
        let known = model.communicators().next().unwrap();
        purpose(&model, known, None)
    }

    #[test]
    fn shapes() {
        let guess = |dimension| Some(Purpose { dimension, named: false });
        assert_eq!(shape(&[0, 1, 2, 3]), guess(Dimension::World));
        assert_eq!(shape(&[2, 3]), guess(Dimension::Tensor));
        assert_eq!(shape(&[1, 3]), guess(Dimension::Data));
        assert_eq!(shape(&[0, 3]), None, "different local ranks");
        assert_eq!(shape(&[0, 1, 2]), None, "uneven");
        assert_eq!(shape(&[2]), None, "nobody to talk to");
    }
}
