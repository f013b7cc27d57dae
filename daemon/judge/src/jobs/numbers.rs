//! Ranks in the job where no launcher told them: those of the communicator that has all of its processes.

use std::collections::HashMap;

use crate::hangs::scene::{Communicator, Life, Process, Scene};

/// Numbers the processes of a job of which no process has a number. Does nothing where no communicator has them all, or two
/// that have number them differently.
pub(super) fn number(scene: &mut Scene<'_>) {
    // What files tell names its ranks itself.
    let is_told = |process: &Process<'_>| process.global_rank.is_some() || process.life == Life::Imported;
    if scene.processes.iter().any(is_told) {
        return;
    }
    let numberings = scene.communicators.iter().filter_map(|of| numbering(scene, of));
    let mut all: Vec<HashMap<u32, u32>> = numberings.collect();
    let Some(one) = all.pop().filter(|one| all.iter().all(|other| other == one)) else { return };
    let world_size = u32::try_from(one.len()).ok();
    for (process, rank) in one {
        if let Some(process) = scene.processes.get_mut(process as usize) {
            (process.global_rank, process.world_size) = (Some(rank), process.world_size.or(world_size));
        }
    }
}

/// The rank of each process, if each has one of its own and no process that lives is left out.
fn numbering(scene: &Scene<'_>, of: &Communicator<'_>) -> Option<HashMap<u32, u32>> {
    let ranks: HashMap<u32, u32> = of.members.iter().map(|member| (member.process, member.rank)).collect();
    let is_whole = ranks.len() == of.n_ranks as usize && of.members.len() == ranks.len();
    let mut living = (0_u32..).zip(&scene.processes).filter(|(_, process)| process.life == Life::Running);
    (is_whole && living.all(|(index, _)| ranks.contains_key(&index))).then_some(ranks)
}
