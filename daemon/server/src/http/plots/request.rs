//! What all pictures are asked and answered with.

use std::ops::RangeInclusive;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::problem::ApiError;
use crate::http::query::Params;
use crate::plots::{Format, PlotError, Size, Theme};

/// How a picture is to look, and what it is called.
pub(super) struct Look {
    pub(super) theme: Theme,
    pub(super) size: Size,
    format: Format,
    /// Under this name a browser saves it.
    file_name: Option<String>,
}

impl Look {
    pub(super) fn from_params(params: &Params, name: &str, format: Format) -> Result<Self, ApiError> {
        let is_saved = params.boolean("download")?.unwrap_or(false);
        Ok(Self {
            theme: params.word("theme", &THEMES)?.unwrap_or(Theme::Light),
            size: Size {
                width_px: params.number("width", WIDTHS_PX)?.unwrap_or(WIDTH_DEFAULT_PX),
                height_px: params.number("height", HEIGHTS_PX)?.unwrap_or(HEIGHT_DEFAULT_PX),
            },
            format,
            file_name: is_saved.then(|| format!("ringscope-{name}.{}", format.extension())),
        })
    }

    /// Draws on a thread of its own, and answers with the picture.
    pub(super) async fn respond(
        self,
        draw: impl FnOnce() -> Result<Vec<u8>, PlotError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let drawn = tokio::task::spawn_blocking(draw).await.map_err(|error| ApiError::internal(&error))?;
        let picture = drawn.map_err(|error| ApiError::internal(&error))?;
        let mut response = ([(header::CONTENT_TYPE, self.format.content_type())], picture).into_response();
        let disposition = self.file_name.map(|name| format!("attachment; filename=\"{name}\""));
        if let Some(value) = disposition.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
        Ok(response)
    }
}

/// The communicator that must be named.
pub(super) fn comm(params: &Params) -> Result<String, ApiError> {
    params.owned("comm").ok_or_else(|| {
        ApiError::bad_request("the parameter comm is missing; allowed: the id of a communicator")
    })
}

pub(in crate::http) const THEMES: [(&str, Theme); 2] = [("light", Theme::Light), ("dark", Theme::Dark)];
pub(in crate::http) const WIDTHS_PX: RangeInclusive<u32> = 400..=2400;
const WIDTH_DEFAULT_PX: u32 = 900;
pub(in crate::http) const HEIGHTS_PX: RangeInclusive<u32> = 240..=2400;
const HEIGHT_DEFAULT_PX: u32 = 500;
