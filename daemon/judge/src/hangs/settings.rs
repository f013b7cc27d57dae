//! The limits of the judge, each with its reason.

use std::time::Duration;

/// The limits of the judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// A wait for a rank that is merely elsewhere is told from this age on, or from `wait_times_p99` times what such
    /// calls take, whichever is longer. Twice the look's interval, so that healthy skew is not told.
    pub wait_told: Duration,
    /// So many times what 99 of 100 calls of the size take.
    pub wait_times_p99: u32,
    /// Such a wait is never critical before this age: evaluations and checkpoints often take that long.
    pub wait_critical_least: Duration,
    /// Such a wait is critical from this age on, whatever was learned: half of the half hour after which frameworks
    /// give up by themselves.
    pub wait_critical_most: Duration,
    /// So many times the longest such wait of this job that ended well.
    pub wait_times_longest: u32,
    /// A rank that cannot come (gone, stopped, another call, a circle) is told from this age of the wait on: older than
    /// two readings of every agent, whose instants differ.
    pub sure_after: Duration,
    /// All have called, and nothing moves, for so long, and `wait_times_p99` times what such calls take.
    pub stalled_after: Duration,
    /// However long such calls usually take, it is told after so long, or twice as long as they take.
    pub stalled_most: Duration,
    /// The same is critical only from this age on where nothing tells that all GPUs have started the call: programs call
    /// long before the GPU has done what comes first.
    pub unstarted_critical: Duration,
    /// The same as `wait_critical_least` for a rank that has completed nothing so far: a first step compiles and loads.
    pub start_critical: Duration,
    /// An init or teardown that waits for somebody is a warning from this age on. Large jobs take tens of seconds to
    /// come, so it is critical only after `init_critical`, unless somebody cannot come.
    pub init_told: Duration,
    /// See `init_told`.
    pub init_critical: Duration,
    /// An agent that was not heard for so long cannot prove that something is absent. One that has nothing to tell
    /// speaks every five seconds.
    pub unheard_after: Duration,
    /// A host of which no agent was heard for so long is lost.
    pub host_lost_after: Duration,
    /// Whether culprits are looked at.
    pub look: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wait_told: Duration::from_secs(2),
            wait_times_p99: 10,
            wait_critical_least: Duration::from_secs(30),
            wait_critical_most: Duration::from_secs(900),
            wait_times_longest: 2,
            sure_after: Duration::from_millis(800),
            stalled_after: Duration::from_secs(5),
            stalled_most: Duration::from_secs(60),
            unstarted_critical: Duration::from_secs(60),
            start_critical: Duration::from_secs(300),
            init_told: Duration::from_secs(30),
            init_critical: Duration::from_secs(120),
            unheard_after: Duration::from_secs(8),
            host_lost_after: Duration::from_secs(15),
            look: true,
        }
    }
}
