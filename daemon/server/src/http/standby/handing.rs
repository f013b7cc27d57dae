//! Hands one request on to the daemon that leads, and its answer back, for as long as that one leads and answers.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use ringscope_store::Leader;
use tokio_util::sync::CancellationToken;

use super::{Standby, probe};
use crate::http::connections::Line;
use crate::http::forwarded;
use crate::http::problem::ApiError;

/// The leader's answer. `over`: it leads no more, or has not answered for long.
pub(super) async fn to(
    standby: &Standby,
    leader: &Leader,
    over: CancellationToken,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(line) = request.extensions().get::<Line>().cloned() else {
        return Err(ApiError::internal(&"a request without a connection"));
    };
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let url = format!("{}{path}", leader.url);
    if url.parse::<Uri>().is_err() {
        return Err(ApiError::bad_request("the path or the query cannot be read: percent-encode UTF-8"));
    }
    let is_events = head.uri.path() == EVENTS;
    let mut headers = head.headers;
    let has_body =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].iter().any(|name| headers.contains_key(name));
    remove_of_the_connection(&mut headers);
    if let Some(value) = forwarded::value(&leader.secret, &line) {
        headers.insert(forwarded::HEADER, value);
    }
    let mut asked = standby.http.client().request(head.method, url).headers(headers);
    // Streams of events have no end, and a file takes as long as it takes.
    if !is_events && head.uri.path() != IMPORT {
        asked = asked.timeout(ANSWER_TIMEOUT);
    }
    if has_body {
        asked = asked.body(reqwest::Body::wrap_stream(body.into_data_stream()));
    }
    let answer = tokio::select! {
        answer = asked.send() => answer.map_err(|error| standby.away(leader, &probe::why(error)))?,
        () = over.cancelled() => return Err(standby.given_up()),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = answer.headers().clone();
    remove_of_the_connection(response.headers_mut());
    let pieces = answer.bytes_stream().map(|piece| piece.map_err(io::Error::other));
    *response.body_mut() = Body::from_stream(until(over, pieces, is_events.then_some(EVENTS_SILENT_MAX)));
    Ok(response)
}

/// The pieces of an answer until it is `over`, or none comes for `silent_max`. What has an end and is cut off ends with an error,
/// so that nobody takes it for whole; a stream of events, which has none, just ends, and who reads it asks again.
fn until(
    over: CancellationToken,
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    silent_max: Option<Duration>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    async_stream::stream! {
        let mut pieces = std::pin::pin!(pieces);
        loop {
            let silent = async {
                match silent_max {
                    Some(silent_max) => tokio::time::sleep(silent_max).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                piece = pieces.next() => match piece {
                    Some(Err(_)) if silent_max.is_some() => return,
                    Some(piece) => yield piece,
                    None => return,
                },
                () = over.cancelled() => {
                    if silent_max.is_none() {
                        yield Err(io::Error::other("the daemon that leads answers no more, or another one leads"));
                    }
                    return;
                }
                () = silent => return,
            }
        }
    }
}

/// Removes what is said of one connection, and not of the request (RFC 9110, 7.6.1).
fn remove_of_the_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// The leader itself gives up after thirty seconds, of all but these two. One that hangs is given up sooner: `Known`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
const EVENTS: &str = "/api/v1/events";
const IMPORT: &str = "/api/v1/import";
/// The leader sends a comment each ten seconds.
const EVENTS_SILENT_MAX: Duration = Duration::from_secs(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_cut_off_is_no_whole_one_and_a_stream_of_events_ends() {
        let first = || futures::stream::iter([Ok(Bytes::from_static(b"a"))]);
        // Comes to a halt after the first, and is over then.
        let halting = |over: &CancellationToken| {
            let over = over.clone();
            first().chain(futures::stream::once(async move {
                over.cancel();
                std::future::pending().await
            }))
        };
        let kinds = |pieces: Vec<io::Result<Bytes>>| pieces.iter().map(Result::is_ok).collect::<Vec<_>>();
        let long = Some(Duration::from_secs(3600));
        let over = CancellationToken::new();
        assert_eq!(kinds(until(over.clone(), first(), None).collect().await), [true], "whole");
        let silent = first().chain(futures::stream::pending());
        let short = Some(Duration::from_millis(10));
        assert_eq!(kinds(until(over.clone(), silent, short).collect().await), [true], "events, silent");
        assert_eq!(
            kinds(until(over.clone(), halting(&over), None).collect().await),
            [true, false],
            "cut off"
        );
        let over = CancellationToken::new();
        assert_eq!(kinds(until(over.clone(), halting(&over), long).collect().await), [true], "events, over");
    }
}
