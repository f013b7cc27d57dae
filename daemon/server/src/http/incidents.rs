//! `incidents`: what somebody has to look after, and what people say of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::{Extension, Json};
use ringscope_access::Who;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::unseen::{is_blank, is_odd};
use ringscope_api::{
    BY_CHARS_MAX, FindingState, Incident, IncidentBy, IncidentDetail, IncidentSilence, IncidentText,
    NOTE_CHARS_MAX, Page, Problem, SILENCE_S_MAX,
};
use ringscope_judge::incidents::SpeakError;
use ringscope_view as view;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::door::Told;
use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;
use super::said::{Said, read};
use super::{App, Whole};
use crate::hub::Word;

/// The routes of this room.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(acknowledge))
        .routes(routes!(unacknowledge))
        .routes(routes!(silence))
        .routes(routes!(unsilence))
        .routes(routes!(note))
}

/// Incidents: open ones first, of these what is about jobs that have ended last; worst first, newest first.
#[utoipa::path(get, path = "/api/v1/incidents", tag = "incidents",
    params(
        ("state" = Option<FindingState>, Query, description = "Only open (`firing`), or only ended (`resolved`) ones."),
        ("job" = Option<String>, Query, description = "Only of this job, or about the hardware of one of its hosts."),
        ("host" = Option<String>, Query, description = "Only about this host."),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of incidents.", body = Page<Incident>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn list(app: App, params: Params) -> Result<Json<Page<Incident>>, ApiError> {
    let params = params.allow(&["state", "job", "host", "limit", "cursor"])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::IncidentFilter {
        state: params
            .word("state", &[("firing", FindingState::Firing), ("resolved", FindingState::Resolved)])?,
        job: params.owned("job"),
        host: params.owned("host"),
    };
    let incidents = app.read(move |model, diagnosis, _| view::incidents(model, diagnosis, &filter)).await?;
    Ok(Json(paging.page(incidents, |incident| incident.id.clone())))
}

/// One incident with its findings.
#[utoipa::path(get, path = "/api/v1/incidents/{id}", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    responses(
        (status = 200, description = "The incident.", body = IncidentDetail),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn one(app: App, Path(id): Path<String>, params: Params) -> Result<Json<IncidentDetail>, ApiError> {
    params.allow(&[])?;
    let asked = id.clone();
    let found = app.read(move |model, diagnosis, _| view::incident(model, diagnosis, &asked)).await?;
    found.map(Json).ok_or_else(|| ApiError::unknown("incident", &id))
}

/// Says that somebody looks after it. Who says so last is shown.
#[utoipa::path(post, path = "/api/v1/incidents/{id}/acknowledge", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    request_body = IncidentBy,
    responses(
        (status = 200, description = "The incident as it is then.", body = IncidentDetail),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A text is empty or too long.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn acknowledge(
    app: App,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<Spoken, ApiError> {
    params.allow(&[])?;
    let told: IncidentBy = read(&body, r#"{"by": "ann"}"#)?;
    speak(&app, id, speaker(&who, &told.by)?, Word::Acknowledge).await
}

/// Takes back that somebody looks after it.
#[utoipa::path(post, path = "/api/v1/incidents/{id}/unacknowledge", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    request_body = IncidentBy,
    responses(
        (status = 200, description = "The incident as it is then.", body = IncidentDetail),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A text is empty or too long.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn unacknowledge(
    app: App,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<Spoken, ApiError> {
    params.allow(&[])?;
    let told: IncidentBy = read(&body, r#"{"by": "ann"}"#)?;
    speak(&app, id, speaker(&who, &told.by)?, Word::Unacknowledge).await
}

/// Tells nobody of it until then: no webhook, no Alertmanager; its series are 0. The page goes on to show it.
#[utoipa::path(post, path = "/api/v1/incidents/{id}/silence", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    request_body = IncidentSilence,
    responses(
        (status = 200, description = "The incident as it is then.", body = IncidentDetail),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A text is empty or too long, or the time is over or too far away.", body = Problem,
            content_type = "application/problem+json"),
    ))]
async fn silence(
    app: App,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<Spoken, ApiError> {
    params.allow(&[])?;
    let told: IncidentSilence = read(&body, r#"{"by": "ann", "for_s": 7200}"#)?;
    let until = until(&told, clock::now())?;
    speak(&app, id, speaker(&who, &told.by)?, Word::Silence(until)).await
}

/// Ends a silence.
#[utoipa::path(post, path = "/api/v1/incidents/{id}/unsilence", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    request_body = IncidentBy,
    responses(
        (status = 200, description = "The incident as it is then.", body = IncidentDetail),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A text is empty or too long.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn unsilence(
    app: App,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<Spoken, ApiError> {
    params.allow(&[])?;
    let told: IncidentBy = read(&body, r#"{"by": "ann"}"#)?;
    speak(&app, id, speaker(&who, &told.by)?, Word::Unsilence).await
}

/// Writes a note under it.
#[utoipa::path(post, path = "/api/v1/incidents/{id}/notes", tag = "incidents",
    params(("id" = String, Path, description = "Id of the incident.")),
    request_body = IncidentText,
    responses(
        (status = 200, description = "The incident as it is then.", body = IncidentDetail),
        (status = 400, description = "The body is not the JSON object that it must be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 404, description = "No such incident.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has as many notes as there may be.", body = Problem,
            content_type = "application/problem+json"),
        (status = 415, description = "The body is not said to be application/json.", body = Problem,
            content_type = "application/problem+json"),
        (status = 422, description = "A text is empty or too long.", body = Problem, content_type = "application/problem+json"),
    ))]
async fn note(
    app: App,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    params: Params,
    Said(body): Said,
) -> Result<Spoken, ApiError> {
    params.allow(&[])?;
    let told: IncidentText = read(&body, r#"{"by": "ann", "text": "The cable is changed."}"#)?;
    let text = bounded("text", &told.text, NOTE_CHARS_MAX)?;
    speak(&app, id, speaker(&who, &told.by)?, Word::Note(text)).await
}

/// The text without what surrounds it and what nobody sees, if it is neither empty nor too long.
fn bounded(name: &str, text: &str, chars_max: usize) -> Result<String, ApiError> {
    let is_seen = |c: &char| c.is_control() || !is_odd(*c);
    let seen: String = text.chars().filter(is_seen).collect();
    let text = seen.trim();
    match text.chars().count() {
        _ if is_blank(text) => Err(refused(format!("{name} is empty"))),
        n if n > chars_max => {
            Err(refused(format!("{name} has {n} characters; allowed: at most {chars_max}")))
        }
        _ if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') => {
            Err(refused(format!("{name} has control characters")))
        }
        _ => Ok(text.to_owned()),
    }
}

fn refused(detail: String) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "not-acceptable", detail)
}

fn until(told: &IncidentSilence, now: Timestamp) -> Result<Timestamp, ApiError> {
    let end = |seconds: u64| Timestamp(now.0.saturating_add(seconds.saturating_mul(1_000_000_000)));
    let until = match (told.until, told.for_s) {
        (Some(until), None) => until,
        (None, Some(seconds)) => end(seconds),
        _ => return Err(refused("give one of until and for_s".to_owned())),
    };
    if until <= now {
        return Err(refused(format!("the silence ends at {until}, which is over")));
    }
    if until.since(now) > Duration::from_secs(SILENCE_S_MAX) {
        let days = SILENCE_S_MAX / (24 * 3600);
        return Err(refused(format!("the silence ends at {until}; allowed: at most {days} days")));
    }
    Ok(until)
}

/// Who says it: who signed in, and beside them whom they name; where nobody has to, whom they name.
fn speaker(who: &Who, by: &str) -> Result<String, ApiError> {
    let by = bounded("by", by, BY_CHARS_MAX)?;
    Ok(match who.name.as_str() {
        "" => by,
        name if name == by => by,
        name => format!("{name} (for {by})"),
    })
}

/// Asks the hub on a thread of its own: whoever holds it for long keeps no other route waiting.
async fn speak(app: &App, id: String, by: String, word: Word) -> Result<Spoken, ApiError> {
    let said = match &word {
        Word::Acknowledge | Word::Unacknowledge | Word::Unsilence => String::new(),
        Word::Silence(until) => format!(", until {until}"),
        Word::Note(text) => format!(": {text}"),
    };
    let told = Told { detail: format!("by {by}{said}"), ..Told::default() };
    let (hub, whole) = (Arc::clone(&app.hub), app.whole_hub());
    let asked = tokio::task::spawn_blocking(move || {
        let now = clock::now();
        let spoken = hub.speak(&id, &by, word.clone(), now);
        if let (Ok(_), Some(whole)) = (&spoken, whole) {
            // It has the same incident, or has not found it yet.
            let _ = whole.speak(&id, &by, word, now);
        }
        spoken.map_err(|error| (id, error))
    });
    match asked.await.map_err(|error| ApiError::internal(&error))? {
        Ok(detail) => Ok((Extension(told), Json(detail))),
        Err((id, SpeakError::Unknown)) => Err(ApiError::unknown("incident", &id)),
        Err((_, error @ SpeakError::Over)) => {
            Err(ApiError::new(StatusCode::CONFLICT, "incident-over", error.to_string()))
        }
        Err((_, error @ SpeakError::Full)) => {
            Err(ApiError::new(StatusCode::CONFLICT, "too-many-notes", error.to_string()))
        }
    }
}

/// The incident as it is then, and what the audit trail keeps.
type Spoken = (Extension<Told>, Json<IncidentDetail>);
