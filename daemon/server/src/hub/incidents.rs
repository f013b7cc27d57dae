//! What people say of incidents.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Incident, IncidentDetail};
use ringscope_judge::Gathered;
use ringscope_judge::incidents::SpeakError;
use ringscope_view as view;

use super::Hub;

/// What somebody says of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// They look after it.
    Acknowledge,
    /// Nobody looks after it any more.
    Unacknowledge,
    /// Nobody is to be told of it until then.
    Silence(Timestamp),
    /// The silence is over.
    Unsilence,
    /// A note.
    Note(String),
}

impl Hub {
    /// Takes somebody's word about an incident. Returns how it is then.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub fn speak(
        &self,
        id: &str,
        by: &str,
        word: Word,
        now: Timestamp,
    ) -> Result<IncidentDetail, SpeakError> {
        let mut state = self.lock();
        let diagnosis = &mut state.diagnosis;
        let incident: Incident = match word {
            Word::Acknowledge => diagnosis.acknowledge(id, by, now),
            Word::Unacknowledge => diagnosis.unacknowledge(id, by, now),
            Word::Silence(until) => diagnosis.silence(id, by, Some(until), now),
            Word::Unsilence => diagnosis.silence(id, by, None, now),
            Word::Note(text) => diagnosis.note(id, by, &text, now),
        }?;
        let detail = view::incident(&state.model, &state.diagnosis, id).ok_or(SpeakError::Unknown)?;
        self.note_gathered(&mut state, Gathered { incidents: vec![incident], findings: Vec::new() });
        self.versions.changed();
        Ok(detail)
    }
}
