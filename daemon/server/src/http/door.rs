//! The door that each route hangs on: lets in who may, and writes down what they did.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use ringscope_access::{Need, Who};
use ringscope_api::clock;
use ringscope_api::{AuditEntry, KnownBy, Role};

use super::caller::Caller;
use super::names::refuse_foreign;
use super::needs::{allowed, find};
use super::problem::ApiError;
use super::shares::Parties;
use super::{App, Whole};
use crate::gate::{Denied, Gate};

/// More of what was done, for the audit trail: a handler leaves it in its response.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// What it is called, if the route alone does not say. Empty: as its row has it.
    pub(super) action: &'static str,
    /// Who it was, if only the handler knows.
    pub(super) who: Option<Who>,
    /// What, in a few words.
    pub(super) detail: String,
    /// Strangers can cause it, so it is not waited for; and where they caused it too often it is not told at all.
    pub(super) of_stranger: Option<bool>,
}

/// Lets in who may, and writes down what they did.
pub(super) async fn admit(State(Whole(app)): State<Whole>, mut request: Request, next: Next) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()) else {
        // A file of the page, which shows nothing by itself.
        return match refuse_foreign(&request) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    };
    if request.uri().path_and_query().is_some_and(|address| address.as_str().contains("%00")) {
        return ApiError::bad_request("the address has a NUL (%00), which nothing here is called")
            .into_response();
    }
    let found = find(request.method().as_str(), &path);
    if found.is_none()
        && let Some(allowed) = allowed(&path)
    {
        return not_allowed(&allowed);
    }
    let (need, action) = found.map_or((Need::Role(Role::Admin), ""), |row| (row.need, row.action));
    let caller = match Caller::of(&request, &app.gate) {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    let subject = subject(request.uri().path());
    let who = match need {
        Need::Public => None,
        _ => match caller.identify(&app.gate, request.headers()).await {
            Ok(who) => Some(who),
            Err(denied) => return refuse(&app, &caller, &denied, &subject),
        },
    };
    let mut unheard = Unheard::of(&app, &caller, who.as_ref(), (action, &subject));
    let answer = match refuse_foreign(&request).and_then(|()| check(need, who.as_ref())) {
        Ok(()) => {
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(Parties::of(who.as_ref(), caller.origin));
            if let Some(who) = who.clone() {
                request.extensions_mut().insert(who);
            }
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    unheard.entry = None;
    let told = answer.extensions().get::<Told>().cloned().unwrap_or_default();
    let action = if told.action.is_empty() { action } else { told.action };
    if !action.is_empty() {
        record(&app, &caller, told, who, (action, subject), answer.status()).await;
    }
    answer
}

/// Writes down what somebody began who did not wait for the answer: it may have been done.
struct Unheard {
    gate: Arc<Gate>,
    entry: Option<AuditEntry>,
}

impl Unheard {
    fn of(app: &App, caller: &Caller, who: Option<&Who>, (action, subject): (&str, &str)) -> Self {
        let entry = who.filter(|_| !action.is_empty()).map(|who| AuditEntry {
            detail: "left before the answer: it may have been done".to_owned(),
            status: CLIENT_LEFT,
            ..entry(caller, Some(who), action, subject.to_owned())
        });
        Self { gate: Arc::clone(&app.gate), entry }
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.gate.record_later(entry);
        }
    }
}

fn not_allowed(allowed: &str) -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

/// Whether they may.
fn check(need: Need, who: Option<&Who>) -> Result<(), ApiError> {
    let Need::Role(role) = need else { return Ok(()) };
    match who {
        Some(who) if who.may(need) => Ok(()),
        Some(who) if who.known_by == KnownBy::Nothing => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "whoever reaches this daemon may use it, so tokens and the audit trail are for who may write to its database: \
             `ringscope token --help` says how",
        )),
        Some(who) => {
            let (name, has, needs) = (&who.name, who.role.label(), role.label());
            let detail =
                format!("{name:?} has the role {has}, and this needs {needs}: ask whoever runs the daemon");
            Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", detail))
        }
        None => Err(ApiError::unauthorized(Denied::Nothing.to_string())),
    }
}

fn refuse(app: &App, caller: &Caller, denied: &Denied, subject: &str) -> Response {
    match denied {
        Denied::NoRole(_) => {
            return ApiError::new(StatusCode::FORBIDDEN, "no-role", denied.to_string()).into_response();
        }
        Denied::NotYet => return ApiError::unavailable("tokens-unknown", denied.to_string()).into_response(),
        Denied::Refused(_) => {
            let Some(token) = caller.bearer() else {
                return ApiError::unauthorized(denied.to_string()).into_response();
            };
            let (who, is_told) = app.gate.token_refused(token, || app.gate.token_failed(caller.origin));
            if is_told {
                app.gate.record_later(AuditEntry {
                    detail: denied.to_string(),
                    status: StatusCode::UNAUTHORIZED.as_u16(),
                    ..entry(caller, who.as_ref(), "token_refused", subject.to_owned())
                });
            }
        }
        _ => {}
    }
    ApiError::unauthorized(denied.to_string()).into_response()
}

async fn record(
    app: &App,
    caller: &Caller,
    told: Told,
    who: Option<Who>,
    (action, subject): (&str, String),
    status: StatusCode,
) {
    let who = told.who.or(who);
    let mut entry = entry(caller, who.as_ref(), action, subject);
    entry.detail = told.detail;
    entry.status = status.as_u16();
    match told.of_stranger {
        None if who.is_some() => app.gate.record(entry).await,
        Some(true) => app.gate.record_later(entry),
        // Nobody did nothing.
        None | Some(false) => {}
    }
}

fn entry(caller: &Caller, who: Option<&Who>, action: &str, subject: String) -> AuditEntry {
    AuditEntry {
        id: 0,
        at: clock::now(),
        who: who.map_or_else(String::new, |who| who.name.clone()),
        token: who.and_then(|who| who.token.clone()).unwrap_or_default(),
        tenant: who.and_then(|who| who.tenant.as_ref()).map_or_else(String::new, ToString::to_string),
        role: who.map_or_else(String::new, |who| who.role.label().to_owned()),
        address: caller.origin.to_string(),
        action: action.to_owned(),
        subject,
        detail: String::new(),
        status: 0,
    }
}

/// The path below the API's, as it was sent.
fn subject(path: &str) -> String {
    let below = path.strip_prefix("/api/v1/").unwrap_or(path);
    below.chars().take(SUBJECT_CHARS_MAX).collect()
}

/// As nginx says that a client closed its request; no answer has it.
const CLIENT_LEFT: u16 = 499;
/// Of the path that the audit trail keeps.
const SUBJECT_CHARS_MAX: usize = 300;
