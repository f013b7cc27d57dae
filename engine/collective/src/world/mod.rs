//! Whole communicators against the definitions of their primitives: ranks are threads of this process, on pretended hosts,
//! over sockets, shared memory, both, or simulated connections that are late at random.
//!
//! `matrix` holds results and bytes to what they must be, by definition (`reference`) and hop by hop (`replay`), `determinism` holds bits to each other. `PROPTEST_CASES` makes
//! the random part of `matrix` longer.

mod case;
mod determinism;
mod matrix;
mod numbers;
mod ranks;
mod reference;
mod replay;
