//! Tensors as memory of a remote machine.
//!
//! An edge of a data-flow graph that is cut over two machines carries a tensor whose place is known, or at least its type.
//! So nothing has to be packed, announced and received: the sender writes into the receiver's memory and sets a flag, which
//! the receiver polls.
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
