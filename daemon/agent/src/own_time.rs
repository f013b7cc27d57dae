//! How a process spends its time: in operations of the library, or outside of them. The union of all operations over all
//! communicators, from the records, one reading behind: what began before the reading before this one is in the records by now.

use std::collections::VecDeque;

use ringscope_wire::batch::{self, TimeBasis};

/// Long steps in one batch; the format promises no more.
const MAX_LONG: usize = 8;
/// A step is told where its own time is so many times what is usual ...
const LONG: u64 = 2;
/// ... and longer than that by this: scheduling alone makes less.
const LONG_NS: u64 = 2_000_000;
/// Steps of which the usual is known.
const MAX_STEPS: usize = 64;
/// Fewer of them say nothing.
const FEWEST_STEPS: usize = 5;
/// While no operation begins, the account is told so often: time alone is no news.
const WORD_NS: u64 = 2_000_000_000;
/// Operations that are over and not accounted for: more than one reading can find, four times.
const MAX_SPANS: usize = 65_536;
/// Operations in which a step is looked for.
const MAX_KNOWN: usize = 4096;
/// After so many operations without a step each of them counts as one.
const UNKNOWN: u64 = 256;
/// A step has come so often before it counts as one.
const STEPS_SEEN: usize = 3;
/// Numbers of operations that are tried as a step, at one reading.
const MAX_TRIED: usize = 64;

/// An operation in time, by the process's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// When it began.
    pub(super) from_ns: u64,
    /// When it was over. `None`: it is not.
    pub(super) to_ns: Option<u64>,
    /// Whether `from_ns` is when the device began.
    pub(super) is_device: bool,
    /// What it is: the same for operations of one communicator, primitive and size.
    pub(super) signature: u64,
}

/// The account of one process.
#[derive(Debug, Default)]
pub(super) struct OwnTime {
    told: batch::OwnTime,
    /// When the reading before this one was made.
    read_ns: Option<u64>,
    /// Since when all that begins or ends is known.
    whole_since_ns: u64,
    /// Until when the account goes.
    until_ns: Option<u64>,
    /// Operations that are over and did not begin before `until_ns`, or ended after it.
    spans: Vec<Span>,
    /// The latest end of an operation before `until_ns`. `None`: none is known, or one was under way.
    free_since_ns: Option<u64>,
    steps: Steps,
    step: Step,
    device_error_ns: u64,
}

/// Own time, step by step.
#[derive(Debug, Default)]
struct Steps {
    /// Of the last ones.
    own_ns: VecDeque<u64>,
    /// The one that goes on: its operations, its own time, and its longest time without an operation.
    operations: u64,
    since_ns: u64,
    longest: (u64, u64),
    /// Long ones that were not told yet.
    long: Vec<batch::LongStep>,
}

/// After how many operations the same ones come again.
#[derive(Debug, Default)]
struct Step {
    known: VecDeque<u64>,
    len: usize,
    /// Whether it broke, or none was found: look again.
    is_open: bool,
    /// Operations since somebody looked.
    unseen: usize,
}

impl OwnTime {
    /// Takes what was read: operations that are over since the last reading, and those that are under way. `is_whole`: all that
    /// began or ended since then is among them.
    pub(super) fn update(&mut self, over: Vec<Span>, open: &[Span], read_ns: u64, is_whole: bool) {
        let to_ns = self.read_ns.replace(read_ns);
        if !is_whole {
            return self.skip(read_ns);
        }
        // What ends after it was read is no time of this clock.
        self.spans.extend(
            over.into_iter().map(|span| Span { to_ns: span.to_ns.map(|end_ns| end_ns.min(read_ns)), ..span }),
        );
        if self.spans.len() > MAX_SPANS {
            return self.skip(read_ns);
        }
        let Some(to_ns) = to_ns else { return };
        let Some(from_ns) = self.until_ns.or_else(|| self.begin_ns(open)).filter(|from_ns| *from_ns < to_ns)
        else {
            return;
        };
        self.until_ns = Some(to_ns);
        self.spans
            .retain(|span| span.to_ns.is_some_and(|end_ns| end_ns > from_ns) || span.from_ns >= from_ns);
        self.spans.sort_unstable_by_key(|span| span.from_ns);
        let mut all: Vec<Span> =
            self.spans.iter().chain(open).copied().filter(|span| span.from_ns < to_ns).collect();
        all.sort_unstable_by_key(|span| span.from_ns);
        self.sweep(&all, from_ns, to_ns);
        self.spans.retain(|span| span.to_ns.is_some_and(|end_ns| end_ns > to_ns) || span.from_ns >= to_ns);
    }

    /// By how much the device's clock may lie beside the host's; 0 where it is not asked.
    pub(super) fn know_error(&mut self, device_error_ns: u64) {
        self.device_error_ns = device_error_ns;
    }

    /// What is to be said, with those long steps of `before` that were not sent.
    pub(super) fn tell(&mut self, before: Option<batch::OwnTime>) -> Option<batch::OwnTime> {
        if self.told.covered_ns == 0 {
            return None;
        }
        let before = before.unwrap_or_default();
        let goes_on = before.operations == self.told.operations && self.steps.long.is_empty();
        if goes_on && self.told.covered_ns.saturating_sub(before.covered_ns) < WORD_NS {
            return Some(before);
        }
        let mut long = before.long_steps;
        long.append(&mut self.steps.long);
        while long.len() > MAX_LONG {
            let shortest = (0..long.len()).min_by_key(|at| long[*at].longer_ns).unwrap_or_default();
            long.remove(shortest);
        }
        let (usual_step_ns, step_spread_ns) = self.steps.usual().unwrap_or_default();
        let device_error_ns = self.device_error_ns;
        Some(batch::OwnTime {
            long_steps: long,
            usual_step_ns,
            step_spread_ns,
            device_error_ns,
            ..self.told.clone()
        })
    }

    /// Nothing is known of the time up to now. What is under way is known all the same, and from now on what begins is.
    fn skip(&mut self, read_ns: u64) {
        (self.until_ns, self.free_since_ns, self.whole_since_ns) = (None, None, read_ns);
        self.spans.clear();
    }

    /// From when on the account can go: before its first operation a process prepares itself.
    fn begin_ns(&self, open: &[Span]) -> Option<u64> {
        if self.told.operations > 0 {
            return Some(self.whole_since_ns);
        }
        let first_ns = self.spans.iter().chain(open).map(|span| span.from_ns).min();
        first_ns.map(|first_ns| first_ns.max(self.whole_since_ns))
    }

    fn sweep(&mut self, spans: &[Span], from_ns: u64, to_ns: u64) {
        let (mut n_new, mut n_device) = (0_usize, 0);
        // `None`: something is under way that is not over.
        let mut free_ns = Some(self.free_since_ns.unwrap_or(from_ns));
        for span in spans {
            let is_new = span.from_ns >= from_ns;
            if let Some(since_ns) = free_ns.filter(|since_ns| *since_ns < span.from_ns) {
                self.told.own_ns += span.from_ns.saturating_sub(since_ns.max(from_ns));
                if is_new && self.free_since_ns.is_some() {
                    self.steps.add_gap(since_ns, span.from_ns);
                }
            }
            if is_new {
                self.told.operations += 1;
                self.steps.add_operation(self.step.len, self.told.operations);
                self.step.push(span.signature);
                (n_new, n_device) = (n_new + 1, n_device + usize::from(span.is_device));
            }
            free_ns = free_ns.and_then(|since_ns| Some(since_ns.max(span.to_ns?)));
            self.free_since_ns = self.free_since_ns.max(span.to_ns.filter(|end_ns| *end_ns <= to_ns));
        }
        if let Some(since_ns) = free_ns {
            self.told.own_ns += to_ns.saturating_sub(since_ns.max(from_ns));
        }
        self.told.covered_ns += to_ns.saturating_sub(from_ns);
        // Of some operations nobody tells when they began: what most tell counts, and where it is about half it stays as it was.
        let before = self.told.basis;
        if 3 * n_device > 2 * n_new {
            self.told.basis = TimeBasis::Started.into();
        } else if 3 * n_device < n_new {
            self.told.basis = TimeBasis::Called.into();
        }
        if self.told.basis != before {
            // What is usual of times of one kind is not of the other.
            self.steps = Steps::default();
        }
        if self.step.look() {
            self.steps = Steps { long: std::mem::take(&mut self.steps.long), ..Steps::default() };
        }
        self.told.operations_per_step = u32::try_from(self.step.len).unwrap_or_default();
    }
}

impl Steps {
    fn add_gap(&mut self, since_ns: u64, to_ns: u64) {
        let lasted_ns = to_ns.saturating_sub(since_ns);
        self.since_ns = self.since_ns.saturating_add(lasted_ns);
        self.longest = self.longest.max((lasted_ns, since_ns));
    }

    /// An operation has begun; with the last of a step that is over.
    fn add_operation(&mut self, per_step: usize, number: u64) {
        self.operations += 1;
        let may_be_known_soon = per_step == 0 && number < UNKNOWN;
        if self.operations < per_step as u64 || may_be_known_soon {
            return;
        }
        let (own_ns, (_, began_at_ns)) = (self.since_ns, self.longest);
        (self.operations, self.since_ns, self.longest) = (0, 0, (0, 0));
        let usual_ns = self.usual().map_or(u64::MAX, |(usual_ns, _)| usual_ns);
        let longer_ns = own_ns.saturating_sub(usual_ns);
        if longer_ns >= LONG_NS && own_ns > LONG.saturating_mul(usual_ns) {
            self.long.push(batch::LongStep { began_at_ns, longer_ns, operation: number });
        }
        self.own_ns.push_back(own_ns);
        if self.own_ns.len() > MAX_STEPS {
            self.own_ns.pop_front();
        }
    }

    /// The median, and 1.48 times the median of the distances from it.
    fn usual(&self) -> Option<(u64, u64)> {
        let median = |mut all: Vec<u64>| {
            let at = all.len() / 2;
            *all.select_nth_unstable(at).1
        };
        let is_enough = self.own_ns.len() >= FEWEST_STEPS;
        let usual_ns = is_enough.then(|| median(self.own_ns.iter().copied().collect()))?;
        let spread_ns = median(self.own_ns.iter().map(|own_ns| own_ns.abs_diff(usual_ns)).collect());
        Some((usual_ns, spread_ns.saturating_mul(148) / 100))
    }
}

impl Step {
    fn push(&mut self, signature: u64) {
        let expected = self.known.len().checked_sub(self.len.max(1)).and_then(|at| self.known.get(at));
        self.is_open |= self.len == 0 || expected != Some(&signature);
        self.unseen += 1;
        self.known.push_back(signature);
        if self.known.len() > MAX_KNOWN {
            self.known.pop_front();
        }
    }

    /// Where the step that is known does not hold any more, looks for another one. Until one is found the old one stands: an
    /// evaluation or a checkpoint comes in between. Returns whether it is another one.
    fn look(&mut self) -> bool {
        // To look costs more the more operations are known.
        if !self.is_open || self.unseen < self.known.len() / 32 {
            return false;
        }
        (self.is_open, self.unseen) = (false, 0);
        let found = self.shortest();
        found.is_some_and(|len| std::mem::replace(&mut self.len, len) != len)
    }

    /// The first quarter may be how the program begins.
    fn shortest(&self) -> Option<usize> {
        let n = self.known.len();
        let newest = self.known.back()?;
        let begins = n / 4;
        let mut tried = (1..=(n - begins) / STEPS_SEEN)
            .filter(|len| n.checked_sub(len + 1).and_then(|at| self.known.get(at)) == Some(newest))
            .take(MAX_TRIED);
        tried.find(|len| (begins + len..n).all(|at| self.known.get(at) == self.known.get(at - len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn span(from_ms: u64, to_ms: impl Into<Option<u64>>) -> Span {
        let to_ns = to_ms.into().map(|ms| ms * MS);
        Span { from_ns: from_ms * MS, to_ns, is_device: false, signature: 1 }
    }

    /// Readings at the ends of windows of a fourth of a second, of operations that are seen when they are over.
    fn account(all: &[Span], until_ms: u64) -> OwnTime {
        let mut time = OwnTime::default();
        let mut seen = 0;
        for read_ms in (250..=until_ms).step_by(250) {
            let read_ns = read_ms * MS;
            let is_over = |span: &&Span| span.to_ns.is_some_and(|end_ns| (seen..read_ns).contains(&end_ns));
            let over = all.iter().filter(is_over).copied().collect();
            let is_open =
                |span: &&Span| span.from_ns < read_ns && span.to_ns.is_none_or(|end_ns| end_ns >= read_ns);
            let open: Vec<Span> =
                all.iter().filter(is_open).map(|span| Span { to_ns: None, ..*span }).collect();
            time.update(over, &open, read_ns, true);
            seen = read_ns;
        }
        time
    }

    #[track_caller]
    fn check(all: &[Span], until_ms: u64, covered_ms: u64, own_ms: u64) -> OwnTime {
        let time = account(all, until_ms);
        assert_eq!((time.told.covered_ns / MS, time.told.own_ns / MS), (covered_ms, own_ms), "{time:?}");
        time
    }

    #[test]
    fn what_is_outside_of_operations_is_own() {
        // From 100 on, until the reading before the last.
        check(&[span(100, 150), span(200, 400), span(700, 800)], 1500, 1150, 1150 - 350);
        check(&[], 1000, 0, 0);
        check(&[span(600, 700)], 1500, 650, 550);
    }

    #[test]
    fn operations_at_once_count_once() {
        check(&[span(100, 300), span(150, 200), span(250, 400), span(400, 450)], 1250, 900, 900 - 350);
    }

    #[test]
    fn what_is_under_way_is_not_own_however_long() {
        check(&[span(100, 150), span(300, None)], 3000, 2650, 150);
        check(&[span(100, 150), span(300, 2900)], 3500, 3150, 150 + 350);
        // In a long one others come and go.
        check(&[span(100, 2000), span(300, 400), span(1700, 1800)], 2500, 2150, 250);
    }

    /// Two ranks that enqueue all their calls at once, long before the device runs. Steps take 50 ms on both, of which the one
    /// computes for 40 and the other for 10 and then waits: by calls nobody sees it.
    #[test]
    fn of_what_is_enqueued_long_before_the_device_tells_who_computes_longer() {
        let own_of = |compute_ms: u64, is_device: bool| {
            let step = |n: u64| {
                let from_ms = if is_device { 100 + 50 * n + compute_ms } else { 100 + n };
                Span { is_device, ..span(from_ms, 150 + 50 * n) }
            };
            let all: Vec<Span> = (0..60).map(step).collect();
            let time = account(&all, 3500);
            (time.told.basis(), time.told.own_ns * 100 / time.told.covered_ns)
        };
        let by_calls = [own_of(40, false), own_of(10, false)];
        assert_eq!(by_calls[0], by_calls[1], "alike, whoever is slow");
        assert_eq!(by_calls[0].0, TimeBasis::Called);
        let (slow, other) = (own_of(40, true), own_of(10, true));
        assert_eq!((slow.0, other.0), (TimeBasis::Started, TimeBasis::Started));
        assert!(slow.1 >= 75 && other.1 <= 30, "{slow:?} {other:?}");
    }

    #[test]
    fn by_how_much_the_device_may_be_off_is_told_with_the_account() {
        let mut time = account(&[span(100, 150)], 1000);
        assert_eq!(time.tell(None).unwrap().device_error_ns, 0);
        time.know_error(7000);
        assert_eq!(time.tell(None).unwrap().device_error_ns, 7000);
    }

    #[test]
    fn long_steps_are_told_once_it_is_known_what_is_usual() {
        let steps = (0..100_u64).map(|step| 10 * step + if step >= 60 { 400 } else { 0 });
        let all: Vec<Span> = steps.map(|at| span(1000 + at, 1000 + at + 4)).collect();
        let mut time = account(&all, 3000);
        let told = time.tell(None).unwrap();
        let long = batch::LongStep { began_at_ns: 1594 * MS, longer_ns: 400 * MS, operation: 61 };
        assert_eq!(told.long_steps, [long]);
        assert_eq!((told.operations, told.operations_per_step), (100, 1));
        assert_eq!((told.usual_step_ns, told.step_spread_ns), (6 * MS, 0));
        let n_long = |told: Option<batch::OwnTime>| told.unwrap().long_steps.len();
        assert_eq!(n_long(time.tell(Some(told))), 1, "not sent yet");
        assert_eq!(n_long(time.tell(None)), 0, "said once");
    }

    #[test]
    fn times_of_the_other_kind_make_no_long_steps() {
        let called = (0..100_u64).map(|step| span(1000 + 10 * step, 1004 + 10 * step));
        let started = (0..60_u64).map(|step| span(2000 + 50 * step, 2010 + 50 * step));
        let started = started.map(|span| Span { is_device: true, ..span });
        let told = account(&called.chain(started).collect::<Vec<_>>(), 5000).tell(None).unwrap();
        assert_eq!((told.basis, told.usual_step_ns), (TimeBasis::Started.into(), 40 * MS));
        assert_eq!(told.long_steps, []);
    }

    /// A step with one long gap and many short ones: that comes in each step, so it is what is usual.
    #[test]
    fn a_gap_of_every_step_is_no_long_one() {
        let step = |step: u64| {
            let slow = if step % 20 == 19 { 300 } else { 0 };
            (0..10).map(move |at| (40 + slow, 100 * step + step / 20 * 300 + slow + 40 + 2 * at, at))
        };
        let all: Vec<Span> = (0..60)
            .flat_map(step)
            .map(|(_, at, number)| Span { signature: number, ..span(at, at + 1) })
            .collect();
        let mut time = account(&all, 8000);
        let told = time.tell(None).unwrap();
        assert_eq!(told.operations_per_step, 10);
        let longer: Vec<u64> = told.long_steps.iter().map(|step| step.longer_ns / MS).collect();
        assert_eq!(longer, [300, 300, 300], "{told:?}");
    }

    #[test]
    fn what_was_not_read_whole_is_not_covered() {
        let mut time = OwnTime::default();
        for (at, is_whole) in [(250, true), (500, true), (750, false), (1000, true), (1250, true)] {
            let over = vec![span(at - 200, at - 100)];
            time.update(over, &[], at * MS, is_whole);
        }
        assert_eq!(time.told.covered_ns / MS, 250 - 50 + 250, "{time:?}");
    }

    #[track_caller]
    fn step(signatures: impl IntoIterator<Item = u64>) -> usize {
        let mut step = Step::default();
        for signature in signatures {
            step.push(signature);
            step.look();
        }
        step.len
    }

    #[test]
    fn a_step_is_what_comes_again() {
        assert_eq!(step([]), 0);
        assert_eq!(step([1, 2, 3, 4, 5, 6, 7]), 0);
        assert_eq!(step([1, 1, 1, 1]), 1);
        // Broadcasts at the beginning, then buckets of one size and a smaller one.
        let steps = (0..200).map(|at| if at % 11 == 10 { 2 } else { 1 });
        assert_eq!(step([7, 7, 8, 9].into_iter().chain(steps.clone())), 11);
        // An evaluation in between changes nothing.
        assert_eq!(step(steps.clone().chain([5, 5, 6]).chain(steps.clone().take(40))), 11);
        // Another length does.
        assert_eq!(step(steps.take(50).chain((0..2000).map(|at| at % 7))), 7);
    }
}
