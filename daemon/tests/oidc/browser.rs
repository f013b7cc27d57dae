//! What a browser does of its own: keeps cookies (for a host, whatever the port), and goes where it is sent.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder, Response, Url};

/// A browser.
pub(crate) struct Browser {
    page: String,
    client: reqwest::Client,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    pub(crate) fn new(page: &str) -> Self {
        Self::with(page, reqwest::Client::builder())
    }

    /// With a client that trusts somebody, for example.
    pub(crate) fn with(page: &str, client: reqwest::ClientBuilder) -> Self {
        let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { page: page.to_owned(), client, cookies: BTreeMap::new() }
    }

    pub(crate) fn has(&self, cookie: &str) -> bool {
        self.cookies.contains_key(cookie)
    }

    pub(crate) fn request(&self, method: Method, address: &str) -> RequestBuilder {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.client.request(method, address).header("cookie", pairs.join("; "))
    }

    pub(crate) async fn send(&mut self, request: RequestBuilder) -> Response {
        let response = request.send().await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() || set.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    pub(crate) async fn visit(&mut self, address: &str) -> Response {
        self.send(self.request(Method::GET, address)).await
    }

    /// Asks the daemon.
    pub(crate) async fn get(&mut self, path: &str) -> Response {
        self.visit(&format!("{}{path}", self.page)).await
    }

    /// Presses the button.
    pub(crate) async fn begin(&mut self, place: &str) -> Response {
        let start = format!("{}/api/v1/session/oidc", self.page);
        let start = Url::parse_with_params(&start, [("return", place)]).unwrap();
        self.visit(start.as_str()).await
    }

    /// Where a response sends it.
    pub(crate) fn location(&self, response: &Response) -> String {
        assert!(response.status().is_redirection(), "{response:?}");
        let location = response.headers()["location"].to_str().unwrap();
        response.url().join(location).unwrap().into()
    }

    /// Signs in at the provider as `login`, or goes back without; the address of the daemon that it is sent back to.
    pub(crate) async fn at_provider(&mut self, address: &str, login: Option<&str>) -> String {
        let mut next = address.to_owned();
        for _ in 0..8 {
            if next.starts_with(&self.page) {
                return next;
            }
            if let Some(login) = login.filter(|_| next.contains("/interaction/")) {
                next = format!("{next}?login={login}");
            }
            let response = self.visit(&next).await;
            next = self.location(&response);
        }
        panic!("the provider does not send back: {next}");
    }

    /// All until it is sent back.
    pub(crate) async fn until_back(&mut self, place: &str, login: Option<&str>) -> String {
        let begun = self.begin(place).await;
        let address = self.location(&begun);
        self.at_provider(&address, login).await
    }

    /// All of it, which must go well.
    pub(crate) async fn sign_in(&mut self, place: &str, login: &str) {
        let back = self.until_back(place, Some(login)).await;
        let page = self.visit(&back).await;
        let status = page.status();
        assert_eq!(status, 200, "{}", page.text().await.unwrap());
        assert!(self.has("ringscope_session"));
    }
}

/// The value of a parameter of an address.
pub(crate) fn value(address: &str, name: &str) -> String {
    let url = Url::parse(address).unwrap();
    url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned()
}

/// An address with another value of a parameter.
pub(crate) fn with(address: &str, name: &str, value: &str) -> String {
    let mut url = Url::parse(&without(address, name)).unwrap();
    url.query_pairs_mut().append_pair(name, value);
    url.into()
}

/// An address without a parameter.
pub(crate) fn without(address: &str, name: &str) -> String {
    let mut url = Url::parse(address).unwrap();
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(key, _)| key != name)
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(kept);
    url.into()
}
