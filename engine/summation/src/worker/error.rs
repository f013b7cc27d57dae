//! What can go wrong, and what the caller can do about it.

use super::stage::Stage;

/// Why a tensor was not taken. Nothing of it is in the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The placement names a server that there is none of.
    #[error("part {key} of \"{name}\" belongs to server {server}, of {n_servers}")]
    UnknownServer {
        /// The part.
        key: u32,
        /// Its tensor.
        name: String,
        /// Its owner.
        server: usize,
        /// Servers.
        n_servers: usize,
    },
    /// The round before of the same part is not over, or two parts of a tensor have one key.
    #[error("part {key} of \"{name}\" is in the pipeline already")]
    Busy {
        /// The part.
        key: u32,
        /// The tensor that was refused.
        name: String,
    },
    /// A part without bytes.
    #[error("part {key} of \"{name}\" has no bytes; leave it out")]
    Empty {
        /// The part.
        key: u32,
        /// Its tensor.
        name: String,
    },
    /// Too much at once: take what is finished, and submit again.
    #[error(
        "\"{name}\" has {n_parts} parts, where there is room for {room}; the limit is max_parts {max_parts}"
    )]
    Full {
        /// The tensor.
        name: String,
        /// Its parts.
        n_parts: usize,
        /// Parts for which there was room.
        room: usize,
        /// [`super::Settings::max_parts`].
        max_parts: usize,
    },
}

/// A report of the driver that does not fit what the pipeline told it to do. It changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misreport {
    /// No such part, or it is over.
    #[error("part {key} is not in the pipeline")]
    NotHere {
        /// The part.
        key: u32,
    },
    /// The part is elsewhere, or waits there still.
    #[error("part {key} was reported as done in {reported}, but is in {stage}")]
    OtherStage {
        /// The part.
        key: u32,
        /// Where the driver believes it is.
        reported: Stage,
        /// Where it is.
        stage: Stage,
    },
    /// The part belongs to another server.
    #[error("part {key} was reported by server {reported}, but belongs to server {server}")]
    OtherServer {
        /// The part.
        key: u32,
        /// Who was said to have it.
        reported: usize,
        /// Who has it.
        server: usize,
    },
    /// More bytes than there are.
    #[error("{bytes} bytes of part {key} were reported, where {left} were left in {stage}")]
    TooMuch {
        /// The part.
        key: u32,
        /// Where it is.
        stage: Stage,
        /// Bytes reported.
        bytes: u64,
        /// Bytes that could have been.
        left: u64,
    },
}
