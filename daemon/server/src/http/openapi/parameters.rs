//! What parameters may be that mean the same on every route.

use std::ops::RangeInclusive;

use ringscope_store::Metric;
use ringscope_wire::Primitive;
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use crate::http::{plots, series, trace};

/// What a parameter of this name may be, below this path. `None`: its route says.
pub(super) fn schema(path: &str, name: &str) -> Option<Schema> {
    Some(match name {
        "at" | "from" | "to" | "written" => moment(),
        "step" => string().pattern(Some(series::STEP_PATTERN)).into(),
        "metric" if path.contains("/summation/") => words(Metric::OF_SUMMATIONS.map(Metric::label)),
        "metric" => words(Metric::OF_COMMUNICATORS.map(Metric::label)),
        "primitive" => words(Primitive::ALL.map(Primitive::label)),
        "theme" => words(plots::THEMES.map(|(word, _)| word)),
        "format" => words(trace::FORMATS.map(|(word, ())| word)),
        "channel" => {
            let all = words(["all"]);
            AnyOfBuilder::new().item(number(&plots::CHANNELS)).item(all).into()
        }
        "width" => number(&plots::WIDTHS_PX),
        "height" => number(&plots::HEIGHTS_PX),
        _ => return None,
    })
}

/// RFC 3339, or milliseconds since 1970.
fn moment() -> Schema {
    let text = string().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let ms = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
    AnyOfBuilder::new().item(text).item(ms).into()
}

fn words<const N: usize>(words: [&'static str; N]) -> Schema {
    string().enum_values(Some(words)).into()
}

fn number(range: &RangeInclusive<u32>) -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number.minimum(Some(*range.start())).maximum(Some(*range.end())).into()
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}
