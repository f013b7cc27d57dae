//! Who everybody waits for: hangs of one job, from what its ranks have called and not called.
//!
//! From each thing that does not end the judge follows who waits for whom, across all communicators, until somebody who
//! waits for nobody: that is the culprit, all others are victims and are counted. Synchronous, `now` is an argument,
//! no I/O, cannot fail. Absence is a fact only where somebody would have told (see [`scene`]).

pub mod scene;
mod settings;
mod verdict;

pub use settings::Settings;
pub use verdict::{ACCUSED_NAMED, Ask, Judgement, Question, Stand, Verdict};

use scene::Scene;

/// The judge of one job: what it has to remember from look to look. Drop it with the job.
#[derive(Debug, Default)]
pub struct Judge {}

impl Judge {
    /// Looks at the job. Call it once a second, and as soon as something ends badly; a look at the same readings again
    /// changes nothing. Costs nearly nothing while nothing is open for longer than [`scene::QUIET`].
    pub fn look(&mut self, scene: &Scene<'_>, settings: &Settings) -> Verdict {
        let _ = (scene, settings);
        Verdict::default()
    }

    /// Tells the judge how long waits of this job lasted that ended well, as the store remembers it: a judge that was
    /// just made would learn it anew.
    pub fn restore_longest_wait(&mut self, longest: std::time::Duration) {
        let _ = longest;
    }
}
