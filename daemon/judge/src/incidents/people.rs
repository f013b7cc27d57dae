//! What people say of incidents.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Acknowledgement, FindingState, Incident, IncidentNote, NOTES_MAX};

use super::Incidents;
use super::life::note;

/// Why somebody's word could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpeakError {
    /// There is no such incident.
    #[error("no such incident")]
    Unknown,
    /// It is over.
    #[error("it is over, and nobody is told of it any more")]
    Over,
    /// It has as many notes as there may be.
    #[error("it has {NOTES_MAX} notes already, and none is thrown away")]
    Full,
}

impl Incidents {
    /// Somebody looks after it.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub(crate) fn acknowledge(&mut self, id: &str, by: &str, now: Timestamp) -> Result<Incident, SpeakError> {
        self.speak(id, |incident| {
            incident.acknowledged = Some(Acknowledgement { by: by.to_owned(), at: now });
            note(incident, now, format!("{by} looks after it."));
            Ok(())
        })
    }

    /// Nobody looks after it any more, or did: somebody said so by mistake.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub(crate) fn unacknowledge(
        &mut self,
        id: &str,
        by: &str,
        now: Timestamp,
    ) -> Result<Incident, SpeakError> {
        self.speak(id, |incident| {
            if incident.acknowledged.take().is_some() {
                note(incident, now, format!("{by} says that nobody looks after it."));
            }
            Ok(())
        })
    }

    /// Nobody is to be told of it until then; `None`: the silence is over.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub(crate) fn silence(
        &mut self,
        id: &str,
        by: &str,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Incident, SpeakError> {
        self.speak(id, |incident| {
            if incident.state == FindingState::Resolved {
                return Err(SpeakError::Over);
            }
            if until.is_none() && incident.silenced_until.is_none() {
                return Ok(());
            }
            incident.silenced_until = until;
            note(
                incident,
                now,
                match until {
                    Some(until) => format!("{by} silenced it until {until}."),
                    None => format!("{by} ended the silence at {now}."),
                },
            );
            Ok(())
        })
    }

    /// Somebody wrote something.
    ///
    /// # Errors
    /// [`SpeakError`].
    pub(crate) fn note(
        &mut self,
        id: &str,
        by: &str,
        text: &str,
        now: Timestamp,
    ) -> Result<Incident, SpeakError> {
        self.speak(id, |incident| {
            if incident.notes.len() >= NOTES_MAX {
                return Err(SpeakError::Full);
            }
            incident.notes.push(IncidentNote { by: by.to_owned(), at: now, text: text.to_owned() });
            Ok(())
        })
    }

    fn speak(
        &mut self,
        id: &str,
        say: impl FnOnce(&mut Incident) -> Result<(), SpeakError>,
    ) -> Result<Incident, SpeakError> {
        let open = self.open.get_mut(id).map(|place| &mut place.incident);
        let incident = open.or_else(|| self.over.get_mut(id)).ok_or(SpeakError::Unknown)?;
        say(incident)?;
        Ok(incident.clone())
    }
}
