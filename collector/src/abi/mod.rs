//! What others' C interfaces look like: types and numbers, no state.

pub(crate) mod nccl;
