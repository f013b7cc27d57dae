//! One service on one core, driven by hand: only its additions are timed.

use std::time::Instant;

use clap::{Args, Parser as _};
use rsccl::summation::server::DataType;
use rsccl::summation::server::message::{Admission, Answer, Pull, Push, Pushed};
use rsccl::summation::server::part::Part;
use rsccl::summation::server::reduction::Reduction;
use rsccl::summation::server::service::Service;

use crate::spread;

/// Of a part, as by default.
const PART_BYTES: usize = 4_096_000;
/// Parts in turn, so that none is in a cache of its core when its turn comes.
const PARTS: u32 = 16;
/// With the bytes of an element.
const TYPES: [(DataType, usize); 3] = [(DataType::F32, 4), (DataType::F16, 2), (DataType::Bf16, 2)];
const CONTRIBUTORS: [usize; 2] = [2, 4];

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds through all cases
    #[arg(long, default_value_t = 9, value_name = "N")]
    rounds: u64,
}

#[derive(clap::Parser)]
struct Defaults {
    #[command(flatten)]
    options: Options,
}

impl Default for Options {
    fn default() -> Self {
        Defaults::parse_from([""]).options
    }
}

/// A type, contributors, and the service that sums them.
struct Case {
    data_type: DataType,
    n_workers: usize,
    service: Service,
    gb_per_s: Vec<f64>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut limit = Limit::new();
        let mut cases: Vec<Case> = TYPES
            .into_iter()
            .flat_map(|of_type| CONTRIBUTORS.map(|n_workers| Case::new(of_type, n_workers)))
            .collect();
        for round in 0..=self.rounds {
            limit.measure(round > 0);
            for case in &mut cases {
                let seconds = case.round(round)?;
                let bytes = case.n_workers * PART_BYTES * PARTS as usize;
                case.gb_per_s.extend((round > 0).then_some(bytes as f64 / seconds / 1e9));
            }
        }
        println!(
            "one core, {PARTS} parts of {PART_BYTES} bytes, {} rounds: GB/s of contributions",
            self.rounds
        );
        println!("{:<22} {:>8} {:>16}  of the limit", "", "median", "least to most");
        let plain = limit.report("a + b, plain stores", limit.plain.clone());
        let streamed = limit.report("a + b, past caches", limit.streamed.clone());
        let best = plain.max(streamed);
        for case in cases {
            case.report(best);
        }
        Ok(())
    }
}

impl Case {
    fn new((data_type, element_bytes): (DataType, usize), n_workers: usize) -> Self {
        let part = Part { count: PART_BYTES / element_bytes, data_type, codec: None };
        let parts = (0..PARTS).map(|key| (key, part));
        let service = Service::new(n_workers, parts);
        Self { data_type, n_workers, service, gb_per_s: Vec::new() }
    }

    /// Seconds of the additions.
    fn round(&mut self, round: u64) -> Result<f64, String> {
        let mut seconds = 0.0;
        for worker in 0..self.n_workers {
            for key in 0..PARTS {
                let mut landing = self.admit(key, round, worker)?;
                // A small number in every type: subnormals would slow some processors down.
                landing.bytes_mut().fill(0x38);
                let start = Instant::now();
                let pushed = self.service.pushed(landing).map_err(|refusal| refusal.to_string())?;
                if let Pushed::Add(mut addition) = pushed {
                    addition.run();
                    self.service.added(addition).map_err(|refusal| refusal.to_string())?;
                    seconds += start.elapsed().as_secs_f64();
                }
            }
        }
        self.answer(round)?;
        Ok(seconds)
    }

    fn admit(
        &mut self,
        key: u32,
        round: u64,
        worker: usize,
    ) -> Result<rsccl::summation::server::message::Landing, String> {
        let reduction = Reduction::Sum;
        let push = Push { key, round, worker, size_bytes: PART_BYTES, reduction };
        match self.service.push(&push) {
            Ok(Admission::Into(landing)) => Ok(landing),
            other => Err(format!("{other:?}")),
        }
    }

    fn answer(&mut self, round: u64) -> Result<(), String> {
        for key in 0..PARTS {
            for worker in 0..self.n_workers {
                match self.service.pull(&Pull { key, round, worker }) {
                    Ok(Answer::Ready(sum)) => {
                        self.service.answered(sum).map_err(|refusal| refusal.to_string())?;
                    }
                    other => return Err(format!("{other:?}")),
                }
            }
        }
        Ok(())
    }

    /// The limit reads two streams and writes one; n contributions are n streams, and the sum is one.
    fn report(self, limit_gb_per_s: f64) {
        let traffic = (self.n_workers + 1) as f64 / self.n_workers as f64;
        let name = format!("{:?} of {}", self.data_type, self.n_workers);
        let (median, least, most) = spread(self.gb_per_s);
        let of_limit = median * traffic / (limit_gb_per_s * 1.5) * 100.0;
        println!("{name:<22} {median:>8.2} {least:>7.2} to {most:>5.2}  {of_limit:>6.0} %");
    }
}

/// Three streams of as many bytes as the parts have.
struct Limit {
    streams: [Vec<f32>; 3],
    plain: Vec<f64>,
    streamed: Vec<f64>,
}

impl Limit {
    fn new() -> Self {
        let stream = || vec![1.0; PART_BYTES / size_of::<f32>() * PARTS as usize];
        Self { streams: [stream(), stream(), stream()], plain: Vec::new(), streamed: Vec::new() }
    }

    fn measure(&mut self, counts: bool) {
        let [a, b, into] = &mut self.streams;
        let gb_per_s =
            |start: Instant| 2.0 * size_of_val(&a[..]) as f64 / start.elapsed().as_secs_f64() / 1e9;
        let start = Instant::now();
        into.iter_mut().zip(a.iter().zip(&*b)).for_each(|(into, (a, b))| *into = a + b);
        let plain = gb_per_s(start);
        std::hint::black_box(&mut *into);
        let start = Instant::now();
        // SAFETY: every processor of 64 bits has SSE.
        unsafe { add_streamed(into, a, b) };
        let streamed = gb_per_s(start);
        if counts {
            self.plain.push(plain);
            self.streamed.push(streamed);
        }
    }

    /// The median.
    fn report(&self, name: &str, figures: Vec<f64>) -> f64 {
        let (median, least, most) = spread(figures);
        println!("{name:<22} {median:>8.2} {least:>7.2} to {most:>5.2}");
        median
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse")]
fn add_streamed(into: &mut [f32], a: &[f32], b: &[f32]) {
    use std::arch::x86_64::{_mm_add_ps, _mm_set_ps, _mm_sfence, _mm_stream_ps};
    const LANES: usize = 4;
    let head = into.as_ptr().align_offset(size_of::<[f32; LANES]>()).min(into.len());
    let add = |into: &mut [f32], a: &[f32], b: &[f32]| {
        into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| *into = a + b);
    };
    let ((into_head, into), (a_head, a), (b_head, b)) =
        (into.split_at_mut(head), a.split_at(head), b.split_at(head));
    add(into_head, a_head, b_head);
    let ((into, into_tail), (a, a_tail), (b, b_tail)) =
        (into.as_chunks_mut::<LANES>(), a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (into, (a, b)) in into.iter_mut().zip(a.iter().zip(b)) {
        let sum = _mm_add_ps(_mm_set_ps(a[3], a[2], a[1], a[0]), _mm_set_ps(b[3], b[2], b[1], b[0]));
        // SAFETY: there are as many floats at `into`, which begins where the head was cut to be aligned.
        unsafe { _mm_stream_ps(into.as_mut_ptr(), sum) };
    }
    add(into_tail, a_tail, b_tail);
    _mm_sfence();
}

/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn add_streamed(into: &mut [f32], a: &[f32], b: &[f32]) {
    into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| *into = a + b);
}
