//! Makes both ends of a connection.

use super::pipe::{Shared, Terms};
use super::recv::Receiver;
use super::send::Sender;

/// A connection from one rank to another: its sending and its receiving end.
pub(crate) fn connect(terms: Terms) -> (Sender, Receiver) {
    let shared = Shared::new(terms);
    (Sender::new(shared.clone()), Receiver::new(shared))
}
