//! How a machine sums the gradients of its own GPUs before they leave it, and what each way takes.
//!
//! GPUs hang below PCIe switches, switches below the CPU. p switches with n GPUs each; M bytes of gradient on each GPU;
//! b(S,C) from a switch to the CPU, b(N,S) from a GPU to its switch, in bytes per second and direction. A share x of the
//! gradient is copied to the CPU by every GPU, whole ("brute force"); the rest is CPU-assisted: reduce-scatter inside
//! the switch, 1/n copied by each GPU, summed over switches by the CPU, copied back, all-gather.
//!
//! | | seconds |
//! |---|---|
//! | switch to CPU | t(S,C) = \[1 + (n−1)x\] M / b(S,C) |
//! | GPU to switch | t(N,S) = \[(2n−1) − (n−1)x\] M / (n b(N,S)) |
//! | both at once | J(x) = max(t(S,C), t(N,S)) |
//! | best share | x* = \[(2n−1) b(S,C) − n b(N,S)\] / \[(n−1)(n b(N,S) + b(S,C))\], within 0 to 1 |
//! | CPU-assisted | J_ca = J(0), which is (2n−1)M / (n b) where GPU links bind |
//! | ring over all GPUs | J_ar = 2(np−1)M / (np b), b that of its slowest hop |
//!
//! With equal bandwidths x* = 1/(n+1), which is faster than x = 0 by (2n−1)(n+1)/(2n²). Source: Jiang, Zhu, Lan, Yi, Cui
//! and Guo, "A unified architecture for accelerating distributed DNN training in heterogeneous GPU/CPU clusters", OSDI 2020.
//!
//! A NIC shares its switch's link to the CPU with that switch's GPUs. So the rule (there too): where some GPUs share a
//! switch with a NIC and others do not, reduce to those that do not, and broadcast from them; elsewhere all links are
//! alike, and a reduce-scatter with an all-gather uses them evenly, CPU-assisted where no NVLink joins the GPUs.
//!
//! Own derivation, for comparison: the network takes M in and M out of the host, evenly over the NICs. Over NVLink,
//! which binds nowhere, a reduce-scatter leaves n/(np) M for each switch, and r roots M/r each. Without it, reduce and
//! broadcast are one pipelined chain that passes each link twice in each direction, but once at the switch where it
//! begins. A ring's blocks also go to the CPU and back, which J_ar leaves out. By these numbers the rule is the fastest
//! way over NVLink while GPUs without a NIC have no fewer switches than those with one; [`Plan::others`] shows where it
//! is not.
//!
//! A host without GPUs is the same: NUMA nodes for switches, cores for GPUs.

/// A PCIe switch, or a NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// GPUs below it; cores of a node.
    pub gpus: usize,
    /// Whether a NIC is below it.
    pub has_nic: bool,
}

/// Bytes per second of each kind of link, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidths {
    /// b(S,C): from a switch to the CPU.
    pub switch_to_cpu: f64,
    /// b(N,S): from a GPU to its switch.
    pub gpu_to_switch: f64,
    /// The slowest hop of a ring over all GPUs: where it crosses from switch to switch.
    pub ring_hop: f64,
}

/// A machine with GPUs, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    switches: Vec<Switch>,
    bandwidths: Bandwidths,
    nvlink: bool,
}

/// A way to sum the gradients of a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// All GPUs reduce to one below a root, which exchanges with the CPU, and broadcasts.
    ReduceBroadcast {
        /// Switches, by index, that parts take in turn.
        roots: Vec<usize>,
    },
    /// Over NVLink; each GPU exchanges its block with the CPU.
    ReduceScatterAllGather,
    /// Inside each switch, and over switches by the CPU.
    CpuAssisted {
        /// x: the share that every GPU copies to the CPU whole. 0 is all assisted, 1 all brute force.
        whole_share: f64,
    },
    /// One ring over all GPUs. Never chosen: what others do.
    Ring,
}

/// What it takes, in seconds per byte of the gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Which one.
    pub way: Way,
    /// While NICs are idle: the paper's formulas.
    pub alone: f64,
    /// While NICs carry the gradient out and the sum in.
    pub beside_nics: f64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the rule chose.
    pub chosen: Forecast,
    /// What else this machine could do.
    pub others: Vec<Forecast>,
}

/// Why a machine is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// Nothing to sum.
    #[error("none of {switches} switches has a GPU: describe at least one GPU")]
    NoGpus {
        /// As given.
        switches: usize,
    },
    /// Not a speed.
    #[error("{link} has {bytes_per_s} bytes per second: give a number above 0")]
    Bandwidth {
        /// Which kind.
        link: &'static str,
        /// As given.
        bytes_per_s: f64,
    },
}

impl Bandwidths {
    /// t(S,C)/M in seconds per byte: `n` GPUs below the switch, share `x` copied whole.
    #[must_use]
    pub fn switch_to_cpu_time(&self, n: usize, x: f64) -> f64 {
        switch_to_cpu_load(n, x) / self.switch_to_cpu
    }

    /// t(N,S)/M in seconds per byte.
    #[must_use]
    pub fn gpu_to_switch_time(&self, n: usize, x: f64) -> f64 {
        gpu_to_switch_load(n, x) / self.gpu_to_switch
    }

    /// J(x)/M in seconds per byte. J(0) is the CPU-assisted way alone, J(1) brute force.
    #[must_use]
    pub fn assisted_time(&self, n: usize, x: f64) -> f64 {
        self.switch_to_cpu_time(n, x).max(self.gpu_to_switch_time(n, x))
    }

    /// x*: the share for which [`Bandwidths::assisted_time`] is least. 0 with one GPU, where it makes no difference.
    #[must_use]
    pub fn best_whole_share(&self, n: usize) -> f64 {
        let Some(others) = n.checked_sub(1).filter(|others| *others > 0) else { return 0.0 };
        let (n, others) = (n as f64, others as f64);
        let (cpu, gpu) = (self.switch_to_cpu, self.gpu_to_switch);
        let share = ((n + others) * cpu - n * gpu) / (others * (n * gpu + cpu));
        share.clamp(0.0, 1.0)
    }

    /// J_ar/M in seconds per byte: a ring over `n_gpus` of all switches.
    #[must_use]
    pub fn ring_time(&self, n_gpus: usize) -> f64 {
        ring_load(n_gpus) / self.ring_hop
    }

    fn check(&self) -> Result<(), MachineError> {
        let links = [
            ("the link from switch to CPU", self.switch_to_cpu),
            ("the link from GPU to switch", self.gpu_to_switch),
            ("the slowest hop of the ring", self.ring_hop),
        ];
        match links.into_iter().find(|(_, speed)| !(speed.is_finite() && *speed > 0.0)) {
            Some((link, bytes_per_s)) => Err(MachineError::Bandwidth { link, bytes_per_s }),
            None => Ok(()),
        }
    }
}

impl Machine {
    /// A machine whose GPUs are joined by NVLink, or not.
    ///
    /// # Errors
    /// It has no GPU, or a bandwidth is not above 0.
    pub fn new(switches: Vec<Switch>, bandwidths: Bandwidths, nvlink: bool) -> Result<Self, MachineError> {
        bandwidths.check()?;
        if switches.iter().all(|switch| switch.gpus == 0) {
            return Err(MachineError::NoGpus { switches: switches.len() });
        }
        Ok(Self { switches, bandwidths, nvlink })
    }

    /// A host without GPUs: nodes with cores, `core` bytes per second for each core to its node's memory while all of
    /// them work, and `node` from one node to the others. Every ring over all cores crosses nodes.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn of_numa_nodes(nodes: Vec<Switch>, core: f64, node: f64) -> Result<Self, MachineError> {
        let bandwidths = Bandwidths { switch_to_cpu: node, gpu_to_switch: core, ring_hop: core.min(node) };
        Self::new(nodes, bandwidths, false)
    }

    /// What it takes here.
    #[must_use]
    pub fn forecast(&self, way: Way) -> Forecast {
        let own = match &way {
            Way::Ring => self.bandwidths.ring_time(self.n_gpus()),
            other => self.gpu_load(other) / self.bandwidths.gpu_to_switch,
        };
        let uplink = |beside: f64| {
            let load = |(index, switch): (usize, &Switch)| {
                self.uplink_load(&way, index) + beside * self.nic_load(switch)
            };
            self.switches.iter().enumerate().map(load).fold(0.0, f64::max) / self.bandwidths.switch_to_cpu
        };
        let alone = if way == Way::Ring { own } else { own.max(uplink(0.0)) };
        Forecast { alone, beside_nics: own.max(uplink(1.0)), way }
    }

    /// Switches with GPUs and no NIC, if other GPUs do share a switch with one.
    fn roots(&self) -> Option<Vec<usize>> {
        let with_gpus = || self.switches.iter().enumerate().filter(|(_, switch)| switch.gpus > 0);
        let roots: Vec<usize> =
            with_gpus().filter(|(_, switch)| !switch.has_nic).map(|(index, _)| index).collect();
        (!roots.is_empty() && with_gpus().count() > roots.len()).then_some(roots)
    }

    /// GPUs of the fullest switch: the one that binds.
    fn most_gpus(&self) -> usize {
        self.switches.iter().map(|switch| switch.gpus).max().unwrap_or(0)
    }

    fn n_gpus(&self) -> usize {
        self.switches.iter().map(|switch| switch.gpus).sum()
    }

    /// Of the busiest GPU's link, per direction, in gradients.
    fn gpu_load(&self, way: &Way) -> f64 {
        match way {
            Way::ReduceBroadcast { roots } if self.nvlink => 1.0 / roots.len() as f64,
            Way::ReduceBroadcast { .. } => 2.0,
            Way::ReduceScatterAllGather => 1.0 / self.n_gpus() as f64,
            Way::CpuAssisted { whole_share } => gpu_to_switch_load(self.most_gpus(), *whole_share),
            Way::Ring => ring_load(self.n_gpus()),
        }
    }

    /// Of a switch's link to the CPU, per direction, in gradients.
    fn uplink_load(&self, way: &Way, index: usize) -> f64 {
        let gpus = self.switches.get(index).map_or(0, |switch| switch.gpus);
        if gpus == 0 {
            return 0.0;
        }
        match way {
            Way::ReduceBroadcast { roots } if self.nvlink => {
                if roots.contains(&index) {
                    1.0 / roots.len() as f64
                } else {
                    0.0
                }
            }
            Way::ReduceBroadcast { .. } if self.chain_begins() == Some(index) => 1.0,
            Way::ReduceBroadcast { .. } => 2.0,
            Way::ReduceScatterAllGather => gpus as f64 / self.n_gpus() as f64,
            Way::CpuAssisted { whole_share } => switch_to_cpu_load(gpus, *whole_share),
            // Besides what passes from switch to switch, the blocks that the GPUs exchange with the CPU.
            Way::Ring => {
                let hops = if gpus == self.n_gpus() { 0.0 } else { ring_load(self.n_gpus()) };
                hops + gpus as f64 / self.n_gpus() as f64
            }
        }
    }

    /// Of a NIC below a switch.
    fn nic_load(&self, switch: &Switch) -> f64 {
        if !switch.has_nic {
            return 0.0;
        }
        1.0 / self.switches.iter().filter(|switch| switch.has_nic).count() as f64
    }

    /// Where the chain of a reduce and broadcast begins: beside a NIC.
    fn chain_begins(&self) -> Option<usize> {
        self.switches.iter().position(|switch| switch.has_nic && switch.gpus > 0)
    }
}

/// The rule, and what each way takes.
#[must_use]
pub fn choose(machine: &Machine) -> Plan {
    let best = Way::CpuAssisted { whole_share: machine.bandwidths.best_whole_share(machine.most_gpus()) };
    let mut possible = Vec::new();
    possible.extend(machine.roots().map(|roots| Way::ReduceBroadcast { roots }));
    possible.extend(machine.nvlink.then_some(Way::ReduceScatterAllGather));
    possible.extend([
        best.clone(),
        Way::CpuAssisted { whole_share: 0.0 },
        Way::CpuAssisted { whole_share: 1.0 },
        Way::Ring,
    ]);
    let mut forecasts = possible.into_iter().map(|way| machine.forecast(way));
    // In the order of the rule.
    let chosen = forecasts.next().unwrap_or_else(|| machine.forecast(best));
    Plan { chosen, others: forecasts.collect() }
}

/// t(S,C) b(S,C)/M.
fn switch_to_cpu_load(n: usize, x: f64) -> f64 {
    1.0 + (n as f64 - 1.0) * x
}

/// t(N,S) b(N,S)/M.
fn gpu_to_switch_load(n: usize, x: f64) -> f64 {
    let n = n.max(1) as f64;
    (2.0 * n - 1.0 - (n - 1.0) * x) / n
}

/// J_ar b/M.
fn ring_load(n_gpus: usize) -> f64 {
    let n = n_gpus.max(1) as f64;
    2.0 * (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIGABIT: f64 = 1e9 / 8.0;

    fn equal(bytes_per_s: f64) -> Bandwidths {
        Bandwidths { switch_to_cpu: bytes_per_s, gpu_to_switch: bytes_per_s, ring_hop: bytes_per_s }
    }

    fn switches(gpus_and_nics: &[(usize, bool)]) -> Vec<Switch> {
        gpus_and_nics.iter().map(|&(gpus, has_nic)| Switch { gpus, has_nic }).collect()
    }

    fn machine(gpus_and_nics: &[(usize, bool)], nvlink: bool) -> Machine {
        Machine::new(switches(gpus_and_nics), equal(12.4e9), nvlink).unwrap()
    }

    fn assert_near(got: f64, want: f64, within: f64) {
        assert!((got - want).abs() <= within, "{got} is not {want}");
    }

    #[test]
    fn equal_links_share_one_of_n_and_one() {
        for n in 2..17 {
            assert_near(equal(1e10).best_whole_share(n), 1.0 / (n as f64 + 1.0), 1e-12);
        }
        assert_near(equal(1e10).best_whole_share(4), 0.2, 1e-12);
    }

    #[test]
    fn the_best_share_gains_what_the_paper_says() {
        for (n, gain) in [(2, 1.125), (4, 1.09375), (8, 1.055)] {
            let links = equal(1e10);
            let got = links.assisted_time(n, 0.0) / links.assisted_time(n, links.best_whole_share(n));
            assert_near(got, gain, 5e-4);
            let n = n as f64;
            assert_near(got, (2.0 * n - 1.0) * (n + 1.0) / (2.0 * n * n), 1e-12);
        }
    }

    #[test]
    fn a_gigabyte_over_four_gpus_takes_the_papers_seconds() {
        let links = equal(12.4e9);
        assert_near(1e9 * links.assisted_time(4, 0.0), 0.141, 5e-4);
        assert_near(1e9 * links.assisted_time(4, 0.2), 0.129, 5e-4);
    }

    #[test]
    fn a_ring_over_two_switches_takes_longer_by_the_papers_share() {
        let links = Bandwidths { ring_hop: 80.0 * GIGABIT, ..equal(105.0 * GIGABIT) };
        assert_near(1.0 - links.assisted_time(4, 0.0) / links.ring_time(8), 0.238, 5e-4);
    }

    #[test]
    fn no_ring_over_several_switches_is_faster_at_equal_speed() {
        for (n, p) in (1..10).flat_map(|n| (2..10).map(move |p| (n, p))) {
            let links = equal(1e10);
            assert!(links.assisted_time(n, 0.0) <= links.ring_time(n * p) * (1.0 + 1e-12), "{n} {p}");
        }
    }

    #[test]
    fn one_gpu_copies_its_gradient_once() {
        let links = Bandwidths { switch_to_cpu: 2.0, ..equal(4.0) };
        assert_eq!(links.best_whole_share(1), 0.0);
        assert_eq!([0.0, 0.5, 1.0].map(|x| links.assisted_time(1, x)), [0.5; 3]);
        assert_eq!(links.ring_time(1), 0.0);
    }

    proptest! {
        #[test]
        fn no_share_on_a_grid_is_better(n in 1_usize..17, cpu in 1e9..1e11, gpu in 1e9..1e11) {
            let links = Bandwidths { switch_to_cpu: cpu, gpu_to_switch: gpu, ring_hop: cpu };
            let best = links.best_whole_share(n);
            prop_assert!((0.0..=1.0).contains(&best));
            let least = links.assisted_time(n, best);
            for step in 0..=1000 {
                let x = f64::from(step) / 1000.0;
                prop_assert!(least <= links.assisted_time(n, x) * (1.0 + 1e-12), "{} beats {}", x, best);
            }
        }
    }

    #[test]
    fn the_rule() {
        let best = Way::CpuAssisted { whole_share: equal(1.0).best_whole_share(4) };
        let rooted = |roots: &[usize]| Way::ReduceBroadcast { roots: roots.to_vec() };
        let table = [
            (vec![(4, true), (4, false)], true, rooted(&[1])),
            (vec![(4, true), (4, false)], false, rooted(&[1])),
            (vec![(2, false), (2, true), (2, false), (0, true)], true, rooted(&[0, 2])),
            (vec![(4, true), (4, true)], true, Way::ReduceScatterAllGather),
            (vec![(4, true), (4, true)], false, best.clone()),
            (vec![(4, false), (4, false)], true, Way::ReduceScatterAllGather),
            (vec![(4, false), (4, false), (0, true)], false, best.clone()),
            (vec![(4, true), (0, false)], false, best),
        ];
        for (layout, nvlink, want) in table {
            assert_eq!(choose(&machine(&layout, nvlink)).chosen.way, want, "{layout:?} {nvlink}");
        }
    }

    #[test]
    fn every_way_that_there_is_has_its_time() {
        let plan = choose(&machine(&[(4, true), (4, true)], false));
        let times: Vec<f64> =
            [&plan.chosen].into_iter().chain(&plan.others).map(|way| way.alone * 1e9).collect();
        let want = [0.129, 0.141, 0.323, 0.141];
        times.iter().zip(want).for_each(|(got, want)| assert_near(*got, want, 5e-4));
        assert_eq!(times.len(), want.len());
        // Each NIC carries half a gradient beside what the four GPUs of its switch copy.
        assert_near(plan.others[1].beside_nics * 12.4e9, 4.5, 1e-9);
    }

    #[test]
    fn roots_away_from_nics_leave_those_alone() {
        let plan = choose(&machine(&[(4, true), (4, false)], true));
        assert_near(plan.chosen.beside_nics * 12.4e9, 1.0, 1e-9);
        assert_eq!(plan.others[0].way, Way::ReduceScatterAllGather);
        assert_near(plan.others[0].alone * 12.4e9, 0.5, 1e-9);
        assert_near(plan.others[0].beside_nics * 12.4e9, 1.5, 1e-9);
        let chained = choose(&machine(&[(4, true), (4, false)], false)).chosen;
        assert_near(chained.beside_nics * 12.4e9, 2.0, 1e-9);
    }

    #[test]
    fn over_nvlink_the_rule_is_the_fastest_while_as_many_switches_lack_a_nic() {
        let fastest = |with: usize, without: usize| {
            let layout = [vec![(2, true); with], vec![(2, false); without]].concat();
            let plan = choose(&machine(&layout, true));
            plan.others.iter().all(|other| plan.chosen.beside_nics <= other.beside_nics)
        };
        for with in 0..5 {
            assert!((with.max(1)..6).all(|without| fastest(with, without)), "{with}");
            assert!(with == 0 || fastest(with, 0), "{with}");
        }
        assert!(!fastest(2, 1));
    }

    #[test]
    fn numa_nodes_are_switches_and_cores_are_gpus() {
        let host = |nics| Machine::of_numa_nodes(switches(nics), 10e9, 40e9).unwrap();
        let plan = choose(&host(&[(8, true), (8, false)]));
        assert_eq!(plan.chosen.way, Way::ReduceBroadcast { roots: vec![1] });
        let plan = choose(&host(&[(8, true), (8, true)]));
        let want = (15.0 * 40.0 - 8.0 * 10.0) / (7.0 * (80.0 + 40.0));
        assert_eq!(plan.chosen.way, Way::CpuAssisted { whole_share: want });
        assert_near(plan.others[2].alone, 2.0 * 15.0 / 16.0 / 10e9, 1e-20);
    }

    #[test]
    fn a_machine_without_gpus_or_speed_is_refused() {
        let error = Machine::new(switches(&[(0, true)]), equal(1.0), true).unwrap_err();
        assert_eq!(error.to_string(), "none of 1 switches has a GPU: describe at least one GPU");
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let bandwidths = Bandwidths { gpu_to_switch: speed, ..equal(1.0) };
            let error = Machine::new(switches(&[(1, true)]), bandwidths, false).unwrap_err().to_string();
            assert!(error.starts_with("the link from GPU to switch has"), "{error}");
        }
    }
}
