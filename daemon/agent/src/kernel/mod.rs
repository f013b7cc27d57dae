//! The kernel's word: follows its messages in a thread of its own and tells those that say that something is wrong, joined
//! to a PCI address, a NIC or a process. Never a fault of the agent: where nothing can be read, that is said.
//!
//! * `source`: /dev/kmsg or the journal. `record`: one message as either hands it over.
//! * `parse`: messages → what the daemon is told. `rules`: what a line says; `words`: names in it.

mod parse;
mod record;
mod rules;
mod source;
mod words;

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringscope_wire::batch::{KernelMessage, KernelReading};
use rustix::time::{ClockId, clock_gettime};

use self::parse::Reader;
use self::record::{Read, Record};
use self::source::Source;
use super::config::{AgentConfig, KernelLog};
use super::procfs::{boot_id, process_of};
use super::programs::Programs;

/// Messages in one batch, as the batch allows.
const MAX_PER_BATCH: usize = 64;
/// Messages that wait for a batch.
const MAX_WAITING: usize = 256;
/// Messages from before the agent started that are told of: what killed a job a moment ago is still news.
const PAST_NS: u64 = 600_000_000_000;
/// How old a message may be for the thread that it names to be there still, as the same one.
const FRESH_NS: u64 = 1_000_000_000;
/// When a source that went away is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How long the thread sleeps at once: it must see that it shall end.
const NAP: Duration = Duration::from_millis(250);

/// Follows the kernel's messages.
#[derive(Debug)]
pub(super) struct Kernel {
    inbox: Arc<Mutex<Inbox>>,
    stop: Arc<AtomicBool>,
    /// Told last, so that they can be told again.
    told: VecDeque<KernelMessage>,
    said: Option<KernelReading>,
}

#[derive(Debug, Default)]
struct Inbox {
    messages: VecDeque<KernelMessage>,
    reading: Option<KernelReading>,
    lost: u64,
}

impl Kernel {
    /// Starts to follow, unless it is switched off or the machine pretends to be others, whose kernels have no messages.
    pub(super) fn new(config: &AgentConfig) -> Self {
        let kernel = Self { inbox: Arc::default(), stop: Arc::default(), told: VecDeque::new(), said: None };
        if let Some(log) = config.kernel_log.clone().filter(|_| config.pretended_hosts.is_empty()) {
            let (inbox, stop) = (Arc::clone(&kernel.inbox), Arc::clone(&kernel.stop));
            let programs = config.programs();
            let thread = std::thread::Builder::new().name("kernel".to_owned());
            let spawned = thread.spawn(move || follow(&log, &programs, &inbox, &stop));
            if let Err(error) = spawned {
                tracing::warn!(%error, "cannot follow the kernel's messages");
            }
        }
        kernel
    }

    /// Whether there is something to tell.
    pub(super) fn is_new(&self) -> bool {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        !inbox.messages.is_empty() || inbox.reading.is_some() && inbox.reading() != self.said
    }

    /// What is new, for one batch.
    pub(super) fn take(&mut self) -> (Vec<KernelMessage>, Option<KernelReading>) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let n = inbox.messages.len().min(MAX_PER_BATCH);
        let messages: Vec<KernelMessage> = inbox.messages.drain(..n).collect();
        let reading = inbox.reading().filter(|reading| self.said.as_ref() != Some(reading));
        drop(inbox);
        if reading.is_some() {
            self.said.clone_from(&reading);
        }
        self.told.extend(messages.iter().cloned());
        self.told.drain(..self.told.len().saturating_sub(MAX_PER_BATCH));
        (messages, reading)
    }

    /// Batches were lost on their way: the newest messages are told again. The daemon knows them by their numbers.
    pub(super) fn unsay(&mut self) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        for message in self.told.drain(..).rev() {
            inbox.messages.push_front(message);
        }
        self.said = None;
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Inbox {
    fn reading(&self) -> Option<KernelReading> {
        self.reading.clone().map(|reading| KernelReading { lost: self.lost, ..reading })
    }

    fn put(&mut self, message: KernelMessage) {
        if self.messages.len() < MAX_WAITING {
            self.messages.push_back(message);
        } else {
            self.lost += 1;
        }
    }
}

/// Reads until told to stop.
fn follow(log: &KernelLog, programs: &Programs, inbox: &Mutex<Inbox>, stop: &AtomicBool) {
    let mut following = Following::default();
    while !stop.load(Ordering::Relaxed) {
        let opened = Source::open(&log.kmsg, programs);
        let why = match opened {
            Ok(mut source) => {
                put_reading(inbox, true, source.name(&log.kmsg));
                following.run(&mut source, inbox, stop)
            }
            Err(why) => why,
        };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        put_reading(inbox, false, why);
        let naps = RETRY.as_millis() / NAP.as_millis();
        for _ in 0..naps {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(NAP);
        }
    }
}

fn put_reading(inbox: &Mutex<Inbox>, readable: bool, how: String) {
    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    inbox.reading = Some(KernelReading { readable, how, lost: 0 });
}

/// What is known of the messages so far.
#[derive(Default)]
struct Following {
    reader: Reader,
    /// What is read now: another source has other numbers.
    source: Option<Discriminant<Source>>,
    /// Number of the newest message of this source, whoever wrote it.
    newest: Option<u64>,
    /// The kernel's time of the newest message of all sources.
    newest_us: Option<u64>,
    /// The same when this source was taken up: what is older was read from another one.
    read_until_us: Option<u64>,
}

impl Following {
    /// Reads one source. Returns why it can be read no more.
    fn run(&mut self, source: &mut Source, inbox: &Mutex<Inbox>, stop: &AtomicBool) -> String {
        self.take_up(source);
        while !stop.load(Ordering::Relaxed) {
            let read = match source.next() {
                Ok(read) => read,
                Err(error) => return format!("the kernel's messages cannot be read any more: {error}"),
            };
            if read.is_empty() {
                continue;
            }
            let (messages, lost) = self.read(read, source, Moment::now());
            let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.lost += lost;
            messages.into_iter().for_each(|message| inbox.put(message));
        }
        String::new()
    }

    fn take_up(&mut self, source: &Source) {
        if self.source.replace(discriminant(source)) != Some(discriminant(source)) {
            (self.newest, self.read_until_us) = (None, self.newest_us);
        }
    }

    /// What is new in what was read just now, and how much of it was lost.
    fn read(&mut self, read: Vec<Read>, source: &Source, now: Moment) -> (Vec<KernelMessage>, u64) {
        // The journal's numbers have gaps.
        let counts_gaps = matches!(source, Source::Kmsg(_));
        let lost_before = self.reader.lost;
        let mut missed = 0;
        let mut messages = Vec::new();
        for one in read {
            let number = match &one {
                Read::Kernel(record) => Some(record.number),
                Read::Foreign(number) => *number,
            };
            if number.is_some_and(|number| self.newest.is_some_and(|newest| number <= newest)) {
                continue;
            }
            if let (Some(number), Some(newest), true) = (number, self.newest, counts_gaps) {
                missed += number - newest - 1;
            }
            self.newest = number.or(self.newest);
            let Read::Kernel(record) = one else { continue };
            let since_boot_us = Some(record.since_boot_us);
            self.newest_us = self.newest_us.max(since_boot_us);
            let at_ns = now.of(&record, source.is_live());
            if now.wall_ns.saturating_sub(at_ns) <= PAST_NS && since_boot_us > self.read_until_us {
                let message = self.reader.read(&record, at_ns, boot_id());
                // The kernel names threads. Later the number may be another one's, or nobody's.
                let is_fresh = now.wall_ns.saturating_sub(at_ns) <= FRESH_NS;
                messages
                    .extend(message.map(|message| if is_fresh { with_process(message) } else { message }));
            }
        }
        (messages, missed + self.reader.lost - lost_before)
    }
}

/// The same of the whole process, where a thread is named that is still there.
fn with_process(message: KernelMessage) -> KernelMessage {
    let pid = message.pid.map(|thread| process_of(thread).unwrap_or(thread));
    KernelMessage { pid, ..message }
}

/// One moment by the wall's clock and by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Moment {
    wall_ns: u64,
    since_boot_us: u64,
}

impl Moment {
    fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let microseconds = u64::try_from(time.tv_nsec / 1000).unwrap_or_default();
        let since_boot_us = seconds.saturating_mul(1_000_000).saturating_add(microseconds);
        Self { wall_ns: ringscope_api::clock::now().0, since_boot_us }
    }

    /// When a message was written that was read at this moment. The kernel's own clock is corrected by nobody: after months
    /// it is minutes off the others. So it counts only for messages that waited to be read and say no other time.
    fn of(self, record: &Record, is_live: bool) -> u64 {
        let age_us = if is_live { 0 } else { self.since_boot_us.saturating_sub(record.since_boot_us) };
        record.wall_ns.unwrap_or_else(|| self.wall_ns.saturating_sub(age_us.saturating_mul(1000)))
    }
}

#[cfg(test)]
mod tests;
