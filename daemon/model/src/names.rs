//! Names that thousands of ranks share, kept once.

use std::collections::HashSet;
use std::sync::Arc;

use super::limits::MAX_NAME_BYTES;

/// A shared name: cloning it copies no text.
pub type Name = Arc<str>;

/// Every name in use.
#[derive(Default)]
pub(super) struct Names(HashSet<Name>);

impl Names {
    /// The shared copy of this name, cut to the longest allowed.
    pub(super) fn intern(&mut self, text: &str) -> Name {
        let text = clip(text);
        if let Some(name) = self.0.get(text) {
            return Arc::clone(name);
        }
        let name: Name = text.into();
        self.0.insert(Arc::clone(&name));
        name
    }

    /// Lets go of the names that nothing uses any more.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// The longest beginning that is allowed as a name.
pub(super) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shared_cut_and_forgotten() {
        let mut names = Names::default();
        let first = names.intern("host-0");
        assert!(Arc::ptr_eq(&first, &names.intern("host-0")));
        assert_eq!(names.intern(&"ä".repeat(MAX_NAME_BYTES)).len(), MAX_NAME_BYTES);
        names.forget_unused();
        assert_eq!(names.0.len(), 1);
    }
}
