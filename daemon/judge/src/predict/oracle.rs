//! NCCL's sequence from the search results to the final count, written down a second time: step by step as
//! `initTransportsRank` and `ncclTopoPostset` go, version by version, without anything of the rules that it is held
//! against.

/// What decides.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// 2.28.9 is 22809.
    pub(super) version: u32,
    pub(super) init: Vec<i64>,
    pub(super) compute_capability: Vec<i64>,
    pub(super) bw_intra: Vec<f64>,
    pub(super) n_nodes: i64,
    pub(super) collnet: bool,
    pub(super) unpack: bool,
    pub(super) unpack_double: bool,
    pub(super) max_nrings: Option<i64>,
    pub(super) max_nchannels: Option<i64>,
    pub(super) min_nrings: Option<i64>,
    pub(super) min_nchannels: Option<i64>,
    pub(super) max_ctas: Option<i64>,
    pub(super) min_ctas: Option<i64>,
    pub(super) work_args_bytes: Option<i64>,
    pub(super) nvls_channels: i64,
    pub(super) shared: Option<i64>,
    pub(super) parent_has_nvls: bool,
}

/// `comm->nChannels` when `ncclTopoPostset` returns.
pub(super) fn final_channels(job: &Job) -> i64 {
    let v = job.version;
    let mut maxchannels = 32;
    if v >= 22500 {
        maxchannels = 64;
    }
    // 8: the lowest of all ranks.
    let mut base = job.init[0];
    for init in &job.init {
        if *init < base {
            base = *init;
        }
    }
    let mut min_cc = job.compute_capability[0];
    for cc in &job.compute_capability {
        if *cc < min_cc {
            min_cc = *cc;
        }
    }
    let mut bw = job.bw_intra[0];
    for one in &job.bw_intra {
        if *one < bw {
            bw = *one;
        }
    }
    // 9c
    let mut n = 2 * base;
    if n > maxchannels {
        n = maxchannels;
    }
    // 9d
    if v >= 20900 && job.collnet {
        n += n / 2;
        if n > maxchannels {
            n = maxchannels;
        }
    }
    // 9e
    if (21800..22000).contains(&v) {
        if min_cc == 90 && job.n_nodes > 1 && bw > 45.0 && 2 * n <= maxchannels {
            n *= 2;
        }
    } else if (22000..22500).contains(&v) {
        if min_cc == 90 && job.n_nodes > 1 && bw > 45.0 && n < 16 {
            n *= 2;
        }
    } else if v >= 22500 && min_cc >= 90 && job.n_nodes > 1 && bw > 45.0 && n < 16 {
        n *= 2;
    }
    // 9f
    if v >= 22200 && job.unpack && job.n_nodes > 1 && n < 16 && job.unpack_double {
        n *= 2;
    }
    bounded(job, n, maxchannels)
}

/// From 9g on.
fn bounded(job: &Job, mut n: i64, maxchannels: i64) -> i64 {
    let v = job.version;
    // 9g: ncclMaxNchannels, then maxCTAs, then what is shared.
    let mut max = maxchannels;
    if let Some(rings) = job.max_nrings {
        max = rings;
    }
    if let Some(channels) = job.max_nchannels {
        max = channels;
    }
    if v >= 22200
        && let Some(bytes) = job.work_args_bytes
    {
        let fit = (bytes - 32) / 16;
        if fit < max {
            max = fit;
        }
    }
    if max > maxchannels {
        max = maxchannels;
    }
    if max < 1 {
        max = 1;
    }
    if n > max {
        n = max;
    }
    if v >= 21700
        && let Some(ctas) = job.max_ctas
        && n > ctas
    {
        n = ctas;
    }
    if v >= 21800
        && let Some(shared) = job.shared
        && n > shared
    {
        n = shared;
    }
    raised(job, n, maxchannels)
}

/// From 9h on.
fn raised(job: &Job, mut n: i64, maxchannels: i64) -> i64 {
    let v = job.version;
    // 9h
    let mut min = 0;
    if let Some(rings) = job.min_nrings {
        min = rings;
    }
    if let Some(channels) = job.min_nchannels {
        min = channels;
    }
    if min > maxchannels {
        min = maxchannels;
    }
    if v >= 21700
        && let Some(mut ctas) = job.min_ctas
    {
        // envConfigOverride: "minCTAs is larger than maxCTAs, set both to maxCTAs".
        if let Some(most) = job.max_ctas
            && ctas > most
        {
            ctas = most;
        }
        if min < ctas {
            min = ctas;
        }
    }
    if v >= 21800
        && let Some(shared) = job.shared
        && min > shared
    {
        min = shared;
    }
    if n < min {
        n = min;
    }
    // 9j
    if (22003..=22707).contains(&v) && n < job.nvls_channels {
        n = job.nvls_channels;
    }
    // 9k
    if v >= 22105
        && job.parent_has_nvls
        && let Some(shared) = job.shared
        && n > shared
    {
        n = shared;
    }
    n
}
