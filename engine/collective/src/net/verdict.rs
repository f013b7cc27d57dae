//! Who is to blame when nothing moves: rank 0 follows what each rank waits for to the rank or the connection at which
//! the waiting begins. Pure: accounts in, a sentence out.

use std::collections::{BTreeMap, BTreeSet};

use crate::net::account::{Account, EndState, Stuck};
use crate::net::calls::Call;

/// Ranks named in a message at most.
const NAMED_RANKS: usize = 16;

/// What a function is called, by NCCL's number of it.
pub(crate) type NameOf = fn(u32) -> &'static str;

/// What rank 0 knows of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its latest account.
    Here(Account),
    /// It has left the communicator.
    Left,
}

/// Why nothing has moved for `timeout_ms` somewhere; nothing while every chain of waiting ends at a rank that moves.
pub(crate) fn verdict(ranks: &[Known], names: &[String], timeout_ms: u64) -> Option<String> {
    let case = Case { ranks, names, timeout_ms };
    let first = (0..ranks.len()).find(|rank| case.stuck(*rank).is_some())?;
    let reached = case.reached(first);
    let moves = |rank: &usize| case.is_busy(*rank) && case.stuck(*rank).is_none();
    if reached.iter().any(moves) {
        return None;
    }
    let absent: Vec<usize> = reached.iter().copied().filter(|rank| case.stuck(*rank).is_none()).collect();
    if !absent.is_empty() {
        return Some(case.absence(first, &absent));
    }
    Some(case.broken_connection(&reached).unwrap_or_else(|| case.circle(&reached)))
}

/// How calls of one name can differ.
pub(crate) const OTHER_CALL: &str = "with another count, data type, operator, root or algorithm";

/// Calls that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Who called what, and what the others called.
    pub(crate) what: String,
    /// The number of the calls among the collectives of the communicator.
    pub(crate) number: u64,
    /// As many ranks made the other call: who is named may be the wrong one, while some have not said what they called.
    pub(crate) is_tie: bool,
}

/// Ranks that stand in collectives of one number which are not the same: they cannot meet, so nobody needs to wait. Those
/// who called what fewer ranks called are named; of as many, those that come later. `how` says how calls of the same name may
/// differ.
pub(crate) fn mismatch(ranks: &[Known], names: &[String], how: &str) -> Option<Mismatch> {
    let mut calls: Vec<(&Stuck, Vec<usize>)> = Vec::new();
    for (rank, stuck) in ranks.iter().enumerate().filter_map(|(rank, known)| Some((rank, collective(known)?)))
    {
        match calls.iter_mut().find(|(other, _)| is_same(other, stuck)) {
            Some((_, callers)) => callers.push(rank),
            None => calls.push((stuck, vec![rank])),
        }
    }
    // Who is at another number has come from where all were alike, or will come to it.
    let at =
        |number| calls.iter().filter(|(stuck, _)| stuck.collective == number).map(|(_, who)| who.len()).sum();
    let number =
        calls.iter().map(|(stuck, _)| stuck.collective).max_by_key(|number| -> usize { at(*number) })?;
    calls.retain(|(stuck, _)| stuck.collective == number);
    let calls = calls.into_iter().map(|(stuck, who)| (stuck.operation.clone(), who)).collect();
    rare_one(number?, calls, names, how)
}

/// The same by what ranks have called last, where they have told that: the first number at which their calls differ, though
/// some of them may be past it. All that comes after follows from that.
pub(crate) fn first_mismatch(ranks: &[Known], names: &[String], name_of: NameOf) -> Option<Mismatch> {
    let mut by_number: BTreeMap<u64, Vec<(Call, Vec<usize>)>> = BTreeMap::new();
    for (rank, call) in
        ranks.iter().enumerate().flat_map(|(rank, one)| one.calls().map(move |call| (rank, call)))
    {
        let calls = by_number.entry(call.number).or_default();
        match calls.iter_mut().find(|(other, _)| other == call) {
            Some((_, callers)) => callers.push(rank),
            None => calls.push((*call, vec![rank])),
        }
    }
    let (number, calls) = by_number.into_iter().find(|(_, calls)| calls.len() > 1)?;
    let label = |call: Call| format!("{} #{number}", name_of(call.function));
    rare_one(number, calls.into_iter().map(|(call, who)| (label(call), who)).collect(), names, OTHER_CALL)
}

/// Whether nothing more is to come from anybody about the calls with this number: each rank stands in that call or a later
/// one, or has said that it is past it. Who is still in an earlier one is yet to come. Without a number, whether all stand.
pub(crate) fn is_told(ranks: &[Known], number: Option<u64>) -> bool {
    let is_there = |at: u64| number.is_none_or(|number| at >= number);
    ranks.iter().all(|known| match known {
        Known::Here(account) => {
            let stands = account.stuck.as_ref().is_some_and(|stuck| stuck.collective.is_none_or(is_there));
            stands || number.is_some() && known.calls().any(|call| is_there(call.number))
        }
        Known::Left => true,
    })
}

/// Of calls with one number, and who made them: the one that is named.
fn rare_one(
    number: u64,
    mut calls: Vec<(String, Vec<usize>)>,
    names: &[String],
    how: &str,
) -> Option<Mismatch> {
    calls.sort_by_key(|(_, callers)| (std::cmp::Reverse(callers.len()), callers.first().copied()));
    let [(usual, most), (theirs, few), ..] = &calls[..] else { return None };
    let all = |callers: &[usize]| name_all(names, callers);
    let is_tie = few.len() == most.len();
    let (few, most) = (all(few), all(most));
    let what = if theirs == usual {
        format!("{few} called {theirs} {how} than {most}")
    } else {
        format!("{few} called {theirs} instead of {usual} as {most}")
    };
    Some(Mismatch { what, number, is_tie })
}

impl Known {
    fn calls(&self) -> impl Iterator<Item = &Call> {
        let calls = match self {
            Self::Here(account) => &account.calls[..],
            Self::Left => &[],
        };
        calls.iter()
    }
}

/// The collective that a rank stands in.
fn collective(known: &Known) -> Option<&Stuck> {
    match known {
        Known::Here(account) => account.stuck.as_ref().filter(|stuck| stuck.collective.is_some()),
        Known::Left => None,
    }
}

fn is_same(one: &Stuck, other: &Stuck) -> bool {
    (one.collective, one.signature, &one.operation) == (other.collective, other.signature, &other.operation)
}

fn name_all(names: &[String], ranks: &[usize]) -> String {
    let shown: Vec<&str> =
        ranks.iter().take(NAMED_RANKS).filter_map(|rank| names.get(*rank)).map(String::as_str).collect();
    let more = ranks.len().saturating_sub(shown.len());
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{others}", shown.join(" and "))
}

/// Ranks have waited so long for one that has left, which will not come: no limit on stalls is needed to say so.
pub(crate) fn abandoned(ranks: &[Known], names: &[String], still_ms: u64) -> Option<String> {
    let case = Case { ranks, names, timeout_ms: still_ms };
    let waits = |rank: &usize| case.stuck(*rank).is_some();
    let first = (0..ranks.len()).find(waits)?;
    let is_left = |rank: &usize| ranks.get(*rank) == Some(&Known::Left);
    case.reached(first).iter().any(is_left).then(|| verdict(ranks, names, still_ms)).flatten()
}

struct Case<'a> {
    ranks: &'a [Known],
    names: &'a [String],
    timeout_ms: u64,
}

impl<'a> Case<'a> {
    fn account(&self, rank: usize) -> Option<&'a Account> {
        match self.ranks.get(rank) {
            Some(Known::Here(account)) => Some(account),
            _ => None,
        }
    }

    /// In what a rank has been stuck for the timeout.
    fn stuck(&self, rank: usize) -> Option<&'a Stuck> {
        let stuck = self.account(rank)?.stuck.as_ref();
        stuck.filter(|stuck| stuck.still_ms >= self.timeout_ms)
    }

    fn is_busy(&self, rank: usize) -> bool {
        self.account(rank).is_some_and(|account| account.busy)
    }

    fn waits(&self, rank: usize) -> impl Iterator<Item = &'a EndState> {
        let ends = self.stuck(rank).map_or(&[][..], |stuck| &stuck.ends);
        ends.iter().filter(|end| end.waits)
    }

    /// All ranks that `first` waits for, through others too, and itself.
    fn reached(&self, first: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([first]);
        let mut open = vec![first];
        while let Some(rank) = open.pop() {
            open.extend(self.waits(rank).map(|end| end.peer).filter(|peer| reached.insert(*peer)));
        }
        reached
    }

    fn absence(&self, first: usize, absent: &[usize]) -> String {
        let Some(stuck) = self.stuck(first) else { return String::new() };
        let operation = &stuck.operation;
        let not_issued = |rank: &&usize| {
            let issued = self.account(**rank).map(|account| account.issued);
            issued.zip(stuck.collective).is_some_and(|(issued, wanted)| issued <= wanted)
        };
        let late: Vec<usize> = absent.iter().filter(not_issued).copied().collect();
        let (who, what) = if !late.is_empty() {
            (late, format!("has not called {operation}"))
        } else if absent.iter().any(|rank| self.ranks.get(*rank) == Some(&Known::Left)) {
            (absent.to_vec(), "has left the communicator".to_owned())
        } else {
            (absent.to_vec(), "is in no operation that moves".to_owned())
        };
        let waiting = (0..self.ranks.len()).filter(|rank| self.stuck(*rank).is_some()).collect::<Vec<_>>();
        format!("{} {what}: {} {}", name_all(self.names, &who), numbers(&waiting), waited(stuck))
    }

    /// A connection into which more went than came out, or at both of whose ends ranks wait.
    fn broken_connection(&self, reached: &BTreeSet<usize>) -> Option<String> {
        let found = reached.iter().find_map(|to| {
            let lost = self.waits(*to).find(|end| !end.is_send && self.lost(*to, end));
            lost.map(|end| (end.peer, *to, end.channel))
        });
        let (from, to, channel) = found?;
        Some(format!(
            "nothing gets from {} to {} on channel {channel}: {} {}",
            self.names[from],
            self.names[to],
            numbers(&[to]),
            waited(self.stuck(to)?)
        ))
    }

    fn lost(&self, to: usize, end: &EndState) -> bool {
        let same = |other: &&EndState| (other.is_send, other.peer, other.channel) == (true, to, end.channel);
        let other = self.stuck(end.peer).and_then(|stuck| stuck.ends.iter().find(same));
        other.is_some_and(|other| other.waits || other.parts > end.parts)
    }

    fn circle(&self, reached: &BTreeSet<usize>) -> String {
        let one = |rank: &usize| {
            let stuck = self.stuck(*rank)?;
            let peers: BTreeSet<usize> = self.waits(*rank).map(|end| end.peer).collect();
            let peers: Vec<usize> = peers.into_iter().collect();
            Some(format!("{} in {} for {}", self.names.get(*rank)?, stuck.operation, numbers(&peers)))
        };
        let each: Vec<String> = reached.iter().filter_map(one).take(NAMED_RANKS).collect();
        format!("ranks wait for each other: {}", each.join("; "))
    }
}

fn waited(stuck: &Stuck) -> String {
    format!("waited in {} for {:.1} s", stuck.operation, stuck.still_ms as f64 / 1000.0)
}

/// `rank 0, 2, 3`
fn numbers(ranks: &[usize]) -> String {
    let shown: Vec<String> = ranks.iter().take(NAMED_RANKS).map(usize::to_string).collect();
    let more = if ranks.len() > NAMED_RANKS { ", …" } else { "" };
    format!("rank {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(peer: usize, is_send: bool, waits: bool, parts: u64) -> EndState {
        EndState { channel: 1, peer, is_send, waits, parts }
    }

    fn stuck(still_ms: u64, ends: Vec<EndState>) -> Known {
        let stuck = Stuck {
            operation: "all_reduce #7".to_owned(),
            collective: Some(7),
            signature: 1,
            still_ms,
            ends,
        };
        Known::Here(Account { issued: 8, stuck: Some(stuck), busy: true, ..Account::default() })
    }

    fn idle(issued: u64) -> Known {
        Known::Here(Account { issued, ..Account::default() })
    }

    fn say(ranks: &[Known]) -> Option<String> {
        let names: Vec<String> = (0..ranks.len()).map(|rank| format!("rank {rank} (host)")).collect();
        verdict(ranks, &names, 2000)
    }

    #[test]
    fn the_late_rank_is_named_and_not_the_neighbour() {
        // 0 waits for 1, and 1 for 2, which has not called.
        let ranks =
            [stuck(2000, vec![end(1, false, true, 3)]), stuck(2500, vec![end(2, false, true, 3)]), idle(7)];
        let text = say(&ranks).unwrap();
        assert_eq!(
            text,
            "rank 2 (host) has not called all_reduce #7: rank 0, 1 waited in all_reduce #7 for 2.0 s"
        );
    }

    #[test]
    fn who_moves_is_waited_for() {
        let waiting = stuck(3000, vec![end(1, false, true, 3)]);
        assert_eq!(say(&[waiting.clone(), stuck(100, vec![end(0, true, true, 3)])]), None);
        let moving = Known::Here(Account { issued: 8, busy: true, ..Account::default() });
        assert_eq!(say(&[waiting, moving]), None);
    }

    #[test]
    fn before_the_timeout_nobody_is_blamed() {
        assert_eq!(say(&[stuck(1999, vec![end(1, false, true, 3)]), idle(7)]), None);
    }

    #[test]
    fn a_connection_that_swallows_is_named() {
        let ranks = [
            stuck(2000, vec![end(1, true, false, 9), end(1, false, true, 4)]),
            stuck(2000, vec![end(0, false, true, 8), end(0, true, false, 4)]),
        ];
        let text = say(&ranks).unwrap();
        assert!(
            text.starts_with("nothing gets from rank 0 (host) to rank 1 (host) on channel 1: "),
            "{text}"
        );
    }

    #[test]
    fn a_connection_that_is_full_and_empty_at_once_is_named() {
        let ranks = [stuck(2000, vec![end(1, true, true, 8)]), stuck(2000, vec![end(0, false, true, 8)])];
        assert!(say(&ranks).unwrap().contains("nothing gets from rank 0 (host) to rank 1 (host)"));
    }

    #[test]
    fn who_wait_for_each_other_are_all_named() {
        let ranks = [stuck(2000, vec![end(1, false, true, 8)]), stuck(2000, vec![end(0, false, true, 8)])];
        let text = say(&ranks).unwrap();
        assert_eq!(
            text,
            "ranks wait for each other: rank 0 (host) in all_reduce #7 for rank 1; rank 1 (host) in all_reduce #7 for rank 0"
        );
    }

    #[test]
    fn different_calls_need_no_timeout() {
        let with = |operation: &str, signature| {
            let stuck =
                Stuck { operation: operation.to_owned(), collective: Some(7), signature, ..Stuck::default() };
            Known::Here(Account { issued: 8, stuck: Some(stuck), busy: true, ..Account::default() })
        };
        let names = ["a".to_owned(), "b".to_owned()];
        let said =
            |other| mismatch(&[with("all_reduce #7", 1), other], &names, OTHER_CALL).map(|found| found.what);
        assert_eq!(
            said(with("all_gather #7", 2)).unwrap(),
            "b called all_gather #7 instead of all_reduce #7 as a"
        );
        assert!(said(with("all_reduce #7", 2)).unwrap().contains("another count"));
        assert_eq!(said(with("all_reduce #7", 1)), None);
        assert_eq!(said(idle(7)), None);
    }

    #[test]
    fn of_many_calls_the_rare_one_is_named() {
        let at = |number, signature| {
            let operation = format!("all_reduce #{number}");
            let stuck = Stuck { operation, collective: Some(number), signature, ..Stuck::default() };
            Known::Here(Account { issued: 8, stuck: Some(stuck), busy: true, ..Account::default() })
        };
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let said = |ranks: [Known; 4], what: &str, is_tie| {
            let found = mismatch(&ranks, &names, "otherwise").unwrap();
            assert_eq!(found, Mismatch { what: what.to_owned(), number: 7, is_tie });
        };
        said([at(7, 2), at(7, 1), idle(7), at(7, 1)], "a called all_reduce #7 otherwise than b and d", false);
        said(
            [at(7, 1), at(7, 1), at(7, 2), at(6, 3)],
            "c called all_reduce #7 otherwise than a and b",
            false,
        );
        said(
            [at(7, 1), at(7, 2), at(7, 2), at(7, 1)],
            "b and c called all_reduce #7 otherwise than a and d",
            true,
        );
    }

    #[test]
    fn who_has_left_is_not_waited_for() {
        let names = ["a".to_owned(), "b".to_owned()];
        let waits = || stuck(2000, vec![end(1, false, true, 8)]);
        assert!(abandoned(&[waits(), Known::Left], &names, 2000).unwrap().starts_with("b has left"));
        assert_eq!(abandoned(&[waits(), Known::Left], &names, 2001), None);
        assert_eq!(abandoned(&[waits(), idle(7)], &names, 2000), None, "who may still come is waited for");
    }

    #[test]
    fn who_is_past_its_other_call_is_named() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let call = |number, function| Call { number, function, signature: 1 };
        let name_of = |code| if code == 0 { "broadcast" } else { "all_reduce" };
        let past = |calls: &[Call]| Known::Here(Account { calls: calls.to_vec(), ..Account::default() });
        // "a" was the root of a broadcast, and has gone on to the call after it.
        let ranks = [
            past(&[call(6, 4), call(7, 0), call(8, 4)]),
            past(&[call(6, 4), call(7, 4)]),
            past(&[call(6, 4), call(7, 4)]),
        ];
        let said = first_mismatch(&ranks, &names, name_of);
        assert_eq!(said.unwrap().what, "a called broadcast #7 instead of all_reduce #7 as b and c");
        assert_eq!(
            first_mismatch(&[past(&[call(7, 4)]), past(&[call(8, 4)]), Known::Left], &names, name_of),
            None
        );
    }

    #[test]
    fn who_is_past_what_is_disputed_has_told() {
        let past = |number| {
            let calls = vec![Call { number, function: 4, signature: 1 }];
            Known::Here(Account { calls, ..Account::default() })
        };
        let stands = |number| match stuck(0, vec![]) {
            Known::Here(Account { stuck: Some(in_it), .. }) => {
                let in_it = Stuck { collective: Some(number), ..in_it };
                Known::Here(Account { stuck: Some(in_it), ..Account::default() })
            }
            other => other,
        };
        assert!(is_told(&[stands(7), past(7), Known::Left], Some(7)));
        assert!(is_told(&[stands(8), past(8)], Some(7)));
        assert!(!is_told(&[stands(7), past(6)], Some(7)));
        assert!(
            !is_told(&[stands(7), stands(7), stands(6)], Some(7)),
            "who is on its way to the call is waited for"
        );
        assert!(is_told(&[stands(7), stands(6)], None));
        assert!(!is_told(&[past(7), past(7)], None));
    }

    #[test]
    fn who_has_left_is_named() {
        let text = say(&[stuck(2000, vec![end(1, false, true, 8)]), Known::Left]).unwrap();
        assert!(text.starts_with("rank 1 (host) has left the communicator"), "{text}");
    }
}
