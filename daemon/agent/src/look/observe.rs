//! One look at one process: what each of its threads does. Nothing of it is stopped, so nothing of it waits. What cannot
//! be seen is said.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_wire::batch::{Look, Thread};

use super::cgroup::{self, Cpu};
use super::native::{Functions, Maps, kernel_frames};
use super::python::{self, Stack};
use super::shown;
use super::subject::Subjects;
use super::syscalls::{At, known};
use crate::procfs::{self, Pid, Stat};

/// Threads that are told, as the batch allows.
const MAX_THREADS: usize = 32;
/// Threads that are looked at: programs with more have most of them idle.
const MAX_READ: usize = 512;
/// How long a state is watched: longer than what stops a process now and then takes for one round.
const WATCHED: Duration = Duration::from_millis(1_500);
/// Threads of which it is said what they are blocked in and in which function.
const MAX_SUBJECTS: usize = 64;

/// Looks, and gives what it has whenever it has more: what comes later may take long, or not come at all.
/// `watch`: its state for a second and a half too.
pub(super) fn observe(pid: Pid, cgroups: &Path, watch: bool, mut give: impl FnMut(&Look)) {
    let mut look = Look { at_ns: clock::now().0, ..Look::default() };
    let Some(mut threads) = threads(pid, &mut look) else {
        look.lacks.push("the process has ended".to_owned());
        give(&look);
        return;
    };
    add_memory(pid, cgroups, &mut look);
    let cpu = read_cpu(pid, cgroups);
    tell_cpu(cpu, &mut look);
    tell(&threads, &mut look);
    give(&look);
    add_subjects(pid, &mut threads);
    tell(&threads, &mut look);
    give(&look);
    // From here on the process's memory map is needed, which it may hold itself.
    match Maps::read(pid.number) {
        Ok(maps) => {
            add_python(pid.number, &maps, &mut threads, &mut look);
            add_native(pid.number, &maps, &mut threads);
        }
        Err(error) => look.lacks.push(refused("its memory", &error)),
    }
    // Another may have got its number meanwhile.
    if pid.stat().is_none() {
        look.lacks.push("the process has ended meanwhile".to_owned());
        give(&look);
        return;
    }
    tell(&threads, &mut look);
    give(&look);
    if watch {
        add_states(pid, &mut look);
        // What was long ago is not what is: a limit may be as old as the container.
        let of_late = read_cpu(pid, cgroups).zip(cpu).and_then(|(now, before)| now.since(before));
        tell_cpu(of_late.or(cpu), &mut look);
        give(&look);
    }
}

/// How often it is stopped. Read at moments without order: what stops it may do so to a beat.
fn add_states(pid: Pid, look: &mut Look) {
    let start = clock::monotonic();
    let mut moment = look.at_ns;
    while clock::monotonic().saturating_duration_since(start) < WATCHED {
        let Some(stat) = pid.stat() else { return };
        look.states_read += 1;
        look.states_stopped += u32::from(matches!(stat.state, 'T' | 't'));
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(4_000 + (moment >> 32) % 8_000));
    }
}

/// A thread with what is not told of it.
struct Seen {
    thread: Thread,
    /// As the process sees it.
    own: u32,
    at: Option<At>,
}

fn threads(pid: Pid, look: &mut Look) -> Option<Vec<Seen>> {
    pid.stat()?;
    let numbers = procfs::threads(pid.number, MAX_READ);
    let mut seen = Vec::with_capacity(numbers.len());
    let mut error = None;
    for number in &numbers {
        let file = |name: &str| format!("task/{number}/{name}");
        let text = |name: &str| procfs::text(pid.number, &file(name)).unwrap_or_default();
        let Some(stat) = Stat::parse(&text("stat")) else { continue };
        let at = match procfs::read(pid.number, &file("syscall")) {
            Ok(text) => At::parse(&text),
            Err(found) => {
                error.get_or_insert(found);
                None
            }
        };
        let mut thread = Thread {
            thread: *number,
            name: shown(&text("comm")),
            state: stat.state.to_string(),
            wait_channel: wait_channel(&text("wchan")),
            native: kernel_frames(pid.number, *number),
            ..Thread::default()
        };
        if let Some(At::Call { number, .. }) = at {
            thread.syscall =
                known(number).map_or_else(|| format!("call {number}"), |(name, _)| name.to_owned());
        }
        let own = procfs::own_thread(pid.number, *number).unwrap_or(*number);
        seen.push(Seen { thread, own, at });
    }
    // A thread that has ended meanwhile is no refusal.
    if let Some(error) = error
        .filter(|error| error.kind() != io::ErrorKind::NotFound && seen.iter().all(|one| one.at.is_none()))
    {
        look.lacks.push(refused("its system calls", &error));
    }
    if numbers.len() >= MAX_READ {
        look.lacks.push(format!("only {MAX_READ} of its threads were looked at"));
    }
    (!seen.is_empty()).then_some(seen)
}

/// Names what the threads are blocked in.
fn add_subjects(pid: Pid, threads: &mut [Seen]) {
    let subjects = Subjects::of(pid.number);
    for seen in threads.iter_mut().take(MAX_SUBJECTS) {
        if let Some(At::Call { number, arguments, .. }) = seen.at
            && let Some((_, about)) = known(number)
        {
            seen.thread.subject = subjects.of_call(about, &arguments);
        }
    }
}

/// `0` is how the kernel says that a thread does not wait, or that it does not tell.
fn wait_channel(text: &str) -> String {
    let text = text.trim();
    if text == "0" { String::new() } else { shown(text) }
}

fn read_cpu(pid: Pid, cgroups: &Path) -> Option<Cpu> {
    cgroup::cpu(&procfs::text(pid.number, "cgroup")?, cgroups)
}

fn tell_cpu(cpu: Option<Cpu>, look: &mut Look) {
    look.cgroup_cpu_limit_milli = cpu.map(|cpu| cpu.limit_milli);
    look.cgroup_cpu_periods = cpu.map(|cpu| cpu.periods);
    look.cgroup_cpu_throttled_periods = cpu.map(|cpu| cpu.throttled_periods);
}

fn add_memory(pid: Pid, cgroups: &Path, look: &mut Look) {
    let memory = cgroup::memory(&procfs::text(pid.number, "cgroup").unwrap_or_default(), cgroups);
    look.cgroup_memory_bytes = memory.bytes;
    look.cgroup_memory_limit_bytes = memory.limit_bytes;
    look.cgroup_oom_kills = memory.oom_kills;
}

fn add_python(pid: u32, maps: &Maps, threads: &mut [Seen], look: &mut Look) {
    let executable = std::fs::read_link(procfs::path(pid, "exe")).unwrap_or_default();
    if !python::is_there(&executable.to_string_lossy(), maps) {
        return;
    }
    if let Err(error) = std::fs::File::open(procfs::path(pid, "mem")) {
        look.lacks.push(refused("its Python stacks", &error));
        return;
    }
    let stacks = match python::stacks(pid, maps) {
        Ok(stacks) => stacks,
        Err(why) => {
            look.lacks.push(shown(&format!("its Python stacks cannot be read: {why}")));
            return;
        }
    };
    for (index, stack) in join(&stacks, threads, maps) {
        threads[index].thread.python = stack.frames.clone();
    }
}

/// Which stack is which thread's. Before Python 3.11 only the address of the thread's own data is known, which lies in the
/// same part of memory as its stack; what is left is the main thread's.
fn join<'s>(stacks: &'s [Stack], threads: &[Seen], maps: &Maps) -> Vec<(usize, &'s Stack)> {
    let by_number: BTreeMap<u64, usize> =
        threads.iter().enumerate().map(|(index, seen)| (u64::from(seen.own), index)).collect();
    let by_stack: BTreeMap<u64, usize> = (threads.iter().enumerate())
        .filter_map(|(index, seen)| Some((maps.at(seen.at?.pointers()?.0)?.start, index)))
        .collect();
    let mut joined = Vec::new();
    let mut left = Vec::new();
    for stack in stacks {
        let index = match stack.own_thread {
            Some(number) => by_number.get(&number),
            None => maps.at(stack.pthread).and_then(|mapping| by_stack.get(&mapping.start)),
        };
        match index {
            Some(index) => joined.push((*index, stack)),
            None => left.push(stack),
        }
    }
    if let [stack] = left[..]
        && stack.own_thread.is_none()
        && !threads.is_empty()
        && joined.iter().all(|(index, _)| *index != 0)
    {
        joined.push((0, stack));
    }
    joined
}

fn add_native(pid: u32, maps: &Maps, threads: &mut [Seen]) {
    let mut functions = Functions::of(pid, maps);
    for seen in threads.iter_mut().take(MAX_SUBJECTS) {
        let function = seen.at.and_then(At::pointers).and_then(|(_, instruction)| functions.at(instruction));
        seen.thread.native.extend(function.map(|function| shown(&function)));
    }
}

/// Puts the most telling threads into the look: the main one and those in Python, then those that are neither idle nor
/// helpers of a library.
fn tell(threads: &[Seen], look: &mut Look) {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|index| {
        let thread = &threads[*index].thread;
        let state = ["D", "T", "t", "R"].iter().position(|state| *state == thread.state).unwrap_or(4);
        (*index != 0, thread.python.is_empty(), state, *index)
    });
    look.threads = order.iter().take(MAX_THREADS).map(|index| threads[*index].thread.clone()).collect();
    let more = threads.len().saturating_sub(MAX_THREADS);
    look.lacks.retain(|lack| !lack.ends_with(MORE));
    if more > 0 {
        look.lacks.push(format!("{more}{MORE}"));
    }
}

const MORE: &str = " more threads are not shown";

/// What cannot be seen and why, with what helps.
fn refused(what: &str, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return format!("{what} cannot be seen: {error}");
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let scope = match scope.trim() {
        "" | "0" => String::new(),
        scope => format!(" (kernel.yama.ptrace_scope is {scope})"),
    };
    format!(
        "{what} cannot be seen: ptrace is refused{scope}. Run the agent as root or with CAP_SYS_PTRACE, or as the user of \
         the job where ptrace_scope is 0"
    )
}

#[cfg(test)]
mod tests;
