//! Looks at real processes: Python in a data loader's read, a program in a socket, one that is stopped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::*;

/// A child that is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::of(self.0.id()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

fn look_at(pid: Pid) -> Vec<Look> {
    let mut looks = Vec::new();
    observe(pid, Path::new("/sys/fs/cgroup"), false, |look| looks.push(look.clone()));
    looks
}

/// Looks until it is as it should be; within twenty seconds, or the test fails.
fn look_until(pid: Pid, done: impl Fn(&Look) -> bool) -> Look {
    let start = clock::monotonic();
    loop {
        let look = look_at(pid).pop().unwrap();
        if done(&look) {
            return look;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{look:#?}");
    }
}

fn fifo(dir: &Path) -> (PathBuf, std::fs::File) {
    let path = dir.join("train.bin");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Somebody who could write keeps it open.
    let writer = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (path, writer)
}

/// A training script that waits for its data in another thread's and its own loader.
const SCRIPT: &str = "
import sys, threading

class Loader:
    def __init__(self, path):
        self.file = open(path, 'rb', buffering=0)
        self.secret = 'a value that nobody may see'
    def __next__(self):
        return self.file.read(10)

def idle():
    threading.Event().wait()

threading.Thread(target=idle, name='helper', daemon=True).start()
loader = Loader(sys.argv[1])
print('ready', flush=True)
next(loader)
";

fn python(dir: &Path, fifo: &Path) -> Running {
    let script = dir.join("loader.py");
    std::fs::write(&script, SCRIPT).unwrap();
    let child = Command::new("python3").arg(&script).arg(fifo).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("python3 is missing: apt-get install python3");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Running(child)
}

#[test]
fn python_in_a_data_loader_is_told_with_line_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _writer) = fifo(dir.path());
    let child = python(dir.path(), &path);
    let look = look_until(child.pid(), |look| look.threads[0].syscall == "read");
    let main = &look.threads[0];
    assert_eq!((main.thread, main.state.as_str()), (child.0.id(), "S"), "{look:#?}");
    assert!(
        ["loader.py:9 Loader.__next__", "loader.py:9 __next__"].contains(&main.python[0].as_str()),
        "{look:#?}"
    );
    assert_eq!(main.python[1], "loader.py:17 <module>");
    assert_eq!(main.subject, path.display().to_string());
    assert!(main.native.iter().any(|frame| frame.contains(".so") || frame.contains("python")), "{look:#?}");
    let helper = look.threads.iter().skip(1).find(|thread| !thread.python.is_empty()).unwrap();
    assert!(helper.python.iter().any(|frame| frame.starts_with("loader.py:12 idle")), "{look:#?}");
    assert_eq!((look.stopped_ns, look.lacks.len()), (0, 0), "{look:#?}");
    assert!(!format!("{look:?}").contains("nobody may see"), "no values");
}

#[test]
fn a_stopped_process_is_seen_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _writer) = fifo(dir.path());
    let child = python(dir.path(), &path);
    look_until(child.pid(), |look| look.threads[0].syscall == "read");
    child.signal(Signal::STOP);
    let look = look_until(child.pid(), |look| look.threads[0].state == "T");
    assert!(look.threads[0].python[0].starts_with("loader.py:9 "), "{look:#?}");
    assert_eq!(child.pid().stat().unwrap().state, 'T', "and stays as it is");
}

#[test]
fn how_often_a_process_is_stopped_is_told_where_it_is_watched() {
    let child = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let watched = |child: &Running| {
        let mut last = Look::default();
        observe(child.pid(), Path::new("/sys/fs/cgroup"), true, |look| last = look.clone());
        (last.states_read, last.states_stopped)
    };
    let (n_read, n_stopped) = watched(&child);
    assert!(n_read > 10 && n_stopped == 0, "{n_stopped} of {n_read}");
    child.signal(Signal::STOP);
    look_until(child.pid(), |look| look.threads[0].state == "T");
    let (n_read, n_stopped) = watched(&child);
    assert!(n_read > 10 && n_stopped == n_read, "{n_stopped} of {n_read}");
    assert_eq!(look_at(child.pid()).pop().unwrap().states_read, 0, "a look alone does not watch");
}

#[test]
fn a_program_in_a_socket_is_told_with_both_ends() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
    let child = Command::new("bash").args(["-c", &script]).spawn();
    let child = Running(child.expect("bash is missing: apt-get install bash"));
    let (mut connection, peer) = listener.accept().unwrap();
    let look =
        look_until(child.pid(), |look| look.threads.first().is_some_and(|main| main.syscall == "read"));
    let main = &look.threads[0];
    assert_eq!(main.subject, format!("socket {peer} -> 127.0.0.1:{port}"), "{look:#?}");
    let first = look_at(child.pid()).swap_remove(0);
    assert_eq!((first.threads[0].syscall.as_str(), first.threads[0].subject.as_str()), ("read", ""));
    assert!(main.python.is_empty() && look.lacks.is_empty(), "{look:#?}");
    connection.write_all(b"x\n").unwrap();
}

#[test]
fn what_is_there_at_once_is_given_first_and_memory_is_told() {
    let child = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = child.pid();
    let slept =
        look_until(pid, |look| look.threads.first().is_some_and(|main| main.syscall == "clock_nanosleep"));
    assert_eq!((slept.threads[0].name.as_str(), slept.threads[0].subject.as_str()), ("sleep", ""));
    let looks = look_at(pid);
    assert_eq!(looks.len(), 3);
    assert_eq!(looks[0].threads[0].syscall, "clock_nanosleep", "before anything that takes long");
    let cgroups = tempfile::tempdir().unwrap();
    let own = procfs::text(pid.number, "cgroup").unwrap();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
    if let Some(path) = path {
        let folder = cgroups.path().join(path);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("memory.current"), "42\n").unwrap();
        std::fs::write(folder.join("memory.events"), "oom_kill 3\n").unwrap();
        let mut looks = Vec::new();
        observe(pid, cgroups.path(), false, |look| looks.push(look.clone()));
        if !own.contains(":memory:") {
            assert_eq!((looks[0].cgroup_memory_bytes, looks[0].cgroup_oom_kills), (Some(42), Some(3)));
        }
    }
}

#[test]
fn another_with_the_same_number_is_not_looked_at() {
    let child = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let other = Pid { start_ticks: child.pid().start_ticks + 1, ..child.pid() };
    let looks = look_at(other);
    assert_eq!(looks.len(), 1);
    assert!(looks[0].threads.is_empty(), "{looks:#?}");
    assert_eq!(looks[0].lacks, ["the process has ended"]);
}

#[test]
fn the_most_telling_threads_are_told() {
    let thread = |number: u32, state: &str, python: &[&str]| Seen {
        thread: Thread {
            thread: number,
            state: state.to_owned(),
            python: python.iter().map(|frame| (*frame).to_owned()).collect(),
            ..Thread::default()
        },
        own: number,
        at: None,
    };
    let mut threads =
        vec![thread(1, "S", &[]), thread(2, "S", &[]), thread(3, "D", &[]), thread(4, "S", &["a.py:1 f"])];
    let mut look = Look::default();
    tell(&threads, &mut look);
    let order: Vec<u32> = look.threads.iter().map(|thread| thread.thread).collect();
    assert_eq!(order, [1, 4, 3, 2]);
    threads.extend((5..100).map(|number| thread(number, "S", &[])));
    tell(&threads, &mut look);
    tell(&threads, &mut look);
    assert_eq!(
        (look.threads.len(), look.lacks.as_slice()),
        (32, ["67 more threads are not shown".to_owned()].as_slice())
    );
}

#[test]
fn old_pythons_threads_are_found_by_their_stacks() {
    let child = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let maps = Maps::read(child.0.id()).unwrap();
    let (stack, other) = (&maps.0[maps.0.len() - 2], &maps.0[0]);
    let at = |address: u64| Some(At::Outside { stack: address, instruction: 0 });
    let seen = |number: u32, address: u64| Seen { thread: Thread::default(), own: number, at: at(address) };
    let threads = [seen(1, other.start), seen(2, stack.start + 8)];
    let python = |pthread: u64| Stack { own_thread: None, pthread, frames: vec![pthread.to_string()] };
    // The main thread's data lies elsewhere.
    let stacks = [python(stack.start + 64), python(8)];
    let mut joined: Vec<(usize, u64)> =
        join(&stacks, &threads, &maps).iter().map(|(index, stack)| (*index, stack.pthread)).collect();
    joined.sort_unstable();
    assert_eq!(joined, [(0, 8), (1, stack.start + 64)]);
}
