//! Data-flow graphs over machines, and what the analyser makes of one.
//!
//! A graph says which node computes which tensor from which, and on which machine. [`analyse`] cuts it: every tensor that is
//! needed on another machine goes over an edge, static where its shape is known and dynamic where not; a pair of operators
//! stands in for the edge; and every tensor gets a place: registered where it is sent, also if it is sent only through views
//! and nodes that work in place. All of it is pure, and the same graph always gives the same plan, so that each machine makes
//! its part of the plan by itself.

mod alias;
mod cut;
mod flow;
mod holds;
mod order;
mod pack;
mod placing;
mod plan;

pub use flow::{Effect, Graph, MachineId, Node, NodeId, Tensor, TensorId};
pub use pack::{Request, pack};
pub use plan::{CutEdge, Home, MachinePlan, Operator, Plan, Step, analyse};
