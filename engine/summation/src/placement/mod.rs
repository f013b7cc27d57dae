//! Which summation service owns which part: what would be best, who gets what, and what that costs.
//!
//! There is a service on each of k server machines and on each of n workers' machines. Services are numbered from 0: the
//! servers' first, then the workers'. Every part has one owner, to which every worker pushes it and from which every
//! worker pulls the sum. What a worker owns itself does not touch its NIC.
//!
//! [`shares`] has the theory, [`assign`] makes a [`Placement`](assign::Placement) from it, [`predict`] tells what any
//! placement takes. Where workers share machines, [`hosts`] spreads what a machine owns over them, and [`routes`] tells
//! over whom contributions go. [`hashes`] and [`models`] are there to compare with what BytePS does, over [`strategy`].

pub mod assign;
pub mod hashes;
pub mod hosts;
pub mod machines;
pub mod models;
pub mod predict;
pub mod routes;
pub mod shares;
pub mod strategy;
