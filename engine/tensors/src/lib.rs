//! Tensors as memory of a remote machine.
//!
//! An edge of a data-flow graph that is cut over two machines carries a tensor whose place is known, or at least its type.
//! So nothing has to be packed, announced and received: the sender writes into the receiver's memory and sets a flag, which
//! the receiver polls.
//!
//! ```
//! use std::time::Duration;
//!
//! use rtensor::clock::Deadline;
//! use rtensor::device::{self, Kind, Role};
//! use rtensor::error::Result;
//! use rtensor::link::{Declaration, Hold, Link};
//! use rtensor::tensor::{DataType, Shape};
//!
//! fn soon() -> Deadline {
//!     Deadline::after(Duration::from_secs(30))
//! }
//!
//! fn sender() -> Result<()> {
//!     let mut link = Link::new(device::connect(Kind::Local, Role::Call, "doc", soon())?);
//!     let shape = Shape::new(DataType::F32, &[64, 10])?;
//!     let edge = link.declare(Declaration::static_sender("parameters", shape, Hold::Release))?;
//!     link.ready(soon())?;
//!     for step in 0..10 {
//!         link.wait_to_send(edge, soon())?;
//!         link.tensor_mut(edge)?.fill(step);
//!         link.send(edge)?;
//!     }
//!     link.finish(soon())
//! }
//!
//! fn receiver() -> Result<()> {
//!     let mut link = Link::new(device::connect(Kind::Local, Role::Listen, "doc", soon())?);
//!     let shape = Shape::new(DataType::F32, &[64, 10])?;
//!     let edge = link.declare(Declaration::static_receiver("parameters", shape))?;
//!     link.ready(soon())?;
//!     for step in 0..10 {
//!         link.wait(edge, soon())?;
//!         assert!(link.tensor(edge)?.1.iter().all(|byte| *byte == step));
//!         link.release(edge)?;
//!     }
//!     link.finish(soon())
//! }
//!
//! // Two processes, as a rule of two machines.
//! let other = std::thread::spawn(sender);
//! receiver()?;
//! other.join().expect("no panic")?;
//! # Ok::<(), rtensor::error::Error>(())
//! ```
//!
//! A map: [`device`] is one-sided access to a peer's memory; [`memory`] what it accesses; [`tensor`] what is in there;
//! [`placement`] the two ways of carrying a tensor; [`link`] all edges to one peer, which is what programs use; [`graph`] finds
//! the edges of a data-flow graph over machines, and [`executor`] runs one machine's part of it; [`api`] is `rtensor.h`.
//!
//! Source: Xue et al., "Fast distributed deep learning over RDMA", EuroSys 2019.

pub mod api;
pub mod clock;
pub mod device;
pub mod error;
pub mod executor;
pub mod graph;
pub mod link;
pub mod memory;
pub mod placement;
pub mod tensor;
