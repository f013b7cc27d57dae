//! A client of the REST API, for commands and the demo.

mod args;

pub use args::DaemonArgs;

use std::time::Duration;

use ringscope_api::terminal::{clean_json, without_passwords};
use ringscope_api::{
    AuditEntry, CommunicatorDetail, CommunicatorSummary, Finding, Health, HostDetail, HostSummary, Incident,
    IncidentDetail, Job, JobLevel, LevelChoice, LevelWish, NewToken, Page, Primitives, Problem, Rings,
    SummationGroup, SummationGroupDetail, Token, TokenWish,
};
use ringscope_tls::credential::{Credential, TokenSource};
use ringscope_tls::{self as tls, TlsError, Trust};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Talks to one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    daemon: String,
    credential: Credential,
}

/// Why the daemon's answer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It did not answer.
    #[error("no answer from {url}: {reason}. Is `ringscope serve` running, and is --daemon right?")]
    NoAnswer {
        /// What was asked.
        url: String,
        /// Why not, as the innermost error says it.
        reason: String,
    },
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It answered with a problem.
    #[error("{url}: {detail}")]
    Problem {
        /// What was asked.
        url: String,
        /// The daemon's words.
        detail: String,
    },
}

impl Client {
    /// A client of the daemon at e.g. `http://127.0.0.1:9440`, which speaks http and wants no token.
    #[must_use]
    pub fn new(daemon: &str) -> Self {
        Self::of(shape().build().unwrap_or_default(), daemon, None)
    }

    /// A client of the daemon at e.g. `https://ringscope.example:9440`, which it trusts by these files and shows this token.
    ///
    /// # Errors
    /// [`ClientError::Tls`].
    pub fn trusting(trust: &Trust, daemon: &str, token: Option<TokenSource>) -> Result<Self, ClientError> {
        Ok(Self::of(tls::client(trust, is_secure(daemon), shape())?, daemon, token))
    }

    fn of(http: reqwest::Client, daemon: &str, token: Option<TokenSource>) -> Self {
        Self { http, daemon: daemon.trim_end_matches('/').to_owned(), credential: Credential::new(token) }
    }

    /// One object of the API; `path` is relative to `/api/v1/`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let url = format!("{}/api/v1/{path}", self.daemon);
        let request = self.http.get(&url);
        self.answer(url, request).await
    }

    /// The level of a job.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn level(&self, job: &str) -> Result<JobLevel, ClientError> {
        let url = self.level_url(job)?;
        let request = self.http.get(&url);
        self.answer(url, request).await
    }

    /// Wishes for a level in a job.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn wish_level(&self, job: &str, level: LevelChoice) -> Result<JobLevel, ClientError> {
        let url = self.level_url(job)?;
        let request = self.http.put(&url).json(&LevelWish { level: level.label().to_owned() });
        self.answer(url, request).await
    }

    fn level_url(&self, job: &str) -> Result<String, ClientError> {
        self.url_of(&["jobs", job, "level"])
    }

    /// An id may hold anything.
    fn url_of(&self, path: &[&str]) -> Result<String, ClientError> {
        let base = format!("{}/api/v1", self.daemon);
        let mut url = reqwest::Url::parse(&base).map_err(|error| ClientError::NoAnswer {
            url: without_passwords(&base).into_owned(),
            reason: error.to_string(),
        })?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        Ok(url.into())
    }

    /// Every item of a list, page by page; `path` may have a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, ClientError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Page<T> = self.get(&format!("{path}{separator}limit=1000{cursor}")).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }

    /// All jobs.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn jobs(&self) -> Result<Vec<Job>, ClientError> {
        self.list("jobs").await
    }

    /// All hosts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn hosts(&self) -> Result<Vec<HostSummary>, ClientError> {
        self.list("nodes").await
    }

    /// The hosts of one job, as they stand for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn hosts_of_job(&self, job: &str) -> Result<Vec<HostSummary>, ClientError> {
        let mut url =
            reqwest::Url::parse(&self.url_of(&["nodes"])?).map_err(|error| ClientError::NoAnswer {
                url: without_passwords(&self.daemon).into_owned(),
                reason: error.to_string(),
            })?;
        url.query_pairs_mut().append_pair("job", job);
        self.list(&format!("nodes?{}", url.query().unwrap_or_default())).await
    }

    /// All communicators.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn communicators(&self) -> Result<Vec<CommunicatorSummary>, ClientError> {
        self.list("communicators").await
    }

    /// The summation groups.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn summation_groups(&self) -> Result<Vec<SummationGroup>, ClientError> {
        self.list("summation/groups").await
    }

    /// One summation group, whole.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn summation_group(&self, id: &str) -> Result<SummationGroupDetail, ClientError> {
        let url = self.url_of(&["summation", "groups", id])?;
        let request = self.http.get(&url);
        self.answer(url, request).await
    }

    /// All findings, firing and resolved.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn findings(&self) -> Result<Vec<Finding>, ClientError> {
        self.list("findings").await
    }

    /// The firing findings, worst first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn firing(&self) -> Result<Vec<Finding>, ClientError> {
        self.list("findings?state=firing").await
    }

    /// How everything stands; `job` and `host`: only of these.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn health(&self, job: Option<&str>, host: Option<&str>) -> Result<Health, ClientError> {
        let mut url =
            reqwest::Url::parse(&self.url_of(&["health"])?).map_err(|error| ClientError::NoAnswer {
                url: without_passwords(&self.daemon).into_owned(),
                reason: error.to_string(),
            })?;
        for (name, value) in [("job", job), ("host", host)] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let request = self.http.get(url.clone());
        self.answer(url.into(), request).await
    }

    /// The open incidents, worst first; `all`: those that are over too.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn incidents(&self, all: bool) -> Result<Vec<Incident>, ClientError> {
        self.list(if all { "incidents" } else { "incidents?state=firing" }).await
    }

    /// One incident, whole.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn incident(&self, id: &str) -> Result<IncidentDetail, ClientError> {
        let url = self.url_of(&["incidents", id])?;
        let request = self.http.get(&url);
        self.answer(url, request).await
    }

    /// Says something of an incident: `what` is the last part of the path, `body` what goes there.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn speak(
        &self,
        id: &str,
        what: &str,
        body: &impl Serialize,
    ) -> Result<IncidentDetail, ClientError> {
        let url = self.url_of(&["incidents", id, what])?;
        let request = self.http.post(&url).json(body);
        self.answer(url, request).await
    }

    /// One host, whole.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn host(&self, name: &str) -> Result<HostDetail, ClientError> {
        let url = self.url_of(&["nodes", name])?;
        let request = self.http.get(&url);
        self.answer(url, request).await
    }

    /// One communicator, whole.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn communicator(&self, id: &str) -> Result<CommunicatorDetail, ClientError> {
        self.get(&format!("communicators/{id}")).await
    }

    /// The rings of one communicator.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn rings(&self, id: &str) -> Result<Rings, ClientError> {
        self.get(&format!("communicators/{id}/rings")).await
    }

    /// The counters of one communicator.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn primitives(&self, id: &str) -> Result<Primitives, ClientError> {
        self.get(&format!("communicators/{id}/primitives")).await
    }

    /// Every token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.list("tokens").await
    }

    /// Makes a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_token(&self, wish: &TokenWish) -> Result<NewToken, ClientError> {
        let url = self.url_of(&["tokens"])?;
        let request = self.http.post(&url).json(wish);
        self.answer(url, request).await
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        let url = self.url_of(&["tokens", id])?;
        let request = self.http.delete(&url);
        self.answer(url, request).await
    }

    /// The newest entries of the audit trail, `count` at most.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit(&self, count: usize) -> Result<Vec<AuditEntry>, ClientError> {
        let (mut entries, mut cursor) = (Vec::new(), String::new());
        while entries.len() < count {
            let limit = (count - entries.len()).min(1000);
            let page: Page<AuditEntry> = self.get(&format!("audit?limit={limit}{cursor}")).await?;
            entries.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        Ok(entries)
    }

    /// That it said nothing for so long.
    #[must_use]
    pub fn silent(&self, waited: Duration) -> ClientError {
        ClientError::NoAnswer {
            url: without_passwords(&self.daemon).into_owned(),
            reason: format!("nothing came within {} s", waited.as_secs()),
        }
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        url: String,
        mut request: reqwest::RequestBuilder,
    ) -> Result<T, ClientError> {
        match self.credential.token() {
            Ok(Some(token)) => request = request.bearer_auth(token),
            Ok(None) => {}
            Err(detail) => {
                return Err(ClientError::Problem { url: without_passwords(&url).into_owned(), detail });
            }
        }
        answer(url, request).await
    }
}

fn shape() -> reqwest::ClientBuilder {
    reqwest::Client::builder().pool_idle_timeout(IDLE).connect_timeout(CONNECT).timeout(ANSWER_WITHIN)
}

/// Sends a request and reads what must be an object of the API.
async fn answer<T: DeserializeOwned>(
    url: String,
    request: reqwest::RequestBuilder,
) -> Result<T, ClientError> {
    let no_answer = |error: reqwest::Error| ClientError::NoAnswer {
        url: without_passwords(&url).into_owned(),
        reason: tls::innermost(&error),
    };
    let mut response = sent(request).await.map_err(no_answer)?;
    let status = response.status();
    let place = response.headers().get(reqwest::header::LOCATION).cloned();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
        if body.len() + chunk.len() > ANSWER_MAX {
            let detail = "answered with more than 256 MiB; is this a ringscope daemon?".to_owned();
            return Err(ClientError::Problem { url, detail });
        }
        body.extend_from_slice(&chunk);
    }
    // It shows what strangers wrote.
    let body = clean_json(&body);
    let url = without_passwords(&url).into_owned();
    let detail = if status.is_success() {
        match serde_json::from_slice(&body) {
            Ok(answer) => return Ok(answer),
            Err(error) => format!(
                "answered {status} with something else than was asked for ({error}); is this a ringscope daemon, and not \
                 older than this command?"
            ),
        }
    } else if tls::is_https_port(&body) {
        tls::HTTPS_PORT.to_owned()
    } else if let Some(place) = place.filter(|_| status.is_redirection()) {
        format!(
            "answered {status} and wants to be asked at {place:?}: if that is right, name it with --daemon"
        )
    } else {
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if problem.kind.ends_with(UNKNOWN_ROUTE) => OLDER.to_owned(),
            Ok(problem) => problem.detail,
            Err(_) => format!("answered {status}; is this a ringscope daemon?"),
        }
    };
    Err(ClientError::Problem { url, detail })
}

/// Checks an address of a daemon on the command line.
///
/// # Errors
/// What was expected.
pub fn daemon_url(text: &str) -> Result<String, String> {
    match reqwest::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(text.to_owned()),
        _ if text.contains(',') => Err("several addresses are for `ringscope agent` alone: give this command one of them with --daemon. \
             Each of several daemons hands on to the one that leads what it is asked"
            .to_owned()),
        _ => {
            Err("expected an address like http://127.0.0.1:9440 or https://ringscope.example:9440".to_owned())
        }
    }
}

/// Whether an address, as [`daemon_url`] takes it, is asked by TLS.
pub(crate) fn is_secure(daemon: &str) -> bool {
    reqwest::Url::parse(daemon).is_ok_and(|url| url.scheme() == "https")
}

/// Sends a request. Where the daemon ended the connection before it could be sent, it is sent by another one: a TLS client
/// that is refused hears why only if it listens in time.
async fn sent(mut request: reqwest::RequestBuilder) -> Result<reqwest::Response, reqwest::Error> {
    for _ in 0..UNSENT_TRIES {
        let Some(again) = request.try_clone() else { break };
        match request.send().await {
            Err(error) if tls::innermost(&error) == "connection was not ready" => request = again,
            answer => return answer,
        }
    }
    request.send().await
}

/// How often a request is sent again that never left.
const UNSENT_TRIES: usize = 5;

/// What problems are called that say that nothing is at that path.
const UNKNOWN_ROUTE: &str = "#unknown-route";
/// Commands ask only for routes that the daemon of their own release has.
const OLDER: &str = "this daemon has no such route: it is older than this command (upgrade the daemon first, or use the \
                     command of its release), or the address of --daemon has a path that it should not have";
/// Who does not take a connection within this time is away.
const CONNECT: Duration = Duration::from_secs(5);
/// A daemon of the largest fleet answers well within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of the longest answer that is read: more than the largest fleet's rings take.
const ANSWER_MAX: usize = 256 << 20;

/// A connection that was idle for longer is not used again. The daemon closes it later, so no request meets the closing.
const IDLE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::IDLE;
    use ringscope_server::http::Limits;

    #[test]
    fn a_connection_is_given_up_before_the_daemon_closes_it() {
        assert!(IDLE < Limits::default().head);
    }
}
