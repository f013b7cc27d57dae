//! One of several daemons of a Postgres: one leads, which is a daemon as any that is alone; the others stand by and hand on to it
//! what they are asked. Who leads is whoever holds the claim on the database; when it is given back, or its holder is gone, the
//! next in line has it at once, reads what was stored, and agents send the rest, for it does not know them.

use std::sync::Arc;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_server::http::{self, App, Limits, Standby, Switch};
use ringscope_server::ingest::Lead;
use ringscope_server::metrics::StandbyMetrics;
use ringscope_store::{Claim, DatabaseUrl, LeaderWatch, Store, StoreError, TermSecret};
use ringscope_tls::Trust;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::core::{Core, Of};
use super::error::ServeError;
use super::{REQUESTS_GRACE, Server, addresses, after, own_token, somebody_may_enter};
use crate::config::ServeConfig;

/// Serves until `shutdown`; `url`: where the others reach this daemon.
pub(super) async fn run(server: Server, url: String, shutdown: CancellationToken) -> Result<(), ServeError> {
    let Server { config, listener, tls, oidc, .. } = server;
    let Some(watch) = LeaderWatch::new(&config.database_url).map_err(ServeError::Shared)? else {
        return Err(ServeError::NotShared);
    };
    // Where the leader wants a certificate of its clients, this daemon shows its own.
    let shown = config.tls.as_ref().filter(|files| files.client_ca.is_some());
    let trust = Trust {
        cert: shown.map(|files| files.cert.clone()),
        key: shown.map(|files| files.key.clone()),
        ..config.notify.trust.clone()
    };
    let standby = Standby::new(url.clone(), watch, &trust, StandbyMetrics::new(tls.clone())?)?;
    let (switch, tasks, stop_serving) = (Switch::default(), TaskTracker::new(), CancellationToken::new());
    if let Some(tls) = &tls {
        tasks.spawn(Arc::clone(tls).watch(stop_serving.clone()));
    }
    let of = Of {
        config: &config,
        url: &url,
        tls: tls.as_ref(),
        oidc: oidc.as_ref(),
        // Its agents run apart: nobody has the secret.
        own_token: own_token()?.hash,
    };
    let leading = async {
        let led = take_turns(of, &standby, &switch, &shutdown).await;
        stop_serving.cancel();
        led
    };
    let serving = async {
        tokio::select! {
            () = http::serve(listener, tls.clone(), switch.router(), Limits::default(), stop_serving.clone()) => {}
            () = after(stop_serving.clone(), REQUESTS_GRACE) => {}
        }
    };
    let (led, ()) = tokio::join!(leading, serving);
    led
}

/// Stands by and leads, in turn, until `shutdown`.
async fn take_turns(
    of: Of<'_>,
    standby: &Arc<Standby>,
    switch: &Switch,
    shutdown: &CancellationToken,
) -> Result<(), ServeError> {
    let stand_by = || switch.to(standby.router(&addresses(of.config), of.tls.cloned()));
    drop(stand_by());
    while let Some(claim) = shutdown.run_until_cancelled(next_in_line(of.config, standby)).await {
        match shutdown.run_until_cancelled(somebody_may_enter(of.config)).await {
            None => break,
            // The door stays closed, and agents that nobody lets in keep what they have.
            Some(Err(error)) => tracing::error!("{error}"),
            Some(Ok(())) => {}
        }
        let began = clock::monotonic();
        let deposed = CancellationToken::new();
        let secret = TermSecret(own_token()?.text);
        let lead = Lead { url: of.url.to_owned(), secret: secret.clone(), deposed: deposed.clone() };
        let core = Core::start(of, Some(claim), Some(lead))?;
        drop(switch.to(http::router(core.app.clone(), &addresses(of.config))));
        standby.leads();
        tracing::info!(
            "this daemon leads: it has the database to itself, and the others hand everything on to {}",
            of.url
        );
        let look = look_at_itself(Arc::clone(standby), core.app.clone(), secret);
        let stop = core.stop.clone();
        core.tasks.spawn(async move { stop.run_until_cancelled_owned(look).await });
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = deposed.cancelled() => {}
        }
        let under_way = stand_by();
        // Streams of events end by it.
        core.stop.cancel();
        if tokio::time::timeout(REQUESTS_GRACE, under_way).await.is_err() {
            tracing::warn!("some requests did not end in time and are cut off");
        }
        core.end().await;
        tracing::info!("this daemon has led for {} s and leads no more", began.elapsed().as_secs());
        // Whoever else stands by is to have its turn.
        shutdown.run_until_cancelled(tokio::time::sleep(super::AGAIN)).await;
    }
    Ok(())
}

/// Stands by until nobody else leads, and the database can be used: who cannot use it lets the next one lead.
async fn next_in_line(config: &ServeConfig, standby: &Standby) -> Claim {
    let url = &config.database_url;
    let waits = async {
        let mut said = String::new();
        loop {
            let mut claim = claimed(url).await;
            // It may take long, or for ever where the database is cut off.
            let opened = tokio::select! {
                opened = Store::open(url) => opened,
                error = claim.lost() => Err(error),
            };
            let opened = match opened {
                Ok(Some(store)) => {
                    store.close().await;
                    // Large tables may have taken their time.
                    claim.check().await
                }
                opened => opened.map(drop),
            };
            let Err(error) = opened else { return claim };
            claim.release().await;
            let is_away = matches!(
                error,
                StoreError::Unreachable { .. } | StoreError::ClaimLost { .. } | StoreError::Failed(_)
            );
            let again = if is_away { super::AGAIN } else { UNFIT_AGAIN };
            let words = error.to_string();
            if words != said {
                tracing::error!(
                    "{words}. Until then this daemon cannot lead, and lets another one; it tries again each {} s",
                    again.as_secs()
                );
                said = words;
            }
            tokio::time::sleep(again).await;
        }
    };
    tokio::select! {
        claim = waits => claim,
        never = standby.watch() => match never {},
    }
}

/// Says if this daemon, which leads, is not to be reached where it told the others to.
async fn look_at_itself(standby: Arc<Standby>, app: App, secret: TermSecret) {
    let mut wrong = None;
    for _ in 0..LOOKS {
        wrong = standby.reaches_itself(&secret).await;
        if wrong.is_none() {
            return;
        }
        tokio::time::sleep(super::AGAIN).await;
    }
    let Some(why) = wrong else { return };
    let words = format!(
        "this daemon leads and does not reach itself at its own --cluster-url, {}, so the other daemons may not either: {why}",
        standby.url()
    );
    tracing::warn!("{words}");
    let _ = app.unreached.set(words);
}

/// Waits until nobody else leads, however often the database is away.
async fn claimed(url: &DatabaseUrl) -> Claim {
    let mut said = String::new();
    loop {
        match Claim::wait(url).await {
            Ok(claim) => return claim,
            Err(error) => {
                let words = error.to_string();
                if words != said {
                    tracing::error!(
                        "{words}. Until then this daemon cannot take over; it tries again each second"
                    );
                    said = words;
                }
                tokio::time::sleep(super::AGAIN).await;
            }
        }
    }
}

/// How soon a database is tried again that somebody has to mend, or that a newer daemon uses.
const UNFIT_AGAIN: Duration = Duration::from_secs(10);
/// How often a daemon that begins to lead looks for itself.
const LOOKS: u32 = 3;
