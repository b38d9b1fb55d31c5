//! The surface as a caller meets it: each answer a snapshot.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::Request;
use axum::routing::{get, post};
use axum::{Json, Router};
use insta::assert_snapshot;
use metrics_exporter_prometheus::PrometheusBuilder;
use tidings_kernel::{ItemEngine, ItemStore, StoreError, Workspace};
use tower::ServiceExt as _;

use crate::{Api, Draining, Limits, Problem, around, router};

/// An engine that does nothing but answer a ping.
#[derive(Clone, Copy)]
enum Engine {
    Well,
    Failing,
    Silent,
}

#[async_trait]
impl ItemEngine for Engine {
    async fn open(&self, _: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        unreachable!("no handler opens a workspace yet")
    }

    async fn sweep(&self, _: usize) -> Result<usize, StoreError> {
        unreachable!("handlers do not sweep")
    }

    async fn ping(&self) -> Result<(), StoreError> {
        match self {
            Engine::Well => Ok(()),
            Engine::Failing => Err(StoreError::Unavailable("10.0.0.7 refused".into())),
            Engine::Silent => std::future::pending().await,
        }
    }
}

fn api(engine: Engine) -> Api {
    Api {
        engine: Arc::new(engine),
        metrics: PrometheusBuilder::new().build_recorder().handle(),
        draining: Draining::default(),
        limits: Limits::uniform(16, Duration::from_secs(5)),
    }
}

/// Routes that go wrong in every way a handler can.
fn trouble() -> Router {
    let routes = Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/json", post(|Json(_): Json<Vec<u8>>| async {}))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("a bug")
                }
            }),
        )
        .route("/slow", get(std::future::pending::<()>))
        .route("/conflict", get(|| async { Problem::conflict("it is already sent") }))
        .route("/broken", get(|| async { Problem::internal(std::fmt::Error) }));
    let api = api(Engine::Well);
    let routes = routes.fallback(|| async { axum::http::StatusCode::NOT_FOUND });
    around(routes, api.limits).with_state(api)
}

/// The answer as a person would see it: status, headers in order, body.
async fn ask(router: Router, request: Request<Body>) -> String {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let mut headers: Vec<_> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    headers.sort();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    format!("{}\n{}\n{}", parts.status, headers.concat(), String::from_utf8_lossy(&body))
}

fn request(method: &str, path: &str, body: &'static str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-request-id", "r-1")
        .body(Body::from(body))
        .unwrap()
}

#[tokio::test]
async fn a_well_server_is_alive_and_ready() {
    assert_snapshot!(ask(router(api(Engine::Well)), request("GET", "/healthz", "")).await);
    assert_snapshot!(ask(router(api(Engine::Well)), request("GET", "/readyz", "")).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_store_fails_is_alive_but_not_ready() {
    assert_snapshot!(ask(router(api(Engine::Silent)), request("GET", "/healthz", "")).await);
    assert_snapshot!(ask(router(api(Engine::Failing)), request("GET", "/readyz", "")).await);
    assert_snapshot!(ask(router(api(Engine::Silent)), request("GET", "/readyz", "")).await);
}

#[tokio::test]
async fn a_draining_server_is_not_ready() {
    let api = api(Engine::Well);
    api.draining.begin();
    assert_snapshot!(ask(router(api), request("GET", "/readyz", "")).await);
}

#[tokio::test(start_paused = true)]
async fn every_error_is_a_problem() {
    for (name, method, path, body) in [
        ("nowhere", "GET", "/nowhere?email=ada@example.org", ""),
        ("method", "DELETE", "/echo", ""),
        ("too_large", "POST", "/echo", "seventeen bytes!!"),
        ("not_json", "POST", "/json", "[1]"),
        ("panic", "GET", "/panic", ""),
        ("slow", "GET", "/slow", ""),
        ("conflict", "GET", "/conflict", ""),
        ("broken", "GET", "/broken", ""),
    ] {
        assert_snapshot!(name, ask(trouble(), request(method, path, body)).await);
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_limited_too() {
    let parts = ["sixteen bytes ok", "one more"].map(Ok::<_, std::io::Error>);
    let body = Body::from_stream(futures_util::stream::iter(parts));
    let request = Request::post("/echo").header("x-request-id", "r-1").body(body).unwrap();
    assert_snapshot!(ask(trouble(), request).await);
}

#[tokio::test]
async fn a_harmful_request_id_is_replaced() {
    for bad in ["", "ada@example.org", "a b", &"x".repeat(65)] {
        let request =
            Request::get("/healthz").header("x-request-id", bad).body(Body::empty()).unwrap();
        let response = router(api(Engine::Well)).oneshot(request).await.unwrap();
        let id = response.headers()["x-request-id"].to_str().unwrap();
        assert_eq!(id.len(), 32, "{bad:?} became {id:?}");
    }
}
