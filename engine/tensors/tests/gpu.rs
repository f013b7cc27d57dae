//! Tensors that come into a GPU's memory, of which a stand-in is the driver: metadata are polled in this machine's memory,
//! data are read into the GPU's, and nothing of it is touched from here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use common::{KINDS, devices, fill, is_whole, ready, soon};
use rtensor::error::{Error, Result};
use rtensor::link::{Declaration, Hold, Link};
use rtensor::memory::arena::Arena;
use rtensor::memory::{GpuMemory, Region};
use rtensor::tensor::{DataType, Shape};

/// The driver's memory, and how it was copied to.
#[derive(Debug)]
struct StandIn {
    bytes: Mutex<Vec<u8>>,
    copied_in: Mutex<u64>,
    fails: bool,
}

impl StandIn {
    fn new(size_bytes: usize, fails: bool) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(vec![0; size_bytes]), copied_in: Mutex::new(0), fails })
    }
}

impl GpuMemory for StandIn {
    fn size_bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn address(&self) -> u64 {
        0x7f00_0000_0000
    }

    fn dma_buf(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }

    fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.fails {
            return Err(Error::Device {
                peer: "GPU 0".to_owned(),
                what: "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned(),
            });
        }
        let start = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
        *self.copied_in.lock().unwrap() += bytes.len() as u64;
        Ok(())
    }

    fn copy_out(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[start..start + bytes.len()]);
        Ok(())
    }
}

#[test]
fn tensors_are_read_into_a_gpus_memory_and_written_from_it() {
    for kind in KINDS {
        let (one, other) = devices(kind);
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        let back_shape = Shape::new(DataType::F32, &[600]).unwrap();
        let out = one.declare(Declaration::dynamic_sender("out", 1 << 20, Hold::Release)).unwrap();
        let back = one.declare(Declaration::static_receiver("back", back_shape.clone())).unwrap();
        let to_gpu = other.declare(Declaration::dynamic_receiver("out", 1 << 20)).unwrap();
        let hold = Hold::By("out".to_owned());
        let from_gpu = other.declare(Declaration::static_sender("back", back_shape.clone(), hold)).unwrap();
        ready(&mut one, &mut other);
        let gpu = StandIn::new(1 << 16, false);
        let region = other.register(&Region::of_gpu(gpu.clone())).unwrap();
        let mut arena = Arena::new("the GPU's memory", region);
        for iteration in 1..=20 {
            let shape = Shape::new(DataType::F32, &[600 + iteration]).unwrap();
            one.wait_to_send(out, soon()).unwrap();
            one.begin(out, &shape).unwrap();
            fill(one.tensor_mut(out).unwrap(), 1, iteration);
            one.send(out).unwrap();
            while !other.poll_into(to_gpu, &mut |shape| arena.take(shape.size_bytes())).unwrap() {
                one.serve().unwrap();
            }
            let (came, part) = other.received(to_gpu).unwrap();
            assert_eq!(came, shape);
            assert!(part.region().gpu().is_some() && part.bytes().is_empty());
            assert!(other.tensor(to_gpu).unwrap_err().to_string().contains("lies on a GPU"));
            let copy = part.to_vec().unwrap();
            assert!(is_whole(&copy, 1, iteration), "{kind}, {iteration}");
            let first = part.part(0, back_shape.size_bytes()).unwrap();
            other.send_from(from_gpu, &back_shape, &first).unwrap();
            other.release(to_gpu).unwrap();
            arena.give_back(&part);
            other.flush(soon()).unwrap();
            one.wait(back, soon()).unwrap();
            assert_eq!(one.tensor(back).unwrap().1, &copy[..2400]);
            one.release(back).unwrap();
        }
        let expected: u64 = (1..=20).map(|iteration| 4 * (600 + iteration)).sum();
        assert_eq!(*gpu.copied_in.lock().unwrap(), expected);
    }
}

#[test]
fn what_the_driver_refuses_is_the_receivers_error() {
    for kind in KINDS {
        let (one, other) = devices(kind);
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        let out = one.declare(Declaration::dynamic_sender("out", 1 << 20, Hold::Release)).unwrap();
        let to_gpu = other.declare(Declaration::dynamic_receiver("out", 1 << 20)).unwrap();
        ready(&mut one, &mut other);
        let region = other.register(&Region::of_gpu(StandIn::new(1 << 16, true))).unwrap();
        one.begin(out, &Shape::new(DataType::U8, &[100]).unwrap()).unwrap();
        one.send(out).unwrap();
        let error = loop {
            one.serve().unwrap();
            match other.poll_into(to_gpu, &mut |shape| region.part(0, shape.size_bytes())) {
                Ok(is_here) => assert!(!is_here),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    }
}
