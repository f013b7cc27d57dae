//! `GET plots`: pictures.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use super::App;
use super::problem::ApiError;
use super::query::Params;
use crate::api::Problem;
use crate::plots::{Format, RingPlot, Theme};
use crate::view;

/// The ring of one channel as SVG.
#[utoipa::path(get, path = "/api/v1/plots/rings.svg", tag = "plots",
    params(
        ("comm" = String, Query, description = "Communicator id."),
        ("channel" = Option<u32>, Query, description = "Channel; 0 if not given."),
        ("theme" = Option<String>, Query, description = "light or dark; light if not given."),
        ("width" = Option<u32>, Query, description = "Width and height in pixels, 400 to 2400; 900 if not given."),
    ),
    responses(
        (status = 200, description = "The picture.", body = String, content_type = "image/svg+xml"),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such communicator or channel.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn ring_svg(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    ring(app, params, Format::Svg).await
}

/// The ring of one channel as PNG.
#[utoipa::path(get, path = "/api/v1/plots/rings.png", tag = "plots",
    params(
        ("comm" = String, Query, description = "Communicator id."),
        ("channel" = Option<u32>, Query, description = "Channel; 0 if not given."),
        ("theme" = Option<String>, Query, description = "light or dark; light if not given."),
        ("width" = Option<u32>, Query, description = "Width and height in pixels, 400 to 2400; 900 if not given."),
    ),
    responses(
        (status = 200, description = "The picture.", body = Vec<u8>, content_type = "image/png"),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such communicator or channel.", body = Problem,
            content_type = "application/problem+json"),
    ))]
pub(super) async fn ring_png(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    ring(app, params, Format::Png).await
}

async fn ring(app: App, params: Params, format: Format) -> Result<Response, ApiError> {
    let params = params.allow(&["comm", "channel", "theme", "width"])?;
    let comm = params.owned("comm").ok_or_else(|| {
        ApiError::bad_request("the parameter comm is missing; allowed: the id of a communicator")
    })?;
    let channel = params.number("channel", 0..=CHANNEL_MAX)?.unwrap_or(0);
    let theme =
        params.word("theme", &[("light", Theme::Light), ("dark", Theme::Dark)])?.unwrap_or(Theme::Light);
    let size_px = params.number("width", WIDTHS_PX)?.unwrap_or(WIDTH_DEFAULT_PX);
    let wanted = comm.clone();
    let found = app
        .read(move |model, diagnosis, now| {
            let detail = view::communicator(model, diagnosis, now, &wanted)?;
            let rings = view::rings(model, diagnosis, now, &wanted)?;
            let hosts = view::hosts(model, diagnosis, now);
            let degraded = hosts.into_iter().filter(|host| host.degraded).map(|host| host.host).collect();
            Some((detail, rings, degraded))
        })
        .await?;
    let (detail, rings, degraded_hosts) = found.ok_or_else(|| ApiError::unknown("communicator", &comm))?;
    let channels = rings.rings.len();
    let ring = rings.rings.into_iter().find(|ring| ring.channel == channel);
    let ring = ring.ok_or_else(|| ApiError::unknown("channel", &channel.to_string()))?;
    let drawing = tokio::task::spawn_blocking(move || {
        RingPlot {
            communicator: &detail,
            ring: &ring,
            channels,
            degraded_hosts: &degraded_hosts,
            theme,
            size_px,
        }
        .draw(format)
    });
    match drawing.await {
        Ok(Ok(picture)) => Ok(([(header::CONTENT_TYPE, format.content_type())], picture).into_response()),
        Ok(Err(error)) => Err(ApiError::internal(&error)),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

const WIDTHS_PX: std::ops::RangeInclusive<u32> = 400..=2400;
const WIDTH_DEFAULT_PX: u32 = 900;
/// NCCL has at most 64 (MAXCHANNELS); the rest is room.
const CHANNEL_MAX: u32 = 1023;
