//! Which ranks the process groups of Gloo have. Gloo tells its groups before they have a name: `pg_config` has all of them
//! under the empty one, where the last one made takes the place of those before it, with as many numbers from 0 on as it has
//! ranks. The entries have the names. So the dumps of all ranks are looked at together, and where they do not tell either,
//! the group is left without ranks. (`ProcessGroupGloo::ProcessGroupGloo` of torch 2.15.)

use std::collections::BTreeSet;

use ringscope_wire::Primitive;

use super::flight::{Dump, Entry, Group, State};

/// Gives ranks to the groups of which `pg_config` knows no name, as far as they can be known.
pub(super) fn settle(dumps: &mut [&mut Dump]) {
    let nameless: BTreeSet<(String, String)> = dumps
        .iter()
        .flat_map(|dump| nameless(dump))
        .map(|(name, group)| (name.clone(), group.description.clone()))
        .collect();
    let Some(world) = world(dumps) else { return };
    for (name, description) in nameless {
        let is_default = description == DEFAULT;
        let found = if is_default { Some(world.clone()) } else { members(dumps, &world, &name) };
        let Some(ranks) = found else { continue };
        for dump in dumps.iter_mut().filter(|dump| dump.unnamed.is_some()) {
            // A rank that has called nothing in it is in the default group all the same.
            if is_default || dump.groups.contains_key(&name) {
                let group = dump.groups.entry(name.clone()).or_default();
                if group.ranks.is_empty() {
                    group.description.clone_from(&description);
                    group.ranks.clone_from(&ranks);
                }
            }
        }
    }
}

/// Groups of which nobody can say which ranks they have, each once.
pub(super) fn unknown<'d>(dumps: impl Iterator<Item = &'d Dump>) -> BTreeSet<&'d str> {
    dumps.flat_map(nameless).map(|(name, _)| name.as_str()).collect()
}

/// Groups of a dump that have no ranks.
fn nameless(dump: &Dump) -> impl Iterator<Item = (&String, &Group)> {
    dump.groups.iter().filter(|(_, group)| group.ranks.is_empty())
}

/// The ranks of the job, by the dumps of those that have called in no group but the default one. Where all have called in
/// others too, nobody knows how many there are: that of the last rank may be the file that is missing.
fn world(dumps: &[&mut Dump]) -> Option<Vec<u32>> {
    let of_default = dumps.iter().filter(|dump| {
        let mut groups = nameless(dump).peekable();
        groups.peek().is_some() && groups.all(|(_, group)| group.description == DEFAULT)
    });
    let n_ranks = of_default.filter_map(|dump| u32::try_from(dump.unnamed.as_ref()?.len()).ok()).max()?;
    let is_within = dumps.iter().all(|dump| dump.rank.is_none_or(|rank| rank < n_ranks));
    is_within.then(|| (0..n_ranks).collect())
}

/// The ranks that have called something in the group. Those are all of them once a collective has ended there, which none
/// ends before all have called it, and where the dumps of all ranks are whole.
fn members(dumps: &[&mut Dump], world: &[u32], name: &str) -> Option<Vec<u32>> {
    let told: BTreeSet<u32> = dumps.iter().filter(|dump| !dump.is_cut).filter_map(|dump| dump.rank).collect();
    let are_all_told = world.iter().all(|rank| told.contains(rank));
    let mut entries = dumps.iter().flat_map(|dump| &dump.entries).filter(|entry| entry.group == name);
    if !are_all_told || !entries.any(has_met_all) {
        return None;
    }
    let callers = dumps.iter().filter(|dump| dump.groups.contains_key(name));
    let callers: BTreeSet<u32> = callers.filter_map(|dump| dump.rank).collect();
    Some(callers.into_iter().collect())
}

/// Whether it has ended and cannot before every rank has called it.
fn has_met_all(entry: &Entry) -> bool {
    use Primitive::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let is_of_all = matches!(entry.primitive(), Some(AllReduce | AllGather | ReduceScatter | AllToAll));
    is_of_all && entry.state == State::Completed
}

/// How PyTorch describes the group of all ranks.
const DEFAULT: &str = "default_pg";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WORLD: (&str, &str) = ("0", "default_pg");
    const PAIR: (&str, &str) = ("7", "pair");

    const NONE: &[u32] = &[];
    const ALL: &[u32] = &[0, 1, 2];

    /// The dump of a rank that has called once in each of the groups, and whose last group has so many ranks.
    fn dump(rank: u32, last: &str, groups: &[(&str, &str)]) -> Dump {
        let entry = |(id, (name, description)): (usize, &(&str, &str))| {
            json!({
                "record_id": id, "pg_id": id, "process_group": [name, description], "collective_seq_id": 1,
                "profiling_name": "gloo:all_reduce", "state": "scheduled", "retired": true, "is_p2p": false,
            })
        };
        let entries: Vec<Value> = groups.iter().enumerate().map(entry).collect();
        let document =
            json!({"pg_config": {"": {"name": "", "desc": "", "ranks": last}}, "entries": entries});
        Dump::of(&document, &format!("rank_{rank}")).unwrap()
    }

    /// The ranks of a group by each dump.
    fn check(mut dumps: Vec<Dump>, name: &str, ranks: &[&[u32]]) {
        settle(&mut dumps.iter_mut().collect::<Vec<_>>());
        let found: Vec<&[u32]> =
            dumps.iter().map(|dump| dump.groups.get(name).map_or(&[][..], |group| &group.ranks)).collect();
        assert_eq!(found, ranks);
    }

    /// A pair of the ranks 1 and 2 of three.
    fn three() -> Vec<Dump> {
        vec![
            dump(0, "[0, 1, 2]", &[WORLD]),
            dump(1, "[0, 1]", &[WORLD, PAIR]),
            dump(2, "[0, 1]", &[WORLD, PAIR]),
        ]
    }

    #[test]
    fn the_default_group_has_all_ranks() {
        check(three(), "0", &[ALL; 3]);
        let mut idle = three();
        idle[1] = dump(1, "[0, 1]", &[]);
        check(idle, "0", &[ALL; 3]);
    }

    #[test]
    fn how_many_ranks_there_are_is_not_guessed() {
        check(three().split_off(1), "0", &[NONE; 2]);
        check(three()[..2].to_vec(), "0", &[ALL; 2]);
        let mut beyond = three();
        beyond[2].rank = Some(3);
        check(beyond, "0", &[NONE; 3]);
    }

    #[test]
    fn another_group_has_the_ranks_that_called_once_all_must_have() {
        check(three(), "7", &[NONE, &[1, 2], &[1, 2]]);
    }

    #[test]
    fn where_a_rank_may_not_have_called_yet_nobody_knows_the_ranks() {
        let mut open = three();
        for dump in &mut open {
            dump.entries.iter_mut().for_each(|entry| entry.state = State::Scheduled);
        }
        check(open, "7", &[NONE; 3]);
        let mut rooted = three();
        for dump in &mut rooted {
            dump.entries.iter_mut().for_each(|entry| entry.name = "broadcast".to_owned());
        }
        check(rooted, "7", &[NONE; 3]);
        let mut cut = three();
        cut[0].is_cut = true;
        check(cut, "7", &[NONE; 3]);
        check(three().split_off(1), "7", &[NONE; 2]);
    }

    #[test]
    fn a_group_without_ranks_is_named() {
        let mut dumps = three().split_off(1);
        settle(&mut dumps.iter_mut().collect::<Vec<_>>());
        assert_eq!(unknown(dumps.iter()), BTreeSet::from(["0", "7"]));
    }
}
