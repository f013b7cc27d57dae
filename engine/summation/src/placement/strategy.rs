//! The ways to place parts, by name: the engine's, those it is compared with, and BytePS's.

use super::assign::Placement;
use super::hashes::{by_slots, byteps_key, check_mixed_mode, check_slots, djb2, mixed_mode};
use super::machines::{Machines, Refused};
use super::shares::Shares;
use crate::tensor::{Declarations, Part};
use rsccl_collective::hash::hash;

/// A way to place parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// By size, as close to the best shares as parts allow.
    Greedy,
    /// To the best shares, one part after the other: each to the service that is furthest behind its share.
    KeyOrder,
    /// As BytePS's code does with servers and workers mixed.
    Shipped,
    /// As BytePS's paper does, by DJB2 modulo D.
    HashModD,
    /// The same by a hash that spreads keys well.
    GoodHashModD,
    /// By DJB2 modulo the number of services: BytePS's code without mixed mode, where services are all alike.
    HashModServices,
    /// By size, in equal shares on workers.
    AllReduce,
    /// By size, in equal shares on servers.
    ParameterServer,
    /// By size, in equal shares everywhere.
    Equal,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 9] = [
        Self::Greedy,
        Self::KeyOrder,
        Self::Shipped,
        Self::HashModD,
        Self::GoodHashModD,
        Self::HashModServices,
        Self::AllReduce,
        Self::ParameterServer,
        Self::Equal,
    ];

    /// Its name in settings and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::KeyOrder => "key-order",
            Self::Shipped => "shipped",
            Self::HashModD => "hash-mod-d",
            Self::GoodHashModD => "good-hash-mod-d",
            Self::HashModServices => "hash-mod-services",
            Self::AllReduce => "all-reduce",
            Self::ParameterServer => "parameter-server",
            Self::Equal => "equal",
        }
    }

    /// The strategy of a name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Places all parts.
    ///
    /// # Errors
    /// A parameter server without servers; more servers than workers, or a single worker, where a hash goes by shares;
    /// more services than the slots of [`Strategy::Shipped`].
    pub fn place(
        self,
        epoch: u32,
        declarations: &Declarations,
        machines: &Machines,
    ) -> Result<Placement, Refused> {
        let by_shares = |shares: &Shares| Placement::by_shares(epoch, declarations, shares);
        let by_hash = |service: &dyn Fn(u64) -> u64| {
            let owner = |part: &Part| u16::try_from(service(byteps_key(part))).unwrap_or(u16::MAX);
            Placement::of(epoch, declarations, machines.n_services(), owner)
        };
        Ok(match self {
            Self::Greedy => by_shares(&Shares::optimal(machines)),
            Self::AllReduce => by_shares(&Shares::all_reduce(machines)),
            Self::ParameterServer => by_shares(&Shares::parameter_server(machines)?),
            Self::Equal => by_shares(&Shares::equal(machines)),
            Self::KeyOrder => key_order(epoch, declarations, &Shares::optimal(machines)),
            Self::Shipped => {
                check_mixed_mode(machines)?;
                by_hash(&|key| mixed_mode(key, machines))
            }
            Self::HashModD => {
                check_slots(machines)?;
                by_hash(&|key| by_slots(djb2(key), machines))
            }
            Self::GoodHashModD => {
                check_slots(machines)?;
                by_hash(&|key| by_slots(hash(&key.to_le_bytes()), machines))
            }
            Self::HashModServices => by_hash(&|key| djb2(key) % machines.n_services() as u64),
        })
    }
}

/// Each part to the service with the largest share · placed − owned, the lowest of equals.
fn key_order(epoch: u32, declarations: &Declarations, shares: &Shares) -> Placement {
    let total = i128::from(declarations.total_bytes());
    let targets = shares.target_bytes(declarations.total_bytes());
    let mut services: Vec<(u16, i128, i128)> =
        (0..=u16::MAX).zip(targets).map(|(service, target)| (service, i128::from(target), 0)).collect();
    let mut placed = 0;
    Placement::of(epoch, declarations, shares.machines().n_services(), |part| {
        let size = i128::from(part.size_bytes);
        placed += size;
        let behind = services.iter_mut().min_by_key(|(_, target, owned)| *owned * total - *target * placed);
        behind.map_or(0, |(service, _, owned)| {
            *owned += size;
            *service
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::models::Model;
    use super::super::predict::predict;
    use super::*;
    use crate::tensor::DEFAULT_PARTITION_BYTES;

    fn over_optimal(strategy: Strategy, model: Model, n: usize, k: usize) -> f64 {
        let declarations = Declarations::of(DEFAULT_PARTITION_BYTES, model.tensors()).unwrap();
        let machines = Machines::even(n, k, 1_000_000).unwrap();
        predict(&machines, &strategy.place(0, &declarations, &machines).unwrap()).over_optimal()
    }

    #[test]
    fn hashes_are_as_far_from_the_best_as_byteps_is() {
        let cases = [
            (Model::Vgg16, 4, 2, 1.21, 1.06),
            (Model::Vgg16, 8, 4, 1.24, 1.25),
            (Model::Vgg16, 32, 16, 2.27, 4.31),
            (Model::ResNet50, 4, 2, 1.25, 1.10),
            (Model::ResNet50, 8, 4, 1.75, 1.43),
            (Model::BertLarge, 8, 4, 1.12, 1.25),
        ];
        for (model, n, k, shipped, mod_d) in cases {
            for (strategy, expected) in [(Strategy::Shipped, shipped), (Strategy::HashModD, mod_d)] {
                let found = over_optimal(strategy, model, n, k);
                assert!((found - expected).abs() < 0.006, "{strategy:?} {model:?} {n} {k}: {found}");
            }
        }
    }

    #[test]
    fn greedy_is_never_behind_another_strategy() {
        for model in Model::ALL {
            for (n, k) in [(3, 1), (4, 2), (8, 4), (8, 8), (32, 16)] {
                let best = over_optimal(Strategy::Greedy, model, n, k);
                for strategy in Strategy::ALL {
                    let other = over_optimal(strategy, model, n, k);
                    assert!(best <= other + 1e-12, "{strategy:?} {model:?} {n} {k}: {best} {other}");
                }
            }
        }
    }

    #[test]
    fn the_ends_take_what_their_formulas_say() {
        for (strategy, units) in [(Strategy::AllReduce, 1.75), (Strategy::ParameterServer, 2.0)] {
            let found = over_optimal(strategy, Model::BertLarge, 8, 4) * (2.0 * 56.0 / 88.0);
            assert!((found / units - 1.0).abs() < 0.002, "{strategy:?} {found}");
        }
    }

    #[test]
    fn every_strategy_is_found_by_its_name_and_refuses_what_it_cannot_do() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_name(strategy.name()), Some(strategy));
        }
        assert_eq!(Strategy::from_name("gready"), None);
        let declarations = Declarations::of(DEFAULT_PARTITION_BYTES, Model::Vgg16.tensors()).unwrap();
        let refused = |strategy: Strategy, n, k| {
            strategy.place(0, &declarations, &Machines::even(n, k, 1).unwrap()).unwrap_err()
        };
        assert_eq!(refused(Strategy::ParameterServer, 2, 0), Refused::NoServers);
        for strategy in [Strategy::Shipped, Strategy::HashModD, Strategy::GoodHashModD] {
            assert_eq!(refused(strategy, 2, 3), Refused::NoSlots { n_servers: 3, n_workers: 2 });
        }
    }
}
