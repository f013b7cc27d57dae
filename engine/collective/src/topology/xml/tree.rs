//! A file as a tree of elements.

use crate::topology::xml::XmlError;
use crate::topology::xml::element::{Element, walk};

/// Elements below each other at most, so that a broken file does not fill the memory.
const MAX_DEPTH: usize = 64;

/// An element and those below it.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The element.
    pub(crate) element: Element,
    /// Those below it.
    pub(crate) below: Vec<Self>,
}

/// Reads a file whose root is `root`.
pub(crate) fn read_tree(text: &str, root: &'static str) -> Result<Branch, XmlError> {
    let mut open: Vec<Branch> = Vec::new();
    let mut whole = None;
    walk(text, root, |element, opens| {
        if opens {
            if open.len() == MAX_DEPTH {
                return Err(XmlError::TooLarge);
            }
            open.push(Branch { element: element.clone(), below: Vec::new() });
        } else if let Some(branch) = open.pop() {
            match open.last_mut() {
                Some(above) => above.below.push(branch),
                None => whole = Some(branch),
            }
        }
        Ok(())
    })?;
    whole.ok_or(XmlError::NoElement(root))
}
