//! A generation of a group that starts: its connections, its two sides and who watches them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::agree::{self, Agreement};
use super::super::contributing::Contributing;
use super::super::driver::{Driver, break_off};
use super::super::line::Line;
use super::super::members::Role;
use super::super::observe::Watch;
use super::super::patience::Patience;
use super::super::pool::Pool;
use super::super::requests::Requests;
use super::super::serving::Serving;
use super::super::terms::Terms;
use super::super::wire::{ANSWER_CHANNEL, PUSH_CHANNEL, Wire};
use super::Group;
use crate::worker::{self, Pipeline};
use rsccl_collective::comm::Comm;
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;

impl Group {
    /// Ends the group, which could not start. The error to report.
    pub(super) fn fail_start(&self, terms: &Terms, error: &Error) -> Error {
        let error = break_off(&self.comm, error);
        let watching = self.watching.iter().filter(|_| terms.is_first());
        watching.for_each(|watching| watching.fail_early(&self.comm, terms, &error));
        error
    }

    /// What the thread of a generation owns.
    pub(super) fn driver(&self, terms: Terms, requests: &Arc<Requests>) -> Result<Driver> {
        let mut links = std::mem::take(&mut lock(&self.comm.engine).links);
        let (comm, members) = (&self.comm, self.members);
        let wire = Wire::new(terms.epochs);
        let n_parts = usize::try_from(self.declarations.n_parts()).unwrap_or(usize::MAX);
        let settings = worker::Settings {
            max_parts: self.pipeline.max_parts.max(2 * n_parts + self.declarations.tensors().len()),
            ..self.pipeline
        };
        let frame_bytes = usize::try_from(settings.frame_bytes).unwrap_or(usize::MAX);

        let to_workers = lines(comm, &mut links, 0..members.n_workers, PUSH_CHANNEL, ANSWER_CHANNEL)?;
        let mut n_lines = to_workers.iter().flatten().count();
        let declarations = Arc::new(self.declarations.clone());
        let pool = Arc::new(Pool::start(self.sums.adding_threads, &comm.health)?);
        let mut serving = Serving::new(
            (terms.idle_service(), terms.idle_service()),
            wire,
            Arc::clone(&declarations),
            frame_bytes,
            comm.rank,
            to_workers,
        )
        .with(Arc::clone(&pool), self.sums.kept_bytes);
        let mut known = None;
        let mut contributing = match self.role {
            Role::Server(_) => None,
            Role::Worker(worker) => {
                let ranks = (0..members.n_ranks()).map(|service| members.rank_of_service(service));
                let to_services = lines(comm, &mut links, ranks, ANSWER_CHANNEL, PUSH_CHANNEL)?;
                for line in to_services.iter().flatten() {
                    n_lines += 1;
                    line.bound_unsent(&mut links, settings.credit_bytes_per_server / 4);
                }
                let first_server = worker * members.n_ranks() / members.n_workers;
                let settings = worker::Settings { first_server, ..settings };
                let settings = if terms.is_local() { settings.over_relays() } else { settings };
                let pipeline =
                    Pipeline::new(&terms.fractions()?, settings).with_credits(&terms.in_flight(worker)?);
                let declarations = Arc::clone(known.insert(declarations));
                let routes = terms.routes(&declarations)?;
                let list = if worker == 0 { agree::list(&declarations)? } else { Vec::new() };
                let mut contributing =
                    Contributing::new(worker, pipeline, wire, declarations, routes, to_services)
                        .with(Arc::clone(&pool), &self.residuals);
                contributing.announce(members.n_workers, &list, terms.is_local());
                Some(contributing)
            }
        };
        serving.timeline.clone_from(&self.timeline);
        contributing.iter_mut().for_each(|one| one.timeline.clone_from(&self.timeline));
        let watch = self
            .watching
            .as_ref()
            .map(|watching| Watch::new(watching, comm, members, &mut serving, contributing.as_mut()));
        Ok(Driver {
            comm: Arc::clone(comm),
            requests: Arc::clone(requests),
            taken: VecDeque::new(),
            links,
            agreement: Agreement::new(known.as_ref(), members, n_lines).with(terms.is_local()),
            contributing,
            serving,
            pool,
            terms,
            has_greeted: false,
            has_started: false,
            watch,
            timeline: self.timeline.clone(),
            patience: Patience::new(self.sums.wait_limits),
        })
    }
}

/// A connection each way with each of these ranks but the own one, which has none. A later generation goes on with those
/// of the one before.
fn lines(
    comm: &Comm,
    links: &mut Links,
    ranks: impl Iterator<Item = usize>,
    recv_channel: u32,
    send_channel: u32,
) -> Result<Vec<Option<Line>>> {
    let line = |peer: usize| {
        if peer == comm.rank {
            return Ok(None);
        }
        let (recv, send) = (links.recvs.index(recv_channel, peer), links.sends.index(send_channel, peer));
        let end = links.sends.get(send);
        let parts = end.filter(|end| end.half.is_some()).map(|end| end.parts);
        if parts.is_none() {
            links.sends.connect(send_channel, peer, comm.open_send(send_channel, peer)?);
            if let Some(half) = comm.open_shared_recv(recv_channel, peer)? {
                links.recvs.connect(recv_channel, peer, half);
            }
        }
        Ok(Some(Line::new(peer, recv, send).after(parts.unwrap_or(0))))
    };
    ranks.map(line).collect()
}
