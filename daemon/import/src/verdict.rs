//! Model and diagnosis of an import as one document.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::ranks;
use ringscope_api::{
    Condition, FileKind, Finding, FindingKind, Import, ImportedBandwidth, ImportedCommunicator,
    ImportedFinding, Observation, OperationState, Proof, Severity, Verdict,
};
use ringscope_judge::Diagnosis;
use ringscope_judge::order::order_of;
use ringscope_logs::nccl_log::NcclLog;
use ringscope_model::Model;
use ringscope_view::{self as view, CommunicatorFilter, FindingFilter};
use ringscope_wire::batch::Batch;

use super::draft::Draft;
use super::gathered::Gathered;
use super::named::name;
use super::{dumps, gloo, logs, observe, unjudged};

impl Gathered {
    /// Joins and judges what was read. The batches take the same facts to a daemon.
    #[must_use]
    pub fn judge(mut self, job: &str, agent_id: &str, now: Timestamp) -> (Import, Vec<Batch>) {
        let older = self.keep_newest_dumps();
        let mut dumps: Vec<_> = self.flight.iter_mut().map(|(_, _, dump)| dump).collect();
        gloo::settle(&mut dumps);
        self.ras
            .sort_by(|(_, at, one), (_, later, other)| (&one.timestamp, at).cmp(&(&other.timestamp, later)));
        let mut draft = Draft::new(now);
        logs::draft(&self, &mut draft);
        dumps::draft(&self, &mut draft);
        let made_up = draft.take_made_up();
        let batches = draft.batches(job, agent_id, now);
        let mut model = Model::new();
        for batch in &batches {
            model.apply(batch, now);
        }
        let mut diagnosis = Diagnosis::new();
        diagnosis.update(&model, None, now);
        diagnosis.gather(&model, true, now);
        let mut import = document(&model, &diagnosis, now, job);
        for known in &mut import.communicators {
            let hash = known.communicator.summary.comm_hash.trim_start_matches("0x");
            known.hash_is_made_up = u64::from_str_radix(hash, 16).is_ok_and(|hash| made_up.contains(&hash));
        }
        import.observations = observe::observe(&self, &import);
        import.lacks = missing_ranks(&import.communicators);
        import.lacks.extend(unjudged::unjudged(&model, &diagnosis));
        import.lacks.extend(unjudged::of_dumps(&self));
        // What the judge of a live job would say: green needs evidence.
        let stand = view::job(&model, &diagnosis, now, job).map(|job| job.standing).unwrap_or_default();
        let hidden = unjudged::hidden(&self);
        import.files = self.files;
        import.lacks.extend(lacks(&self.logs));
        import.lacks.extend(older);
        import.lacks.extend(self.left_out);
        let is_well = stand.condition == Condition::Healthy;
        import.verdict = verdict(&import, is_well && hidden.is_none());
        let why = hidden.map(str::to_owned).or((!is_well).then_some(stand.reason));
        let is_open = import.verdict == Verdict::Unknown && !import.communicators.is_empty();
        if let Some(why) = why.filter(|_| is_open) {
            import.lacks.insert(0, format!("not known whether all is well: {why}"));
        }
        (import, batches)
    }
}

fn document(model: &Model, diagnosis: &Diagnosis, now: Timestamp, job: &str) -> Import {
    let all = view::communicators(model, diagnosis, now, &CommunicatorFilter::default());
    let mut communicators: Vec<ImportedCommunicator> =
        all.iter().filter_map(|summary| communicator(model, diagnosis, now, &summary.id)).collect();
    communicators.sort_by_key(|one| Reverse(one.communicator.summary.n_ranks));
    let mut findings = view::findings(model, diagnosis, now, &FindingFilter::default());
    findings.retain(|finding| finding.finding != FindingKind::PartlySeen);
    findings.sort_by_cached_key(|finding| by_cause(diagnosis, finding));
    Import {
        job: job.to_owned(),
        verdict: Verdict::Unknown,
        files: Vec::new(),
        communicators,
        findings: findings.into_iter().map(with_proof).collect(),
        observations: Vec::new(),
        lacks: Vec::new(),
    }
}

/// As incidents have it: what explains comes before what is explained, and with each what follows from it.
fn by_cause(diagnosis: &Diagnosis, finding: &Finding) -> impl Ord + use<> {
    let incident = diagnosis.incidents().get(&finding.incident);
    let root = incident.map(|incident| {
        (order_of(incident.finding), Reverse(incident.severity), incident.began_at, incident.id.clone())
    });
    let is_root = incident.is_some_and(|incident| incident.findings.first() == Some(&finding.id));
    (root.is_none(), root, !is_root, Reverse(finding.severity), order_of(finding.finding))
}

fn communicator(
    model: &Model,
    diagnosis: &Diagnosis,
    now: Timestamp,
    id: &str,
) -> Option<ImportedCommunicator> {
    let communicator = view::communicator(model, diagnosis, now, id)?;
    let primitives =
        view::primitives(model, diagnosis, now, id).map(|all| all.primitives).unwrap_or_default();
    let pending = [OperationState::InFlight, OperationState::Queued]
        .into_iter()
        .flat_map(|state| view::operations(model, diagnosis, now, id, Some(state)).unwrap_or_default());
    Some(ImportedCommunicator {
        hash_is_made_up: false,
        version: communicator.ranks.iter().find_map(|rank| rank.library_version.clone()),
        rings: view::rings(model, diagnosis, now, id).map(|all| all.rings).unwrap_or_default(),
        primitives: primitives.into_iter().filter(|one| one.issued_calls > 0).collect(),
        bandwidth: bandwidth(model, id),
        pending: pending.collect(),
        communicator,
    })
}

/// Bandwidth of what has finished, by the time that it took.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bandwidth(model: &Model, id: &str) -> Vec<ImportedBandwidth> {
    let Some(known) = id.parse().ok().and_then(|id| model.communicator(id)) else { return Vec::new() };
    let mut sums: BTreeMap<ringscope_wire::Primitive, (u64, u64)> = BTreeMap::new();
    for rank in known.ranks(model) {
        for (primitive, counted) in rank.local.counters().iter() {
            let totals = counted.totals();
            let sum = sums.entry(primitive).or_default();
            sum.0 = sum.0.saturating_add(totals.completed_bytes);
            sum.1 = sum.1.saturating_add(totals.busy_ns);
        }
    }
    let of = |(primitive, (bytes, busy_ns)): (ringscope_wire::Primitive, (u64, u64))| {
        let algorithm = bytes as f64 / (busy_ns as f64 / 1e9);
        (busy_ns > 0).then(|| ImportedBandwidth {
            primitive: primitive.label().to_owned(),
            algorithm_bytes_per_s: algorithm,
            bus_bytes_per_s: algorithm * view::bus_factor(primitive, known.n_ranks()),
        })
    };
    sums.into_iter().filter_map(of).collect()
}

fn with_proof(finding: Finding) -> ImportedFinding {
    let proof = finding.evidence.iter().map(|line| Proof {
        file: line.file.clone(),
        line: Some(line.line).filter(|line| *line > 0),
        text: line.text.clone(),
    });
    ImportedFinding { proof: proof.collect(), finding }
}

/// Ranks that no file speaks of, communicators of which the same ones are missing together.
fn missing_ranks(communicators: &[ImportedCommunicator]) -> Vec<String> {
    let mut alike: BTreeMap<(Reverse<u32>, Vec<u32>), Vec<&ImportedCommunicator>> = BTreeMap::new();
    for known in communicators {
        let seen: Vec<u32> = known.communicator.ranks.iter().map(|rank| rank.rank).collect();
        let n_ranks = known.communicator.summary.n_ranks;
        let missing: Vec<u32> = (0..n_ranks).filter(|rank| seen.binary_search(rank).is_err()).collect();
        if !missing.is_empty() {
            alike.entry((Reverse(n_ranks), missing)).or_default().push(known);
        }
    }
    let words = |((Reverse(n_ranks), missing), members): (
        (Reverse<u32>, Vec<u32>),
        Vec<&ImportedCommunicator>,
    )| {
        let which = match members.as_slice() {
            [one] => format!("communicator {}", name(one)),
            many => format!("{} communicators", many.len()),
        };
        format!(
            "no file tells of {} of {which} ({n_ranks} ranks): give the logs or dumps of all hosts, or one written by all",
            ranks(&missing)
        )
    };
    alike.into_iter().map(words).collect()
}

/// What the logs lack, each once, with how many say so.
fn lacks(logs: &[(String, Timestamp, NcclLog)]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for lack in logs.iter().flat_map(|(_, _, log)| log.lacks()) {
        // Every rank but rank 0 lacks the version.
        let is_known =
            lack.starts_with("no version line") && logs.iter().any(|(_, _, log)| log.version().is_some());
        if !is_known {
            *counts.entry(lack).or_default() += 1;
        }
    }
    let words = |(lack, n): (String, usize)| {
        if n == logs.len() { lack } else { format!("{lack} ({n} of {} logs)", logs.len()) }
    };
    counts.into_iter().map(words).collect()
}

fn verdict(import: &Import, calls_are_well: bool) -> Verdict {
    let is_bad = |severity: &Severity| *severity >= Severity::Warning;
    let severities = import.findings.iter().map(|one| one.finding.severity);
    let mut severities = severities.chain(import.observations.iter().map(|one: &Observation| one.severity));
    if severities.any(|severity| is_bad(&severity)) {
        return Verdict::Findings;
    }
    let known_kind = |file: &ringscope_api::ImportedFile| file.kind != FileKind::NotOfThese;
    if !import.files.iter().any(known_kind) {
        return Verdict::NotOfThese;
    }
    // A rank of which no file tells is not healthy but unknown.
    let are_whole = import.communicators.iter().all(|one| {
        let summary = &one.communicator.summary;
        summary.n_ranks_seen >= summary.n_ranks
    });
    // However well its channels are, a job may hang.
    if are_whole && calls_are_well { Verdict::Healthy } else { Verdict::Unknown }
}
