//! Sockets: which NICs there are, how ranks find each other, the connections between them, and who has died.

pub(crate) mod acceptor;
pub(crate) mod account;
pub(crate) mod bootstrap;
pub(crate) mod connect;
pub(crate) mod control;
pub(crate) mod descriptors;
pub(crate) mod frame;
pub(crate) mod hello;
pub(crate) mod interfaces;
pub(crate) mod link;
pub(crate) mod nic;
pub(crate) mod root;
pub(crate) mod strands;
pub(crate) mod table;
pub(crate) mod unique_id;
pub(crate) mod verdict;
pub(crate) mod wake;
pub(crate) mod watch;
