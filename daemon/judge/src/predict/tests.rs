use ringscope_model::Name;

use super::oracle::{Job, final_channels};
use super::*;
use crate::causes::causes;

/// An ordinary job: version, inits and nothing else of note.
fn job(version: u32, init: &[i64]) -> Job {
    Job {
        version,
        init: init.to_vec(),
        compute_capability: vec![80; init.len()],
        bw_intra: vec![24.0; init.len()],
        n_nodes: 2,
        collnet: false,
        unpack: false,
        unpack_double: true,
        max_nrings: None,
        max_nchannels: None,
        min_nrings: None,
        min_nchannels: None,
        max_ctas: None,
        min_ctas: None,
        work_args_bytes: None,
        nvls_channels: 0,
        shared: None,
        parent_has_nvls: false,
    }
}

fn hopper(version: u32, init: &[i64]) -> Job {
    Job { compute_capability: vec![90; init.len()], bw_intra: vec![48.0; init.len()], ..job(version, init) }
}

fn bounds(job: &Job) -> Bounds {
    let settings = [
        ("NCCL_MAX_NRINGS", job.max_nrings),
        ("NCCL_MAX_NCHANNELS", job.max_nchannels),
        ("NCCL_MIN_NRINGS", job.min_nrings),
        ("NCCL_MIN_NCHANNELS", job.min_nchannels),
        ("NCCL_MAX_CTAS", job.max_ctas),
        ("NCCL_MIN_CTAS", job.min_ctas),
        ("NCCL_WORK_ARGS_BYTES", job.work_args_bytes),
        ("NCCL_UNPACK_DOUBLE_NCHANNELS", (!job.unpack_double).then_some(0)),
    ];
    let set = settings.into_iter().filter_map(|(name, value)| Some((Name::from(name), value?)));
    Bounds::of(&set.collect())
}

fn inputs(job: &Job) -> Inputs {
    let number = |n: i64| u32::try_from(n).unwrap();
    let version = job.version;
    Inputs {
        base: number(*job.init.iter().min().unwrap()),
        version: Some(Version::nccl(version / 10_000, version % 10_000 / 100, version % 100)),
        n_nodes: Some(number(job.n_nodes)),
        compute_capability: job.compute_capability.iter().copied().min().map(number),
        ring_bw_intra: job.bw_intra.iter().copied().reduce(f64::min),
        collnet: Some(job.collnet),
        unpack: Some(job.unpack),
        nvls_channels: Some(number(job.nvls_channels)),
        shared: job.shared.map_or(Shared::No, |channels| Shared::With {
            channels: Some(number(channels)),
            nvls: Some(job.parent_has_nvls),
        }),
        bounds: bounds(job),
    }
}

fn finals(prediction: &Prediction) -> Vec<u32> {
    prediction.outcomes.keys().copied().collect()
}

const VERSIONS: [u32; 17] = [
    20500, 20804, 20908, 21600, 21706, 21803, 21900, 22000, 22003, 22100, 22105, 22203, 22406, 22503, 22707,
    22803, 23203,
];

/// Every combination of what decides, with the settings taken together in sets.
fn every_job() -> impl Iterator<Item = Job> {
    let inits: [&[i64]; 6] = [&[1], &[2, 1], &[4, 2], &[8, 7], &[12], &[16, 32]];
    let capabilities = [vec![70], vec![90], vec![100, 90], vec![90, 80]];
    let conditions = (0..32_u32).map(|bits| [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 == 1));
    let places: Vec<_> = VERSIONS
        .into_iter()
        .flat_map(move |version| inits.map(|init| job(version, init)))
        .flat_map(move |job| {
            capabilities.clone().map(|compute_capability| Job { compute_capability, ..job.clone() })
        })
        .collect();
    let conditions: Vec<_> = conditions.collect();
    places
        .into_iter()
        .flat_map(move |job| {
            conditions.clone().into_iter().map(move |[several, fast, collnet, unpack, nvls]| Job {
                n_nodes: 1 + i64::from(several),
                bw_intra: if fast { vec![45.1, 60.0] } else { vec![60.0, 45.0] },
                collnet,
                unpack,
                nvls_channels: if nvls { 24 } else { 0 },
                ..job.clone()
            })
        })
        .flat_map(|job| {
            [None, Some((6, false)), Some((20, true))].map(|shared| Job {
                shared: shared.map(|(channels, _)| channels),
                parent_has_nvls: shared.is_some_and(|(_, nvls)| nvls),
                ..job.clone()
            })
        })
        .flat_map(settings)
}

fn settings(job: Job) -> [Job; 9] {
    [
        job.clone(),
        Job { max_nchannels: Some(5), ..job.clone() },
        Job { max_nchannels: Some(2), min_nchannels: Some(8), ..job.clone() },
        Job { min_nchannels: Some(100), unpack_double: false, ..job.clone() },
        Job { max_nrings: Some(3), min_nrings: Some(2), ..job.clone() },
        Job { max_nrings: Some(3), max_nchannels: Some(7), max_ctas: Some(6), ..job.clone() },
        Job { min_ctas: Some(16), min_nchannels: Some(4), ..job.clone() },
        Job { min_ctas: Some(16), max_ctas: Some(12), ..job.clone() },
        Job { work_args_bytes: Some(32 + 16 * 10), min_nrings: Some(12), min_nchannels: Some(1), ..job },
    ]
}

#[test]
fn the_model_equals_the_sequence_for_every_combination() {
    let mut n_cases = 0;
    for job in every_job() {
        n_cases += 1;
        let found = predict(&inputs(&job));
        assert_eq!(finals(&found), [u32::try_from(final_channels(&job)).unwrap()], "{job:?}\n{found:?}");
        assert_eq!(found.unknown, [""; 0], "{job:?}");
    }
    assert!(n_cases > 250_000, "{n_cases}");
}

#[test]
fn what_is_not_known_leaves_every_possible_result_in_the_set() {
    for (i, job) in every_job().enumerate().filter(|(i, _)| i % 61 == 0) {
        let mut inputs = inputs(&job);
        for bit in 0..7 {
            match bit {
                _ if (i / 61) >> bit & 1 == 0 => {}
                0 => inputs.n_nodes = None,
                1 => inputs.compute_capability = None,
                2 => inputs.ring_bw_intra = None,
                3 => inputs.collnet = None,
                4 => inputs.unpack = None,
                5 => inputs.version = None,
                _ => {
                    inputs.shared = match inputs.shared {
                        Shared::With { channels, nvls } => Shared::Maybe { channels, nvls },
                        other => other,
                    }
                }
            }
        }
        let found = predict(&inputs);
        let expected = u32::try_from(final_channels(&job)).unwrap();
        assert!(found.outcomes.contains_key(&expected), "{job:?} {inputs:?} {:?}", finals(&found));
        assert_eq!(found.outcomes.len() > 1, !found.unknown.is_empty(), "{inputs:?} {found:?}");
    }
}

/// One case by hand: the final count, and the causes of the rank with the highest init.
#[track_caller]
fn check(job: &Job, last: u32, expected: &[Cause]) {
    assert_eq!(final_channels(job), i64::from(last), "the sequence itself");
    let inputs = inputs(job);
    let found = predict(&inputs);
    assert_eq!(finals(&found), [last], "{found:?}");
    let init = u32::try_from(*job.init.iter().max().unwrap()).unwrap();
    let found = causes(Some(init), Some(last), Some(inputs.base), &inputs.bounds, Some(&found), false);
    assert_eq!(found, expected);
}

#[test]
fn an_a100_doubles() {
    check(&job(22809, &[2, 2]), 4, &[Cause::Doubled]);
    check(&job(20804, &[12]), 24, &[Cause::Doubled]);
}

#[test]
fn one_or_two_h100_a_node_get_four_times_their_init() {
    check(&hopper(22809, &[1, 1]), 4, &[Cause::Hopper]);
    check(&hopper(22809, &[2, 2]), 8, &[Cause::Hopper]);
}

#[test]
fn eight_h100_a_node_get_twice_their_init() {
    check(&hopper(22809, &[8, 8]), 16, &[Cause::Doubled]);
    // Before 2.20 sixteen are still doubled.
    check(&hopper(21903, &[8, 8]), 32, &[Cause::Hopper]);
}

#[test]
fn one_node_of_h100_doubles_once() {
    check(&Job { n_nodes: 1, ..hopper(22809, &[2]) }, 4, &[Cause::Doubled]);
}

#[test]
fn blackwell_counts_as_hopper_since_2_25() {
    let blackwell = |version| Job { compute_capability: vec![100], ..hopper(version, &[2]) };
    check(&blackwell(22406), 4, &[Cause::Doubled]);
    check(&blackwell(22503), 8, &[Cause::Hopper]);
}

#[test]
fn a_peer_limits() {
    check(&job(22809, &[4, 2]), 4, &[Cause::CappedByPeer]);
}

#[test]
fn a_peer_limits_and_the_count_is_twice_the_init_by_coincidence() {
    check(&hopper(22809, &[4, 2]), 8, &[Cause::CappedByPeer, Cause::Coincidence, Cause::Hopper]);
    let clamped = Job { min_nchannels: Some(8), ..job(22809, &[4, 2]) };
    check(&clamped, 8, &[Cause::Coincidence, Cause::MinNchannels]);
}

#[test]
fn a_setting_cancels_what_a_peer_takes() {
    check(&Job { max_nchannels: Some(4), ..job(22809, &[4, 2]) }, 4, &[Cause::Doubled]);
    check(&Job { max_nchannels: Some(3), ..job(22809, &[4, 2]) }, 3, &[Cause::MaxNchannels]);
}

#[test]
fn a_slow_peer_switches_hopper_off_for_all() {
    let slow = Job { bw_intra: vec![48.0, 20.0], ..hopper(22809, &[2, 2]) };
    assert_eq!(final_channels(&slow), 4);
    let inputs = inputs(&slow);
    let prediction = predict(&inputs);
    let of = |alone| causes(Some(2), Some(4), Some(2), &inputs.bounds, Some(&prediction), alone);
    assert_eq!(of(true), [Cause::HopperOffByPeer]);
    assert_eq!(of(false), [Cause::Doubled]);
}

#[test]
fn the_lower_bound_goes_after_the_upper() {
    let both = Job { max_nchannels: Some(2), min_nchannels: Some(8), ..job(22809, &[4]) };
    check(&both, 8, &[Cause::MinNchannels, Cause::MaxNchannels]);
}

#[test]
fn unpack_doubles_again_while_there_are_few() {
    check(&Job { unpack: true, ..job(22203, &[2]) }, 8, &[Cause::Unpack]);
    check(&Job { unpack: true, ..hopper(22203, &[1]) }, 8, &[Cause::Unpack, Cause::Hopper]);
    check(&Job { unpack: true, ..hopper(22203, &[4]) }, 16, &[Cause::Hopper]);
    check(&Job { unpack: true, ..job(22105, &[2]) }, 4, &[Cause::Doubled]);
}

#[test]
fn collnet_gives_three_times_and_six_on_hopper() {
    check(&Job { collnet: true, ..job(22809, &[2]) }, 6, &[Cause::Collnet]);
    check(&Job { collnet: true, ..hopper(22809, &[2]) }, 12, &[Cause::Hopper, Cause::Collnet]);
}

#[test]
fn nvls_raises_from_2_20_3_to_2_27_7() {
    let nvls = |version| Job { nvls_channels: 16, ..job(version, &[2]) };
    check(&nvls(22003), 16, &[Cause::NvlsRaise]);
    check(&nvls(22707), 16, &[Cause::NvlsRaise]);
    check(&nvls(22803), 4, &[Cause::Doubled]);
}

#[test]
fn a_child_that_shares_has_no_more_than_its_parent() {
    check(&Job { shared: Some(4), ..job(22809, &[4]) }, 4, &[Cause::SharedParent]);
    check(&Job { shared: Some(4), min_nchannels: Some(8), ..job(22809, &[1]) }, 4, &[Cause::MinNchannels]);
    let raised = Job { shared: Some(4), parent_has_nvls: true, nvls_channels: 16, ..job(22203, &[1]) };
    check(&raised, 4, &[Cause::SharedParent, Cause::NvlsRaise]);
    check(&Job { shared: Some(4), ..job(21706, &[4]) }, 8, &[Cause::Doubled]);
}

#[test]
fn there_are_no_more_than_maxchannels() {
    check(&job(22809, &[40]), 64, &[Cause::MaxChannels]);
    check(&job(22406, &[20]), 32, &[Cause::MaxChannels]);
}

#[test]
fn work_args_bound_the_channels_since_2_22() {
    let few = |version| Job { work_args_bytes: Some(32 + 16 * 3), ..job(version, &[4]) };
    check(&few(22203), 3, &[Cause::MaxNchannels]);
    check(&few(22105), 8, &[Cause::Doubled]);
}

#[test]
fn an_unknown_input_is_named_and_what_must_hold_is_inferred() {
    let unknown = Inputs { compute_capability: None, ..inputs(&hopper(22809, &[2])) };
    let found = predict(&unknown);
    assert_eq!((finals(&found), found.unknown.clone()), (vec![4, 8], vec!["compute_capability"]));
    let of = |last| causes(Some(2), Some(last), Some(2), &unknown.bounds, Some(&found), false);
    assert_eq!(of(8), [Cause::Hopper]);
    assert_eq!(of(4), [Cause::Doubled]);
    assert_eq!(of(6), [Cause::Unexplained]);
}

#[test]
fn rccl_has_other_rules_and_the_engine_the_plain_ones() {
    let rccl = Version { number: (2, 22, 3), family: Family::Rccl };
    let found = predict(&Inputs { version: Some(rccl), ..inputs(&job(22203, &[2])) });
    assert_eq!(finals(&found), [0; 0]);
    assert_eq!(found.unknown, [RCCL_RULES]);
    assert_eq!(causes(Some(2), Some(28), Some(2), &Bounds::default(), Some(&found), false), [Cause::Rccl]);
    let engine = Version { number: (2, 28, 9), family: Family::Rsccl };
    let inputs = Inputs {
        version: Some(engine),
        compute_capability: None,
        n_nodes: None,
        ..inputs(&job(22809, &[2]))
    };
    assert_eq!(finals(&predict(&inputs)), [4]);
}
