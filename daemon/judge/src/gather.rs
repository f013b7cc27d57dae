//! Findings and their incidents, together.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Condition, Finding, FindingState, Incident};
use ringscope_model::Model;

use super::Diagnosis;
use super::incidents::{Incidents, SpeakError};
use super::standings::Standings;

/// What gathering changed.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Incidents that appeared, ended or changed.
    pub incidents: Vec<Incident>,
    /// Findings that belong to another incident now.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Makes incidents of what fires. To be called after every update that had news, and once a second.
    pub fn gather(&mut self, model: &Model, has_news: bool, now: Timestamp) -> Gathered {
        let mut gathered = Gathered::default();
        if has_news {
            self.note_ends(model);
            let settled = self.incidents.settle(self.ledger.firing(), now);
            gathered.incidents = settled.incidents;
            for (finding, incident) in settled.moved {
                gathered.findings.extend(self.ledger.join(&finding, &incident));
            }
        }
        for incident in &mut gathered.incidents {
            let is_over = incident.state == FindingState::Resolved && incident.job_ended_at.is_some();
            if is_over && self.ended_well(model, &incident.job, now) {
                *incident = self.incidents.job_ended_well(&incident.id).unwrap_or_else(|| incident.clone());
            }
        }
        gathered.incidents.extend(self.incidents.tick(now));
        gathered
    }

    /// Notes which incidents are about jobs that have ended.
    pub(super) fn note_ends(&mut self, model: &Model) {
        self.incidents.note_ends(|job| model.job(job)?.1.ended(model));
    }

    fn ended_well(&self, model: &Model, job: &str, now: Timestamp) -> bool {
        let standings = Standings::of_job(model, self, now, job);
        let standing = model.job(job).map(|(id, job)| standings.job(id, job));
        standing.is_some_and(|standing| standing.condition == Condition::Healthy)
    }

    /// Every incident.
    #[must_use]
    pub fn incidents(&self) -> &Incidents {
        &self.incidents
    }

    /// Takes back the incidents that the store kept; before the findings are gathered anew.
    pub fn restore_incidents(&mut self, incidents: Vec<Incident>) {
        for incident in incidents {
            self.incidents.restore(incident);
        }
    }

    /// Somebody looks after an incident.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub fn acknowledge(&mut self, id: &str, by: &str, now: Timestamp) -> Result<Incident, SpeakError> {
        self.incidents.acknowledge(id, by, now)
    }

    /// Nobody looks after an incident any more.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub fn unacknowledge(&mut self, id: &str, by: &str, now: Timestamp) -> Result<Incident, SpeakError> {
        self.incidents.unacknowledge(id, by, now)
    }

    /// Nobody is to be told of an incident until then; `None`: the silence is over.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub fn silence(
        &mut self,
        id: &str,
        by: &str,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Incident, SpeakError> {
        self.incidents.silence(id, by, until, now)
    }

    /// Somebody wrote something about an incident.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub fn note(&mut self, id: &str, by: &str, text: &str, now: Timestamp) -> Result<Incident, SpeakError> {
        self.incidents.note(id, by, text, now)
    }
}
