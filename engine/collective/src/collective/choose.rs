//! Which algorithm an operation takes, and over how many channels at most: a table, measured by `cargo xtask tune`.
//!
//! The first row that fits and whose algorithm can carry out the primitive decides. The rows of a file named by
//! `RSCCL_TUNING` come before the built-in ones:
//!
//! ```json
//! {"rows": [{"primitive": "all_reduce", "hosts": "one", "ranks": [2, 4], "up_to_bytes": 65536,
//!            "algorithm": "halving-doubling", "channels": 1, "source": "measured on host a, 2 cores"}]}
//! ```
//!
//! A row without `up_to_bytes` or `channels` has no limit. All ranks must have the same table; one that has not, gives an
//! operation another algorithm than its peers, which they report as a mismatch.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::channels::MAX_CHANNELS;
use crate::collective::algorithm::Algorithm;
use crate::collective::catalog::supports;
use crate::collective::layout::Scope;
use crate::collective::primitive::Primitive;

/// Where the ranks of a communicator are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hosts {
    /// All on one.
    One,
    /// On more than one.
    Several,
    /// Each on one of its own, which is also on several.
    Each,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// A primitive's name.
    pub(crate) primitive: Cow<'static, str>,
    /// Where the ranks are.
    pub(crate) hosts: Hosts,
    /// Fewest and most ranks.
    pub(crate) ranks: [usize; 2],
    /// Most bytes of the whole buffer: all blocks, of a primitive that has blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) up_to_bytes: Option<usize>,
    /// What it then takes.
    pub(crate) algorithm: Algorithm,
    /// Most channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) channels: Option<usize>,
    /// Why: a measurement, or a publication.
    pub(crate) source: Cow<'static, str>,
}

/// All rules, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

/// What the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The algorithm, which supports the primitive.
    pub(crate) algorithm: Algorithm,
    /// Most channels, if limited.
    pub(crate) channels: Option<usize>,
}

/// Rows of a table at most: more than any measurement distinguishes.
const MAX_ROWS: usize = 4096;

impl Table {
    /// The built-in rows.
    pub(crate) fn built_in() -> Self {
        Self { rows: BUILT_IN.to_vec() }
    }

    /// The rows of a file, then the built-in ones.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a table.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let wrong = |what: String| {
            format!("RSCCL_TUNING: {}: {what}; cargo xtask tune prints such a file", path.display())
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    /// The rows of a JSON text, then the built-in ones.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut table: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if table.rows.len() > MAX_ROWS {
            return Err(format!("{} rows are more than {MAX_ROWS}", table.rows.len()));
        }
        for (index, row) in table.rows.iter().enumerate() {
            row.check().map_err(|what| format!("row {}: {what}", index + 1))?;
        }
        table.rows.extend_from_slice(&BUILT_IN);
        Ok(table)
    }

    /// For a primitive whose whole buffer has `bytes`.
    pub(crate) fn choose(&self, primitive: Primitive, bytes: usize, scope: &Scope<'_>) -> Pick {
        let fits =
            |row: &&Row| row.fits(primitive, bytes, scope) && supports(row.algorithm, primitive, scope);
        let row = self.rows.iter().find(fits);
        let ring = supports(Algorithm::Ring, primitive, scope);
        let otherwise = if ring { Algorithm::Ring } else { Algorithm::Direct };
        Pick {
            algorithm: row.map_or(otherwise, |row| row.algorithm),
            channels: row.and_then(|row| row.channels),
        }
    }
}

impl Hosts {
    fn fit(self, nodes: &[usize]) -> bool {
        let one = nodes.windows(2).all(|pair| pair[0] == pair[1]);
        match self {
            Self::One => one,
            Self::Several => !one,
            // Nodes are numbered in the order of their first ranks.
            Self::Each => !one && nodes.iter().enumerate().all(|(rank, node)| rank == *node),
        }
    }
}

impl Row {
    fn fits(&self, primitive: Primitive, bytes: usize, scope: &Scope<'_>) -> bool {
        self.primitive == primitive.name()
            && self.hosts.fit(scope.nodes)
            && (self.ranks[0]..=self.ranks[1]).contains(&scope.n_ranks)
            && self.up_to_bytes.is_none_or(|most| bytes <= most)
    }

    fn check(&self) -> Result<(), String> {
        if !PRIMITIVES.contains(&self.primitive.as_ref()) {
            return Err(format!("primitive \"{}\" is none of {}", self.primitive, PRIMITIVES.join(", ")));
        }
        if self.ranks[0] > self.ranks[1] {
            return Err(format!("ranks {:?} are not [fewest, most]", self.ranks));
        }
        if self.channels.is_some_and(|channels| !(1..=MAX_CHANNELS).contains(&channels)) {
            return Err(format!("channels must be 1 to {MAX_CHANNELS}"));
        }
        Ok(())
    }
}

const PRIMITIVES: [&str; 8] =
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"];

const ANY: usize = usize::MAX;

const fn row(
    primitive: &'static str,
    hosts: Hosts,
    ranks: [usize; 2],
    up_to_bytes: Option<usize>,
    algorithm: Algorithm,
    source: &'static str,
) -> Row {
    Row {
        primitive: Cow::Borrowed(primitive),
        hosts,
        ranks,
        up_to_bytes,
        algorithm,
        channels: None,
        source: Cow::Borrowed(source),
    }
}

const OMPI: &str =
    "Open MPI, coll_tuned_decision_fixed.c (1.x-4.0): recursive doubling below 10 kB, rings above";
const HOPS: &str = "derived: 2 log2(n) steps instead of 2(n-1), and each host is entered once per half";
const TUNED: &str =
    "measured by cargo xtask tune: 2 and 4 ranks on 2 cores of a Xeon, shared memory and loopback";
const CROSSINGS: &str =
    "derived: 2(k-1)/k S leave a host of m ranks instead of 2(km-1)/(km) S, in m + 2k steps";
const PAIR: &str =
    "derived: with two ranks every algorithm sends the same; a ring has no copy before its reducer";

/// What was measured where few ranks share a host or each has its own; elsewhere limits that others publish, and what
/// follows from bytes and steps alone. An all-reduce of one host takes flat rounds where it can, and no row.
const BUILT_IN: [Row; 20] = [
    row("all_reduce", Hosts::One, [1, 2], Some(262_144), Algorithm::RecursiveDoubling, TUNED),
    row("all_reduce", Hosts::One, [1, 2], None, Algorithm::Ring, PAIR),
    row("all_reduce", Hosts::One, [3, 8], Some(65_536), Algorithm::RecursiveDoubling, TUNED),
    row("all_reduce", Hosts::One, [3, 8], None, Algorithm::HalvingDoubling, TUNED),
    row("all_reduce", Hosts::One, [3, ANY], Some(10_000), Algorithm::HalvingDoubling, OMPI),
    row("all_reduce", Hosts::Several, [2, 2], Some(131_072), Algorithm::RecursiveDoubling, TUNED),
    row("all_reduce", Hosts::Each, [3, 8], Some(49_152), Algorithm::RecursiveDoubling, TUNED),
    row("all_reduce", Hosts::Each, [4, 8], Some(524_288), Algorithm::HalvingDoubling, TUNED),
    row("all_reduce", Hosts::Several, [3, 8], Some(32_768), Algorithm::RecursiveDoubling, TUNED),
    row("all_reduce", Hosts::Several, [9, ANY], Some(10_000), Algorithm::Tree, HOPS),
    row("all_reduce", Hosts::Several, [2, ANY], None, Algorithm::Hierarchical, CROSSINGS),
    row("reduce_scatter", Hosts::One, [3, 8], None, Algorithm::Direct, TUNED),
    row("all_gather", Hosts::One, [4, 8], Some(65_536), Algorithm::HalvingDoubling, TUNED),
    row("all_gather", Hosts::One, [3, 8], None, Algorithm::Direct, TUNED),
    row("broadcast", Hosts::One, [3, ANY], Some(10_000), Algorithm::Tree, HOPS),
    row("broadcast", Hosts::Several, [3, ANY], Some(10_000), Algorithm::Tree, HOPS),
    row("reduce", Hosts::One, [3, 8], Some(524_288), Algorithm::Direct, TUNED),
    row("reduce", Hosts::One, [3, 8], None, Algorithm::Tree, TUNED),
    row("reduce", Hosts::One, [9, ANY], Some(10_000), Algorithm::Tree, HOPS),
    row("reduce", Hosts::Several, [3, ANY], Some(10_000), Algorithm::Tree, HOPS),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(table: &Table, primitive: Primitive, bytes: usize, nodes: &[usize]) -> Pick {
        let order: Vec<usize> = (0..nodes.len()).collect();
        let scope = Scope {
            n_ranks: nodes.len(),
            nodes,
            order: &order,
            channel: 0,
            n_channels: 1,
            wide: false,
            n_virtual: 1,
            piece: 1,
        };
        table.choose(primitive, bytes, &scope)
    }

    #[test]
    fn the_first_row_that_fits_decides() {
        let table = Table::built_in();
        let cases = [
            (Primitive::AllReduce, 4, vec![0; 2], Algorithm::RecursiveDoubling),
            (Primitive::AllReduce, 262_145, vec![0; 2], Algorithm::Ring),
            (Primitive::AllReduce, 65_537, vec![0; 4], Algorithm::HalvingDoubling),
            (Primitive::AllReduce, 10_001, vec![0; 16], Algorithm::Ring),
            (Primitive::AllReduce, 1 << 20, vec![0, 0, 1, 1], Algorithm::Hierarchical),
            (Primitive::AllReduce, 4, vec![0, 0, 1, 1], Algorithm::RecursiveDoubling),
            (Primitive::AllReduce, 65_536, vec![0, 0, 1, 1], Algorithm::Hierarchical),
            (Primitive::AllReduce, 65_536, vec![0, 1, 2, 3], Algorithm::HalvingDoubling),
            (Primitive::AllReduce, 65_536, vec![0, 1, 2], Algorithm::Hierarchical),
            (Primitive::AllReduce, 262_145, vec![0, 1], Algorithm::Hierarchical),
            (Primitive::AllReduce, 4, (0..9).collect(), Algorithm::Tree),
            (Primitive::ReduceScatter, 4, vec![0; 4], Algorithm::Direct),
            (Primitive::ReduceScatter, 4, vec![0; 9], Algorithm::Ring),
            (Primitive::Broadcast { root: 1 }, 4, vec![0; 5], Algorithm::Tree),
            (Primitive::AllToAll, 4, vec![0; 5], Algorithm::Direct),
        ];
        for (primitive, bytes, nodes, algorithm) in cases {
            let pick = choose(&table, primitive, bytes, &nodes);
            assert_eq!(pick.algorithm, algorithm, "{primitive:?} {bytes} {nodes:?}");
        }
    }

    #[test]
    fn rows_of_a_file_come_first_and_survive_being_written() {
        let text = r#"{"rows": [{"primitive": "all_reduce", "hosts": "one", "ranks": [2, 4], "up_to_bytes": 65536,
            "algorithm": "fixed-tree", "channels": 3, "source": "measured"}]}"#;
        let table = Table::parse(text).unwrap();
        let pick = choose(&table, Primitive::AllReduce, 65_536, &[0, 0]);
        assert_eq!(pick, Pick { algorithm: Algorithm::FixedTree, channels: Some(3) });
        assert_eq!(choose(&table, Primitive::AllReduce, 1 << 20, &[0, 0]).algorithm, Algorithm::Ring);
        let own = Table { rows: table.rows[..1].to_vec() };
        assert_eq!(Table::parse(&serde_json::to_string(&own).unwrap()).unwrap(), table);
    }

    #[test]
    fn a_wrong_table_says_what_is_wrong_where() {
        let with = |field: &str, value: &str| {
            let mut row = serde_json::json!({"primitive": "reduce", "hosts": "one", "ranks": [2, 4],
                "algorithm": "ring", "source": "a test"});
            row[field] = serde_json::from_str(value).unwrap();
            Table::parse(&serde_json::json!({"rows": [row]}).to_string()).unwrap_err()
        };
        assert!(with("primitive", "\"allreduce\"").contains("row 1: primitive \"allreduce\" is none of"));
        assert!(with("ranks", "[4, 2]").contains("row 1: ranks [4, 2]"));
        assert!(with("channels", "65").contains("row 1: channels must be 1 to 64"));
        assert!(with("algorithm", "\"rings\"").contains("unknown variant `rings`"));
        assert!(with("speed", "1").contains("unknown field `speed`"));
        let error = Table::load(Path::new("/nowhere/table.json")).unwrap_err();
        assert!(error.contains("RSCCL_TUNING: /nowhere/table.json: No such file"), "{error}");
    }

    #[test]
    fn names_are_those_of_the_table_in_the_code() {
        for algorithm in Algorithm::ALL {
            assert_eq!(serde_json::to_string(&algorithm).unwrap(), format!("\"{}\"", algorithm.name()));
        }
        assert!(Table::built_in().rows.iter().all(|row| row.check().is_ok()));
    }
}
