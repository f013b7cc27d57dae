//! Fence: what a device says by itself.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::CStr;

use rdma_mummy_sys as sys;

use crate::context::Context;

/// Something happened to a device, a port or a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// libibverbs' words: "port error".
    pub words: String,
    /// What it is about.
    pub about: About,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A port is up again, or otherwise changed without harm.
    Port(u8),
    /// A port went down.
    PortDown(u8),
    /// A queue pair of this number is broken.
    QueuePair(u32),
    /// The device as a whole is broken.
    Device,
    /// Anything else.
    Other,
}

impl Context {
    /// The next event, if there is one. Who makes queue pairs asks now and then: what is not asked for piles up in the kernel.
    pub fn next_event(&self) -> Option<Event> {
        let mut event = std::mem::MaybeUninit::<sys::ibv_async_event>::zeroed();
        let event = event.as_mut_ptr();
        // SAFETY: an open device, and room for what is written.
        if unsafe { sys::ibv_get_async_event(self.raw(), event) } != 0 {
            return None;
        }
        // SAFETY: inside the event.
        let number = unsafe { &raw const (*event).event_type };
        // SAFETY: written; as a number, for a later library may have others than the enum.
        let number = unsafe { number.cast::<u32>().read() };
        let about = about(number, event);
        let words = words(number);
        // SAFETY: an event that was got and not acknowledged yet.
        unsafe { sys::ibv_ack_async_event(event) };
        Some(Event { words, about })
    }
}

fn about(number: u32, event: *const sys::ibv_async_event) -> About {
    // SAFETY: inside the event, which was written.
    let element = unsafe { &raw const (*event).element };
    match number {
        8 => About::Device,
        9..=13 | 17..=18 | 20 => {
            // SAFETY: events of ports have a port's number.
            let port = unsafe { element.cast::<i32>().read() };
            let port = u8::try_from(port).unwrap_or(0);
            if number == 10 { About::PortDown(port) } else { About::Port(port) }
        }
        1..=3 => {
            // SAFETY: events of queue pairs have a queue pair, which lives until the event is acknowledged.
            let queue_pair = unsafe { element.cast::<*const sys::ibv_qp>().read() };
            // SAFETY: as above.
            About::QueuePair(unsafe { (*queue_pair).qp_num })
        }
        _ => About::Other,
    }
}

fn words(number: u32) -> String {
    if number > sys::ibv_event_type::IBV_EVENT_DEVICE_SPEED_CHANGE as u32 {
        return format!("event {number}");
    }
    // SAFETY: one of the enum's numbers, whose representation is this number.
    let event = unsafe { std::mem::transmute::<u32, sys::ibv_event_type>(number) };
    // SAFETY: gives a static string, or null without a library.
    let words = unsafe { sys::ibv_event_type_str(event) };
    if words.is_null() {
        return format!("event {number}");
    }
    // SAFETY: a static string.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}
