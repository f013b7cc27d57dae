//! A queue pair that is connected to itself, for reads of this machine's memory through the device.

use verbs::{Buffer, CompletionQueue, LinkLayer, Path, QueuePair, Remote, Room, Signal};

use crate::config::settings;
use crate::device::Device;
use crate::failure::Result;

/// Reads of a byte.
#[derive(Debug)]
pub(crate) struct Flush {
    pair: QueuePair,
    byte: Buffer,
}

impl Flush {
    /// On a device, completing there.
    pub(crate) fn new(device: &Device, queue: &CompletionQueue) -> Result<Self> {
        let room = Room { sends: 64, receives: 1, inline_bytes: 0 };
        let mut pair = device.domain.queue_pair(queue, queue, room)?;
        pair.prepare(device.port, settings().pkey_index)?;
        let gid = device.gid(settings())?;
        let port = device.context.port(device.port)?;
        pair.connect(&Path {
            port: device.port,
            gid,
            remote_gid: gid.bytes,
            remote_lid: port.lid,
            is_global: device.link_layer == LinkLayer::Ethernet || port.needs_gid,
            remote_number: pair.number(),
            mtu_bytes: port.mtu_bytes,
            traffic_class: settings().traffic_class.unwrap_or(0),
            service_level: settings().service_level.unwrap_or(0),
            timeout: settings().timeout,
            retries: settings().retries,
            reads: 1,
        })?;
        Ok(Self { pair, byte: device.buffer(1)? })
    }

    /// Reads a byte, which completes with this number.
    pub(crate) fn read(&mut self, from: Remote, id: u64) -> Result<()> {
        Ok(self.pair.read(self.byte.region().local(0, 1)?, from, Signal::With(id))?)
    }
}
