//! One file into facts. A file that cannot be read, or is none of the kinds, is reported and stops no other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read;

use ringscope_api::FileKind as Kind;
use ringscope_api::clock::Timestamp;
use ringscope_logs::nccl_log::NcclLog;
use ringscope_logs::nccl_xml::{Graphs, Topology};

use super::elements::{Elements, is_one_line};
use super::error::FileError;
use super::gathered::Gathered;
use super::kind::{Reading, SNIFF_BYTES, sniff};
use super::report::{FileReport, Progress, begun};
use super::room::{Own, Room, Wanted};
use super::source::{CHUNK_BYTES, MAX_DOCUMENT_BYTES, fill, unpack};
use super::utf16::decoded;
use super::xml::Xml;
use super::{flight, inspector, pickle, ras};

impl Gathered {
    /// Reads one input that is called `name`, last written to at `at` (0: not known); what became of it is among
    /// [`Gathered::files`].
    pub fn read(&mut self, name: &str, at: Timestamp, packed: Box<dyn Read + '_>, progress: Progress<'_>) {
        self.read_in(&Own, name, at, packed, progress);
    }

    /// The same within bounds.
    pub(super) fn read_in(
        &mut self,
        room: &dyn Room,
        name: &str,
        at: Timestamp,
        packed: Box<dyn Read + '_>,
        progress: Progress<'_>,
    ) {
        let mut report = begun(name);
        if let Err(error) = self.read_into(room, &mut report, at, packed, progress) {
            report.problem = Some(error.to_string());
        }
        self.files.push(report);
    }

    /// Notes an input that could not be opened.
    pub fn unopened(&mut self, name: &str, error: std::io::Error) {
        let problem = Some(FileError::Io(error).to_string());
        self.files.push(FileReport { problem, ..begun(name) });
    }

    fn read_into(
        &mut self,
        room: &dyn Room,
        report: &mut FileReport,
        at: Timestamp,
        packed: Box<dyn Read + '_>,
        progress: Progress<'_>,
    ) -> Result<(), FileError> {
        let unpacked = Wanted { bytes: unpack(packed, room)?, room };
        let mut bytes = decoded(Box::new(unpacked))?;
        let mut head = vec![0; SNIFF_BYTES];
        let n = fill(&mut bytes, &mut head)?;
        head.truncate(n);
        let reading = sniff(&head);
        let whole = std::io::Cursor::new(head.clone()).chain(bytes);
        match reading {
            Reading::Text if is_one_line(&head) => self.read_log(report, at, Elements::new(whole), progress),
            Reading::Text => self.read_log(report, at, whole, progress),
            Reading::Inspector => {
                report.kind = Kind::Inspector;
                inspector::read(&mut self.inspector, report, whole, progress)
            }
            Reading::Ras => {
                report.kind = Kind::Ras;
                let document = document(whole, report, room)?;
                if self.is_known(&document, report) {
                    return Ok(());
                }
                room.take_parsed(json_bytes(&document))?;
                let dump: ras::Dump = serde_json::from_slice(&document)?;
                report.records = dump.communicators.iter().map(|one| one.ranks.len() as u64).sum();
                let at = if at.0 > 0 { at } else { dump.asked().unwrap_or_default() };
                self.ras.push((report.file.clone(), at, dump));
                Ok(())
            }
            Reading::FlightJson | Reading::FlightPickle => {
                report.kind = Kind::FlightRecorder;
                let document = document(whole, report, room)?;
                let value = if reading == Reading::FlightPickle {
                    report.lines = 0;
                    room.take_parsed(document.len().saturating_mul(PICKLE_COST).min(PICKLE_BYTES_MAX))?;
                    pickle::read(&document)?
                } else {
                    room.take_parsed(json_bytes(&document))?;
                    serde_json::from_slice(&document)?
                };
                let dump = flight::Dump::of(&value, &report.file)?;
                report.records = dump.entries.len() as u64;
                if dump.rank.is_none() {
                    return Err(FileError::Lacks(NO_RANK));
                }
                self.flight.push((report.file.clone(), at, dump));
                Ok(())
            }
            Reading::GraphXml | Reading::TopologyXml => {
                report.kind = if reading == Reading::GraphXml { Kind::GraphXml } else { Kind::TopologyXml };
                let document = document(whole, report, room)?;
                room.take_parsed(count(&document, b"<=") * XML_NODE_BYTES)?;
                let text = String::from_utf8_lossy(&document);
                let xml = if reading == Reading::GraphXml {
                    let graphs = Graphs::parse(&text)?;
                    report.records = graphs.graphs.len() as u64;
                    Xml::Graphs(graphs)
                } else {
                    let topology = Topology::parse(&text)?;
                    report.records = (topology.gpus.len() + topology.nics.len()) as u64;
                    Xml::Topology(topology)
                };
                self.xml.push((report.file.clone(), xml));
                Ok(())
            }
            Reading::Binary => {
                report.seen = Some("bytes that are no text".to_owned());
                Ok(())
            }
        }
    }

    /// Whether an answer was read before: what it tells does not count twice. Dumps of two ranks may be the same.
    fn is_known(&mut self, document: &[u8], report: &mut FileReport) -> bool {
        let mut hasher = DefaultHasher::new();
        document.hash(&mut hasher);
        let is_known = !self.documents.insert(hasher.finish());
        if is_known {
            report.seen = Some("the same as another of these files".to_owned());
        }
        is_known
    }

    fn read_log(
        &mut self,
        report: &mut FileReport,
        at: Timestamp,
        mut bytes: impl Read,
        progress: Progress<'_>,
    ) -> Result<(), FileError> {
        let mut log = NcclLog::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut has_records = Marks::default();
        let mut last = b'\n';
        let read = loop {
            let n = match fill(&mut bytes, &mut chunk) {
                Ok(0) => break Ok(()),
                Ok(n) => n,
                Err(error) => break Err(error),
            };
            let part = &chunk[..n];
            has_records.look(part);
            last = part[n - 1];
            report.bytes += n as u64;
            report.lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
            log.feed(part);
            progress(report.bytes);
        };
        if last != b'\n' {
            report.lines += 1;
        }
        // The last line counts also if nobody ended it: the file is not going to grow.
        log.finish();
        if has_records.found {
            report.kind = Kind::NcclLog;
            report.records = log.communicators().count() as u64;
            report.unparsed = log.unparsed();
            let counts = log.counts();
            let odd = [
                ("lines that are too long", log.too_long()),
                ("lines with more than one record", counts.torn),
                ("records that are cut", counts.cut),
            ];
            let odd = odd.into_iter().filter(|(_, n)| *n > 0);
            report.unparsed.extend(odd.map(|(shape, n)| (shape.to_owned(), n)));
            self.logs.push((report.file.clone(), at, log));
        } else {
            report.seen = Some(seen(report.lines));
        }
        Ok(read?)
    }
}

/// Looks for what only NCCL writes, also across the borders of chunks.
#[derive(Default)]
struct Marks {
    found: bool,
    tail: Vec<u8>,
}

impl Marks {
    fn look(&mut self, part: &[u8]) {
        if self.found {
            return;
        }
        self.tail.extend_from_slice(&part[..part.len().min(MARK_BYTES)]);
        self.found = has_mark(&self.tail) || has_mark(part);
        self.tail.clear();
        self.tail.extend_from_slice(&part[part.len().saturating_sub(MARK_BYTES)..]);
    }
}

fn has_mark(bytes: &[u8]) -> bool {
    MARKS.iter().any(|mark| bytes.windows(mark.len()).any(|window| window == *mark))
}

/// Bytes of memory that a JSON document takes at most when it is parsed: each object has a node with room for eleven fields.
fn json_bytes(document: &[u8]) -> usize {
    document.len() + count(document, b"{") * JSON_OBJECT_BYTES + count(document, b",[:") * JSON_VALUE_BYTES
}

fn count(document: &[u8], marks: &[u8]) -> usize {
    document.iter().filter(|byte| marks.contains(byte)).count()
}

/// Reads a document that has to be in memory as a whole.
fn document(mut bytes: impl Read, report: &mut FileReport, room: &dyn Room) -> Result<Vec<u8>, FileError> {
    let (mut document, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        let n = fill(&mut bytes, &mut chunk)?;
        if n == 0 {
            break;
        }
        if (document.len() + n) as u64 > MAX_DOCUMENT_BYTES {
            return Err(FileError::TooLarge);
        }
        room.take(n * DOCUMENT_COST)?;
        document.extend_from_slice(&chunk[..n]);
    }
    report.bytes = document.len() as u64;
    report.lines = document.iter().filter(|byte| **byte == b'\n').count() as u64;
    Ok(document)
}

/// What a text is that is no log. Nothing of it is repeated: it may be anybody's.
fn seen(lines: u64) -> String {
    match lines {
        0 => "an empty file".to_owned(),
        1 => "1 line of text without one record of NCCL".to_owned(),
        lines => format!("{lines} lines of text without one record of NCCL"),
    }
}

/// See [`json_bytes`]; a list that has just grown has twice the room.
const JSON_OBJECT_BYTES: usize = 640;
const JSON_VALUE_BYTES: usize = 64;
/// Of an element or an attribute.
const XML_NODE_BYTES: usize = 128;
/// Bytes of memory for each of a pickle: frames are written once and stand in each operation's stack. The largest take more
/// than the most that is said here, which lets two of them be read at once.
const PICKLE_COST: usize = 1024;
const PICKLE_BYTES_MAX: usize = 128 << 20;
/// Bytes of memory for each of a document: a buffer that has just grown.
const DOCUMENT_COST: usize = 2;
const NO_RANK: &str = "the rank of its process, which a dump does not say but at the end of the file's name, as in \
                       nccl_trace_rank_3: give it such a name";
/// What only NCCL and its kin write.
const MARKS: [&[u8]; 3] = [b"NCCL INFO ", b"NCCL WARN ", b"NCCL version "];
/// Longest of them.
const MARK_BYTES: usize = 13;
