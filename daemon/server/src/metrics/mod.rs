//! `/metrics`: one family per file, read from the model at each scrape, so that nothing stale remains.
//!
//! The only place with metric names. All families together have `metrics_series` series at most: `room.rs` chooses what is
//! shown, and how finely.

mod agent_heard;
mod backlog_bytes;
mod by_host;
mod captured_calls;
mod collector_state;
mod communicator_info;
mod communicator_ranks;
mod communicators;
mod completed_bytes;
mod completed_calls;
mod dropped_events;
mod durations;
mod family;
mod final_channels;
mod finding;
mod findings;
mod gpus;
mod health;
mod host_clock_error;
mod host_clock_offset;
mod incident;
mod init_channels;
mod issued_bytes;
mod issued_calls;
mod job_heard;
mod job_info;
mod job_processes;
mod jobs_seen;
mod judgement_lag;
mod kept;
mod left_out;
mod nic_congestion;
mod nic_errors;
mod nic_link_downs;
mod nic_rate;
mod nic_received_bytes;
mod nic_sent_bytes;
mod nic_up;
mod nics;
mod notifications;
mod own;
mod process;
mod rdma_connections;
mod rdma_errors;
mod rdma_retransmits;
mod remote_writes;
mod replayed_calls;
mod room;
mod series_limit;
mod snapshot;
mod standby;
mod standing_hosts;
mod standing_jobs;
mod store_up;
mod sum_completed_bytes;
mod sum_credits_used_bytes;
mod sum_issued_bytes;
mod sum_last_arrivals;
mod sum_loopback_bytes;
mod sum_oldest_wait;
mod sum_optimal_share;
mod sum_rounds_waiting;
mod sum_share;
mod sum_stage_queue_parts;
mod sum_stage_wait_seconds;
mod sum_staleness;
mod sum_summed_bytes;
mod sum_summing_seconds;
mod summations;
mod tls;
mod wire_bytes;

pub use durations::Durations;
pub use kept::REFRESH;
pub use notifications::Notifications;
pub use own::OwnMetrics;
pub use remote_writes::RemoteWrites;
pub use standby::StandbyMetrics;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kept::Kept;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, IntGauge, Registry, TextEncoder};
use ringscope_access::Tenant;
use ringscope_api::clock::{self, Timestamp};
use ringscope_judge::health::{Cut, cut_off};
use ringscope_tls::Own;
use snapshot::Snapshot;

use crate::hub::Hub;

/// How much is scraped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsLimits {
    /// Series of all families together.
    pub series: usize,
    /// Communicators in use that have any. `None`: as many as there is room for.
    pub communicators: Option<usize>,
}

/// Why nothing new is taken, if so.
type CutOff = dyn Fn(Timestamp) -> Option<Cut> + Send + Sync;

/// Everything that is scraped.
pub struct Metrics {
    /// What the daemon says of itself. What there is of the model is not in it: to gather and sort thousands of series that are
    /// in order takes longer than to write them.
    registry: Registry,
    hub: Arc<Hub>,
    limits: MetricsLimits,
    kept: Arc<Kept>,
    /// Of tenants' hubs.
    kept_of_tenants: Mutex<BTreeMap<Tenant, Arc<Kept>>>,
    cut: Option<Arc<CutOff>>,
    /// `None`: this is a tenant's, who is told nothing of the daemon.
    own: Option<Arc<OwnMetrics>>,
}

impl Metrics {
    /// Shows of `hub` what `limits` allow, and what `cut` says: why nothing new is taken, if so.
    ///
    /// # Errors
    /// Two families of one name: a mistake in this module.
    pub fn new(
        hub: Arc<Hub>,
        cut: impl Fn(Timestamp) -> Option<Cut> + Send + Sync + 'static,
        own: Arc<OwnMetrics>,
        limits: MetricsLimits,
    ) -> Result<Self, prometheus::Error> {
        let cut: Arc<CutOff> = Arc::new(cut);
        let metrics = Self::of_hub(hub, limits, Arc::default(), Some(Arc::clone(&cut)));
        own.register(&metrics.registry)?;
        let collector = DaemonCollector { cut, desc: desc("ringscope_daemon")? };
        metrics.registry.register(Box::new(collector))?;
        Ok(Self { own: Some(own), ..metrics })
    }

    /// Shows what a tenant's hub has, and nothing of the daemon itself. Made for each scrape.
    #[must_use]
    pub fn of_tenant(&self, tenant: &Tenant, hub: Arc<Hub>) -> Self {
        let mut all = self.kept_of_tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Arc::clone(all.entry(tenant.clone()).or_default());
        Self::of_hub(hub, self.limits, kept, self.cut.clone())
    }

    fn of_hub(hub: Arc<Hub>, limits: MetricsLimits, kept: Arc<Kept>, cut: Option<Arc<CutOff>>) -> Self {
        let (registry, kept_of_tenants) = (Registry::new(), Mutex::default());
        Self { registry, hub, limits, kept, kept_of_tenants, cut, own: None }
    }

    /// Does beforehand what would take a scrape long. To be called each [`REFRESH`].
    pub fn refresh(&self) {
        self.kept.refresh(&self.hub, clock::now());
    }

    /// Shows the daemon's certificate too.
    ///
    /// # Errors
    /// Two families of one name: a mistake in this module.
    pub fn show_tls(&self, own: Arc<Own>) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(tls::TlsCollector::new(own)?))
    }

    /// The text that Prometheus reads.
    ///
    /// # Errors
    /// A family that does not fit the format: a mistake in this module.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        let start = clock::monotonic();
        let families = self.families();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        if let Some(own) = &self.own {
            own.scrape_seconds.set(start.elapsed().as_secs_f64());
        }
        String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
    }

    /// Says that this daemon is the one of several that leads.
    ///
    /// # Errors
    /// [`prometheus::Error`]: said before.
    pub fn show_leads(&self) -> Result<(), prometheus::Error> {
        let leads = IntGauge::new(LEADS, LEADS_HELP)?;
        leads.set(1);
        self.registry.register(Box::new(leads))
    }

    /// All that there is, by name.
    pub(crate) fn families(&self) -> Vec<MetricFamily> {
        let now = clock::now();
        let mut snapshot = Snapshot::take(&self.hub, now, self.limits, &self.kept);
        if let Some(cut) = self.cut.as_ref().and_then(|cut| cut(now)) {
            cut_off(&mut snapshot.health, cut);
        }
        let of_model = FAMILIES.iter().map(|family| family(&snapshot));
        let mut families = self.registry.gather();
        families.extend(of_model.filter(|family| !family.get_metric().is_empty()));
        families.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        families
    }

    /// Content type of [`Metrics::render`].
    pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;
}

const LEADS: &str = "ringscope_daemon_leads";
const LEADS_HELP: &str = "Whether this daemon leads, of several on one database.";

/// What the daemon needs of its machine, and its database.
struct DaemonCollector {
    cut: Arc<CutOff>,
    desc: Desc,
}

impl Collector for DaemonCollector {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = vec![store_up::family((self.cut)(clock::now()).is_none())];
        families.extend(process::families());
        families
    }
}

/// The registry wants one of each collector, and reads no more than its name.
fn desc(name: &str) -> Result<Desc, prometheus::Error> {
    Desc::new(name.to_owned(), "Read at each scrape".to_owned(), Vec::new(), std::collections::HashMap::new())
}

type Family = fn(&Snapshot) -> MetricFamily;

const FAMILIES: [Family; 53] = [
    init_channels::family,
    final_channels::family,
    issued_bytes::family,
    issued_calls::family,
    completed_bytes::family,
    completed_calls::family,
    captured_calls::family,
    replayed_calls::family,
    wire_bytes::family,
    backlog_bytes::family,
    finding::family,
    incident::family,
    health::family,
    standing_jobs::family,
    standing_hosts::family,
    dropped_events::family,
    collector_state::family,
    communicator_info::family,
    communicator_ranks::family,
    nic_up::family,
    nic_rate::family,
    nic_sent_bytes::family,
    nic_received_bytes::family,
    nic_link_downs::family,
    nic_errors::family,
    nic_congestion::family,
    rdma_retransmits::family,
    rdma_errors::family,
    rdma_connections::family,
    gpus::family,
    host_clock_offset::family,
    host_clock_error::family,
    sum_issued_bytes::family,
    sum_completed_bytes::family,
    sum_share::family,
    sum_optimal_share::family,
    sum_stage_queue_parts::family,
    sum_stage_wait_seconds::family,
    sum_rounds_waiting::family,
    sum_oldest_wait::family,
    sum_last_arrivals::family,
    sum_summed_bytes::family,
    sum_summing_seconds::family,
    sum_loopback_bytes::family,
    sum_credits_used_bytes::family,
    sum_staleness::family,
    job_info::family,
    job_processes::family,
    job_heard::family,
    agent_heard::family,
    judgement_lag::family,
    series_limit::family,
    left_out::family,
];
