//! The summation service: n workers push the parts of their gradients, services on workers and on machines of their own
//! add them up, and every worker pulls the sums.

pub mod server;
