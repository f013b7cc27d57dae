//! `GET plots`: pictures that explain themselves, for a report or a message.

mod history;
mod request;

use std::ops::RangeInclusive;

use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::request::Look;
pub(super) use self::request::{HEIGHTS_PX, THEMES, WIDTHS_PX};
use ringscope_api::Problem;
use ringscope_view as view;

use super::problem::ApiError;
use super::query::Params;
use super::series::HistoryParams;
use super::{App, Whole};
use crate::plots::{ChannelsPlot, Format, RingPlot, RingsPlot};

/// The routes of the plots.
pub(super) fn routes() -> OpenApiRouter<Whole> {
    OpenApiRouter::new()
        .routes(routes!(rings_svg))
        .routes(routes!(rings_png))
        .routes(routes!(channels_svg))
        .routes(routes!(channels_png))
        .routes(routes!(bandwidth_svg))
        .routes(routes!(bandwidth_png))
        .routes(routes!(backlog_svg))
        .routes(routes!(backlog_png))
}

/// One picture at two paths.
macro_rules! plot {
    ($what:literal $draw:path, $svg:ident $svg_path:literal, $png:ident $png_path:literal, $($params:tt)*) => {
        plot!(@one $what $draw, $svg $svg_path, Format::Svg, String, "image/svg+xml", $($params)*);
        plot!(@one $what $draw, $png $png_path, Format::Png, Vec<u8>, "image/png", $($params)*);
    };
    (@one $what:literal $draw:path, $name:ident $path:literal, $format:path, $body:ty, $type:literal, $($params:tt)*) => {
        #[doc = $what]
        #[utoipa::path(get, path = $path, tag = "plots",
            params(
                $($params)*
                ("theme" = Option<String>, Query, description = "light if not given."),
                ("width" = Option<u32>, Query, description = "Width in pixels; 900 if not given."),
                ("download" = Option<bool>, Query, description = "Whether a browser is to save it."),
            ),
            responses(
                (status = 200, description = "The picture.", body = $body, content_type = $type),
                (status = 400, description = "A parameter is wrong.", body = Problem,
                    content_type = "application/problem+json"),
                (status = 404, description = "There is no such thing to draw.", body = Problem,
                    content_type = "application/problem+json"),
                (status = 503, description = "The database is away.", body = Problem,
                    content_type = "application/problem+json"),
            ))]
        pub(super) async fn $name(app: App, params: Params) -> Result<Response, ApiError> {
            $draw(app, params, $format).await
        }
    };
}

plot!("The ring of one channel, or of all.\n\nAs high as it is wide." rings,
    rings_svg "/api/v1/plots/rings.svg", rings_png "/api/v1/plots/rings.png",
    ("comm" = String, Query, description = "Communicator id."),
    ("channel" = Option<String>, Query, description = "Number of the channel, or all: up to 64, small and side by side. \
        0 if not given."),
);
plot!("Init and final channels of each host of a communicator.\n\nCulprits are marked; of many hosts, those that are \
    alike share a bar." channels,
    channels_svg "/api/v1/plots/channels.svg", channels_png "/api/v1/plots/channels.png",
    ("comm" = String, Query, description = "Communicator id."),
    ("height" = Option<u32>, Query, description = "Height in pixels; 500 if not given."),
);
plot!("Completed bytes per second of each primitive over time.\n\nOf one communicator its bus bandwidth: what each link \
    of its rings carries." history::bandwidth,
    bandwidth_svg "/api/v1/plots/bandwidth.svg", bandwidth_png "/api/v1/plots/bandwidth.png",
    HistoryParams,
    ("height" = Option<u32>, Query, description = "Height in pixels; 500 if not given."),
);
plot!("Issued against completed bytes over time.\n\nWhat is between the lines is the backlog." history::backlog,
    backlog_svg "/api/v1/plots/backlog.svg", backlog_png "/api/v1/plots/backlog.png",
    HistoryParams,
    ("height" = Option<u32>, Query, description = "Height in pixels; 500 if not given."),
);

async fn rings(app: App, params: Params, format: Format) -> Result<Response, ApiError> {
    let params = params.allow(&["comm", "channel", "theme", "width", "download"])?;
    let look = Look::from_params(&params, "rings", format)?;
    let comm = request::comm(&params)?;
    let channel = match params.text("channel") {
        Some("all") => None,
        _ => Some(params.number("channel", CHANNELS)?.unwrap_or(0)),
    };
    let wanted = comm.clone();
    let found = app
        .read(move |model, diagnosis, now| {
            let detail = view::communicator(model, diagnosis, now, &wanted)?;
            let rings = view::rings(model, diagnosis, now, &wanted)?.rings;
            let degraded = view::hosts(model, diagnosis, now, |_, is_degraded| is_degraded);
            let degraded = degraded.into_iter().map(|host| host.host).collect();
            Some((detail, rings, degraded))
        })
        .await?;
    let (communicator, rings, degraded_hosts) =
        found.ok_or_else(|| ApiError::unknown("communicator", &comm))?;
    let (theme, size_px) = (look.theme, look.size.width_px);
    let Some(channel) = channel else {
        let draw = move || {
            let (communicator, degraded_hosts) = (&communicator, &degraded_hosts);
            RingsPlot { communicator, rings: &rings, degraded_hosts, theme, size_px }.draw(format)
        };
        return look.respond(draw).await;
    };
    let channels = rings.len();
    let ring = rings.into_iter().find(|ring| ring.channel == channel);
    let ring = ring.ok_or_else(|| ApiError::unknown("channel", &channel.to_string()))?;
    let draw = move || {
        let (communicator, degraded_hosts) = (&communicator, &degraded_hosts);
        RingPlot { communicator, ring: &ring, channels, degraded_hosts, theme, size_px }.draw(format)
    };
    look.respond(draw).await
}

async fn channels(app: App, params: Params, format: Format) -> Result<Response, ApiError> {
    let params = params.allow(&["comm", "theme", "width", "height", "download"])?;
    let look = Look::from_params(&params, "channels", format)?;
    let comm = request::comm(&params)?;
    let wanted = comm.clone();
    let found = app
        .read(move |model, diagnosis, now| Some((view::communicator(model, diagnosis, now, &wanted)?, now)))
        .await?;
    let (communicator, now) = found.ok_or_else(|| ApiError::unknown("communicator", &comm))?;
    let (theme, size) = (look.theme, look.size);
    let source = format!("ringscope · from the library's logs, as known at {now}");
    look.respond(move || ChannelsPlot { communicator: &communicator, source, theme, size }.draw(format)).await
}

/// NCCL has at most 64 (MAXCHANNELS); the rest is room.
pub(super) const CHANNELS: RangeInclusive<u32> = 0..=1023;
