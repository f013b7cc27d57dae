//! A router that may change while connections last: that of a daemon that stands by, and that of the one that leads.

use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// Which router answers now.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<RwLock<Current>>);

#[derive(Debug, Default)]
struct Current {
    router: Router,
    under_way: TaskTracker,
}

impl Switch {
    /// Has `router` answer from now on. What comes back ends when the last request of the one before has been answered.
    pub fn to(&self, router: Router) -> impl Future<Output = ()> + use<> {
        let next = Current { router, under_way: TaskTracker::new() };
        let before = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), next);
        before.under_way.close();
        async move { before.under_way.wait().await }
    }

    /// The router to serve.
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }
}

async fn answer(State(switch): State<Switch>, request: Request) -> Response {
    let (router, _under_way) = {
        let current = switch.0.read().unwrap_or_else(PoisonError::into_inner);
        (current.router.clone(), current.under_way.token())
    };
    let Ok(response) = router.oneshot(request).await;
    response
}
