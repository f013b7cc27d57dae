//! Where a link's slots, blocks and words lie in its registered memory: one region for all of them.

use crate::error::{Error, Result};
use crate::link::{Direction, Hold, Link, Placement};
use crate::memory::PAGE_BYTES;
use crate::memory::arena::{Arena, LINE_BYTES};
use crate::placement::dynamic::BLOCK_BYTES;
use crate::placement::slot_bytes;

/// Hands out places one after the other.
#[derive(Debug, Default)]
struct Places {
    end: u64,
}

impl Places {
    /// A place for so many bytes; large ones begin at a page, so that no two tensors share one.
    fn take(&mut self, bytes: u64) -> Result<u64> {
        let align = if bytes > PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
        let start = self.end.next_multiple_of(align);
        let end = start.checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        self.end = end.ok_or_else(|| Error::Usage("the link's tensors have too many bytes".to_owned()))?;
        Ok(start)
    }
}

impl Link {
    /// Allocates and registers what the edges need on this end.
    pub(super) fn lay_out(&mut self) -> Result<()> {
        let mut places = Places::default();
        let mut taken = Vec::new();
        let mut has_dynamic = false;
        for edge in &self.edges {
            let declaration = &edge.declaration;
            let sends = declaration.direction == Direction::Send;
            let slot = match &declaration.placement {
                Placement::Static(_) if sends && !declaration.has_slot => None,
                Placement::Static(shape) => Some(slot_bytes(shape.size_bytes())),
                Placement::Dynamic { .. } => {
                    has_dynamic |= declaration.has_slot;
                    Some(slot_bytes(BLOCK_BYTES))
                }
            };
            let slot = slot.map(|bytes| places.take(bytes).map(|start| (start, bytes))).transpose()?;
            let has_word = sends && declaration.hold == Hold::Release;
            let word = has_word.then(|| places.take(LINE_BYTES)).transpose()?;
            taken.push((slot, word));
        }
        let region = self.device.allocate(places.end)?;
        for (edge, (slot, word)) in self.edges.iter_mut().zip(taken) {
            edge.slot = slot.map(|(start, bytes)| region.part(start, bytes)).transpose()?;
            edge.word = word.map(|start| region.part(start, LINE_BYTES)).transpose()?;
        }
        if has_dynamic && self.arena_bytes > 0 {
            let region = self.device.allocate(self.arena_bytes)?;
            self.arena = Some(Arena::new(format!("the arena of the link to {}", self.device.peer()), region));
        }
        Ok(())
    }
}
