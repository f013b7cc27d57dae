use std::ops::Range; use std::path::Path; use crate::score::Trial;
#[derive(clap::Args)]
pub(crate) struct Options {}
pub(crate) async fn run(_o:&Options,_r:&Path,_s:Range<u64>,_w: impl Fn(&str)->bool)->Result<Vec<Trial>,String>{ Ok(Vec::new()) }
