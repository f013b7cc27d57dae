//! Files made for a test: logs in the words of NCCL 2.27, and pickles.

use std::fmt::Write as _;

use serde_json::Value;

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

/// The value as PyTorch pickles it: protocol 2.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    put(&mut bytes, value);
    bytes.push(b'.');
    bytes
}

fn put(bytes: &mut Vec<u8>, value: &Value) {
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.push(b'X');
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    match value {
        Value::Null => bytes.push(b'N'),
        Value::Bool(yes) => bytes.push(if *yes { 0x88 } else { 0x89 }),
        Value::Number(number) => {
            bytes.extend([0x8a, 8]);
            bytes.extend(number.as_i64().unwrap().to_le_bytes());
        }
        Value::String(string) => text(bytes, string),
        Value::Array(items) => {
            bytes.extend(b"](");
            items.iter().for_each(|item| put(bytes, item));
            bytes.push(b'e');
        }
        Value::Object(items) => {
            bytes.extend(b"}(");
            for (key, item) in items {
                text(bytes, key);
                put(bytes, item);
            }
            bytes.push(b'u');
        }
    }
}
