//! The line that names a communicator: `comm 0x… rank … nranks … cudaDev … busId … - Init START`, whose fields come and
//! go with the versions. Source: NCCL `src/init.cc`, `ncclCommInitRankFunc`; forms 2.5 to 2.32 in the tests.

use super::pattern::hex;

/// What such a line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InitLine {
    pub(super) pointer: u64,
    pub(super) rank: u32,
    pub(super) n_ranks: u32,
    pub(super) cuda_device: Option<u32>,
    pub(super) nvml_device: Option<u32>,
    pub(super) bus_id: Option<u64>,
    pub(super) comm_hash: Option<u64>,
    pub(super) parent: Option<u64>,
    /// `splitCount` or `childCount`.
    pub(super) child_count: Option<i32>,
    pub(super) color: Option<i32>,
    /// Function that makes the communicator.
    pub(super) api: Option<String>,
}

/// Reads the fields after the word `comm`: the pointer, then names and values by turns. Names that are not known are
/// skipped, for newer versions add some.
pub(super) fn fields(text: &str) -> Option<InitLine> {
    let mut words = text.split_ascii_whitespace();
    let pointer = words.next().filter(|word| word.starts_with("0x")).and_then(hex)?;
    let mut line = InitLine { pointer, ..InitLine::default() };
    let (mut rank, mut n_ranks) = (None, None);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name {
            "rank" => rank = value.parse().ok(),
            "nranks" => n_ranks = value.parse().ok(),
            "cudaDev" => line.cuda_device = value.parse().ok(),
            "nvmlDev" => line.nvml_device = value.parse().ok(),
            // A library that has no GPU writes 0, which no GPU has: a host bridge is there.
            "busId" => line.bus_id = hex(value).filter(|id| *id != 0),
            "commId" => line.comm_hash = hex(value).filter(|hash| *hash != 0),
            "parent" => line.parent = hex(value),
            "splitCount" | "childCount" => line.child_count = value.parse().ok(),
            "color" => line.color = value.parse().ok(),
            _ => {}
        }
    }
    (line.rank, line.n_ranks) = (rank?, n_ranks.filter(|n| *n > 0)?);
    Some(line)
}

/// `1b000` as the kernel writes it: `0000:1b:00.0`. Source: NCCL `int64ToBusId`.
pub(super) fn bus_id_text(id: u64) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", id >> 20, id >> 12 & 0xff, id >> 4 & 0xff, id & 0xf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids() {
        assert_eq!(bus_id_text(0x1b000), "0000:1b:00.0");
        assert_eq!(bus_id_text(0x101d0), "0000:10:1d.0");
        assert_eq!(bus_id_text(0x80), "0000:00:08.0");
        assert_eq!(bus_id_text(0x0001_2345_6001), "1234:56:00.1");
    }

    #[test]
    fn a_library_without_gpus_names_none() {
        let bus_id =
            |id| fields(&format!("0xa0 rank 0 nranks 2 cudaDev 1 busId {id}")).map(|line| line.bus_id);
        assert_eq!((bus_id("0"), bus_id("1b000")), (Some(None), Some(Some(0x1b000))));
    }

    #[test]
    fn what_is_no_init_line() {
        for text in
            ["", "0x1", "1 rank 0 nranks 2", "0x1 rank 0", "0x1 rank 0 nranks 0", "0x1 rank -1 nranks 2"]
        {
            assert_eq!(fields(text), None, "{text}");
        }
    }
}
