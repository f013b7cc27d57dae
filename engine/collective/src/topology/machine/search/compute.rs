//! Looks for the most bandwidth: asks for less and less until channels are found, then for more of as many channels.

use super::topo_graph::{Pattern, TopoGraph, Wanted};
use super::walk::Walk;
use super::ways::Ways;
use crate::channels::rules;
use crate::faithful::Version;
use crate::topology::graph::PathType;
use crate::topology::machine::system::{Kind, System};
use crate::topology::search::{Channel, CrossNic};

/// Steps of a search in all, of one at one speed, and of one whose channels are all the same.
const TIMEOUT_ALL: i64 = 1 << 19;
const TIMEOUT: i64 = 1 << 14;
const TIMEOUT_SAME: i64 = 1 << 8;
/// Heads of NVLS and of CollNet's direct algorithm in a node at most (`src/include/device.h`).
const NVLS_HEADS: usize = 32;
const DIRECT_HEADS: usize = 8;
/// GB/s of a channel that NCCL tries, within a node and between nodes, by compute capability.
const SPEEDS_INTRA: &[f32] = &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0];
const SPEEDS_INTER: &[f32] = &[
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12,
];
const HOPPER_INTRA: &[f32] = &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0];
const HOPPER_INTER: &[f32] =
    &[48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12];
const BLACKWELL_INTRA: &[f32] = &[90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
const BLACKWELL_INTER: &[f32] =
    &[96.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12];
/// GB/s where nothing was found.
const SIMPLE_ORDER: f32 = 0.1;
/// As low as the next speed may be beside that of what was found.
const NEXT_SPEED: f32 = 0.49;

/// Searches.
pub(crate) fn search(system: &System, wanted: Wanted) -> TopoGraph {
    let (types, mut best) = begin(system, wanted);
    let n_gpus = system.n_gpus();
    if best.pattern == Pattern::Nvls && (system.of(Kind::Nvs).is_empty() || system.capability() < 90) {
        return best;
    }
    limit(system, &mut best);
    Search::new(system, wanted, types, &best).run(&mut best);
    if best.channels.is_empty() && !best.collnet && best.pattern != Pattern::Nvls {
        let order = (0..n_gpus).map(|gpu| system.gpu(gpu).1).collect();
        best.channels.push(Channel { enter: 0, exit: 0, order });
        (best.bw_intra, best.bw_inter) = (SIMPLE_ORDER, SIMPLE_ORDER);
        (best.type_intra, best.type_inter) = (PathType::Sys, PathType::Sys);
    }
    best
}

/// How far GPUs that follow each other, and a GPU and its NIC, are at least and at most.
#[derive(Clone, Copy, Debug)]
struct Types {
    intra: (PathType, PathType),
    inter: (PathType, PathType),
}

fn begin(system: &System, wanted: Wanted) -> (Types, TopoGraph) {
    let mut types = Types { intra: (PathType::Loc, PathType::Sys), inter: (PathType::Pix, PathType::Sys) };
    if system.n_gpus() > 1 {
        types.intra = system.extremes(Kind::Gpu);
    }
    if system.inter {
        types.inter = system.extremes(Kind::Net);
        types.intra.1 = types.inter.1;
        if wanted.version >= Version::V2_30 && system.capability() < 90 {
            types.inter.1 = PathType::Sys;
        }
    }
    let crosses = wanted.pattern != Pattern::Tree && wanted.pattern as u8 <= Pattern::Ring as u8;
    let crosses = crosses && system.of(Kind::Net).len() > 1 && wanted.cross_nic == CrossNic::Always;
    let best = TopoGraph {
        pattern: wanted.pattern,
        cross_nic: u8::from(crosses),
        same_channels: wanted.pattern != Pattern::Nvls,
        type_intra: types.intra.0,
        type_inter: types.inter.0,
        min_channels: wanted.channels.0,
        max_channels: wanted.channels.1,
        collnet: wanted.collnet,
        ..TopoGraph::default()
    };
    (types, best)
}

fn limit(system: &System, best: &mut TopoGraph) {
    let n_gpus = system.n_gpus();
    match best.pattern {
        Pattern::Nvls => best.max_channels = n_gpus.min(NVLS_HEADS),
        Pattern::CollNetDirect => best.max_channels = n_gpus.min(DIRECT_HEADS),
        _ => {}
    }
    if n_gpus == 1 && best.pattern != Pattern::Ring {
        best.pattern = Pattern::Tree;
    }
    if !system.inter && best.pattern == Pattern::Nvls {
        best.min_channels = best.max_channels;
    }
    if best.pattern == Pattern::Ring && system.is_split() && best.max_channels >= 2 && best.min_channels == 1
    {
        best.min_channels = 2;
    }
}

/// A search under way.
struct Search<'a> {
    system: &'a System,
    ways: Ways,
    types: Types,
    /// Whether the channels may cross NICs in pairs.
    may_cross: bool,
    /// Whether all channels must be the same at first.
    same_first: bool,
    speeds: &'static [f32],
    speed: usize,
    time_left: i64,
    /// What is tried now.
    tried: TopoGraph,
}

impl<'a> Search<'a> {
    fn new(system: &'a System, wanted: Wanted, types: Types, best: &TopoGraph) -> Self {
        let speeds = match (system.inter, system.capability()) {
            (false, 100..) => BLACKWELL_INTRA,
            (false, 90..) => HOPPER_INTRA,
            (false, _) => SPEEDS_INTRA,
            (true, 100..) => BLACKWELL_INTER,
            (true, 90..) => HOPPER_INTER,
            (true, _) => SPEEDS_INTER,
        };
        let may_cross = wanted.cross_nic == CrossNic::IfBetter
            && system.of(Kind::Net).len() > 1
            && matches!(wanted.pattern, Pattern::Ring | Pattern::BalancedTree);
        let mut search = Self {
            system,
            ways: Ways::new(system),
            types,
            may_cross,
            same_first: best.same_channels,
            speeds,
            speed: 0,
            time_left: TIMEOUT_ALL,
            tried: best.clone(),
        };
        let n = u8::try_from(system.n_gpus()).map_or(255.0, f32::from);
        let mut total = system.total_bandwidth;
        if n > 1.0 && best.pattern != Pattern::Ring {
            total *= n / (n - 1.0);
        }
        let least = u8::try_from(best.min_channels).map_or(255.0, f32::from);
        let too_fast = |speed: f32| speed > system.max_bandwidth || speed * least > total;
        search.slow_down_while(too_fast);
        search
    }

    /// Takes the first speed, from the fastest on, that is not too fast; the last one in any case.
    fn slow_down_while(&mut self, too_fast: impl Fn(f32) -> bool) {
        let fitting = self.speeds.iter().position(|speed| !too_fast(*speed));
        self.set_speed(fitting.unwrap_or(self.speeds.len() - 1));
    }

    fn set_speed(&mut self, speed: usize) {
        self.speed = speed;
        (self.tried.bw_intra, self.tried.bw_inter) = (self.speeds[speed], self.speeds[speed]);
    }

    /// First looks for any channels, with less and less asked for; then for faster ones, as many.
    fn run(&mut self, best: &mut TopoGraph) {
        loop {
            let (time, enough) = self.look(best);
            if enough || !self.ask_for_less(best, time) {
                break;
            }
        }
        self.begin_again(best);
        let mut time = -1;
        while time != 0 && self.speed > 0 && self.ask_for_more(best) {
            time = self.look(best).0;
        }
    }

    /// One search with what is asked for now: the time that it left, -1 if there can be nothing better, and whether it is enough.
    fn look(&mut self, best: &mut TopoGraph) -> (i64, bool) {
        let mut time = if self.tried.same_channels { TIMEOUT_SAME } else { TIMEOUT };
        self.tried.channels.clear();
        self.time_left -= time;
        Walk::new(self.system, &self.ways, &mut self.tried, best).run(&mut time);
        let n = u8::try_from(best.channels.len()).map_or(255.0, f32::from);
        let enough = n * best.bw_inter >= self.system.total_bandwidth;
        (time, time == -1 || enough)
    }

    /// The next thing to ask for: other channels, a simpler tree, longer ways, other NICs, less bandwidth.
    fn ask_for_less(&mut self, best: &TopoGraph, time: i64) -> bool {
        let (system, none) = (self.system, best.channels.is_empty());
        let (arch, vendor, _) = system.cpu();
        let over_amd = (arch, vendor) == (1, 2) && self.tried.type_intra == PathType::Sys;
        if self.tried.same_channels && !over_amd {
            self.tried.same_channels = false;
            return true;
        }
        self.tried.same_channels = self.same_first;
        self.time_left += time;
        if self.time_left < 0 && !none {
            return false;
        }
        if system.capability() >= 90 && self.tried.pattern == Pattern::BalancedTree {
            self.tried.pattern = Pattern::Tree;
            return true;
        }
        self.tried.pattern = best.pattern;
        let most = if system.inter { self.tried.type_inter } else { self.types.intra.1 };
        let next = self.tried.type_intra.next();
        if self.tried.type_intra < most && (none || self.tried.type_intra < best.type_intra) {
            self.tried.type_intra = next;
            return true;
        }
        self.tried.type_intra = self.types.intra.0;
        self.ask_for_less_outside(best, none)
    }

    fn ask_for_less_outside(&mut self, best: &TopoGraph, none: bool) -> bool {
        let type_inter = self.tried.type_inter;
        if self.system.inter
            && type_inter < self.types.inter.1
            && (none || type_inter < best.type_inter || type_inter < PathType::Pxn)
        {
            self.tried.type_inter = type_inter.next();
            return true;
        }
        self.tried.type_inter = self.types.inter.0;
        if self.may_cross
            && self.tried.cross_nic == 0
            && matches!(best.pattern, Pattern::Ring | Pattern::BalancedTree)
        {
            self.tried.cross_nic = 2;
            return true;
        }
        self.tried.cross_nic = u8::from(self.tried.cross_nic == 1);
        let next = self.speeds.get(self.speed + 1);
        if next.is_some_and(|next| none || next / best.bw_inter > NEXT_SPEED) {
            self.set_speed(self.speed + 1);
            return true;
        }
        false
    }

    /// Starts the second part from what the first has found.
    fn begin_again(&mut self, best: &mut TopoGraph) {
        let n = best.channels.len();
        if best.pattern != Pattern::Nvls {
            let (copies, intra) =
                rules::duplicate(n, best.bw_intra, self.system.capability(), best.max_channels);
            if copies > n {
                best.channels.extend_from_within(..copies - n);
                (best.bw_intra, best.bw_inter) = (intra, best.bw_inter / 2.0);
            }
        }
        self.tried = best.clone();
        let reached = best.bw_inter;
        self.slow_down_while(|speed| speed > reached);
        self.tried.min_channels = best.channels.len();
    }

    fn ask_for_more(&mut self, best: &TopoGraph) -> bool {
        let faster = self.speeds[self.speed - 1];
        if best.pattern == Pattern::Ring {
            self.set_speed(self.speed - 1);
            return true;
        }
        let same = |one: f32, other: f32| (one - other).abs() < f32::EPSILON;
        let tried = &mut self.tried;
        if best.pattern == Pattern::Nvls
            && same(tried.bw_inter, best.bw_inter)
            && tried.bw_inter < tried.bw_intra * 2.0
        {
            (tried.min_channels, tried.max_channels) = (best.channels.len(), best.channels.len());
            tried.bw_inter = faster;
        } else if same(tried.bw_intra, best.bw_intra) && tried.bw_intra < tried.bw_inter * 2.0 {
            tried.bw_intra = faster;
        } else {
            return false;
        }
        self.speed -= 1;
        true
    }
}
