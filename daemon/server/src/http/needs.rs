//! What each route needs of who asks, in one table, and what the audit trail calls it.
//!
//! A route without a row needs an admin, a method without one is none of the route's, and a test fails.

use ringscope_access::Need;
use ringscope_api::Role;

/// One route.
pub(super) struct Row {
    method: &'static str,
    path: &'static str,
    pub(super) need: Need,
    /// What the audit trail calls it. Empty: it changes nothing, or the handler says so (batches).
    pub(super) action: &'static str,
}

const fn row(method: &'static str, path: &'static str, need: Need) -> Row {
    Row { method, path, need, action: "" }
}

const fn told(method: &'static str, path: &'static str, need: Need, action: &'static str) -> Row {
    Row { method, path, need, action }
}

const READ: Need = Need::Role(Role::Read);
const OPERATE: Need = Need::Role(Role::Operate);
const ADMIN: Need = Need::Role(Role::Admin);

const ROUTES: &[Row] = &[
    row("GET", "/healthz", Need::Public),
    row("GET", "/readyz", Need::Public),
    row("POST", "/kubernetes/admission", Need::Public),
    row("GET", "/metrics", READ),
    row("GET", "/api/v1/openapi.json", Need::Public),
    row("GET", "/api/v1/session", Need::Known),
    told("POST", "/api/v1/session", Need::Public, "sign_in"),
    told("DELETE", "/api/v1/session", Need::Public, "sign_out"),
    row("GET", "/api/v1/session/ways", Need::Public),
    row("GET", "/api/v1/session/oidc", Need::Public),
    told("GET", "/api/v1/session/oidc/callback", Need::Public, "sign_in"),
    row("GET", "/api/v1/tokens", ADMIN),
    told("POST", "/api/v1/tokens", ADMIN, "token_create"),
    told("DELETE", "/api/v1/tokens/{id}", ADMIN, "token_revoke"),
    row("GET", "/api/v1/audit", ADMIN),
    row("POST", "/api/v1/ingest", Need::Role(Role::Ingest)),
    told("POST", "/api/v1/import", OPERATE, "import"),
    row("GET", "/api/v1/events", READ),
    row("GET", "/api/v1/health", READ),
    row("GET", "/api/v1/search", READ),
    row("GET", "/api/v1/runbook", READ),
    row("GET", "/api/v1/findings", READ),
    row("GET", "/api/v1/series", READ),
    row("GET", "/api/v1/past", READ),
    row("GET", "/api/v1/jobs", READ),
    row("GET", "/api/v1/jobs/{job}", READ),
    row("GET", "/api/v1/jobs/{job}/pace", READ),
    row("GET", "/api/v1/jobs/{job}/pace/series", READ),
    row("GET", "/api/v1/jobs/{job}/timeline", READ),
    row("GET", "/api/v1/jobs/{job}/level", READ),
    told("PUT", "/api/v1/jobs/{job}/level", OPERATE, "level"),
    row("GET", "/api/v1/communicators", READ),
    row("GET", "/api/v1/communicators/{id}", READ),
    row("GET", "/api/v1/communicators/{id}/rings", READ),
    row("GET", "/api/v1/communicators/{id}/primitives", READ),
    row("GET", "/api/v1/communicators/{id}/bandwidth", READ),
    row("GET", "/api/v1/communicators/{id}/operations", READ),
    row("GET", "/api/v1/communicators/{id}/trace", READ),
    row("GET", "/api/v1/nodes", READ),
    row("GET", "/api/v1/nodes/{host}", READ),
    row("GET", "/api/v1/nodes/{host}/channels", READ),
    row("GET", "/api/v1/nodes/{host}/connections", READ),
    row("GET", "/api/v1/incidents", READ),
    row("GET", "/api/v1/incidents/{id}", READ),
    told("POST", "/api/v1/incidents/{id}/acknowledge", OPERATE, "acknowledge"),
    told("POST", "/api/v1/incidents/{id}/unacknowledge", OPERATE, "unacknowledge"),
    told("POST", "/api/v1/incidents/{id}/silence", OPERATE, "silence"),
    told("POST", "/api/v1/incidents/{id}/unsilence", OPERATE, "unsilence"),
    told("POST", "/api/v1/incidents/{id}/notes", OPERATE, "note"),
    row("GET", "/api/v1/summation/groups", READ),
    row("GET", "/api/v1/summation/groups/{id}", READ),
    row("GET", "/api/v1/summation/groups/{id}/rounds", READ),
    row("GET", "/api/v1/summation/groups/{id}/series", READ),
    row("GET", "/api/v1/plots/rings.svg", READ),
    row("GET", "/api/v1/plots/rings.png", READ),
    row("GET", "/api/v1/plots/channels.svg", READ),
    row("GET", "/api/v1/plots/channels.png", READ),
    row("GET", "/api/v1/plots/bandwidth.svg", READ),
    row("GET", "/api/v1/plots/bandwidth.png", READ),
    row("GET", "/api/v1/plots/backlog.svg", READ),
    row("GET", "/api/v1/plots/backlog.png", READ),
];

/// What a request of this method to this route needs. `None`: it has no row.
pub(super) fn need(method: &str, path: &str) -> Option<Need> {
    find(method, path).map(|row| row.need)
}

/// The row of a request of this method to this route.
pub(super) fn find(method: &str, path: &str) -> Option<&'static Row> {
    let method = if method == "HEAD" { "GET" } else { method };
    ROUTES.iter().find(|row| row.method == method && row.path == path)
}

/// The methods of a route. `None`: it has no row.
pub(super) fn allowed(path: &str) -> Option<String> {
    let rows = ROUTES.iter().filter(|row| row.path == path);
    let methods: Vec<&str> =
        rows.map(|row| if row.method == "GET" { "GET,HEAD" } else { row.method }).collect();
    (!methods.is_empty()).then(|| methods.join(","))
}
