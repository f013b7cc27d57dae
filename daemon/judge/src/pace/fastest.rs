//! The fastest operations of each size among all communicators that are alike. Looked for once for all jobs.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_model::{CommunicatorId, Curve, Model, Timed};
use ringscope_wire::Primitive;

/// What is alike: ranks and hosts of a communicator, and what is called there.
type Like = (u32, u32, Primitive);

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
        curve: &Curve,
        primitive: Primitive,
    ) -> &[(u32, CommunicatorId, Timed)] {
        if now.since(self.looked) >= LOOK_EVERY || now < self.looked {
            self.looked = now;
            self.look(model);
        }
        let like = (curve.n_ranks(), curve.n_hosts(), primitive);
        self.by_like.get(&like).map(Vec::as_slice).unwrap_or_default()
    }

    fn look(&mut self, model: &Model) {
        self.by_like.clear();
        for (comm, curve) in model.curves() {
            for (primitive, log2, size) in curve.sizes().filter(|(.., size)| size.n() >= FEWEST) {
                let Some(timed) = size.mean() else { continue };
                let known = self.by_like.entry((curve.n_ranks(), curve.n_hosts(), primitive)).or_default();
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

/// They change slowly.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Operations of a size that make a time: large ones are rare where there are many small ones.
pub(super) const FEWEST: u64 = 2;
