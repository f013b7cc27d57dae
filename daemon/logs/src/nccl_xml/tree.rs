//! Elements and attributes, with errors that say where.

use std::str::FromStr;

use roxmltree::{Document, Node, ParsingOptions};
use thiserror::Error;

/// Largest file that is read: a node of 72 GPUs takes some hundred KiB.
const MAX_BYTES: usize = 16 << 20;
/// Most elements and attributes that are read.
const MAX_NODES: u32 = 1 << 20;

/// Why a file is not read.
#[derive(Debug, Error)]
pub enum XmlError {
    /// It is too large.
    #[error("{bytes} bytes: NCCL's XML files are far smaller than {MAX_BYTES}; is it the right file?")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is no XML, or it was cut.
    #[error("not well-formed at line {}, so it was cut or is no XML", .0.pos().row)]
    Malformed(#[from] roxmltree::Error),
    /// It is another kind of file.
    #[error("the outermost element is not <{wanted}>: {hint}")]
    OtherKind {
        /// What it should be.
        wanted: &'static str,
        /// Which file has which element.
        hint: &'static str,
    },
    /// An attribute is missing that NCCL always writes.
    #[error("line {line}: <{element}> has no attribute {attribute}")]
    Missing {
        /// Where.
        line: u32,
        /// Element.
        element: String,
        /// Attribute.
        attribute: &'static str,
    },
    /// An attribute is not what it should be.
    #[error("line {line}: {attribute} of <{element}> is no number that fits")]
    Value {
        /// Where.
        line: u32,
        /// Element.
        element: String,
        /// Attribute.
        attribute: &'static str,
    },
}

/// Parses a file whose outermost element is `wanted`.
pub(super) fn parse<'t>(text: &'t str, wanted: &'static str) -> Result<Document<'t>, XmlError> {
    if text.len() > MAX_BYTES {
        return Err(XmlError::TooLarge { bytes: text.len() });
    }
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)?;
    if !document.root_element().has_tag_name(wanted) {
        let hint = "NCCL_GRAPH_DUMP_FILE writes <graphs>, NCCL_TOPO_DUMP_FILE <system>";
        return Err(XmlError::OtherKind { wanted, hint });
    }
    Ok(document)
}

pub(super) fn children<'n, 't: 'n>(node: Node<'n, 't>, name: &'n str) -> impl Iterator<Item = Node<'n, 't>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// An attribute that may be missing; an empty one is missing.
pub(super) fn optional<T: FromStr>(
    node: Node<'_, '_>,
    attribute: &'static str,
) -> Result<Option<T>, XmlError> {
    match node.attribute(attribute).filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map(Some).map_err(|_| wrong(node, attribute)),
        None => Ok(None),
    }
}

pub(super) fn required<T: FromStr>(node: Node<'_, '_>, attribute: &'static str) -> Result<T, XmlError> {
    optional(node, attribute)?.ok_or_else(|| missing(node, attribute))
}

/// A number in decimal, or in hexadecimal behind `0x`.
pub(super) fn number(node: Node<'_, '_>, attribute: &'static str) -> Result<u64, XmlError> {
    let text = node.attribute(attribute).ok_or_else(|| missing(node, attribute))?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| wrong(node, attribute))
}

fn missing(node: Node<'_, '_>, attribute: &'static str) -> XmlError {
    XmlError::Missing { line: line(node), element: node.tag_name().name().to_owned(), attribute }
}

fn wrong(node: Node<'_, '_>, attribute: &'static str) -> XmlError {
    XmlError::Value { line: line(node), element: node.tag_name().name().to_owned(), attribute }
}

fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}
