//! What a host is built of: only hosts that are built alike can be expected to find as many channels.

use std::collections::BTreeSet;

use ringscope_model::{Hardware, Name};

/// What a host is built of, as far as is known; what it has lost counts as its own. Empty or 0: not known.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(in super::super) struct Build {
    gpu_models: BTreeSet<Name>,
    nic_models: BTreeSet<Name>,
    n_gpus: usize,
    n_nics: usize,
    /// The highest rate of its NICs.
    rate_bits_per_s: u64,
}

impl Build {
    pub(super) fn of(hardware: &Hardware) -> Self {
        let gpus = hardware.gpus.as_ref().filter(|_| !hardware.gpus_confined);
        let gpu_models = gpus.into_iter().flatten().map(|gpu| gpu.name.clone());
        // What was never up is not used; network interfaces come and go.
        let nics = || {
            let rdma = hardware.nics.iter().filter(|(port, nic)| !port.is_interface && nic.was_up());
            rdma.map(|(_, nic)| nic)
        };
        Self {
            gpu_models: gpu_models.filter(|name| !name.is_empty()).collect(),
            nic_models: nics().map(|nic| nic.model.clone()).filter(|model| !model.is_empty()).collect(),
            n_gpus: gpus.map_or(0, |_| hardware.most_gpus),
            n_nics: nics().count(),
            rate_bits_per_s: nics().filter_map(|nic| nic.best_rate_bits_per_s).max().unwrap_or_default(),
        }
    }

    /// How this host differs from another one in models, which no fault changes: "its GPUs are A, theirs B". `None`: not,
    /// as far as is known.
    pub(in super::super) fn other_models(&self, other: &Self) -> Option<String> {
        let differ = |own: &BTreeSet<Name>, theirs: &BTreeSet<Name>, what: &str| {
            let list =
                |names: &BTreeSet<Name>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(" and ");
            let known = !own.is_empty() && !theirs.is_empty();
            (known && own != theirs).then(|| format!("its {what} are {}, theirs {}", list(own), list(theirs)))
        };
        differ(&self.gpu_models, &other.gpu_models, "GPUs")
            .or_else(|| differ(&self.nic_models, &other.nic_models, "NICs"))
    }

    /// How they differ in number and rate. A fault can make such a difference too.
    pub(in super::super) fn other_numbers(&self, other: &Self) -> Option<String> {
        let differ = |own: usize, theirs: usize, what: &str| {
            let known = own > 0 && theirs > 0;
            (known && own != theirs).then(|| format!("it has {own} {what}, they {theirs}"))
        };
        let gigabits = |rate: u64| usize::try_from(rate / 1_000_000_000).unwrap_or_default();
        differ(self.n_gpus, other.n_gpus, "GPUs")
            .or_else(|| differ(self.n_nics, other.n_nics, "NICs"))
            .or_else(|| {
                differ(gigabits(self.rate_bits_per_s), gigabits(other.rate_bits_per_s), "Gb/s in each NIC")
            })
    }
}
