//! The two steps of signing in: to the provider, and back.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse,
    CoreTokenType,
};
use openidconnect::{
    AccessToken, AuthType, AuthorizationCode, ClaimsVerificationError, Client, ClientId, ClientSecret,
    CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdToken, IdTokenClaims,
    IdTokenFields, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RequestTokenError, Scope, StandardErrorResponse, StandardTokenResponse, SubjectIdentifier,
    UserInfoClaims,
};
use ringscope_access::{Person, Secret};
use ringscope_api::clock::{self, Timestamp};
use ringscope_tls::{TlsError, Trust};
use tokio_util::sync::CancellationToken;

use super::ask::Asker;
use super::claims::{Claims, name};
use super::error::{shown, words};
use super::pending::{self, PENDING_MAX, Pending};
use super::provider::Provider;
use super::{OidcConfig, OidcError};

/// Signs people in at a provider.
pub struct Oidc {
    config: OidcConfig,
    page: String,
    redirect: RedirectUrl,
    provider: Provider,
    begun: Mutex<pending::Begun>,
}

/// A sign-in that was begun.
#[derive(Debug)]
pub struct Begun {
    /// Where the browser goes.
    pub address: String,
    /// What it keeps, to show when it comes back.
    pub cookie: String,
    /// For how long.
    pub lasts: Duration,
}

/// What the provider sends a browser back with.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are OAuth's")]
pub struct Answer<'a> {
    pub state: Option<&'a str>,
    pub code: Option<&'a str>,
    pub issuer: Option<&'a str>,
    pub error: Option<&'a str>,
    pub error_description: Option<&'a str>,
}

/// Somebody who came back.
#[derive(Debug)]
pub struct Returned {
    /// Who, and what they may do.
    pub person: Person,
    /// Where the page was.
    pub place: String,
}

impl Oidc {
    /// Asks nobody yet. `page` is where people open the page, `callback` where the provider sends browsers back to.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(
        config: OidcConfig,
        page: String,
        callback: RedirectUrl,
        trust: &Trust,
    ) -> Result<Self, TlsError> {
        let provider = Provider::new(Asker::new(&config, trust)?);
        Ok(Self { config, page, redirect: callback, provider, begun: Mutex::default() })
    }

    /// Where people open the page, without a `/` at the end.
    #[must_use]
    pub fn page(&self) -> &str {
        &self.page
    }

    /// The provider's host, as people know it.
    #[must_use]
    pub fn issuer_host(&self) -> String {
        self.config.issuer_host()
    }

    /// Why the provider could not be asked the last time. `None`: it could.
    #[must_use]
    pub fn away(&self) -> Option<String> {
        self.provider.away()
    }

    /// Asks the provider until it has answered once, so that the page and the log say early that it does not.
    pub async fn greet(self: Arc<Self>, stop: CancellationToken) {
        if let Err(error) = self.secret() {
            tracing::warn!("nobody can sign in by OIDC: {error}");
        }
        while self.provider.metadata(&self.config, None).await.is_err() {
            if stop.run_until_cancelled(tokio::time::sleep(GREET)).await.is_none() {
                return;
            }
        }
    }

    /// Begins a sign-in of a browser at this address, whose page was at `place`.
    ///
    /// # Errors
    /// [`OidcError::Away`], [`OidcError::Random`].
    pub async fn begin(&self, place: String, origin: IpAddr, now: Timestamp) -> Result<Begun, OidcError> {
        let metadata = self.provider.metadata(&self.config, None).await?;
        let cookie = random()?;
        let (state, nonce) = (random()?.text, Nonce::new(random()?.text));
        let verifier = PkceCodeVerifier::new(random()?.text);
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
        let (said_state, said_nonce) = (CsrfToken::new(state.clone()), nonce.clone());
        let (address, ..) = self
            .client(&metadata, None)
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || said_state, || said_nonce)
            .add_scopes(self.config.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .url();
        let pending = Pending { state, nonce, verifier, place, origin, at: now };
        self.begun().add(cookie.hash, pending);
        Ok(Begun { address: address.into(), cookie: cookie.text, lasts: PENDING_MAX })
    }

    /// Finishes a sign-in: the browser came back with these cookies, and the provider's answer.
    ///
    /// # Errors
    /// An [`OidcError`].
    pub async fn finish(&self, cookies: &[&str], answer: Answer<'_>) -> Result<Returned, OidcError> {
        let pending = self.begun().take(cookies, answer.state.unwrap_or_default(), clock::now())?;
        if let Some(issuer) = answer.issuer.filter(|issuer| *issuer != self.config.issuer.as_str()) {
            return Err(OidcError::Untrusted(format!("the answer is of {}", shown(issuer))));
        }
        if let Some(error) = answer.error {
            let why = answer.error_description.unwrap_or_default();
            return Err(OidcError::Refused(shown(&format!("{error} {why}"))));
        }
        let code = AuthorizationCode::new(answer.code.ok_or(OidcError::NoCode)?.to_owned());
        let secret = self.secret()?;
        let metadata = self.provider.metadata(&self.config, None).await?;
        let tokens = self.exchange(&metadata, secret.clone(), code, pending.verifier).await?;
        let id_token = tokens.extra_fields().id_token();
        let id_token = id_token.ok_or_else(|| OidcError::Untrusted("it sent no ID token".to_owned()))?;
        let claims = match self.verified(&metadata, secret.clone(), id_token, &pending.nonce) {
            // Signed with a key of today.
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let metadata = self.provider.metadata(&self.config, Some(&metadata)).await?;
                self.verified(&metadata, secret, id_token, &pending.nonce)
            }
            verified => verified,
        };
        let claims = claims.map_err(|error| {
            tracing::warn!(issuer = self.config.issuer.as_str(), "an ID token is refused: {}", words(&error));
            OidcError::Untrusted(format!("its ID token is refused: {}", words(&error)))
        })?;
        let person = self.person(&metadata, &claims, tokens.access_token()).await?;
        Ok(Returned { person, place: pending.place })
    }

    /// What an ID token says, if this provider has signed it, for this client and this sign-in, and it has not ended.
    fn verified(
        &self,
        metadata: &CoreProviderMetadata,
        secret: Option<ClientSecret>,
        id_token: &SignedToken,
        nonce: &Nonce,
    ) -> Result<IdTokenClaims<Claims, CoreGenderClaim>, ClaimsVerificationError> {
        let client = self.client(metadata, secret);
        let verifier = client.id_token_verifier().set_allowed_algs(asymmetric(metadata));
        id_token.clone().into_claims(&verifier, nonce)
    }

    async fn exchange(
        &self,
        metadata: &CoreProviderMetadata,
        secret: Option<ClientSecret>,
        code: AuthorizationCode,
        verifier: PkceCodeVerifier,
    ) -> Result<TokenAnswer, OidcError> {
        let client = self.client(metadata, secret);
        let request = client.exchange_code(code).map_err(|error| self.is_away(words(&error)))?;
        request.set_pkce_verifier(verifier).request_async(&self.provider.asker).await.map_err(|error| {
            match &error {
                RequestTokenError::ServerResponse(said) => {
                    let why = said.error_description().map_or("", String::as_str);
                    let words = shown(&format!("{} {why}", said.error()));
                    tracing::warn!(issuer = self.config.issuer.as_str(), "a code is refused: {words}");
                    OidcError::Code(words)
                }
                RequestTokenError::Request(_) => self.is_away(words(&error)),
                _ => OidcError::Untrusted(words(&error)),
            }
        })
    }

    /// Who they are, and what their groups may do: by the ID token, and what it leaves out by userinfo.
    async fn person(
        &self,
        metadata: &CoreProviderMetadata,
        claims: &IdTokenClaims<Claims, CoreGenderClaim>,
        access_token: &AccessToken,
    ) -> Result<Person, OidcError> {
        let subject = claims.subject();
        let claim = self.config.groups_claim.as_str();
        let mut groups = claims.additional_claims().groups(claim);
        let mut called = name([
            claims.preferred_username().map(|name| name.as_str()),
            claims.email().map(|email| email.as_str()),
        ]);
        if (groups.is_none() || called.is_none()) && metadata.userinfo_endpoint().is_some() {
            let more = self.userinfo(metadata, access_token, subject).await?;
            groups = groups.or_else(|| more.additional_claims().groups(claim));
            called = called.or_else(|| {
                name([
                    more.preferred_username().map(|name| name.as_str()),
                    more.email().map(|email| email.as_str()),
                ])
            });
        }
        let subject = shown(subject);
        let called = called.unwrap_or_else(|| subject.clone());
        match self.config.groups.grant(&groups.unwrap_or_default()) {
            Ok((role, tenant)) => Ok(Person { name: called, subject, role, tenant }),
            Err(why) => Err(OidcError::NoAccess { name: called, why }),
        }
    }

    async fn userinfo(
        &self,
        metadata: &CoreProviderMetadata,
        access_token: &AccessToken,
        subject: &SubjectIdentifier,
    ) -> Result<UserInfoClaims<Claims, CoreGenderClaim>, OidcError> {
        let client = self.client(metadata, None);
        // Of somebody else it is refused.
        let request = client.user_info(access_token.clone(), Some(subject.clone()));
        let request = request.map_err(|error| self.is_away(words(&error)))?;
        request
            .request_async(&self.provider.asker)
            .await
            .map_err(|error| OidcError::Untrusted(format!("userinfo: {}", words(&error))))
    }

    fn client(&self, metadata: &CoreProviderMetadata, secret: Option<ClientSecret>) -> OidcClient {
        let id = ClientId::new(self.config.client_id.clone());
        let by_body = metadata.token_endpoint_auth_methods_supported().is_some_and(|methods| {
            methods.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
        });
        OidcClient::from_provider_metadata(metadata.clone(), id, secret)
            .set_redirect_uri(self.redirect.clone())
            .set_auth_type(if by_body { AuthType::RequestBody } else { AuthType::BasicAuth })
    }

    /// The daemon's secret at the provider, as its file has it now.
    fn secret(&self) -> Result<Option<ClientSecret>, OidcError> {
        self.config.client_secret_file.as_deref().map(read_secret).transpose()
    }

    fn is_away(&self, reason: String) -> OidcError {
        OidcError::Away { issuer: self.issuer_host(), reason }
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, pending::Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the provider signs with, without what is signed with the client's own secret, or not at all.
fn asymmetric(metadata: &CoreProviderMetadata) -> Vec<CoreJwsSigningAlgorithm> {
    use CoreJwsSigningAlgorithm::{HmacSha256, HmacSha384, HmacSha512, None};
    let all = metadata.id_token_signing_alg_values_supported().iter();
    all.filter(|one| ![HmacSha256, HmacSha384, HmacSha512, None].contains(one)).cloned().collect()
}

fn read_secret(file: &Path) -> Result<ClientSecret, OidcError> {
    let said = |why: &str| OidcError::Secret(format!("({}): {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| said(&error.to_string()))?;
    let secret = text.trim();
    if secret.is_empty() || secret.lines().count() > 1 {
        return Err(said("expected one line with the secret that the provider gave for this client"));
    }
    Ok(ClientSecret::new(secret.to_owned()))
}

/// 256 random bits as text, with their hash.
fn random() -> Result<Secret, OidcError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| OidcError::Random(error.to_string()))?;
    Ok(Secret::session(random))
}

type SignedToken =
    IdToken<Claims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

type TokenAnswer = StandardTokenResponse<
    IdTokenFields<
        Claims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

/// The crate's client, with claims of any name.
type OidcClient = Client<
    Claims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    TokenAnswer,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// How often a provider that was never there is asked.
const GREET: Duration = Duration::from_secs(5);
