//! What the plugin of tests/c/plugin.c wrote down, read back.

use std::collections::HashMap;
use std::path::Path;

use super::compile;

/// The newest interface of each version of NCCL.
pub(crate) const NEWEST: [(&str, u32); 4] = [("2.27", 4), ("2.28", 5), ("2.30", 6), ("2.32", 7)];

/// An event as the plugin wrote it down.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) parent: u64,
    pub(crate) fields: Vec<String>,
    /// The thread that told of it.
    pub(crate) thread: String,
    /// When it was told, in nanoseconds.
    pub(crate) at: u64,
    pub(crate) stopped: bool,
    /// Its states, in their order.
    pub(crate) states: Vec<State>,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// A state of an event, its argument, and when it was told, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) number: u64,
    pub(crate) argument: u64,
    pub(crate) at: u64,
}

/// What a plugin wrote, by the numbers of its events.
pub(crate) fn read(log: &str) -> HashMap<u64, Event> {
    let mut events: HashMap<u64, Event> = HashMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "start" => {
                let end = words.len() - 4;
                let fields = words[4..end].iter().map(|word| (*word).to_owned()).collect();
                let (kind, parent, thread) = (words[2].to_owned(), number(3), words[end + 3].to_owned());
                assert!(parent == 0 || events.contains_key(&parent), "{line}: its parent has begun");
                let event = Event {
                    kind,
                    parent,
                    fields,
                    thread,
                    at: number(end + 1),
                    stopped: false,
                    states: Vec::new(),
                    sent_bytes: 0,
                    received_bytes: 0,
                };
                events.insert(number(1), event);
            }
            "stop" => {
                let event = events.get_mut(&number(1)).unwrap();
                assert!(!event.stopped, "{line}: stopped once");
                event.stopped = true;
            }
            "state" => {
                let event = events.get_mut(&number(1)).unwrap();
                assert!(!event.stopped, "{line}: before its stop");
                event.states.push(State { number: number(2), argument: number(3), at: number(4) });
                match number(2) {
                    9 => event.sent_bytes += number(3),
                    11 => event.received_bytes += number(3),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    events
}

/// The plugin of a version, which also offers the one before.
pub(crate) fn build(plugin: &Path, version: u32) {
    let (own, older) = (format!("-DVERSION={version}"), format!("-DOLDER={}", version - 1));
    let arguments = ["-shared", "-fPIC", &own, &older];
    compile("plugin.c", plugin, &arguments[..if version > 1 { 4 } else { 3 }]);
}
