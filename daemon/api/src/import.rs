//! What an import found: the answer to `POST import`, and what `ringscope import --json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CommunicatorDetail, Finding, Operation, PrimitiveTotals, Ring, Severity};

/// What an import found, whole.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Import {
    /// Job under which all of it is known.
    pub job: String,
    /// In one word.
    pub verdict: Verdict,
    /// The files read.
    pub files: Vec<ImportedFile>,
    /// The communicators, largest first.
    pub communicators: Vec<ImportedCommunicator>,
    /// What the rules of a live job conclude: causes first, each with what follows from it.
    pub findings: Vec<ImportedFinding>,
    /// What the files say beside that, worst first: what the rules of a live job cannot take up.
    pub observations: Vec<Observation>,
    /// What is missing for a full picture, and how to get it.
    pub lacks: Vec<String>,
}

/// A verdict in one word.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Communicators were found, and nothing is wrong with them as far as the files tell.
    Healthy,
    /// Something of severity warning or above.
    Findings,
    /// There is something to show, but not enough to call it healthy: no communicator, or nothing that tells
    /// whether its calls end.
    Unknown,
    /// No file is one that can be imported.
    NotOfThese,
}

/// A file that was read.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ImportedFile {
    /// Path as it was given, or as found in its folder.
    pub file: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes, unpacked.
    pub bytes: u64,
    /// Lines of text.
    pub lines: u64,
    /// Communicators (logs), operations (Inspector, Flight Recorder), ranks (RAS) or elements (XML) read from it.
    pub records: u64,
    /// Lines or records that could not be read, by shape.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unparsed: BTreeMap<String, u64>,
    /// Why it was not read, or not to its end. Absent: it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub problem: Option<String>,
    /// What was seen in it instead, if it is none of the kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub seen: Option<String>,
}

/// The kinds of file that can be imported.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Text with records of NCCL, RCCL or librsccl.
    NcclLog,
    /// `NCCL_GRAPH_DUMP_FILE`.
    GraphXml,
    /// `NCCL_TOPO_DUMP_FILE`.
    TopologyXml,
    /// JSON lines of NCCL Inspector.
    Inspector,
    /// JSON of `ncclras -f json`.
    Ras,
    /// A dump of PyTorch's Flight Recorder, JSON or pickle.
    FlightRecorder,
    /// None of these.
    NotOfThese,
}

impl FileKind {
    /// Its name for an operator.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NcclLog => "NCCL log",
            Self::GraphXml => "NCCL graph XML",
            Self::TopologyXml => "NCCL topology XML",
            Self::Inspector => "NCCL Inspector JSON lines",
            Self::Ras => "NCCL RAS JSON",
            Self::FlightRecorder => "PyTorch Flight Recorder dump",
            Self::NotOfThese => "not one of these",
        }
    }
}

/// A communicator as the files tell of it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ImportedCommunicator {
    /// As a live job's.
    #[serde(flatten)]
    pub communicator: CommunicatorDetail,
    /// No file names it (NCCL before 2.16 prints no id, GRAPH lines alone and the Flight Recorder neither): `comm_hash` is made up, to tell it
    /// from others of this import.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hash_is_made_up: bool,
    /// Version of the library. Absent: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<String>,
    /// Its rings, one a channel.
    pub rings: Vec<Ring>,
    /// Counters by primitive, of all ranks.
    pub primitives: Vec<PrimitiveTotals>,
    /// Bandwidth of the finished operations by primitive, in bytes per second; only where a file has times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidth: Vec<ImportedBandwidth>,
    /// Operations that are not completed, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Operation>,
}

/// Bandwidth of the finished operations of one primitive.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ImportedBandwidth {
    /// `all_reduce`, ...
    pub primitive: String,
    /// Bytes over time, of the mean rank.
    pub algorithm_bytes_per_s: f64,
    /// That times the primitive's ring factor.
    pub bus_bytes_per_s: f64,
}

/// A finding with the lines that prove it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ImportedFinding {
    /// As a live job's.
    #[serde(flatten)]
    pub finding: Finding,
    /// The lines.
    pub proof: Vec<Proof>,
}

/// Something that the files say by themselves.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Observation {
    /// One word what: `init_incomplete`, `counts_differ`, `library_warned`, `topology`, `graph_search`.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// In words for an operator.
    pub message: String,
    /// The lines, files or frames that say so.
    pub proof: Vec<Proof>,
}

/// One line that proves something.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
pub struct Proof {
    /// Path of the file.
    pub file: String,
    /// Number of the line, counting from 1. Absent: the file has no lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub line: Option<u64>,
    /// The line, cut; or what is there instead of one.
    pub text: String,
}
