//! The engine's own account: what it says at the end of a communicator about each of its connections, at both ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::accounts::Flows;
use crate::clock::eventually;

/// What all connections of a job have carried, by shared memory and by TCP, without headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engine {
    /// As the senders count.
    pub(crate) sent: Flows,
    /// As the receivers count.
    pub(crate) received: Flows,
}

impl Engine {
    /// Reads the ranks' logs once each of them ends with the communicator.
    pub(crate) fn of(logs: &[PathBuf]) -> Result<Self> {
        let mut engine = Self::default();
        for log in logs {
            let text = eventually(&format!("the end of {}", log.display()), PATIENCE, || ended(log))?;
            engine.add(&text)?;
        }
        Ok(engine)
    }

    fn add(&mut self, log: &str) -> Result<()> {
        for line in log.lines() {
            let Some((_, says)) = line.split_once(" NCCL INFO Traffic channel ") else { continue };
            let Said { pair, is_send, bytes } =
                Said::parse(says).with_context(|| format!("not the traffic of a connection: {line}"))?;
            let flows = if is_send { &mut self.sent } else { &mut self.received };
            // A connection that was made and carried nothing is no flow.
            if bytes > 0 {
                *flows.entry(pair).or_default() += bytes;
            }
        }
        Ok(())
    }
}

/// The log, once its communicator is gone. `ringscope run` copies what the job asked for, and does so a little later.
fn ended(log: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(log).unwrap_or_default();
    Ok(text.contains(GONE).then_some(text))
}

/// One line.
#[derive(Debug)]
struct Said {
    pair: (usize, usize),
    is_send: bool,
    bytes: u64,
}

impl Said {
    /// `CHANNEL : FROM -> TO sent BYTES bytes in N parts`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').skip(2);
        let from = words.next()?.parse().ok()?;
        let to = words.nth(1)?.parse().ok()?;
        let is_send = words.next()? == "sent";
        Some(Self { pair: (from, to), is_send, bytes: words.next()?.parse().ok()? })
    }
}

/// What the engine logs when a communicator is destroyed.
const GONE: &str = "Destroy COMPLETE";
/// How late the copy of a log may be.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_pair_add_up_by_end() {
        let mut engine = Engine::default();
        let lines = [
            "host-0:7:8 [0] NCCL INFO Traffic channel 00 : 0 -> 1 sent 40 bytes in 2 parts",
            "host-0:7:8 [0] NCCL INFO Traffic channel p2p : 0 -> 1 sent 2 bytes in 1 parts",
            "host-0:7:8 [0] NCCL INFO Traffic channel 01 : 2 -> 0 received 5 bytes in 1 parts",
            "host-0:7:8 [0] NCCL INFO Traffic channel 01 : 3 -> 0 received 0 bytes in 0 parts",
            "host-0:7:8 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        ];
        engine.add(&lines.join("\n")).unwrap();
        assert_eq!(engine.sent, Flows::from([((0, 1), 42)]));
        assert_eq!(engine.received, Flows::from([((2, 0), 5)]));
        assert!(engine.add("h:1:1 [0] NCCL INFO Traffic channel 01 : 3 -> x sent").is_err());
    }
}
