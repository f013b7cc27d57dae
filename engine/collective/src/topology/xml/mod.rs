//! NCCL's topology and graph files (`src/graph/xml.cc`, `src/graph/search.cc`): text in, facts out, and back.
//!
//! A rank stands where NCCL has a GPU. Written files have the numbers of NCCL 2.28: ids in hexadecimal, a GPU's `dev`
//! is its rank's index in the node.

mod element;
mod read;
#[cfg(test)]
mod tests;
mod tree;
mod write;

use std::num::ParseIntError;

use thiserror::Error;

pub(crate) use element::Element;
pub(crate) use read::{TopologyFile, read_graphs, read_topology};
pub(crate) use tree::{Branch, read_tree};
pub(crate) use write::{Host, write_graphs, write_machine, write_topology};

/// Elements of a file at most: a node of 1024 ranks on 64 channels has fewer than 100 000.
const MAX_ELEMENTS: usize = 1 << 18;
/// PCI devices below each other at most, so that a broken file does not fill the memory.
const MAX_DEPTH: usize = 32;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum XmlError {
    /// It is no XML, or was cut.
    #[error("no XML: {0}")]
    Syntax(#[from] quick_xml::Error),
    /// An attribute that cannot be read.
    #[error("no XML: {0}")]
    Attribute(#[from] quick_xml::events::attributes::AttrError),
    /// Its end is missing.
    #[error("was cut: <{0}> does not end")]
    Cut(String),
    /// It has no element at all.
    #[error("no XML: has no <{0}>")]
    NoElement(&'static str),
    /// Another kind of file.
    #[error("has <{found}> and not <{wanted}>")]
    OtherKind {
        /// The root element that is there.
        found: String,
        /// The one that should be there.
        wanted: &'static str,
    },
    /// An attribute is missing.
    #[error("<{element}> has no attribute {attribute}")]
    Missing {
        /// The element.
        element: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// An attribute is no number.
    #[error("{attribute}=\"{value}\" of <{element}>: {why}")]
    Number {
        /// The element.
        element: String,
        /// The attribute.
        attribute: &'static str,
        /// What it says.
        value: String,
        /// What is wrong.
        why: ParseIntError,
    },
    /// What it says cannot be, or is not described.
    #[error("{0}")]
    Unfit(String),
    /// Too large.
    #[error("has more than {MAX_ELEMENTS} elements or {MAX_DEPTH} PCI devices below each other")]
    TooLarge,
}
