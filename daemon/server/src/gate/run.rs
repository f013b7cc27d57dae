//! Keeps a gate current: reads tokens, stores what was used and done, forgets what is over.

use std::sync::Arc;
use std::time::Duration;

use ringscope_access::{Used, sessions_over};
use ringscope_api::clock::{self, Timestamp};
use ringscope_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::Gate;
use crate::ingest::StoreState;

/// Keeps `gate` current until `stop`; then stores what is left.
pub async fn run(gate: Arc<Gate>, stop: CancellationToken) {
    let (mut stored, mut swept) = (clock::monotonic(), None);
    let (mut is_said, mut is_unwritten) = (false, false);
    loop {
        let wait = if gate.is_known() { REFRESH } else { OPENING };
        let is_ending = stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none();
        match gate.keeper.state() {
            StoreState::Open(store) => {
                let pass = async {
                    gate.refresh_and_write(&store).await?;
                    if is_ending || stored.elapsed() >= STORE {
                        stored = clock::monotonic();
                        gate.keep_used(&store).await;
                    }
                    gate.trail.flush(&store).await;
                    if swept.is_none_or(|at: std::time::Instant| at.elapsed() >= SWEEP) {
                        swept = Some(clock::monotonic());
                        sweep(&store, clock::now()).await;
                    }
                    Ok::<_, StoreError>(())
                };
                // A server that is cut off does not say so.
                let problem = match tokio::time::timeout(ANSWERED_WITHIN, pass).await {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => {
                        Some(format!("the database did not answer within {} s", ANSWERED_WITHIN.as_secs()))
                    }
                };
                if let (Some(problem), false) = (&problem, is_said) {
                    tracing::warn!("{problem}: tokens are as they were read before, until it answers");
                }
                is_said = problem.is_some();
            }
            StoreState::None => {
                gate.trail.forget();
                gate.known.send_replace(true);
            }
            StoreState::Opening | StoreState::Away(_) => {}
        }
        let unwritten = gate.book().unwritten().len();
        if (unwritten > 0) != is_unwritten || is_ending && unwritten > 0 {
            is_unwritten = unwritten > 0;
            match (is_unwritten, is_ending) {
                (true, false) => tracing::error!(unwritten, "{UNWRITTEN}; it is tried again every second"),
                (true, true) => {
                    tracing::error!(unwritten, "{UNWRITTEN}: revoke them once more after the restart")
                }
                (false, _) => tracing::info!("all tokens that were revoked are so in the database too"),
            }
        }
        if is_ending {
            gate.trail.settle().await;
            return;
        }
    }
}

impl Gate {
    async fn refresh_and_write(&self, store: &Store) -> Result<(), StoreError> {
        self.write_revoked(store).await;
        self.refresh(store).await
    }

    pub(super) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let changes = self.book().changes();
        let tokens = store.tokens().await?;
        if !self.is_known() {
            let now = clock::now();
            let (begun, used) = sessions_over(now);
            let sessions = store.sessions().await?;
            let mut book = self.book();
            for session in sessions.into_iter().filter(|one| one.began_at > begun && one.seen_at > used) {
                book.add_session(session);
            }
        }
        self.book().set_tokens(tokens, changes);
        self.known.send_if_modified(|known| !std::mem::replace(known, true));
        Ok(())
    }

    pub(super) async fn keep_used(&self, store: &Store) {
        let Used { tokens, sessions } = self.book().take_used();
        let kept = async {
            store.use_tokens(&tokens).await?;
            store.use_sessions(&sessions).await
        };
        if let Err(error) = kept.await {
            tracing::warn!(%error, "it is not stored when tokens were last used");
        }
    }
}

async fn sweep(store: &Store, now: Timestamp) {
    let (begun, used) = sessions_over(now);
    let before = Timestamp(now.0.saturating_sub(u64::try_from(AUDIT_KEPT.as_nanos()).unwrap_or(u64::MAX)));
    let swept = async {
        store.sweep_sessions(begun, used).await?;
        store.sweep_audit(before).await
    };
    if let Err(error) = swept.await {
        tracing::warn!(%error, "sessions that are over, and old entries of the audit trail, could not be deleted");
    }
}

/// What a restart would undo.
const UNWRITTEN: &str =
    "tokens are revoked in this process and not in the database, so they open again after a restart";
/// How soon a token that was revoked in the database opens nothing.
const REFRESH: Duration = Duration::from_secs(1);
/// Longer than any statement of a pass may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(12);
/// The same while the database is being opened: requests wait for it.
const OPENING: Duration = Duration::from_millis(20);
/// How often it is stored when tokens were used: they note it once a minute.
const STORE: Duration = Duration::from_secs(30);
const SWEEP: Duration = Duration::from_secs(3600);
/// The audit trail is asked after an audit, which comes once a year.
const AUDIT_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);
