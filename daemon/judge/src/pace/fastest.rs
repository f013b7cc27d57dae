//! The fastest operations of each size among all communicators that are alike, which are on the same hosts: others may have other
//! hardware. Looked for once for all jobs.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Curve, Model, Name, Timed};
use ringscope_wire::Primitive;

/// What is alike: hosts and ranks of a communicator, and what is called there.
type Like = (u64, u32, Primitive);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fastest {
    looked: Timestamp,
    by_like: HashMap<Like, Vec<(u32, CommunicatorId, Timed)>>,
}

impl Fastest {
    /// Those of a curve's like, by size, where it is not too long ago that they were looked for.
    pub(super) fn of(
        &mut self,
        model: &Model,
        now: Timestamp,
        comm: CommunicatorId,
        (curve, primitive): (&Curve, Primitive),
    ) -> &[(u32, CommunicatorId, Timed)] {
        if now.since(self.looked) >= LOOK_EVERY || now < self.looked {
            self.looked = now;
            self.look(model);
        }
        let like = (hosts(model, comm), curve.n_ranks(), primitive);
        self.by_like.get(&like).map(Vec::as_slice).unwrap_or_default()
    }

    fn look(&mut self, model: &Model) {
        self.by_like.clear();
        for (comm, curve) in model.curves() {
            let hosts = hosts(model, comm);
            for (primitive, log2, size) in curve.sizes().filter(|(.., size)| size.n() >= FEWEST) {
                let Some(timed) = size.mean() else { continue };
                let like = (hosts, curve.n_ranks(), primitive);
                let known = self.by_like.entry(like).or_default();
                match known.iter_mut().find(|(of, ..)| *of == log2) {
                    Some((_, by, best)) if timed.bytes_per_s() > best.bytes_per_s() => {
                        (*by, *best) = (comm, timed)
                    }
                    Some(_) => {}
                    None => known.push((log2, comm, timed)),
                }
            }
        }
    }
}

/// On which hosts a communicator is, in one number.
fn hosts(model: &Model, comm: CommunicatorId) -> u64 {
    let ranks = model.communicator(comm).into_iter().flat_map(|known| known.ranks(model));
    let hosts: BTreeSet<&Name> = ranks.map(|rank| &rank.identity.host).collect();
    BuildHasherDefault::<DefaultHasher>::default().hash_one(hosts)
}

/// They change slowly.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Operations of a size that make a time: large ones are rare where there are many small ones.
pub(super) const FEWEST: u64 = 2;
