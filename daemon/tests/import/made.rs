//! Files made for a test: logs in the words of NCCL 2.27, and pickles.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::fixture;

/// A job of two ranks a host; each host with the channels that its search found.
pub(crate) struct Job<'a> {
    pub(crate) hosts: &'a [(&'a str, u32)],
    pub(crate) last: u32,
}

/// Three hosts of which the last holds the others back.
pub(crate) const UNEQUAL: Job<'static> =
    Job { hosts: &[("node-a", 4), ("node-b", 4), ("node-c", 1)], last: 2 };
/// The same without.
pub(crate) const EQUAL: Job<'static> = Job { hosts: &[("node-a", 4), ("node-b", 4), ("node-c", 4)], last: 8 };

impl Job<'_> {
    /// The log of one host, its ranks one after the other.
    pub(crate) fn log(&self, host: usize) -> String {
        let first = u32::try_from(host).unwrap() * 2;
        (first..first + 2).map(|rank| self.rank(host, rank)).collect()
    }

    /// The logs of all hosts.
    pub(crate) fn logs(&self) -> String {
        (0..self.hosts.len()).map(|host| self.log(host)).collect()
    }

    /// The lines of one host's ranks that say that they destroyed the communicator in good order.
    pub(crate) fn ends(&self, host: usize) -> String {
        let (name, first) = (self.hosts[host].0, u32::try_from(host).unwrap() * 2);
        let n = self.hosts.len() * 2;
        (first..first + 2).fold(String::new(), |mut text, rank| {
            let (device, pid) = (rank % 2, 1000 + rank);
            writeln!(
                text,
                "{name}:{pid}:{pid} [{device}] NCCL INFO comm 0x55d0{rank} rank {rank} nranks {n} cudaDev {device} \
                 busId {}000 - Destroy COMPLETE",
                device + 1
            )
            .unwrap();
            text
        })
    }

    /// The logs of all hosts, to the end of a job that ended well.
    pub(crate) fn ended(&self) -> String {
        self.logs() + &(0..self.hosts.len()).map(|host| self.ends(host)).collect::<String>()
    }

    fn rank(&self, host: usize, rank: u32) -> String {
        let (name, init) = self.hosts[host];
        let n = u32::try_from(self.hosts.len()).unwrap() * 2;
        let (device, pid, nodes, last) = (rank % 2, 1000 + rank, self.hosts.len(), self.last);
        let (prev, next) = ((rank + n - 1) % n, (rank + 1) % n);
        let comm = format!(
            "ncclCommInitRankConfig comm 0x55d0{rank} rank {rank} nranks {n} cudaDev {device} nvmlDev {device} \
             busId {}000 commId 0xabc0000000000001",
            device + 1
        );
        let search =
            format!("crossNic 0, nChannels {init}, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1");
        let mut messages = vec![
            "NCCL version 2.27.3+cuda12.9".to_owned(),
            "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>".to_owned(),
            format!("{comm} - Init START"),
            format!(
                "comm 0x55d0{rank} rank {rank} nRanks {n} nNodes {nodes} localRanks 2 localRank {device} MNNVL 0"
            ),
            format!("Pattern 4, {search}"),
            format!("Pattern 1, {search}"),
        ];
        for channel in 0..last {
            messages.push(format!("Ring {channel:02} : {prev} -> {rank} -> {next}"));
        }
        messages.push(format!(
            "{last} coll channels, 0 collnet channels, 0 nvls channels, {last} p2p channels, 2 p2p channels per peer"
        ));
        for channel in 0..last {
            let via = if device == 1 { "[send] via NET/IB/0" } else { "via P2P/IPC" };
            messages
                .push(format!("Channel {channel:02}/0 : {rank}[{device}] -> {next}[{}] {via}", 1 - device));
        }
        messages.push(format!("{comm} - Init COMPLETE"));
        messages.iter().fold(String::new(), |mut text, message| {
            writeln!(text, "{name}:{pid}:{pid} [{device}] NCCL INFO {message}").unwrap();
            text
        })
    }
}

/// The dump of the Flight Recorder among the fixtures.
pub(crate) fn recorded() -> Value {
    let text = std::fs::read_to_string(fixture("import/flight-recorder_rank_0.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The value with the opcodes that PyTorch's own pickler (`torch/csrc/jit/serialization/pickler.cpp`) has for it:
/// protocol 2, numbers by their size, each text once and then by its number.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut pickler = Pickler { bytes: vec![0x80, 2], texts: HashMap::new(), n_puts: 0 };
    pickler.put(value);
    pickler.bytes.push(b'.');
    pickler.bytes
}

struct Pickler {
    bytes: Vec<u8>,
    texts: HashMap<String, u32>,
    n_puts: u32,
}

impl Pickler {
    fn put(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.push(b'N'),
            Value::Bool(yes) => self.bytes.push(if *yes { 0x88 } else { 0x89 }),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.text(text),
            Value::Array(items) if items.len() == 2 && items.iter().all(Value::is_string) => {
                // Name and description of a group are a pair.
                items.iter().for_each(|item| self.put(item));
                self.bytes.push(0x86);
            }
            Value::Array(items) => {
                self.bytes.extend(b"](");
                items.iter().for_each(|item| self.put(item));
                self.bytes.push(b'e');
            }
            Value::Object(items) => {
                self.bytes.extend(b"}(");
                for (key, item) in items {
                    self.text(key);
                    self.put(item);
                }
                self.bytes.push(b'u');
                // What several hold, as the frames of stacks, is numbered after it has been written.
                self.memoize();
            }
        }
    }

    fn number(&mut self, number: &serde_json::Number) {
        let Some(whole) = number.as_i64() else {
            self.bytes.push(b'G');
            self.bytes.extend(number.as_f64().unwrap().to_be_bytes());
            return;
        };
        if let Ok(byte) = u8::try_from(whole) {
            self.bytes.extend([b'K', byte]);
        } else if let Ok(short) = u16::try_from(whole) {
            self.bytes.push(b'M');
            self.bytes.extend(short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(whole) {
            self.bytes.push(b'J');
            self.bytes.extend(int.to_le_bytes());
        } else {
            self.bytes.extend([0x8a, 8]);
            self.bytes.extend(whole.to_le_bytes());
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(known) = self.texts.get(text).copied() {
            return self.numbered([b'h', b'j'], known);
        }
        self.bytes.push(b'X');
        self.bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        self.bytes.extend(text.as_bytes());
        let number = self.memoize();
        self.texts.insert(text.to_owned(), number);
    }

    fn memoize(&mut self) -> u32 {
        let number = self.n_puts;
        self.numbered([b'q', b'r'], number);
        self.n_puts += 1;
        number
    }

    fn numbered(&mut self, [short, long]: [u8; 2], number: u32) {
        if let Ok(byte) = u8::try_from(number) {
            self.bytes.extend([short, byte]);
        } else {
            self.bytes.push(long);
            self.bytes.extend(number.to_le_bytes());
        }
    }
}
