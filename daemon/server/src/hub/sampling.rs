//! Rows of history: what changed, at a bounded rate.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_judge::PaceTotals;
use ringscope_model::summation::{GroupId, ServiceSample};
use ringscope_model::{Name, Sample};
use ringscope_store::{PaceMemoryRow, PaceRow, SampleRow, SummationSampleRow};

use super::State;

impl State {
    /// Samples what changed, unless that is too soon: the more series, the longer the interval.
    pub(super) fn sample(&mut self, now: Timestamp, interval: Duration) {
        if now < self.next_sample {
            return;
        }
        self.remember_paces(now);
        let paces = self.diagnosis.take_pace_totals(now);
        if self.unsampled.is_empty() && self.unsampled_groups.is_empty() && paces.is_empty() {
            return;
        }
        let samples = self.model.samples(&std::mem::take(&mut self.unsampled));
        let groups: BTreeSet<GroupId> = std::mem::take(&mut self.unsampled_groups);
        let of_groups = self.model.take_summation_samples(&groups);
        let n_rows = samples.len() + of_groups.len() + paces.len();
        let stretched = Duration::from_secs((n_rows / SAMPLE_ROWS_PER_S_MAX) as u64);
        let wait = u64::try_from(interval.max(stretched).as_nanos()).unwrap_or(u64::MAX);
        // A tenth less: the tick that is due may come a little early.
        self.next_sample = Timestamp(now.0.saturating_add(wait - wait / 10));
        // A clock that is set back must not make two rows of one key.
        let ts_ms = now.unix_ms().cast_signed().max(self.last_sample_ms + 1);
        self.last_sample_ms = ts_ms;
        self.unsaved.samples(samples.into_iter().map(|sample| of_communicator(sample, ts_ms)));
        self.unsaved.summation_samples(of_groups.into_iter().map(|sample| of_service(sample, ts_ms)));
        self.unsaved.paces(paces.into_iter().map(|pace| of_job(&pace, ts_ms)));
        // Who reads history finds a group by its row.
        self.unsaved.summations.extend(groups);
    }

    /// Keeps for a restart what the judge knows of the pace of jobs.
    fn remember_paces(&mut self, now: Timestamp) {
        let row = |(job, memory): (Name, ringscope_judge::PaceMemory)| PaceMemoryRow {
            job: job.to_string(),
            memory: serde_json::to_string(&memory).unwrap_or_default(),
            updated_ns: now.0.cast_signed(),
        };
        self.unsaved.pace_memories(self.diagnosis.take_pace_memories(now).into_iter().map(row));
    }
}

fn of_job((job, totals): &(Name, PaceTotals), ts_ms: i64) -> PaceRow {
    let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "a count that time bounds; a cast saturates")]
    let millisteps = (totals.steps * 1000.0) as i64;
    PaceRow {
        job: job.to_string(),
        ts_ms,
        known_ms: ms(totals.known),
        millisteps,
        own_ms: ms(totals.own),
        in_operations_ms: ms(totals.in_operations),
        moving_ms: ms(totals.moving),
        since_ms: totals.since.unix_ms().cast_signed(),
    }
}

fn of_communicator(sample: Sample, ts_ms: i64) -> SampleRow {
    SampleRow {
        comm: sample.comm.to_string(),
        ts_ms,
        host: sample.host,
        primitive: sample.primitive.label(),
        issued_calls: sample.issued_calls.cast_signed(),
        issued_bytes: sample.issued_bytes.cast_signed(),
        completed_calls: sample.completed_calls.cast_signed(),
        completed_bytes: sample.completed_bytes.cast_signed(),
        intra_bytes: sample.intra_bytes.map(u64::cast_signed),
        inter_bytes: sample.inter_bytes.map(u64::cast_signed),
    }
}

fn of_service(sample: ServiceSample, ts_ms: i64) -> SummationSampleRow {
    SummationSampleRow {
        group_id: sample.group.to_string(),
        ts_ms,
        host: sample.host,
        service: sample.service.to_string(),
        pushed_bytes: sample.pushed_bytes.cast_signed(),
        pulled_bytes: sample.pulled_bytes.cast_signed(),
        summed_bytes: sample.summed_bytes.map(u64::cast_signed),
        finished_rounds: sample.finished_rounds.map(u64::cast_signed),
        share_ppm: i64::from(sample.share_ppm),
        optimal_share_ppm: i64::from(sample.optimal_share_ppm),
        spread_ns: sample.spread.map(|spread| i64::try_from(spread.as_nanos()).unwrap_or(i64::MAX)),
    }
}

/// Samples of history written per second: each is some bytes of the database, and some of what is written ahead of it.
const SAMPLE_ROWS_PER_S_MAX: usize = 1000;
