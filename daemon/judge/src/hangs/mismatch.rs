//! Ranks that made different calls: the first one in which they differ, and how. The fewer are odd. Also while nothing
//! hangs, for wrong results are worse than none.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_wire::Primitive;

use super::case::Case;
use super::hashes::{Differ, can_be_asked};
use super::places::Place;
use super::scene::{Member, Operation, Signature};
use super::sight::{is_called, lives};
use super::verdict::{Ask, Judgement, Question};
use super::words;

/// A call of which ranks gave different signatures.
struct Parting {
    number: u64,
    /// Places in the members, by what they called.
    by_signature: BTreeMap<Signature, Vec<u32>>,
}

/// Looks at the calls of a communicator that are known. Returns whether ranks differ.
pub(super) fn judge(case: &mut Case<'_, '_, '_>, communicator: u32) -> bool {
    if case.found.iter().any(|found| is_of(&found.judgement, communicator)) || is_over(case, communicator) {
        return true;
    }
    let Some(parting) = first_parting(case, communicator) else { return false };
    let Some((most, usual)) = parting
        .by_signature
        .iter()
        .max_by_key(|(_, places)| (places.len(), std::cmp::Reverse(places.first())))
    else {
        return false;
    };
    let members = &case.sight.communicator(communicator).members;
    let odd: Vec<(u32, Signature)> = parting
        .by_signature
        .iter()
        .filter(|(signature, _)| *signature != most)
        .flat_map(|(signature, places)| places.iter().map(|place| (*place, *signature)))
        .collect();
    let Some((_, first)) = odd.first().copied() else { return false };
    let (cause, how) = words::difference(&first, most);
    // Where as many did one thing as another, nobody is known to be right.
    let even = parting.by_signature.values().filter(|places| places.len() == usual.len()).count() > 1;
    if even && ask_others(case, communicator, &parting) {
        return true;
    }
    let also = usual.iter().map(|place| (*place, *most)).filter(|_| even);
    let culprits: Vec<(u32, Option<u32>, String)> = odd
        .iter()
        .copied()
        .chain(also)
        .map(|(place, signature)| {
            let member = &members[place as usize];
            (member.process, Some(member.rank), format!("called {}", words::signature(&signature)))
        })
        .collect();
    let alike: Vec<(u32, Option<u32>, String)> = odd
        .iter()
        .filter(|(_, signature)| *signature == first)
        .map(|(place, _)| {
            (members[*place as usize].process, Some(members[*place as usize].rank), String::new())
        })
        .collect();
    let mut judgement = draft(case, communicator, &culprits, parting.number);
    judgement.cause = cause;
    judgement.began_at = began(case, communicator, parting.number);
    let others = match usual.len() {
        1 => words::ranks(&[members[usual[0] as usize].rank]),
        n => format!("{n} others"),
    };
    judgement.message = format!(
        "{} called {} as #{} of {}, {others} {} ({how}){}{}",
        words::names(case.sight, &alike),
        words::signature(&first),
        parting.number,
        words::comm(case.sight.communicator(communicator)),
        words::signature(most),
        if even { "; as many did the one as the other, so either may be wrong" } else { "" },
        words::cost(judgement.victims.len(), judgement.began_at)
    );
    let example = |signature: &Signature, places: &[u32]| {
        let ranks: Vec<u32> = places.iter().map(|place| members[*place as usize].rank).collect();
        format!("{}: {}", words::ranks(&ranks), words::signature(signature))
    };
    let lines = parting.by_signature.iter().map(|(signature, places)| example(signature, places)).take(LINES);
    judgement.details.push(Detail { title: format!("Call #{}", parting.number), lines: lines.collect() });
    for place in odd.iter().map(|(place, _)| *place).take(1).chain(usual.first().copied()) {
        judgement.details.extend(last_calls(case, &members[place as usize]));
    }
    case.tell(judgement, true).number = Some(parting.number);
    true
}

/// Asks some of those who have made the call too and of whom it is not known any more what they called: they say which is
/// the odd one. Returns whether an answer may still come.
fn ask_others(case: &mut Case<'_, '_, '_>, communicator: u32, parting: &Parting) -> bool {
    let number = parting.number;
    let began = began(case, communicator, number);
    if began.is_none_or(|began| case.sight.scene.now.since(began) > ANSWERED_WITHIN) {
        return false;
    }
    let is_known = |place: &u32| parting.by_signature.values().any(|places| places.contains(place));
    let members = (0..).zip(&case.sight.communicator(communicator).members);
    let others = members.filter(|(place, _)| !is_known(place)).map(|(_, member)| member);
    let has_made = |member: &&Member<'_>| case.sight.calls_made(member).is_some_and(|made| made > number);
    let what = Question::Recall { communicator, first: number, last: number };
    let asks = others.filter(has_made).filter(|member| can_be_asked(case.sight.process(member.process).life));
    let asks: Vec<Ask> =
        asks.take(PASSED_ASKED).map(|member| Ask { process: member.process, what }).collect();
    let is_asked = !asks.is_empty();
    case.asks.extend(asks);
    is_asked
}

/// Whether all its processes have ended: what they called is over with them.
fn is_over(case: &Case<'_, '_, '_>, communicator: u32) -> bool {
    let members = &case.sight.communicator(communicator).members;
    !members.iter().any(|member| lives(case.sight.process(member.process).life))
}

fn is_of(judgement: &Judgement, communicator: u32) -> bool {
    judgement.kind == FindingKind::CallMismatch && judgement.communicator == Some(communicator)
}

/// The hashes differ, so the calls do: shows which where it is known, else between which numbers, and asks.
pub(super) fn by_hash(case: &mut Case<'_, '_, '_>, differ: &Differ) {
    if judge(case, differ.communicator) {
        return;
    }
    let members = &case.sight.communicator(differ.communicator).members;
    let even = differ.odd.len() == differ.most.len();
    let what = if even { "has made other calls than others" } else { "has made other calls than most" };
    let accused = |place: &u32| {
        let member = &members[*place as usize];
        (member.process, Some(member.rank), what.to_owned())
    };
    let odd: Vec<(u32, Option<u32>, String)> = differ.odd.iter().map(accused).collect();
    let culprits: Vec<(u32, Option<u32>, String)> =
        differ.odd.iter().chain(differ.most.iter().filter(|_| even)).map(accused).collect();
    let mut judgement = draft(case, differ.communicator, &culprits, differ.differ);
    judgement.cause = "hash";
    judgement.message = format!(
        "{} made other calls than {} between #{} and #{} of {}; which one is not known any more, and results since then cannot \
         be trusted{}{}",
        words::names(case.sight, &odd),
        match differ.most.as_slice() {
            [one] => words::ranks(&[members[*one as usize].rank]),
            many => format!("{} others", many.len()),
        },
        differ.agree,
        differ.differ.saturating_sub(1),
        words::comm(case.sight.communicator(differ.communicator)),
        if even { "; as many did the one as the other, so either may be wrong" } else { "" },
        words::cost(judgement.victims.len(), judgement.began_at)
    );
    let last = differ.differ.saturating_sub(1).min(differ.agree.saturating_add(ASKED - 1));
    let what = Question::Recall { communicator: differ.communicator, first: differ.agree, last };
    for place in differ.odd.iter().take(1).chain(differ.most.iter().take(1)) {
        let process = members[*place as usize].process;
        if can_be_asked(case.sight.process(process).life) {
            case.asks.push(Ask { process, what });
        }
    }
    case.tell(judgement, true).number = Some(differ.agree);
}

/// Some do not get out of a call that others have completed: what they called before may differ, so both are asked.
pub(super) fn ask_before(case: &mut Case<'_, '_, '_>, place: u32) {
    let passed = case.passed(place);
    let Place::Collective { communicator, number } = case.node(place).place else { return };
    if passed.is_empty() {
        return;
    }
    let what = Question::Recall { communicator, first: number.saturating_sub(ASKED - 1), last: number };
    let inside = case.node(place).waiters.iter().map(|waiter| waiter.process).take(INSIDE_ASKED);
    // Of those who have passed so many more that they are the most.
    let passed = passed.iter().map(|at| case.sight.member(communicator, *at).process).take(PASSED_ASKED);
    let asked: Vec<u32> = inside.chain(passed).collect();
    for process in asked {
        if can_be_asked(case.sight.process(process).life) {
            case.asks.push(Ask { process, what });
        }
    }
}

fn draft(
    case: &mut Case<'_, '_, '_>,
    communicator: u32,
    culprits: &[(u32, Option<u32>, String)],
    number: u64,
) -> Judgement {
    let mut judgement = case.blank(FindingKind::CallMismatch, Some(communicator));
    case.accuse(&mut judgement, culprits);
    judgement.severity = Severity::Critical;
    // One finding for each communicator: what follows the first difference follows from it.
    judgement.key = "calls".to_owned();
    let in_wait = |place: Place| matches!(place, Place::Collective { communicator: of, number: at } if of == communicator && at >= number);
    let nodes = case.graph.places_where(in_wait);
    judgement.victims = case.graph.victims(&nodes, &judgement.culprits);
    judgement.advice = "Stop the job and go back to a checkpoint from before: results since then may be wrong. See which way \
         through the program this rank took before that call: a condition on its own data, another configuration, or other \
         code."
        .to_owned();
    case.warnings(communicator, &mut judgement);
    judgement
}

/// The first numbered call in which ranks gave different signatures.
fn first_parting(case: &Case<'_, '_, '_>, communicator: u32) -> Option<Parting> {
    let members = &case.sight.communicator(communicator).members;
    let mut usual: HashMap<u64, (Signature, (u64, u64))> = HashMap::new();
    let mut differing: Option<u64> = None;
    let mut calls: Vec<Vec<Call>> = members.iter().map(|member| calls_of(case, member)).collect();
    if calls.iter().flatten().any(|call| reduces(call.signature.primitive) && call.signature.op.is_none()) {
        // A reduction that one rank does not tell is no difference.
        calls.iter_mut().flatten().for_each(|call| call.signature.op = None);
    }
    for call in calls.iter().flatten() {
        let (signature, run) = *usual.entry(call.number).or_insert((call.signature, call.run));
        if signature != call.signature && run == call.run && differing.is_none_or(|known| call.number < known)
        {
            differing = Some(call.number);
        }
    }
    let number = differing?;
    let mut by_signature: BTreeMap<Signature, Vec<u32>> = BTreeMap::new();
    for (calls, place) in calls.iter().zip(0_u32..) {
        if let Some(call) = calls.iter().find(|call| call.number == number) {
            by_signature.entry(call.signature).or_default().push(place);
        }
    }
    Some(Parting { number, by_signature })
}

/// A numbered call. Within a group the order says nothing, for NCCL takes a group's calls by their size (`ncclPrepareTasks`
/// in `src/enqueue.cc`): there the numbers are given anew, in the order of what is called, and only whole groups are
/// compared. That calls of one size in another order may be wrong is left alone, as the running hash does.
struct Call {
    number: u64,
    signature: Signature,
    /// First and last number of its group.
    run: (u64, u64),
}

fn calls_of(case: &Case<'_, '_, '_>, member: &Member<'_>) -> Vec<Call> {
    let process = case.sight.process(member.process);
    let told = member.open.iter().chain(member.last_completed.as_ref()).chain(member.known.iter());
    // A group that has not ended may still get calls, or come to nothing.
    let numbered = told.filter(|operation| is_called(process, operation));
    let mut known: Vec<(u64, &Operation)> =
        numbered.filter_map(|operation| Some((operation.number?, operation))).collect();
    known.sort_unstable_by_key(|(number, _)| *number);
    known.dedup_by_key(|(number, _)| *number);
    let mut calls = Vec::with_capacity(known.len());
    for run in known
        .chunk_by(|(at, one), (next, other)| one.group != 0 && one.group == other.group && at + 1 == *next)
    {
        let (Some((first, one)), Some((last, _))) = (run.first(), run.last()) else { continue };
        if one.group != 0 && !is_whole(case, member, &known, (*first, *last)) {
            continue;
        }
        let mut signatures: Vec<Signature> = run.iter().map(|(_, operation)| operation.signature).collect();
        signatures.sort_unstable();
        calls.extend(signatures.into_iter().zip(*first..).map(|(signature, number)| Call {
            number,
            signature,
            run: (*first, *last),
        }));
    }
    calls
}

/// Whether a group has no calls beyond these: those beside it are known, or there are none.
fn is_whole(
    case: &Case<'_, '_, '_>,
    member: &Member<'_>,
    known: &[(u64, &Operation)],
    (first, last): (u64, u64),
) -> bool {
    let is_known = |number: u64| known.binary_search_by_key(&number, |(number, _)| *number).is_ok();
    let begins = first.checked_sub(1).is_none_or(is_known);
    let ends = is_known(last + 1) || case.sight.calls_made(member).is_none_or(|made| made == last + 1);
    begins && ends
}

fn reduces(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::AllReduce | Primitive::Reduce | Primitive::ReduceScatter)
}

fn began(case: &Case<'_, '_, '_>, communicator: u32, number: u64) -> Option<ringscope_api::clock::Timestamp> {
    let members = &case.sight.communicator(communicator).members;
    let all = members.iter().flat_map(|member| {
        let told = member.open.iter().chain(member.last_completed.as_ref()).chain(member.known.iter());
        told.map(|operation| (case.sight.process(member.process), operation))
    });
    let its = all.filter(|(_, operation)| operation.number == Some(number));
    its.map(|(process, operation)| process.ours(operation.issued_at)).min()
}

/// The last calls of a rank that are known, newest last.
fn last_calls(case: &Case<'_, '_, '_>, member: &Member<'_>) -> Option<Detail> {
    let calls = calls_of(case, member);
    let lines: Vec<String> = calls
        .iter()
        .rev()
        .take(LAST_CALLS)
        .rev()
        .map(|call| format!("#{} {}", call.number, words::signature(&call.signature)))
        .collect();
    (!lines.is_empty()).then(|| Detail { title: format!("Last calls of rank {}", member.rank), lines })
}

/// Different signatures that are shown.
const LINES: usize = 16;
/// Calls of one rank that are shown.
const LAST_CALLS: usize = 10;
/// Ranks that are asked: of those who are in a call, and of those who have passed it.
const INSIDE_ASKED: usize = 2;
const PASSED_ASKED: usize = 5;
/// A question goes with the answer to a batch, and its answer comes with the next one.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Calls that are asked for at once; the batch format allows as many.
const ASKED: u64 = 64;
