//! `GET findings`.

use axum::Json;
use ringscope_api::{Finding, FindingKind, FindingState, Page, Problem, Severity};
use ringscope_view as view;

use super::App;
use super::page::{PageParams, Paging};
use super::problem::ApiError;
use super::query::Params;

/// Findings: firing first, worst first, newest first.
#[utoipa::path(get, path = "/api/v1/findings", tag = "findings",
    params(
        ("state" = Option<FindingState>, Query, description = "Only firing, or only resolved ones."),
        ("severity" = Option<Severity>, Query, description = "At least this severity."),
        ("job" = Option<String>, Query, description = "Only of this job."),
        ("host" = Option<String>, Query, description = "Only about this host."),
        ("comm" = Option<String>, Query, description = "Only about this communicator."),
        ("group" = Option<String>, Query, description = "Only about this summation group."),
        ("kind" = Option<FindingKind>, Query, description = "Only of this kind."),
        ("nic" = Option<String>, Query, description = "Only about this NIC, e.g. `mlx5_3`."),
        ("from" = Option<String>, Query, description = "Only those that were still seen to hold then: an RFC 3339 time, or \
            milliseconds since 1970."),
        ("to" = Option<String>, Query, description = "Only those that were last seen to hold by then."),
        PageParams,
    ),
    responses(
        (status = 200, description = "A page of findings.", body = Page<Finding>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(app: App, params: Params) -> Result<Json<Page<Finding>>, ApiError> {
    let params = params.allow(&[
        "state", "severity", "job", "host", "comm", "group", "kind", "nic", "from", "to", "limit", "cursor",
    ])?;
    let paging = Paging::from_params(&params)?;
    let filter = view::FindingFilter {
        state: params
            .word("state", &[("firing", FindingState::Firing), ("resolved", FindingState::Resolved)])?,
        severity: params.word("severity", &SEVERITIES.map(|severity| (severity.label(), severity)))?,
        job: params.owned("job"),
        host: params.owned("host"),
        comm: params.owned("comm"),
        group: params.owned("group"),
        nic: params.owned("nic"),
        from: params.time("from")?,
        to: params.time("to")?,
        kind: params.word("kind", &FindingKind::ALL.map(|kind| (kind.label(), kind)))?,
    };
    let findings =
        app.read(move |model, diagnosis, now| view::findings(model, diagnosis, now, &filter)).await?;
    Ok(Json(paging.page(findings, |finding| finding.id.clone())))
}

const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];
