//! What the daemon asks: each question once, however often it comes.

use std::collections::{BTreeSet, VecDeque};

use ringscope_wire::batch::Inquiry;

/// Ids that are remembered: the daemon repeats a question for some seconds only.
const MAX_SEEN: usize = 8192;
/// An id is a short text.
const MAX_ID: usize = 128;

/// The questions that were taken.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    /// Whether the question is new; it is not after this.
    pub(super) fn take(&mut self, inquiry: &Inquiry) -> bool {
        let id = &inquiry.id;
        if id.is_empty() || id.len() > MAX_ID || !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id.clone());
        if self.order.len() > MAX_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_taken_once() {
        let mut seen = Seen::default();
        let inquiry = |id: String| Inquiry { id, ..Inquiry::default() };
        assert!(seen.take(&inquiry("a".into())) && !seen.take(&inquiry("a".into())));
        assert!(!seen.take(&inquiry(String::new())) && !seen.take(&inquiry("x".repeat(1000))));
        for n in 0..2 * MAX_SEEN {
            assert!(seen.take(&inquiry(n.to_string())));
        }
        assert_eq!((seen.ids.len(), seen.order.len()), (MAX_SEEN, MAX_SEEN), "bounded");
    }
}
