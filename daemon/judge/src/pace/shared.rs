//! Which ways are slower than their like, and what they have in common: a NIC that says why, a NIC that all of them go through, a rail;
//! else each stands for itself. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringscope_model::{Name, real};

use super::links::{Busy, End, Way, Ways};
use super::outliers::quantile;
use crate::hardware::Ail;

/// What a slow way is put down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The way itself.
    Link(Way),
    /// NICs of a host, as rings name them: one, or more where the ways go through several at once. Empty: not known.
    Nic { host: Name, nics: Vec<Name> },
    /// The NICs of this name of all hosts.
    Rail(Name),
}

/// A way that is slower than its like.
#[derive(Clone, Debug)]
pub(super) struct SlowWay {
    pub(super) busy: Busy,
    /// Nanoseconds that a byte takes on the wires of most of its like.
    pub(super) usual: f64,
    /// Ways that it is compared with.
    pub(super) n_like: usize,
}

/// Slow ways with what they are put down to.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) subject: Subject,
    /// The slowest first. Empty: nobody has looked at them, and the NIC says it itself.
    pub(super) ways: Vec<SlowWay>,
    /// What is wrong with the NIC, where it says so itself.
    pub(super) ail: Option<Ail>,
}

impl Fault {
    /// What a NIC says itself.
    pub(super) fn told(host: Name, ail: Ail) -> Self {
        Self { subject: Subject::Nic { host, nics: vec![ail.nic.clone()] }, ways: Vec::new(), ail: Some(ail) }
    }

    /// Whether both are about the same NIC, which says so itself.
    pub(super) fn is_of_nic(&self, other: &Self) -> bool {
        let nic = |fault: &Self| match (&fault.subject, &fault.ail) {
            (Subject::Nic { host, .. }, Some(ail)) => Some((host.clone(), ail.nic.clone())),
            _ => None,
        };
        nic(self).is_some() && nic(self) == nic(other)
    }

    /// Whether its ways are among the others', or at the same NICs.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        let is_at = |end: &End| matches!(&other.subject, Subject::Nic { host, nics } if end.host == *host && !nics.is_empty() && end.nics == *nics);
        let is_among = |way: &Way| other.ways.iter().any(|other| other.busy.way == *way);
        self.ways
            .iter()
            .all(|slow| is_among(&slow.busy.way) || is_at(&slow.busy.from) || is_at(&slow.busy.to))
    }
}

/// What is known of NICs, by host and as rings name them.
pub(super) trait Nics {
    /// What is wrong with one now.
    fn ail(&self, host: &Name, nic: &str) -> Option<Ail>;
    /// Bits per second.
    fn rate(&self, host: &Name, nic: &str) -> Option<u64>;
}

/// What half of some ways do not exceed, and how many these are.
#[derive(Clone, Copy)]
struct Usual {
    step_ns: f64,
    wire_ns: f64,
    n: usize,
}

/// A busy way beside the others of its communicator, if anything can be said.
struct Judged<'b> {
    busy: &'b Busy,
    comm: usize,
    among_own: Option<Usual>,
    /// Nanoseconds for a byte below which it is not slow, for the way before it is far slower.
    least: f64,
    /// Ranks of its communicator: with ways of as many it is compared across communicators too.
    pool: usize,
    told: bool,
}

/// A host, and those of its NICs that ways go through; absent: all of them.
type Suspect = (Name, Option<Vec<Name>>);

/// All that is slow in a job.
pub(super) fn find(comms: &[Ways], nics: &dyn Nics) -> Vec<Fault> {
    let mut judged = judge(comms);
    let mut faults = whole_rails(&mut judged, nics);
    faults.extend(std::iter::from_fn(|| ailing(&mut judged, nics)).take(MAX_NICS));
    faults.extend(std::iter::from_fn(|| through_one_host(&mut judged)).take(MAX_NICS));
    faults.extend(large_parts_of_rails(&mut judged));
    faults.extend(links(&judged));
    faults
}

fn judge(comms: &[Ways]) -> Vec<Judged<'_>> {
    let each = comms.iter().enumerate().flat_map(|(comm, ways)| {
        let usual = Usual::of(ways.busy.iter()).filter(|usual| usual.n >= FEWEST_WAYS);
        let mut into: HashMap<u32, f64> = HashMap::new();
        for busy in ways.busy.iter().filter(|busy| busy.load >= BUSY) {
            let slowest = into.entry(busy.way.to).or_default();
            *slowest = slowest.max(busy.step_ns);
        }
        let (among_own, pool) = (usual.map(|usual| Usual { n: usual.n - 1, ..usual }), ways.n_ranks);
        ways.busy.iter().map(move |busy| {
            let least = NEAR * into.get(&busy.way.from).copied().unwrap_or_default();
            Judged { busy, comm, among_own, least, pool, told: false }
        })
    });
    each.collect()
}

impl Usual {
    fn of<'b>(busy: impl Iterator<Item = &'b Busy>) -> Option<Self> {
        let (steps, wires): (Vec<f64>, Vec<f64>) = busy.map(|busy| (busy.step_ns, busy.wire_ns)).unzip();
        let n = steps.len();
        (n > 0).then(|| Self { step_ns: quantile(steps, 50), wire_ns: quantile(wires, 50), n })
    }
}

impl Judged<'_> {
    /// Beside those of its communicator.
    fn is_slow(&self) -> bool {
        let is_slower = |usual: Usual| {
            self.busy.step_ns >= (MUCH_SLOWER * usual.step_ns).max(self.least)
                && self.busy.wire_ns >= ANY_SLOWER * usual.wire_ns
        };
        self.busy.load >= BUSY && self.among_own.is_some_and(is_slower)
    }

    /// Beside those of other communicators, which may have more to do, or less.
    fn is_slow_on_wire(&self, usual: Option<Usual>, times: f64) -> bool {
        self.busy.load >= BUSY && usual.is_some_and(|usual| self.busy.wire_ns >= times * usual.wire_ns)
    }

    /// The rail that it keeps to.
    fn rail(&self) -> Option<&Name> {
        match self.busy.from.nics.as_slice() {
            [nic] => Some(nic),
            _ => None,
        }
    }

    fn slow_way(&self, usual: Option<Usual>) -> Option<SlowWay> {
        let Usual { wire_ns, n, .. } = usual?;
        Some(SlowWay { busy: self.busy.clone(), usual: wire_ns, n_like: n })
    }
}

/// Rails that are slower than all the others: most of their ways by far, and hardly one as quick as theirs. Where each rail has a
/// communicator to itself, none of its ways differs from the others of that one.
fn whole_rails(judged: &mut [Judged<'_>], nics: &dyn Nics) -> Vec<Fault> {
    let mut rails: BTreeMap<(usize, Name), Vec<usize>> = BTreeMap::new();
    for (at, way) in judged.iter().enumerate() {
        if let Some(rail) = way.rail() {
            rails.entry((way.pool, rail.clone())).or_default().push(at);
        }
    }
    // Where each NIC has a name of its own there are no rails, and as many names as ways.
    rails.retain(|_, its| n_senders(judged, its) >= FEWEST_HOSTS);
    let mut faults: Vec<Fault> = Vec::new();
    for ((pool, rail), its) in rails.into_iter().take(MAX_RAILS) {
        // What has little to send is no measure: it is alone on its wire.
        let is_other =
            |way: &Judged<'_>| way.pool == pool && way.rail() != Some(&rail) && way.busy.load >= BUSY;
        let others: Vec<usize> =
            (0..judged.len()).filter(|at| judged.get(*at).is_some_and(is_other)).collect();
        let busy_others = others.iter().filter_map(|at| judged.get(*at)).map(|way| way.busy);
        let usual = Usual::of(busy_others);
        let slower = |all: &[usize], times: f64| -> Vec<usize> {
            let is_slower = |at: &usize| judged.get(*at).is_some_and(|way| way.is_slow_on_wire(usual, times));
            all.iter().copied().filter(is_slower).collect()
        };
        let share = |some: &[usize], all: &[usize]| real(some.len() as u64) / real(all.len() as u64);
        let slow = slower(&its, ANY_SLOWER);
        let is_whole = others.len() >= FEWEST_HOSTS
            && share(&slow, &its) >= NEARLY_ALL
            && share(&slower(&its, RAIL_SLOWER), &its) > 0.5
            && share(&slower(&others, RAIL_SLOWER), &others) <= 1.0 - NEARLY_ALL
            && n_senders(judged, &slow) >= FEWEST_HOSTS;
        if is_whole && !is_built_slower(judged, (&its, &others), nics) {
            faults.extend(take(judged, &slow, Subject::Rail(rail), |_| usual));
        }
    }
    faults
}

/// Whether the NICs of a rail have a lower rate than those of others: then it is no slower than it can be.
fn is_built_slower(judged: &[Judged<'_>], (its, others): (&[usize], &[usize]), nics: &dyn Nics) -> bool {
    let rates = |all: &[usize]| {
        let from = all.iter().filter_map(|at| Some(&judged.get(*at)?.busy.from));
        let rates = from.flat_map(|end| end.nics.iter().filter_map(|nic| nics.rate(&end.host, nic)));
        let mut rates: Vec<u64> = rates.collect();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied()
    };
    rates(its).zip(rates(others)).is_some_and(|(its, theirs)| its < theirs)
}

/// Slow ways at an end of which a NIC says what is wrong with it: all that go through the one with the most.
fn ailing(judged: &mut [Judged<'_>], nics: &dyn Nics) -> Option<Fault> {
    let mut by_nic: BTreeMap<(Name, Name), (Ail, Vec<usize>)> = BTreeMap::new();
    for (at, way) in judged.iter().enumerate().filter(|(_, way)| way.is_slow() && !way.told) {
        for end in [&way.busy.from, &way.busy.to] {
            for (nic, ail) in end.nics.iter().filter_map(|nic| Some((nic, nics.ail(&end.host, nic)?))) {
                let (_, ways) =
                    by_nic.entry((end.host.clone(), nic.clone())).or_insert_with(|| (ail, Vec::new()));
                ways.push(at);
            }
        }
    }
    let ((host, nic), (ail, ways)) = by_nic.into_iter().max_by_key(|(_, (_, ways))| ways.len())?;
    let fault = take(judged, &ways, Subject::Nic { host, nics: vec![nic] }, |way| way.among_own)?;
    Some(Fault { ail: Some(ail), ..fault })
}

/// The NICs of a host with the most slow ways, of which all that go out, or come in, or both, are slow. Two hosts of which each could
/// be it are none.
fn through_one_host(judged: &mut [Judged<'_>]) -> Option<Fault> {
    // Of a host all its NICs together, and those that ways go through.
    let mut suspects: BTreeSet<Suspect> = BTreeSet::new();
    let mut by_host: BTreeMap<&Name, Vec<(usize, &Judged<'_>)>> = BTreeMap::new();
    for (at, way) in judged.iter().enumerate() {
        for end in [&way.busy.from, &way.busy.to] {
            by_host.entry(&end.host).or_default().push((at, way));
            if way.is_slow() && !way.told {
                suspects.extend([(end.host.clone(), None), (end.host.clone(), Some(end.nics.clone()))]);
            }
        }
    }
    let mut found: Vec<(Vec<usize>, Suspect)> = Vec::new();
    for (host, nics) in suspects {
        let is_its = |end: &End| end.host == host && nics.as_ref().is_none_or(|nics| end.nics == *nics);
        let ways = |end: fn(&Busy) -> &End| -> Vec<usize> {
            let of_host = by_host.get(&host).into_iter().flatten();
            of_host.filter(|(_, way)| is_its(end(way.busy))).map(|(at, _)| *at).collect()
        };
        let (out, into) = (ways(|busy| &busy.from), ways(|busy| &busy.to));
        let all_slow = |ways: &&Vec<usize>| {
            ways.len() >= FEWEST_THROUGH
                && ways.iter().all(|at| judged.get(*at).is_some_and(|way| way.is_slow() && !way.told))
        };
        let both: Vec<usize> = out.iter().chain(&into).copied().collect();
        if let Some(ways) = [&both, &out, &into].into_iter().find(all_slow) {
            found.push((ways.clone(), (host, nics)));
        }
    }
    // Of as many the one with a name comes last.
    found.sort_by_key(|(ways, (_, nics))| (ways.len(), nics.as_ref().is_some_and(|nics| !nics.is_empty())));
    let (ways, (host, nics)) = found.pop()?;
    let is_rival = |(others, (other, _)): &(Vec<usize>, Suspect)| {
        *other != host && others.len() == ways.len() && others.iter().any(|at| ways.contains(at))
    };
    if found.iter().any(is_rival) {
        return None;
    }
    let nics = nics.unwrap_or_else(|| all_nics(judged, &ways, &host));
    take(judged, &ways, Subject::Nic { host, nics }, |way| way.among_own)
}

/// By which NICs of a host these ways go.
fn all_nics(judged: &[Judged<'_>], ways: &[usize], host: &Name) -> Vec<Name> {
    let ends = ways.iter().filter_map(|at| judged.get(*at)).flat_map(|way| [&way.busy.from, &way.busy.to]);
    let its: BTreeSet<Name> = ends.filter(|end| end.host == *host).flat_map(|end| end.nics.clone()).collect();
    its.into_iter().collect()
}

/// Rails of a communicator of which at least half of the ways are slow, and that from several hosts.
fn large_parts_of_rails(judged: &mut [Judged<'_>]) -> Vec<Fault> {
    let mut rails: BTreeMap<(usize, Name), (usize, Vec<usize>)> = BTreeMap::new();
    for (at, way) in judged.iter().enumerate() {
        if let Some(rail) = way.rail() {
            let (n, slow) = rails.entry((way.comm, rail.clone())).or_default();
            *n += 1;
            if way.is_slow() && !way.told {
                slow.push(at);
            }
        }
    }
    let mut faults: Vec<Fault> = Vec::new();
    for ((_, rail), (n, slow)) in rails {
        if slow.len() * 2 >= n && n_senders(judged, &slow) >= FEWEST_HOSTS {
            faults.extend(take(judged, &slow, Subject::Rail(rail), |way| way.among_own));
        }
    }
    faults
}

/// What is left: at most a quarter of a communicator's.
fn links(judged: &[Judged<'_>]) -> Vec<Fault> {
    let is_left = |way: &&Judged<'_>| way.is_slow() && !way.told;
    let mut by_comm: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for way in judged {
        let (n_left, n) = by_comm.entry(way.comm).or_default();
        *n_left += usize::from(is_left(&way));
        *n += 1;
    }
    let are_few = |comm: usize| by_comm.get(&comm).is_some_and(|(n_left, n)| *n_left <= n / 4);
    let told = judged.iter().filter(is_left).filter(|way| are_few(way.comm)).filter_map(|way| {
        let subject = Subject::Link(way.busy.way.clone());
        Some(Fault { subject, ways: vec![way.slow_way(way.among_own)?], ail: None })
    });
    told.collect()
}

fn n_senders(judged: &[Judged<'_>], ways: &[usize]) -> usize {
    let hosts = ways.iter().filter_map(|at| Some(&judged.get(*at)?.busy.from.host));
    hosts.collect::<BTreeSet<_>>().len()
}

/// A fault of these ways, which are told of with it.
fn take(
    judged: &mut [Judged<'_>],
    places: &[usize],
    subject: Subject,
    usual: impl Fn(&Judged<'_>) -> Option<Usual>,
) -> Option<Fault> {
    let mut ways: Vec<SlowWay> = Vec::new();
    for at in places {
        if let Some(way) = judged.get_mut(*at) {
            way.told = true;
            ways.extend(way.slow_way(usual(way)));
        }
    }
    ways.sort_by(|one, other| {
        let (one, other) = (&one.busy, &other.busy);
        let by_time = other.wire_ns.total_cmp(&one.wire_ns);
        by_time.then_with(|| (&one.from.host, one.way.from).cmp(&(&other.from.host, other.way.from)))
    });
    (!ways.is_empty()).then_some(Fault { subject, ways, ail: None })
}

/// With fewer ways there is nothing to compare with.
const FEWEST_WAYS: usize = 4;
/// So many times as long for a byte: those that wait for a slow one are quicker than ever, so the difference is larger than that of
/// the links.
const MUCH_SLOWER: f64 = 2.0;
/// Those that wait for a slow one are so quick that one which waits less, the next one in the ring, looks slow beside them.
const NEAR: f64 = 0.5;
/// Nobody on a slow rail waits for another one on it, so nobody is quicker than its link. What most of many say is no chance.
const RAIL_SLOWER: f64 = 1.6;
/// In the few operations of a look a way of a rail at half its rate was seen to take 1.4 to 2.2 times as long, of one at its full rate 0.8 to
/// 1.3 times.
const ANY_SLOWER: f64 = 1.3;
/// A link that has nothing to send for most of the time holds nobody up, however slow it is.
const BUSY: f64 = 0.4;
/// Slow ways that make a NIC's fault of it where it says nothing itself: of one way nobody knows at which end it is slow.
const FEWEST_THROUGH: usize = 2;
/// Hosts that send over slow ways of a rail: two may be one NIC's ways.
const FEWEST_HOSTS: usize = 3;
/// Rails that are looked at.
const MAX_RAILS: usize = 64;
/// NICs that one look tells of.
const MAX_NICS: usize = 32;
/// Share of a rail's ways that are nearly all.
const NEARLY_ALL: f64 = 0.8;

#[cfg(test)]
mod tests;
