//! Pictures of what the store has over time.

use axum::response::Response;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{CommunicatorSummary, Rank, Series};
use ringscope_store::Metric;
use ringscope_view as view;
use ringscope_wire::Primitive;

use super::request::Look;
use crate::http::App;
use crate::http::problem::ApiError;
use crate::http::query::Params;
use crate::http::series::{Asked, read};
use crate::plots::{Format, PlotLine, TimePlot, Unit};

pub(super) async fn bandwidth(app: App, params: Params, format: Format) -> Result<Response, ApiError> {
    let params = params.allow(&PARAMETERS)?;
    let look = Look::from_params(&params, "bandwidth", format)?;
    let series = history(&app, &params, Metric::CompletedBytes, true).await?;
    let whose = Whose::from_params(&app, &params).await?;
    let subtitle = match &whose.communicator {
        Some(of) => format!("busbw: what each link of its rings carries · {} ranks", of.n_ranks),
        None => "algbw: completed payload bytes per second, summed over ranks".to_owned(),
    };
    let lines = series.lines.iter().map(|line| PlotLine {
        name: line.primitive.clone(),
        values: line.values.iter().map(|value| Some((*value)? * whose.bus_factor(&line.primitive))).collect(),
    });
    let plot = TimePlot {
        title: format!("Bandwidth · {}", whose.name),
        subtitle,
        source: source(&series),
        lines: strongest(lines.collect()),
        times_ms: series.times_ms,
        gap: None,
        unit: Unit::BytesPerSecond,
        theme: look.theme,
        size: look.size,
    };
    look.respond(move || plot.draw(format)).await
}

pub(super) async fn backlog(app: App, params: Params, format: Format) -> Result<Response, ApiError> {
    let params = params.allow(&PARAMETERS)?;
    let look = Look::from_params(&params, "backlog", format)?;
    let growth = history(&app, &params, Metric::CompletedBytes, true).await?;
    let backlog = sum(&history(&app, &params, Metric::BacklogBytes, false).await?);
    let whose = Whose::from_params(&app, &params).await?;
    let mut completed_so_far = 0.0;
    let completed: Vec<Option<f64>> = (sum(&growth).into_iter())
        .map(|rate| {
            completed_so_far += rate? * growth.step_s;
            Some(completed_so_far)
        })
        .collect();
    let issued: Vec<Option<f64>> = completed
        .iter()
        .zip(&backlog)
        .map(|(completed, backlog)| Some((*completed)? + (*backlog)?))
        .collect();
    let left = backlog.iter().zip(&completed).rev().find_map(|(backlog, known)| known.and(*backlog));
    let gap = left.map(|left| format!("backlog {}", Unit::Bytes.words(left)));
    let line = |name: &str, values| PlotLine { name: name.to_owned(), values };
    let plot = TimePlot {
        title: format!("Issued against completed · {}", whose.name),
        subtitle: "payload bytes since the beginning of this time, summed over ranks".to_owned(),
        source: source(&growth),
        lines: vec![line("issued", issued), line("completed", completed)],
        times_ms: growth.times_ms,
        gap,
        unit: Unit::Bytes,
        theme: look.theme,
        size: look.size,
    };
    look.respond(move || plot.draw(format)).await
}

async fn history(app: &App, params: &Params, metric: Metric, rate: bool) -> Result<Series, ApiError> {
    read(app, &Asked::from_params(params, metric, rate, clock::now())?).await
}

/// What a picture is of, in words.
struct Whose {
    name: String,
    communicator: Option<CommunicatorSummary>,
    /// Its ranks that are summed.
    n_summed: usize,
}

impl Whose {
    async fn from_params(app: &App, params: &Params) -> Result<Self, ApiError> {
        let (job, comm) = (params.owned("job"), params.owned("comm"));
        let wanted = comm.clone().unwrap_or_default();
        let found = app.read(move |model, diagnosis, now| view::communicator(model, diagnosis, now, &wanted));
        let detail = found.await?;
        let host = params.owned("host");
        let is_summed = |rank: &&Rank| host.as_ref().is_none_or(|host| rank.host == *host);
        let n_summed = detail.iter().flat_map(|detail| &detail.ranks).filter(is_summed).count();
        let communicator = detail.map(|detail| detail.summary);
        let mut words: Vec<String> = Vec::new();
        words.extend(communicator.as_ref().map(|of| of.job.clone()).or(job));
        words.extend(communicator.as_ref().and_then(|of| of.name.clone()));
        words.extend(comm);
        words.extend(host);
        words.extend(params.owned("primitive"));
        if words.is_empty() {
            words.push("all jobs".to_owned());
        }
        Ok(Self { name: words.join(" · "), communicator, n_summed })
    }

    /// From summed algbw to what a link carries; 1 where it is not one communicator.
    #[expect(clippy::cast_precision_loss, reason = "a number of ranks")]
    fn bus_factor(&self, primitive: &str) -> f64 {
        let primitive = Primitive::ALL.into_iter().find(|one| one.label() == primitive);
        match (&self.communicator, primitive) {
            (Some(of), Some(primitive)) => {
                view::bus_factor(primitive, of.n_ranks) / self.n_summed.max(1) as f64
            }
            _ => 1.0,
        }
    }
}

fn source(series: &Series) -> String {
    let at = |ms: Option<&u64>| {
        let text = Timestamp(ms.copied().unwrap_or(0).saturating_mul(1_000_000)).to_string();
        text.get(..19).unwrap_or_default().replace('T', " ")
    };
    let (from, to) = (at(series.times_ms.first()), at(series.times_ms.last()));
    format!("ringscope · {from} to {to} UTC · one point every {} s", series.step_s)
}

/// All lines as one.
fn sum(series: &Series) -> Vec<Option<f64>> {
    let at =
        |index: usize| series.lines.iter().filter_map(|line| *line.values.get(index)?).reduce(|a, b| a + b);
    (0..series.times_ms.len()).map(at).collect()
}

/// The lines with the most in all, and the rest as one.
fn strongest(mut lines: Vec<PlotLine>) -> Vec<PlotLine> {
    let total = |line: &PlotLine| line.values.iter().flatten().sum::<f64>();
    lines.sort_by(|one, other| total(other).total_cmp(&total(one)));
    if lines.len() <= TimePlot::LINES_MAX {
        return lines;
    }
    let rest = lines.split_off(TimePlot::LINES_MAX - 1);
    let n_values = rest.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let at = |index: usize| rest.iter().filter_map(|line| *line.values.get(index)?).reduce(|a, b| a + b);
    lines.push(PlotLine { name: format!("{} others", rest.len()), values: (0..n_values).map(at).collect() });
    lines
}

const PARAMETERS: [&str; 11] =
    ["job", "comm", "host", "primitive", "from", "to", "step", "theme", "width", "height", "download"];
