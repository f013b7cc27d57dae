//! What NCCL writes, as facts: lines of its log (`nccl_log`) and its XML of topologies and graphs (`nccl_xml`). Reads bytes,
//! guesses nothing.

pub mod nccl_log;
pub mod nccl_xml;
