//! What goes wrong with signing in, in words for who reads it in a browser.

use ringscope_access::NoAccess;
use ringscope_api::unseen::is_odd;

/// Why somebody did not sign in.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or not as a provider does.
    #[error("{issuer} cannot be asked: {reason}. Try again in a moment; a token goes on to work meanwhile")]
    Away {
        /// The provider.
        issuer: String,
        /// What happened.
        reason: String,
    },
    /// The browser brings no cookie of a sign-in that was begun.
    #[error(
        "this browser has begun no sign-in of late: begin again, and finish in the same browser within ten minutes. If it \
         happens again, see that the page is open at the address of --public-url and that cookies are allowed"
    )]
    NotBegun,
    /// The answer is for another sign-in.
    #[error(
        "this answer belongs to another sign-in than the one that this browser has begun last: begin again"
    )]
    OtherState,
    /// The answer has no code.
    #[error("the provider's answer has no code: begin again")]
    NoCode,
    /// The provider has refused the person.
    #[error("the provider has not signed you in: {0}")]
    Refused(String),
    /// The provider takes the code no more, or never did.
    #[error("the provider did not take the code of this sign-in: {0}. Begin again")]
    Code(String),
    /// What the provider says of the person cannot be trusted.
    #[error(
        "what the provider says of you cannot be trusted: {0}. Whoever runs the daemon should look at its log"
    )]
    Untrusted(String),
    /// Their groups do not let them in.
    #[error("{name}: {why}")]
    NoAccess {
        /// Who they are.
        name: String,
        /// And why not.
        why: NoAccess,
    },
    /// The secret cannot be read.
    #[error("the file of --oidc-client-secret-file {0}")]
    Secret(String),
    /// The system has none to give.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

/// An error and its causes, in one line that does nothing to a terminal.
pub(super) fn words(error: &dyn std::error::Error) -> String {
    let mut all = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_words = cause.to_string();
        if !all.contains(&cause_words) {
            all = format!("{all}: {cause_words}");
        }
        next = cause.source();
    }
    shown(&all)
}

/// What somebody else wrote, as it may be shown.
pub(super) fn shown(text: &str) -> String {
    let seen = text.chars().map(|c| if is_odd(c) { ' ' } else { c });
    seen.take(SHOWN_CHARS_MAX).collect::<String>().trim().to_owned()
}

/// Of what a provider writes: more is a page of HTML.
const SHOWN_CHARS_MAX: usize = 300;
