//! Who may do what: tokens, sessions of browsers, and the trail of who did what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// Characters of a token's name.
pub const TOKEN_NAME_CHARS_MAX: usize = 100;
/// Longest life of a token that has an end, in seconds: ten years.
pub const TOKEN_LIFE_S_MAX: u64 = 10 * 365 * 24 * 3600;

/// What somebody may do.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Send batches, as agents do, and nothing else.
    Ingest,
    /// See everything.
    Read,
    /// See everything, set levels, import files and send batches, acknowledge and silence incidents.
    Operate,
    /// Everything: also make and revoke tokens, and read the audit trail.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Read, Self::Operate, Self::Admin];

    /// Its name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// Why a text is not a [`Role`].
#[derive(Debug, thiserror::Error)]
#[error("no role {0:?}; there are ingest, read, operate and admin")]
pub struct UnknownRole(String);

impl std::str::FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let known = Self::ALL.into_iter().find(|role| role.label() == text);
        known.ok_or_else(|| UnknownRole(text.chars().take(TOKEN_NAME_CHARS_MAX).collect()))
    }
}

/// A token, without its secret, which only its owner has.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Token {
    /// Sixteen hexadecimal digits; they stand in the token too.
    pub id: String,
    /// What it is for, in the words of who made it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Tenant whose jobs and hosts it is for. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tenant: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// When it ends by itself. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked. Absent: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub revoked_at: Option<Timestamp>,
    /// Why the database does not know yet that it is revoked. That is in force on this daemon now and is written as soon as it
    /// can be; a daemon that restarts before lets the token in again. Absent: the database knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unwritten: Option<String>,
    /// When it was last used, to the minute or so. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_used_at: Option<Timestamp>,
}

/// A token that is to be made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenWish {
    /// What it is for.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Tenant whose jobs and hosts it is for. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,32}$", nullable = false)]
    pub tenant: Option<String>,
    /// Seconds until it ends by itself. Absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000, nullable = false)]
    pub expires_in_s: Option<u64>,
}

/// A token that was made, with its secret: this once.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct NewToken {
    /// What to send as `Authorization: Bearer ...`. The daemon keeps only a hash of it.
    pub secret: String,
    /// What is known of it from now on.
    pub token: Token,
}

/// How a browser signs in.
#[derive(Clone, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// A token of the role read, operate or admin.
    pub token: String,
}

/// How the daemon knows who asks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// It does not: nothing is needed here.
    Nothing,
    /// By a token that came with the request.
    Token,
    /// By the cookie of somebody who signed in.
    Session,
    /// By a proxy that the daemon was told to trust.
    Proxy,
}

/// Who asks.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Session {
    /// Name of the token, or of the person as the proxy says it. Empty where nothing is needed.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Tenant whose jobs and hosts they see. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tenant: Option<String>,
    /// How the daemon knows.
    pub known_by: KnownBy,
    /// When a session ends, however much it is used. Absent: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub ends_at: Option<Timestamp>,
}

/// How a browser signs in, besides with a token.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SignInWays {
    /// At an OpenID provider. Absent: this daemon knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub oidc: Option<OidcWay>,
}

/// Signing in at an OpenID provider.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct OidcWay {
    /// Host of the provider, as people know it.
    pub issuer_host: String,
    /// Address that begins it; the page's place goes along as `return`.
    pub address: String,
    /// Why the provider could not be asked the last time. Absent: it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub away: Option<String>,
}

/// Something that somebody did, or was refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct AuditEntry {
    /// Its number; later ones are larger.
    pub id: u64,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who: the name of a token, of a person as a proxy says it, or of a user on the daemon's machine. Empty: not known.
    pub who: String,
    /// Id of the token that it was done with, also by a session that was begun with it. Empty: none, or not known.
    #[serde(default)]
    #[schema(required = true)]
    pub token: String,
    /// Tenant of who did it. Empty: none, or not known.
    #[serde(default)]
    #[schema(required = true)]
    pub tenant: String,
    /// What they may do. Empty: not known.
    pub role: String,
    /// Address that it came from; `local` for commands on the daemon's machine that write to its database.
    pub address: String,
    /// What: `sign_in`, `sign_out`, `token_refused`, `token_create`, `token_revoke`, `level`, `import`,
    /// `acknowledge`, `unacknowledge`, `silence`, `unsilence` or `note`.
    pub action: String,
    /// To what: the path of the request below `/api/v1/`.
    pub subject: String,
    /// More of it, e.g. the level, or why it was refused.
    pub detail: String,
    /// Status that was answered; from 400 on it was refused, or failed.
    pub status: u16,
}
