//! Services, workers, and what goes between them.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    SummationFlow, SummationRole as Role, SummationService, SummationStage, SummationWorker,
};
use ringscope_model::Model;
use ringscope_model::summation::{Arrived, Group, Lateness, Member, Service};

use crate::number;

pub(super) fn service(group: &Group, known: &Service<'_>, model: &Model, now: Timestamp) -> SummationService {
    let (role, index) = known.place;
    let owner = known.owner.map(Member::told);
    SummationService {
        service: number(known.index),
        role,
        index,
        rank: group.rank(known.place),
        host: group.host(known.place, model).to_owned(),
        process: group.process(known.place, model).map(|process| process.key().to_owned()),
        optimal_share: known.optimal_share(),
        share: known.share(),
        owned_bytes: known.told.owned_bytes,
        predicted_sent_bytes: known.told.predicted_sent_bytes,
        predicted_received_bytes: known.told.predicted_received_bytes,
        pushed_bytes_per_s: known.pushed_bytes_per_s(now),
        pulled_bytes_per_s: known.pulled_bytes_per_s(now),
        summed_bytes_per_s: known.owner.map_or(0.0, |owner| owner.summed_bytes_per_s(now)),
        sum_ns_per_mib: known.sum_per_mib().map(ns),
        finished_rounds: owner.map_or(0, |told| told.finished_rounds),
        waits: owner.map_or(0, |told| number(told.waits.len())),
        loopback_bytes: known.traffic(|traffic| traffic.local_bytes),
        lost: known.is_lost(),
    }
}

/// Every worker, heard of or not.
pub(super) fn workers(
    group: &Group,
    model: &Model,
    lateness: &Lateness,
    now: Timestamp,
) -> Vec<SummationWorker> {
    let arrived = group.arrived();
    let workers = arrived.iter().zip(&lateness.workers).enumerate();
    let worker = |(index, (arrived, (last_share, late))): (usize, (&Arrived, &(f64, Duration)))| {
        let place = (Role::Worker, number(index));
        let process = group.process(place, model);
        let member = group.member(place);
        let told = member.map(Member::told);
        SummationWorker {
            index: place.1,
            rank: group.rank(place),
            host: group.host(place, model).to_owned(),
            global_rank: process.and_then(|process| process.identity()?.global_rank),
            last_arrivals: arrived.last_arrivals,
            last_share: *last_share,
            mean_late_ns: ns(*late),
            contributions: arrived.contributions,
            unanswered: arrived.unanswered,
            credits_used_bytes: told.map_or(0, |told| told.credits_used_bytes),
            credit_bytes: told.map_or(0, |told| told.credit_bytes),
            stages: member.map(|member| stages(member, now)).unwrap_or_default(),
        }
    };
    workers.map(worker).collect()
}

/// Of the workers heard of.
pub(super) fn flows(group: &Group, now: Timestamp) -> Vec<SummationFlow> {
    let flows = group.workers().flat_map(|(worker, member)| {
        let services = member.told().services.iter().enumerate();
        services.map(move |(service, told)| SummationFlow {
            worker,
            service: number(service),
            push_bytes_per_s: member.pushed_bytes_per_s(service, now),
            pull_bytes_per_s: member.pulled_bytes_per_s(service, now),
            push_backlog_bytes: told.traffic.iter().fold(0, |backlog: u64, traffic| {
                backlog.saturating_add(traffic.push_issued_bytes.saturating_sub(traffic.push_completed_bytes))
            }),
        })
    });
    flows.collect()
}

fn stages(member: &Member, now: Timestamp) -> Vec<SummationStage> {
    let stages = member.told().stages.iter().enumerate().map(|(place, told)| {
        let pace = member.pace(place, now);
        SummationStage {
            stage: told.stage.clone(),
            waiting_parts: told.waiting_parts,
            running_parts: told.running_parts,
            parts_per_s: pace.parts_per_s,
            mean_wait_ns: ns(pace.mean_wait),
            mean_work_ns: ns(pace.mean_work),
            longest_wait_ns: told.longest_wait_ns,
        }
    });
    stages.collect()
}

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
