//! What the kernels of hosts say that is wrong.

use std::collections::VecDeque;
use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{self, Batch};

use super::limits::{KERNEL_KEPT, MAX_KERNEL_HOSTS, MAX_KERNEL_MESSAGES, MAX_TOLD_KERNEL};
use super::{Changes, Model, Name};

/// What one host's kernel says.
#[derive(Debug, Default)]
pub struct Kernel {
    /// In the order in which they were heard of.
    messages: VecDeque<KernelMessage>,
    reading: Option<batch::KernelReading>,
    heard: Timestamp,
}

/// One message, and when it was heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelMessage {
    /// As it was told.
    pub told: batch::KernelMessage,
    /// When it was told, by our clock.
    pub heard: Timestamp,
}

impl Kernel {
    /// Its messages, in the order in which they were heard of.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &KernelMessage> {
        self.messages.iter()
    }

    /// Whether they can be read. Absent: nobody has said.
    #[must_use]
    pub fn reading(&self) -> Option<&batch::KernelReading> {
        self.reading.as_ref()
    }

    fn knows(&self, told: &batch::KernelMessage) -> bool {
        let is_it =
            |known: &KernelMessage| known.told.number == told.number && known.told.boot_id == told.boot_id;
        self.messages.iter().rev().any(is_it)
    }
}

impl Model {
    /// What the kernel of a host says. `None`: nothing is known of it.
    #[must_use]
    pub fn kernel(&self, host: &str) -> Option<&Kernel> {
        self.kernels.get(host)
    }

    /// The hosts of whose kernels something is known.
    pub fn kernels(&self) -> impl Iterator<Item = (&Name, &Kernel)> {
        self.kernels.iter()
    }

    /// Takes what a batch says of the kernel of its agent's host.
    pub(super) fn apply_kernel(&mut self, batch: &Batch, now: Timestamp, changes: &mut Changes) {
        if batch.kernel.is_empty() && batch.kernel_reading.is_none() {
            return;
        }
        if batch.agent_host.is_empty() {
            self.losses.add("kernel_without_host");
            return;
        }
        let host = self.names.intern(&batch.agent_host);
        if !self.kernels.contains_key(&host) && self.kernels.len() >= MAX_KERNEL_HOSTS {
            self.losses.add("kernel_host_limit");
            return;
        }
        let kernel = self.kernels.entry(Arc::clone(&host)).or_default();
        kernel.heard = kernel.heard.max(now);
        if let Some(reading) = &batch.kernel_reading
            && kernel.reading.as_ref() != Some(reading)
        {
            kernel.reading = Some(reading.clone());
            changes.kernels.insert(Arc::clone(&host));
        }
        self.losses.add_many("kernel_message_limit", batch.kernel.len().saturating_sub(MAX_TOLD_KERNEL));
        let mut is_new = false;
        for told in batch.kernel.iter().take(MAX_TOLD_KERNEL) {
            if kernel.knows(told) || now.since(Timestamp(told.at_ns)) >= KERNEL_KEPT {
                continue;
            }
            if kernel.messages.len() >= MAX_KERNEL_MESSAGES {
                self.losses.add("kernel_message_limit");
                kernel.messages.pop_front();
            }
            kernel.messages.push_back(KernelMessage { told: told.clone(), heard: now });
            changes.kernels.insert(Arc::clone(&host));
            is_new = true;
        }
        if is_new {
            let processes = self.hosts.get(&host).into_iter().flatten();
            let identities = processes.filter_map(|id| self.processes.get(id)?.identity.as_ref());
            changes.alarmed.extend(identities.map(|identity| Arc::clone(&identity.job)));
        }
    }

    /// Forgets what was said long ago, and hosts of which nothing is heard.
    pub(super) fn forget_kernels(&mut self, now: Timestamp) {
        for kernel in self.kernels.values_mut() {
            kernel.messages.retain(|message| now.since(message.heard) < KERNEL_KEPT);
        }
        self.kernels.retain(|_, kernel| !kernel.messages.is_empty() || now.since(kernel.heard) < KERNEL_KEPT);
    }
}
