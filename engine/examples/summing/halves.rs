//! Sums of 16-bit floats: rounded after every addition, as BytePS's server does, and rounded once, as ours does.

use rsccl::summation::codec::{Codec as _, HEADER_BYTES, Half};
use rsccl::summation::server::message::{Admission, Answer, Pull, Push, Pushed};
use rsccl::summation::server::part::Part;
use rsccl::summation::server::reduction::Reduction;
use rsccl::summation::server::service::Service;
use rsccl::summation::tensor::DataType;
use serde_json::{Value, json};

use crate::Failure;
use crate::values::mix;

/// Both, for each number of workers: RMS errors relative to the exact sum's RMS, the elements that another order of the
/// workers changes, and what becomes of an average of 40 000s.
pub(crate) fn compare(elements: usize, workers: &[usize]) -> Result<Value, Failure> {
    let of = |n: &usize| {
        let contributions = (0..*n).map(|worker| normal(worker, elements)).collect::<Result<Vec<_>, _>>()?;
        let backward: Vec<Vec<u8>> = contributions.iter().rev().cloned().collect();
        let exact = exact(&contributions)?;
        let (each, once) = (rounding_each(&contributions)?, ours(&contributions, Reduction::Sum)?);
        let changed = |one: &[u8], other: &[u8]| {
            let halves = one.chunks_exact(2).zip(other.chunks_exact(2));
            halves.filter(|(one, other)| one != other).count() as f64 / elements as f64
        };
        let large = vec![encode(&[40_000.0])?; *n];
        Ok::<_, Failure>(json!({
            "workers": n,
            "error_each": error(&exact, &decode(&each)?),
            "error_once": error(&exact, &decode(&once)?),
            "changed_each": changed(&each, &rounding_each(&backward)?),
            "changed_once": changed(&once, &ours(&backward, Reduction::Sum)?),
            "sum_is_finite": decode(&ours(&large, Reduction::Sum)?)?[0].is_finite(),
            "average": decode(&ours(&large, Reduction::Average)?)?[0],
        }))
    };
    Ok(json!(workers.iter().map(of).collect::<Result<Vec<_>, _>>()?))
}

/// The service's own sum.
fn ours(contributions: &[Vec<u8>], reduction: Reduction) -> Result<Vec<u8>, Failure> {
    let size_bytes = contributions.first().map_or(0, Vec::len);
    let part = Part { count: size_bytes / 2, data_type: DataType::F16, codec: None };
    let mut service = Service::new(contributions.len(), [(0, part)]);
    for (worker, contribution) in contributions.iter().enumerate() {
        let push = Push { key: 0, round: 0, worker, size_bytes, reduction };
        let Admission::Into(mut landing) = service.push(&push)? else { return Err("no room".into()) };
        landing.bytes_mut().copy_from_slice(contribution);
        if let Pushed::Add(mut addition) = service.pushed(landing)? {
            addition.run();
            service.added(addition)?;
        }
    }
    match service.pull(&Pull { key: 0, round: 0, worker: 0 })? {
        Answer::Ready(sum) => Ok(sum.bytes().to_vec()),
        Answer::Waiting(_) => Err("no sum".into()),
    }
}

fn rounding_each(contributions: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let mut sum = contributions.first().cloned().unwrap_or_default();
    for contribution in contributions.iter().skip(1) {
        let (values, others) = (decode(&sum)?, decode(contribution)?);
        sum = encode(&values.iter().zip(&others).map(|(value, other)| value + other).collect::<Vec<_>>())?;
    }
    Ok(sum)
}

fn exact(contributions: &[Vec<u8>]) -> Result<Vec<f64>, Failure> {
    let mut sum = vec![0.0; contributions.first().map_or(0, Vec::len) / 2];
    for contribution in contributions {
        let values = decode(contribution)?;
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
    }
    Ok(sum)
}

fn error(exact: &[f64], rounded: &[f32]) -> f64 {
    let square = |(exact, rounded): (&f64, &f32)| (exact - f64::from(*rounded)).powi(2);
    let errors: f64 = exact.iter().zip(rounded).map(square).sum();
    (errors / exact.iter().map(|exact| exact * exact).sum::<f64>()).sqrt()
}

/// Of the normal distribution (Box and Muller, 1958).
fn normal(worker: usize, elements: usize) -> Result<Vec<u8>, Failure> {
    let uniform = |index: usize| {
        let bits = mix(mix(worker as u64) ^ index as u64) >> 40;
        (bits as f32 + 0.5) / 16_777_216.0_f32
    };
    let value = |index: usize| {
        let (radius, angle) = ((-2.0 * uniform(2 * index).ln()).sqrt(), uniform(2 * index + 1));
        radius * (std::f32::consts::TAU * angle).cos()
    };
    encode(&(0..elements).map(value).collect::<Vec<f32>>())
}

fn encode(values: &[f32]) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    Half::F16.encode(values, &mut bytes)?;
    Ok(bytes.split_off(HEADER_BYTES))
}

fn decode(halves: &[u8]) -> Result<Vec<f32>, Failure> {
    let mut values = vec![0.0; halves.len() / 2];
    let mut bytes = Vec::new();
    Half::F16.encode(&values, &mut bytes)?;
    bytes.truncate(HEADER_BYTES);
    bytes.extend(halves);
    Half::F16.decode(&bytes, &mut values)?;
    Ok(values)
}
