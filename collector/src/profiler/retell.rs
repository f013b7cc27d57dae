//! An event in the words of another version, for the plugin that the program had before: the same descriptor, with that
//! plugin's own parents.

#![expect(unsafe_code, reason = "copies fields from structure to structure")]

use crate::profiler::event::Text;
use crate::profiler::layout::{
    CE_BATCH, CE_COLL, CE_SYNC, COLL, COLL_API, DETAIL, Descriptor, GROUP_API, KERNEL_CH, KERNEL_LAUNCH,
    KERNEL_PHASE, NET_PLUGIN, P2P, P2P_API, PROXY_OP, PROXY_STEP, read,
};
use crate::profiler::versions::{COLL_FIELDS, Field, P2P_FIELDS, Version, coll, p2p};

/// The longest descriptor of any version.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Buffer([u8; 136]);

/// The descriptor as the version `to` has it. `theirs_of` gives the plugin's handle for one that the library has; a
/// foreign process's handle means nothing here.
///
/// # Safety
/// A descriptor of the version `from`, which is not older than `to`, of a kind that `to` has.
pub(super) unsafe fn retell(
    descriptor: *const Descriptor,
    (from, to): (&Version, &Version),
    kind: u64,
    is_foreign: bool,
    theirs_of: impl Fn(u64) -> usize,
) -> Buffer {
    let mut buffer = Buffer([0; 136]);
    let task = match kind {
        COLL => Some((&from.coll[..], &to.coll[..], &COLL_FIELDS[..], coll::GROUP)),
        P2P => Some((&from.p2p[..], &to.p2p[..], &P2P_FIELDS[..], p2p::GROUP)),
        _ => None,
    };
    // SAFETY: the caller's promise.
    let Descriptor { parent, rank, .. } = unsafe { descriptor.read() };
    let mut parent = if is_foreign { 0 } else { theirs_of(parent as u64) };
    match task {
        Some((offsets, others, fields, _)) if from.number != to.number => {
            for ((offset, other), field) in offsets.iter().zip(others).zip(fields) {
                // SAFETY: the table says where the field is.
                unsafe { copy_field(descriptor, &mut buffer, (*offset, *other), *field, to) };
            }
        }
        _ => {
            let length =
                if from.number == to.number { to.size - DETAIL } else { detail_bytes(kind, to.number) };
            // SAFETY: the detail has this length in both versions.
            unsafe { copy(descriptor, DETAIL, &mut buffer, DETAIL, length) };
        }
    }
    if let Some((offsets, others, _, group)) = task {
        // SAFETY: the table says where it is.
        let plan = theirs_of(unsafe { read::<u64>(descriptor, offsets[group]) });
        if others[group] > 0 {
            buffer.put(others[group].into(), &plan.to_ne_bytes());
        } else if offsets[group] > 0 {
            // Before version 5 a task hangs below its plan.
            parent = plan;
        }
    }
    buffer.put(0, &kind.to_ne_bytes());
    buffer.put(8, &parent.to_ne_bytes());
    buffer.put(16, &rank.to_ne_bytes());
    buffer
}

impl Buffer {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// # Safety
/// A descriptor in which the field lies at the first offset, or does not if that is 0.
unsafe fn copy_field(
    descriptor: *const Descriptor,
    buffer: &mut Buffer,
    (offset, other): (u8, u8),
    field: Field,
    to: &Version,
) {
    let size = match field {
        _ if offset == 0 || other == 0 => return,
        Field::Bytes(size) => size,
        Field::Word(words) if to.number == 1 => {
            // SAFETY: versions after 1 have a text there.
            let text = unsafe { read::<Text>(descriptor, offset) };
            let known = words.iter().position(|word| *word == text.bytes());
            let number = known.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
            return buffer.put(other.into(), &[number]);
        }
        Field::Word(_) => size_of::<Text>(),
    };
    // SAFETY: the field has this size in both versions.
    unsafe { copy(descriptor, offset.into(), buffer, other.into(), size) };
}

/// # Safety
/// A descriptor with so many bytes from the offset on.
unsafe fn copy(descriptor: *const Descriptor, offset: usize, buffer: &mut Buffer, other: usize, size: usize) {
    let from = descriptor.cast::<u8>().wrapping_add(offset);
    // SAFETY: the caller's promise; padding is copied as it is, never looked at.
    unsafe { from.copy_to_nonoverlapping(buffer.0[other..other + size].as_mut_ptr(), size) };
}

/// Length of the details that are alike in every version, in the version that is spoken to.
fn detail_bytes(kind: u64, version: u32) -> usize {
    let tag = if version < 7 { 0 } else { 8 };
    match kind {
        PROXY_OP | CE_BATCH | KERNEL_PHASE => 24,
        PROXY_STEP | GROUP_API | KERNEL_LAUNCH | CE_SYNC => 8,
        KERNEL_CH if version < 4 => 8,
        KERNEL_CH | NET_PLUGIN => 16,
        COLL_API => 48 + tag,
        P2P_API => 40 + tag,
        CE_COLL => 88 + tag,
        _ => 0,
    }
}
