//! Search: jobs, hosts, communicators, summation groups, ranks and NICs by a part of what they are called.
//!
//! The best hits come first: exact ones, then those that begin so, then the others; of these jobs before hosts before
//! communicators before summation groups before ranks before NICs; what is in use before what has ended. Only `limit` hits are held at any moment,
//! and nothing is put into words before it is known to be among them.

mod summations;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_api::{CommunicatorState, SearchHit, SearchKind};
use ringscope_model::{Communicator, Model, Name, Port};

/// The best hits for `wanted`, at most `limit`. Nothing is found by nothing.
#[must_use]
pub fn search(model: &Model, wanted: &str, limit: usize, now: Timestamp) -> Vec<SearchHit> {
    let wanted = wanted.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let mut best = Best { wanted: &wanted, limit, hits: BTreeMap::new() };
    if !wanted.is_empty() && limit > 0 {
        best.jobs(model);
        best.hosts(model);
        best.communicators(model);
        best.summations(model, now);
        best.ranks(model);
        best.nics(model);
    }
    best.hits.into_values().collect()
}

/// What order hits have: how well they match, what they are, whether they have ended, and what they are called.
type Order = (Match, SearchKind, bool, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Exact,
    Prefix,
    Inside,
}

struct Best<'a> {
    /// In lower case, words parted by single spaces.
    wanted: &'a str,
    limit: usize,
    hits: BTreeMap<Order, SearchHit>,
}

impl Best<'_> {
    fn jobs(&mut self, model: &Model) {
        for (id, job) in model.jobs() {
            let Some(found) = matches(id, self.wanted) else { continue };
            let hosts: BTreeSet<&Name> = job
                .processes(model)
                .filter_map(|process| process.identity())
                .map(|identity| &identity.host)
                .collect();
            let hit = || SearchHit {
                job: Some(id.to_string()),
                ..hit(SearchKind::Job, id.to_string(), count(hosts.len(), "host"))
            };
            self.offer((found, SearchKind::Job, false, id.to_string()), hit);
        }
    }

    fn hosts(&mut self, model: &Model) {
        for (name, processes) in model.hosts() {
            let Some(found) = matches(name, self.wanted) else { continue };
            let n_processes = processes.filter(|process| process.ended().is_none()).count();
            let hit = || SearchHit {
                host: Some(name.to_string()),
                ..hit(SearchKind::Host, name.to_string(), count(n_processes, "live process"))
            };
            self.offer((found, SearchKind::Host, false, name.to_string()), hit);
        }
    }

    fn communicators(&mut self, model: &Model) {
        for known in model.communicators() {
            let (id, hash) = (known.id(), format!("{:#x}", known.comm_hash()));
            let name = name(model, known);
            let names = [Some(id.as_str()), Some(&*hash), hash.strip_prefix("0x"), name.as_deref()];
            let found = names.into_iter().flatten().filter_map(|name| matches(name, self.wanted)).min();
            let Some(found) = found else { continue };
            let has_ended = known.state(model).0 == CommunicatorState::Ended;
            let hit = || {
                let ended = if has_ended { ", ended" } else { "" };
                let ranks = count(known.n_ranks() as usize, "rank");
                let detail = format!("job {}, {ranks}, {hash}{ended}", known.job());
                of_communicator(known, hit(SearchKind::Communicator, called(known, name.as_deref()), detail))
            };
            self.offer((found, SearchKind::Communicator, has_ended, id.to_string()), hit);
        }
    }

    /// `12`, `rank 12`, `rank 12 of world`.
    fn ranks(&mut self, model: &Model) {
        let mut words = self.wanted.split(' ').skip_while(|word| *word == "rank");
        let Some(rank) = words.next().and_then(|word| word.parse::<u32>().ok()) else { return };
        let of: Vec<&str> = words.skip_while(|word| *word == "of").collect();
        for known in model.communicators().filter(|known| rank < known.n_ranks()) {
            let name = name(model, known);
            let called = called(known, name.as_deref());
            let texts = [&called, known.id().as_str(), known.job()].map(str::to_lowercase);
            if !of.iter().all(|word| texts.iter().any(|text| text.contains(word))) {
                continue;
            }
            let Some(one) = known.ranks(model).find(|one| one.rank == rank) else { continue };
            let has_ended = known.state(model).0 == CommunicatorState::Ended;
            let hit = || {
                let detail = format!("job {}, {}", known.job(), one.identity.host);
                let found = hit(SearchKind::Rank, format!("rank {rank} of {called}"), detail);
                SearchHit {
                    rank: Some(rank),
                    host: Some(one.identity.host.to_string()),
                    ..of_communicator(known, found)
                }
            };
            self.offer((Match::Exact, SearchKind::Rank, has_ended, known.id().to_string()), hit);
        }
    }

    /// `mlx5_3`, `mlx5_3@host-17`: those that a host has, and those that rings lead over, of each process in its newest
    /// communicator: not every host tells what it has, and some rings name several NICs as one.
    fn nics(&mut self, model: &Model) {
        let (wanted, _) = self.wanted.split_once('@').unwrap_or((self.wanted, ""));
        // Names repeat: most are looked at once.
        let mut known: HashMap<Name, bool> = HashMap::new();
        let mut is_wanted = |nic: &Name| {
            let contains = || nic.to_lowercase().contains(wanted);
            !nic.is_empty() && *known.entry(nic.clone()).or_insert_with(contains)
        };
        for (host, processes) in model.hosts() {
            let ports = model.hardware_of(host).into_iter().flat_map(|hardware| hardware.nics.keys());
            let mut nics: BTreeSet<Name> = ports.map(Port::label).filter(&mut is_wanted).collect();
            for process in processes.filter(|process| process.ended().is_none()) {
                let newest = process.ranks().max_by_key(|rank| rank.facts.created);
                let places = newest.iter().flat_map(|rank| rank.facts.rings.values());
                nics.extend(places.map(|place| &place.nic).filter(|nic| is_wanted(nic)).cloned());
            }
            for nic in &nics {
                self.nic(host, nic);
            }
        }
    }

    fn nic(&mut self, host: &Name, nic: &Name) {
        let title = format!("{nic}@{host}");
        let of_whole = matches(&title, self.wanted);
        let Some(found) = of_whole.into_iter().chain(matches(nic, self.wanted)).min() else { return };
        let hit = || SearchHit {
            host: Some(host.to_string()),
            nic: Some(nic.to_string()),
            ..hit(SearchKind::Nic, title.clone(), format!("on {host}"))
        };
        self.offer((found, SearchKind::Nic, false, title.clone()), hit);
    }

    fn offer(&mut self, order: Order, hit: impl FnOnce() -> SearchHit) {
        let is_full = self.hits.len() >= self.limit;
        if is_full && self.hits.last_key_value().is_some_and(|(worst, _)| *worst <= order) {
            return;
        }
        self.hits.insert(order, hit());
        if self.hits.len() > self.limit {
            self.hits.pop_last();
        }
    }
}

fn matches(text: &str, wanted: &str) -> Option<Match> {
    let text = text.to_lowercase();
    match text.find(wanted)? {
        0 if text.len() == wanted.len() => Some(Match::Exact),
        0 => Some(Match::Prefix),
        _ => Some(Match::Inside),
    }
}

fn name(model: &Model, known: &Communicator) -> Option<String> {
    known.name(model).map(ToString::to_string)
}

fn called(known: &Communicator, name: Option<&str>) -> String {
    name.map_or_else(|| known.id().to_string(), ToOwned::to_owned)
}

fn hit(kind: SearchKind, title: String, detail: String) -> SearchHit {
    SearchHit { kind, title, detail, job: None, comm: None, rank: None, host: None, nic: None, group: None }
}

fn of_communicator(known: &Communicator, hit: SearchHit) -> SearchHit {
    SearchHit { job: Some(known.job().to_string()), comm: Some(known.id().to_string()), ..hit }
}

fn count(n: usize, word: &str) -> String {
    let ending = match (n, word.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {word}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::{Cluster, at, hardware, nic, reading};
    use ringscope_wire::batch;

    fn cluster() -> Cluster {
        Cluster::new(&[("host-1", 1, 2), ("host-12", 1, 2), ("ghost-1", 1, 2)], 2)
    }

    fn check(wanted: &str, limit: usize, found: &[&str]) {
        let mut model = Model::new();
        model.apply(&cluster().batch(1, 2), at(2));
        let hits = search(&model, wanted, limit, at(2));
        let titles: Vec<&str> = hits.iter().map(|hit| &*hit.title).collect();
        assert_eq!(titles, found, "{wanted}");
    }

    #[test]
    fn everything_is_found_best_first() {
        check("HOST-1", 9, &["host-1", "host-12", "ghost-1"]);
        check("host-1", 2, &["host-1", "host-12"]);
        check("tra", 9, &["train"]);
        check("0xABC", 9, &["dp"]);
        check("abc", 9, &["dp"]);
        check(cluster().id().as_str(), 9, &["dp"]);
        check("dp", 9, &["dp"]);
        check("rank 1", 9, &["rank 1 of dp"]);
        check(" Rank  1 of  DP ", 9, &["rank 1 of dp"]);
        check("rank 1 of tp", 9, &[]);
        check("rank 3", 9, &[]);
        check("mlx5_0@host-12", 9, &["mlx5_0@host-12"]);
        check("mlx5", 9, &["mlx5_0@ghost-1", "mlx5_0@host-1", "mlx5_0@host-12"]);
        check("nothing like it", 9, &[]);
        check("", 9, &[]);
        check("train", 0, &[]);
    }

    #[test]
    fn nics_that_no_ring_uses_are_found_too() {
        let mut model = Model::new();
        model.apply(&cluster().batch(1, 2), at(2));
        let second_port = batch::Nic { port: 2, ..nic("mlx5_9") };
        let nics = vec![nic("mlx5_0"), nic("mlx5_9"), second_port];
        model.apply(
            &reading(2, 2, vec![hardware("host-1", 2, nics.clone()), hardware("idle", 2, nics)]),
            at(2),
        );
        let titles = |wanted: &str, limit| {
            search(&model, wanted, limit, at(2)).into_iter().map(|hit| hit.title).collect::<Vec<_>>()
        };
        assert_eq!(titles("MLX5_9", 9), ["mlx5_9@host-1", "mlx5_9@idle", "mlx5_9:2@host-1", "mlx5_9:2@idle"]);
        assert_eq!(titles("mlx5_0@host-1", 2), ["mlx5_0@host-1", "mlx5_0@host-12"], "a NIC of both is one");
        assert_eq!(titles("mlx5_0@idle", 9), ["mlx5_0@idle"], "a host without processes");
        assert_eq!(titles("mlx5", 3).len(), 3, "bounded");
    }

    #[test]
    fn a_hit_says_where_it_is() {
        let mut model = Model::new();
        model.apply(&cluster().batch(1, 2), at(2));
        let hit = search(&model, "rank 2", 1, at(2)).remove(0);
        assert_eq!((hit.kind, &*hit.detail), (SearchKind::Rank, "job train, ghost-1"));
        assert_eq!(
            (hit.job.as_deref(), hit.rank, hit.host.as_deref()),
            (Some("train"), Some(2), Some("ghost-1"))
        );
        assert_eq!(hit.comm.as_deref(), Some(cluster().id().as_str()));
        let hit = search(&model, "host-12", 1, at(2)).remove(0);
        assert_eq!((hit.kind, &*hit.detail), (SearchKind::Host, "1 live process"));
    }
}
