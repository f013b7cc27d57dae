//! Who wrote a line: `HOST:PID:TID [cudaDev] NCCL INFO message`, behind whatever a launcher, a container's runtime or a
//! timestamp puts first. A torn line holds several records; of those that were cut only the beginning is there.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// One record of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'l> {
    pub(super) host: &'l str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cuda_device: Option<u32>,
    pub(super) level: Level,
    pub(super) message: &'l str,
    /// The end of the message is missing, or may be.
    pub(super) cut: bool,
}

/// How loud a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warn,
}

static INFO: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" NCCL INFO "));
static WARN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" NCCL WARN "));
/// Bytes of the two marks.
const MARK_BYTES: usize = " NCCL INFO ".len();
/// Records looked for on one line: more pieces than this are noise.
const MAX_RECORDS: usize = 16;

/// Calls `each` with every record on a line; returns whether the line is torn. `known` says whether a host has written
/// before: where records run into each other, only a known name can be cut out of the middle of a word.
pub(super) fn records<'l>(
    line: &'l str,
    known: impl Fn(&str) -> bool,
    mut each: impl FnMut(Record<'l>),
) -> bool {
    let Some((mut at, mut level)) = mark(line) else { return false };
    let mut head = &line[..at];
    let mut torn = false;
    for _ in 0..MAX_RECORDS {
        let after = &line[at + MARK_BYTES..];
        let next = mark(after);
        let (message, cut) = match next {
            Some((end, _)) => (&after[..end - prefix_bytes(&after[..end], &known)], true),
            None => (after, false),
        };
        let writer = if torn { writer_of(head, &known) } else { writer_of(head, &|_: &str| true) };
        if let Some((host, pid, tid, cuda_device)) = writer {
            each(Record { host, pid, tid, cuda_device, level, message: message.trim(), cut });
        }
        let Some((end, next_level)) = next else { return torn };
        torn = true;
        head = &after[message.len()..end];
        at += MARK_BYTES + end;
        level = next_level;
    }
    true
}

/// Who wrote lately, by all that stands in front of the mark: most lines begin as one before them did.
#[derive(Debug, Default)]
pub(super) struct Writers {
    lately: Vec<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    head: String,
    /// Where the host stands in it.
    host: (usize, usize),
    pid: u32,
    tid: u32,
    cuda_device: Option<u32>,
}

/// Writers remembered: the ranks and threads of a host, and some more.
const MAX_WRITERS: usize = 256;
/// Longest head remembered.
const MAX_HEAD_BYTES: usize = 256;

impl Writers {
    /// The record on a line whose only "CCL " is at `mark`, as [`records`] reads it.
    pub(super) fn record<'l>(&mut self, line: &'l str, mark: usize) -> Option<Record<'l>> {
        let at = mark.checked_sub(2)?;
        let level = match line.as_bytes().get(at..at + MARK_BYTES)? {
            b" NCCL INFO " => Level::Info,
            b" NCCL WARN " => Level::Warn,
            _ => return None,
        };
        let (head, message) = (&line[..at], line[at + MARK_BYTES..].trim());
        let writer = self.of(head)?;
        let host = head.get(writer.host.0..writer.host.1)?;
        let Writer { pid, tid, cuda_device, .. } = *writer;
        Some(Record { host, pid, tid, cuda_device, level, message, cut: false })
    }

    fn of(&mut self, head: &str) -> Option<&Writer> {
        if self.lately.is_empty() {
            self.lately.resize_with(MAX_WRITERS, || None);
        }
        let place = &mut self.lately[place(head.as_bytes())];
        if place.as_ref().is_none_or(|writer| writer.head != head) {
            let (host, pid, tid, cuda_device) = writer_of(head, &|_: &str| true)?;
            let from = host.as_ptr() as usize - head.as_ptr() as usize;
            let mut kept = place.take().map(|writer| writer.head).unwrap_or_default();
            kept.clear();
            if head.len() > MAX_HEAD_BYTES {
                kept.shrink_to(MAX_HEAD_BYTES);
            }
            kept.push_str(head);
            *place = Some(Writer { head: kept, host: (from, from + host.len()), pid, tid, cuda_device });
        }
        place.as_ref()
    }
}

/// By the last bytes, where process and thread stand.
fn place(head: &[u8]) -> usize {
    let Some((rest, last)) = head.split_last_chunk::<8>() else { return 0 };
    let before = rest.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mixed = (u64::from_le_bytes(*last) ^ before.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(mixed.to_be_bytes()[0])
}

fn mark(text: &str) -> Option<(usize, Level)> {
    let info = INFO.find(text.as_bytes()).map(|at| (at, Level::Info));
    let before = &text[..info.map_or(text.len(), |(at, _)| at)];
    WARN.find(before.as_bytes()).map(|at| (at, Level::Warn)).or(info)
}

/// How many bytes at the end of `text` are the beginning of the next record: `HOST:PID:TID [cudaDev]`.
fn prefix_bytes(text: &str, known: &impl Fn(&str) -> bool) -> usize {
    let Some((host, ..)) = writer_of(text, known) else { return 0 };
    text.len() - (host.as_ptr() as usize - text.as_ptr() as usize)
}

fn writer_of<'l>(head: &'l str, known: &impl Fn(&str) -> bool) -> Option<(&'l str, u32, u32, Option<u32>)> {
    let mut cuda_device = None;
    let (host, pid, tid) = head.split_ascii_whitespace().rev().find_map(|word| {
        if let Some(device) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            cuda_device = device.parse().ok().or(cuda_device);
        }
        writer(word)
    })?;
    Some((known_end(host, known), pid, tid, cuda_device))
}

/// `HOST:PID:TID`; what a launcher glues in front (`[1,0]<stdout>:`, `[rank0]:`, `3:`) is cut off, for no host name has
/// a colon.
fn writer(word: &str) -> Option<(&str, u32, u32)> {
    let mut parts = word.rsplitn(4, ':');
    let tid = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    let host = parts.next()?;
    let of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let host = host.rsplit(|c| !of_host(c)).next().filter(|host| !host.is_empty())?;
    Some((host, pid, tid))
}

/// The name itself if it has been seen, else the end of it that has: the rest is what remained of another record.
fn known_end<'l>(host: &'l str, known: &impl Fn(&str) -> bool) -> &'l str {
    if known(host) {
        return host;
    }
    if let Some(host) = LAST_WORDS.iter().find_map(|word| host.strip_prefix(word)) {
        return host;
    }
    let mut ends = (1..host.len()).filter_map(|at| host.get(at..));
    ends.find(|end| known(end)).unwrap_or(host)
}

/// Last words of messages, which a torn line runs together with the next host.
const LAST_WORDS: [&str; 2] = ["START", "COMPLETE"];

#[cfg(test)]
mod tests;
