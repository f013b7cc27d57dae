//! Sockets: which NICs there are, how ranks find each other, the connections between them, and who has died.

pub(crate) mod acceptor;
pub(crate) mod account;
pub(crate) mod bootstrap;
pub(crate) mod calls;
pub(crate) mod connect;
pub mod control;
pub(crate) mod descriptors;
pub mod frame;
pub(crate) mod gathered;
pub mod hello;
pub(crate) mod interfaces;
pub mod link;
pub mod nic;
pub mod root;
pub mod secret;
pub(crate) mod strands;
pub mod unique_id;
pub(crate) mod verdict;
pub mod wake;
pub mod watch;
