//! What the ranks of a job call, and how far each has come: every step an all-reduce among the GPUs of a host (tensor), one
//! among the same GPU of all hosts (data), and one of all (world). A collective ends when all its ranks have called it.

use std::collections::HashMap;

/// Which communicator of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Tensor = 0,
    Data = 1,
    World = 2,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Tensor, Self::Data, Self::World];
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) primitive: i32,
    pub(crate) count: u64,
    pub(crate) datatype: u32,
    pub(crate) op: u32,
}

/// One call of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) signature: Signature,
    pub(crate) issued_ns: u64,
}

/// Where a rank stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rank {
    /// Places of its program that are behind it.
    place: u64,
    /// Calls made, by communicator, and the hash over them.
    pub(crate) calls: [u64; 3],
    pub(crate) hash: [u64; 3],
    pub(crate) marks: [Option<(u64, u64)>; 3],
    pub(crate) open: Option<Call>,
    /// The last completed call of each communicator, and when.
    pub(crate) last: [Option<(Call, u64)>; 3],
    pub(crate) returned_ns: u64,
    /// Makes no further call.
    pub(crate) halted: bool,
}

/// A rank that does otherwise than its program says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// Leaves out the tensor call of this step.
    Skip { step: u64 },
    /// Asks for something else in the world call of this step.
    Other { step: u64, signature: Signature },
}

/// All ranks.
pub(crate) struct Program {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) ranks_per_host: u32,
    /// Stages of the pipeline, a host each: the data communicators are those of the same stage. 1: there is none.
    pub(crate) stages: u32,
    edits: HashMap<u32, Edit>,
    /// Nobody completes this call of the world, nor any after it.
    pub(crate) stalled_from: Option<u64>,
}

/// What every call asks for.
pub(crate) const ALL_REDUCE: Signature = Signature { primitive: 1, count: 1 << 20, datatype: 7, op: 0 };

impl Program {
    pub(crate) fn new(n_ranks: u32, ranks_per_host: u32) -> Self {
        let ranks = vec![Rank::default(); n_ranks as usize];
        Self { ranks, ranks_per_host, stages: 1, edits: HashMap::new(), stalled_from: None }
    }

    pub(crate) fn edit(&mut self, rank: u32, edit: Edit) {
        self.edits.insert(rank, edit);
    }

    /// Ranks of a communicator, and which of them this one is.
    pub(crate) fn seat(&self, kind: Kind, rank: u32) -> (u32, u32) {
        let (n, per_host) = (self.ranks.len() as u32, self.ranks_per_host);
        match kind {
            Kind::Tensor => (per_host, rank % per_host),
            Kind::Data => (n / per_host / self.stages, rank / per_host / self.stages),
            Kind::World => (n, rank),
        }
    }

    /// Which one of its kind: tensor communicators by host, data communicators by stage and GPU.
    pub(crate) fn group(&self, kind: Kind, rank: u32) -> u32 {
        match kind {
            Kind::Tensor => rank / self.ranks_per_host,
            Kind::Data => {
                rank / self.ranks_per_host % self.stages * self.ranks_per_host + rank % self.ranks_per_host
            }
            Kind::World => 0,
        }
    }

    /// The step in which the furthest rank is.
    pub(crate) fn step(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.place / 3).max().unwrap_or(0)
    }

    /// Lets everybody go on for so many steps at most, or until all wait.
    pub(crate) fn advance(&mut self, steps: u64, now_ns: u64) {
        let until = (self.step() + steps) * 3;
        loop {
            let least = self.least_calls();
            let mut moved = false;
            for rank in 0..self.ranks.len() as u32 {
                moved |= self.try_move(rank, until, &least, now_ns);
            }
            if !moved {
                return;
            }
        }
    }

    /// Of each group the fewest calls that one of its ranks has made.
    fn least_calls(&self) -> HashMap<(Kind, u32), u64> {
        let mut least = HashMap::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            for kind in Kind::ALL {
                let calls = least.entry((kind, self.group(kind, index as u32))).or_insert(u64::MAX);
                *calls = rank.calls[kind as usize].min(*calls);
            }
        }
        least
    }

    fn try_move(&mut self, index: u32, until: u64, least: &HashMap<(Kind, u32), u64>, now_ns: u64) -> bool {
        let step = self.ranks[index as usize].place / 3;
        let edit = self.edits.get(&index).copied();
        let group_of = |kind| (kind, self.group(kind, index));
        let is_over = |call: &Call| {
            let stalls =
                call.kind == Kind::World && self.stalled_from.is_some_and(|from| call.number >= from);
            !stalls && least.get(&group_of(call.kind)).is_some_and(|calls| *calls > call.number)
        };
        let ended = self.ranks[index as usize].open.filter(is_over);
        let rank = &mut self.ranks[index as usize];
        if let Some(call) = ended {
            rank.last[call.kind as usize] = Some((call, now_ns));
            rank.open = None;
            return true;
        }
        if rank.open.is_some() || rank.halted || rank.place >= until {
            return false;
        }
        let (kind, signature) = match (rank.place % 3, edit) {
            (2, Some(Edit::Other { step: at, signature })) if at == step => (Kind::World, signature),
            (0, Some(Edit::Skip { step: at })) if at == step => {
                rank.place += 1;
                return true;
            }
            (place, _) => (Kind::ALL[place as usize], ALL_REDUCE),
        };
        rank.call(kind, signature, now_ns);
        true
    }
}

impl Rank {
    fn call(&mut self, kind: Kind, signature: Signature, now_ns: u64) {
        let at = kind as usize;
        let number = self.calls[at];
        self.calls[at] += 1;
        self.hash[at] = self.hash[at].wrapping_add(mixed(signature, number));
        if self.calls[at].is_multiple_of(64) {
            self.marks[at] = Some((self.calls[at], self.hash[at]));
        }
        self.open = Some(Call { kind, number, signature, issued_ns: now_ns });
        self.returned_ns = now_ns;
        self.place += 1;
    }
}

fn mixed(signature: Signature, number: u64) -> u64 {
    let words =
        [signature.primitive as u64, signature.count, signature.datatype.into(), signature.op.into(), number];
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    })
}
