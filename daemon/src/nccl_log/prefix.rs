//! Who wrote a line: `HOST:PID:TID [cudaDev] NCCL INFO message`, behind whatever a launcher or a timestamp puts first.

/// One record of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'l> {
    pub(super) host: &'l str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cuda_device: Option<u32>,
    pub(super) message: &'l str,
}

/// The record on a line, if it is one of level INFO.
pub(super) fn record(line: &str) -> Option<Record<'_>> {
    let (head, message) = line.split_once(" NCCL INFO ")?;
    let mut words = head.split_ascii_whitespace().rev();
    let mut cuda_device = None;
    let writer = words.find_map(|word| {
        if let Some(device) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            cuda_device = device.parse().ok().or(cuda_device);
        }
        writer(word)
    });
    let (host, pid, tid) = writer?;
    Some(Record { host, pid, tid, cuda_device, message: message.trim() })
}

/// `HOST:PID:TID`; what a launcher glues in front (`[1,0]<stdout>:`, `3:`) is cut off, for no host name has a colon.
fn writer(word: &str) -> Option<(&str, u32, u32)> {
    let mut parts = word.rsplitn(4, ':');
    let tid = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    let host = parts.next().filter(|host| !host.is_empty())?;
    Some((host, pid, tid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(&str, u32, u32, Option<u32>, &str)>) {
        let found = record(line).map(|r| (r.host, r.pid, r.tid, r.cuda_device, r.message));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn prefixes() {
        let plain = Some(("node0", 4744, 4763, Some(0), "Using network IB"));
        check("node0:4744:4763 [0] NCCL INFO Using network IB", plain);
        check("3: node0:4744:4763 [0] NCCL INFO Using network IB", plain);
        check("[2026-04-28 14:14:48] node0:4744:4763 [0] NCCL INFO Using network IB", plain);
        check("[1,0]<stdout>:node0:4744:4763 [0] NCCL INFO Using network IB", plain);
        check("(worker pid=9) node0:4744:4763 [0] NCCL INFO  Using network IB ", plain);
        check("node0:4744:4763 NCCL INFO x", Some(("node0", 4744, 4763, None, "x")));
        check("node0:4744:4763 [0] transport/net_ib.cc:115 NCCL WARN no path", None);
        check("node0:4744 [0] NCCL INFO x", None);
        check(":1:2 [0] NCCL INFO x", None);
        check("NCCL version 2.20.5+cuda12.4", None);
        check("rank 0/3 ok val=3.0", None);
    }
}
