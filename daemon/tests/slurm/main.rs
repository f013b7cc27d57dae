//! Jobs of a real Slurm whose scripts know nothing of ringscope: all of them are seen, under their names, on their nodes, with
//! exact counts; and none fails, waits or prints by it.
//!
//! One cluster for all, whose start takes longer than a job does: so this is one test of many scenes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod degraded;
mod harmless;
mod jobs;
mod nested;
mod setup;

use cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_partition_are_seen_and_their_scripts_are_as_they_were() {
    let cluster = Cluster::start().await;
    let clock = ringscope_api::clock::monotonic();
    let say = |what: &str| println!("{what} after {:.1} s", clock.elapsed().as_secs_f64());
    jobs::two_nodes(&cluster).await;
    say("two nodes");
    jobs::batch_script(&cluster).await;
    say("a batch script");
    jobs::of_another_user(&cluster).await;
    say("another user's");
    jobs::array(&cluster).await;
    say("an array");
    jobs::heterogeneous(&cluster).await;
    say("a heterogeneous job");
    jobs::requeued(&cluster).await;
    say("requeued");
    jobs::cancelled(&cluster).await;
    say("cancelled");
    jobs::twenty_at_once(&cluster).await;
    say("twenty at once");
    nested::run_inside(&cluster).await;
    say("nested");
    nested::launch_inside(&cluster).await;
    say("launched");
    nested::torchrun_template(&cluster).await;
    say("a template");
    harmless::not_wanted(&cluster).await;
    say("not wanted");
    harmless::missing_on_a_node(&cluster).await;
    say("missing on a node");
    harmless::not_installed(&cluster).await;
    say("not installed");
    harmless::broken(&cluster).await;
    say("broken");
    harmless::the_users_own_log(&cluster).await;
    say("the user's own log");
    degraded::is_drained(&cluster).await;
    say("drained");
}
