//! Reaches all hosts of a job, some at once, and gives up where one cannot be had.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock;
use tokio::task::JoinSet;

use super::super::link::{self, Link};
use super::super::meet;
use super::super::place::Place;
use super::{Job, Moved, SHOWN, moved};

/// Hosts that are being reached at once.
const AT_ONCE: usize = 64;

/// What came of reaching.
enum Reached {
    /// One host.
    One(usize, Result<Link, String>),
    /// All nodes that come by themselves.
    All(Result<BTreeMap<usize, Link>, String>),
}

impl Job {
    /// Reaches all hosts that are not reached.
    pub(super) async fn connect(&mut self) -> Result<(), u8> {
        let mut reached = JoinSet::new();
        self.await_those_that_come(&mut reached);
        let is_wanted =
            |node: &usize| self.links[*node].is_none() && self.settings.places[*node] != Place::Comes;
        let mut waiting: Vec<usize> = (0..self.links.len()).rev().filter(is_wanted).collect();
        let mut failed = Vec::new();
        loop {
            while failed.is_empty()
                && reached.len() < AT_ONCE
                && let Some(node) = waiting.pop()
            {
                self.reach(node, &mut reached);
            }
            tokio::select! {
                came = reached.join_next() => match came {
                    None => break,
                    Some(Ok(Reached::One(node, Ok(link)))) => self.came(node, link),
                    Some(Ok(Reached::All(Ok(links)))) => {
                        links.into_iter().for_each(|(node, link)| self.came(node, link));
                    }
                    Some(Ok(Reached::One(_, Err(why)) | Reached::All(Err(why)))) => failed.push(why),
                    Some(Err(error)) => failed.push(error.to_string()),
                },
                moved = moved(&mut self.signals, &mut self.events) => self.heed(moved)?,
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(self.not_reached(&failed)) }
    }

    fn reach(&self, node: usize, reached: &mut JoinSet<Reached>) {
        let (place, host) = (self.settings.places[node].clone(), self.settings.plan.hosts[node].host.clone());
        let (ways, sinks) = (self.settings.ways.clone(), self.sinks.clone());
        reached.spawn(
            async move { Reached::One(node, link::start(node, (&place, &host), &ways, &sinks).await) },
        );
    }

    fn await_those_that_come(&self, reached: &mut JoinSet<Reached>) {
        let (Some(node), Some(meeting)) = (self.settings.args.node, self.settings.args.meet.clone()) else {
            return;
        };
        let comes =
            |number: &usize| self.links[*number].is_none() && self.settings.places[*number] == Place::Comes;
        let missing: BTreeSet<usize> = (0..self.links.len()).filter(comes).collect();
        let (ways, sinks, secret) =
            (self.settings.ways.clone(), self.sinks.clone(), self.settings.secret.clone());
        reached.spawn(async move {
            Reached::All(meet::all(&meeting, node.count, missing, &secret, &ways, &sinks).await)
        });
    }

    fn not_reached(&self, failed: &[String]) -> u8 {
        failed.iter().take(SHOWN).for_each(|why| self.say.note(why));
        if failed.len() > SHOWN {
            self.say.note(&format!("and {} more hosts cannot be had", failed.len() - SHOWN));
        }
        self.say.note("nothing was started");
        1
    }

    fn came(&mut self, node: usize, link: Link) {
        let (now, now_ns) = (clock::monotonic(), clock::now().0);
        self.roster.came(node, now, now_ns);
        if self.dead.remove(&link.number) {
            let why = format!("{} is lost: its connection has ended as soon as it stood", self.name(node));
            self.roster.lost(node, why, now, now_ns);
        } else {
            self.links[node] = Some(link);
        }
    }

    /// Before anything runs: a signal ends the launch.
    pub(super) fn heed(&mut self, moved: Moved) -> Result<(), u8> {
        match moved {
            Moved::Signal(signal) => {
                self.ending.signalled(signal, clock::monotonic());
                return Err(1);
            }
            Moved::Event(event) => drop(self.hear(event)),
            Moved::Time => {}
        }
        self.keep_in_touch();
        Ok(())
    }
}
