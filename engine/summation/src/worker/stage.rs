//! The stages of a part, and which of them it goes through.

use std::fmt;

/// Where a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Into a codec's form.
    Compress,
    /// To the server that owns it.
    Push,
    /// At the server, until all workers' contributions are summed.
    Sum,
    /// Back from the server.
    Pull,
    /// Out of the codec's form.
    Decompress,
}

/// Which stages a part goes through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) compress: bool,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Self; 5] = [Self::Compress, Self::Push, Self::Sum, Self::Pull, Self::Decompress];

    /// Its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compress => "compress",
            Self::Push => "push",
            Self::Sum => "sum",
            Self::Pull => "pull",
            Self::Decompress => "decompress",
        }
    }

    /// Whether what bounds the parts in it are credits, or rounds at the server.
    pub(super) fn is_bounded_by_credits(self) -> bool {
        matches!(self, Self::Sum | Self::Pull)
    }

    /// Its place in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Route {
    /// Where a part begins.
    pub(super) fn first(self) -> Stage {
        Stage::ALL.into_iter().find(|stage| self.has(*stage)).unwrap_or(Stage::Push)
    }

    /// Where it goes from `stage`; nowhere if that is the last one.
    pub(super) fn after(self, stage: Stage) -> Option<Stage> {
        Stage::ALL.into_iter().find(|next| *next > stage && self.has(*next))
    }

    fn has(self, stage: Stage) -> bool {
        match stage {
            Stage::Compress | Stage::Decompress => self.compress,
            Stage::Push | Stage::Sum | Stage::Pull => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(route: Route) -> String {
        let names = std::iter::successors(Some(route.first()), |stage| route.after(*stage)).map(Stage::name);
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stages_without_work_are_skipped() {
        assert_eq!(stages(Route { compress: false }), "push sum pull");
        assert_eq!(stages(Route { compress: true }), Stage::ALL.map(Stage::name).join(" "));
    }
}
