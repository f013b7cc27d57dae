//! `ringscope token` and `ringscope audit`: who may do what, and who did.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{AuditEntry, NewToken, Role, Token, TokenWish};
use ringscope_server::gate::{self, TokenError};
use ringscope_store::{AuditQuery, DatabaseUrl, Store, StoreError};

use crate::client::{ClientError, DaemonArgs};
use crate::config::{self, ServeArgs, ServeConfig};

/// Arguments of `ringscope token`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, on the daemon's machine, as the user that it runs as:
  ringscope token create --database --name ann --role admin
  ringscope token create --database postgres://ringscope@db/ringscope --name ann --role admin

and from anywhere, with a token of the role admin:
  ringscope token create --daemon http://ringscope.cluster:9440 --token-file admin.token --name agents --role ingest > agents.token
  ringscope token list
  ringscope token revoke 3f2a9c1b7d5e8046
  ringscope token revoke 3f2a9c1b7d5e8046 --database    # on the daemon's machine; the id stands before it

--daemon, --token-file and RINGSCOPE_TOKEN are as of `ringscope status`; with --database no daemon is asked. A token is shown once, when it is made. Whoever has it may do what its role allows. A token that is revoked opens
nothing a second later.

Exit status: 0 done, 1 no answer, no such token, or refused, 64 wrong usage")]
pub struct TokenArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token and print it, this once
    Create {
        /// What it is for
        #[arg(long)]
        name: String,
        /// ingest (agents), read (Prometheus, who only looks), operate (who is on call) or admin
        #[arg(long, value_parser = str::parse::<Role>)]
        role: Role,
        /// Tenant whose jobs and hosts it is for: what it sends is theirs, and it sees nobody else's [default: all]
        #[arg(long)]
        tenant: Option<String>,
        /// When it ends by itself, e.g. 12h, 90d [default: never]
        #[arg(long, value_name = "DURATION", value_parser = ringscope_api::words::parse_duration)]
        expires: Option<Duration>,
        #[command(flatten)]
        at: At,
    },
    /// Take tokens that were made elsewhere, e.g. by Helm, into the daemon's database; those that it knows stay as they are
    Adopt {
        /// Folder with a file for each, called ingest, read, operate or admin, as its role: rsc_<16>_<64 hexadecimal digits>
        folder: PathBuf,
        #[command(flatten)]
        at: At,
    },
    /// List all tokens that were made, never their secrets
    List {
        /// Print them as JSON instead
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: At,
    },
    /// Revoke a token, and end the sessions that were begun with it
    Revoke {
        /// Its id, as `ringscope token list` prints it
        id: String,
        #[command(flatten)]
        at: At,
    },
}

/// Whom to ask: a daemon, or its database.
#[derive(Debug, clap::Args)]
struct At {
    /// Use the daemon's database and do not ask it, whether or not it runs [without a URL: SQLite in the usual directory]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "token_file", value_parser = database)]
    database: Option<Database>,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What `--database` names.
#[derive(Clone, Debug)]
enum Database {
    /// SQLite in the usual directory.
    Usual,
    /// This one.
    Named(DatabaseUrl),
}

/// Arguments of `ringscope audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 printed, 1 no answer, or refused, 64 wrong usage")]
pub struct AuditArgs {
    #[command(flatten)]
    at: At,
    /// Entries at most, the newest
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,
    /// Print them as JSON instead
    #[arg(long)]
    json: bool,
}

/// Why nothing became of it.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// What names the database.
    #[error("--database: {0}")]
    Database(String),
    /// There is no such file. To make it would answer for a database that no daemon has.
    #[error(
        "there is no database at {0}: give --database the one that the daemon uses (its setting database_url), or leave \
         --database out and ask the daemon"
    )]
    NoFile(String),
    /// A token's file.
    #[error("cannot read {file}: {source}", file = file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not the one that the database knows by that id.
    #[error("{file}: the database has another token of the id {id}; make one with another id", file = file.display())]
    Other {
        /// The file.
        file: PathBuf,
        /// The id.
        id: String,
    },
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Does what the arguments say.
///
/// # Errors
/// [`TokensError`].
pub async fn token(args: &TokenArgs, out: &mut impl Write) -> Result<(), TokensError> {
    match &args.what {
        What::Create { name, role, tenant, expires, at } => {
            let expires_in_s = expires.map(|expires| expires.as_secs());
            let made = create(
                at,
                &TokenWish { name: name.clone(), role: *role, tenant: tenant.clone(), expires_in_s },
            )
            .await?;
            writeln!(out, "{}", made.secret)?;
            // Not where the token goes.
            let _ = writeln!(
                io::stderr(),
                "ringscope: token {} ({}) is made, of the role {}{}. It is shown this once: keep it in a file that only \
                 who may use it can read, and give that with --token-file",
                made.token.id,
                made.token.name,
                made.token.role.label(),
                made.token.expires_at.map_or_else(String::new, |at| format!(", and ends at {at}"))
            );
        }
        What::Adopt { folder, at } => adopt(folder, at, out).await?,
        What::List { json, at } => {
            let tokens = match at.open_existing().await? {
                Some(store) => store.tokens().await?.into_iter().map(|row| row.token).collect(),
                None => at.daemon.client()?.tokens().await?,
            };
            if *json {
                return print_json(&tokens, out);
            }
            if tokens.is_empty() {
                writeln!(out, "There is no token. `ringscope token create --help` says how to make one.")?;
            } else {
                writeln!(out, "{}", list(&tokens, clock::now()))?;
            }
        }
        What::Revoke { id, at } => {
            let token = revoke(at, id).await?;
            match &token.unwritten {
                None => writeln!(out, "token {} ({}) is revoked", token.id, token.name)?,
                Some(why) => writeln!(
                    out,
                    "token {} ({}) is revoked: in force on this daemon now. Not yet written: {why}. It is tried again; until \
                     `ringscope token list` says no more that it is unwritten, a restart of the daemon lets the token in again",
                    token.id, token.name
                )?,
            }
        }
    }
    Ok(())
}

/// Prints who did what.
///
/// # Errors
/// [`TokensError`].
pub async fn audit(args: &AuditArgs, out: &mut impl Write) -> Result<(), TokensError> {
    let entries = match args.at.open_existing().await? {
        Some(store) => store.audit(AuditQuery::newest(args.limit)).await?,
        None => args.at.daemon.client()?.audit(args.limit as usize).await?,
    };
    if args.json {
        return print_json(&entries, out);
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["AT", "WHO", "TOKEN", "TENANT", "ROLE", "FROM", "STATUS", "DID", "TO", "MORE"]);
    for entry in &entries {
        let AuditEntry { at, who, token, tenant, role, address, action, subject, detail, status, .. } = entry;
        table.add_row([
            at.to_string(),
            shown(who),
            or_dash(token),
            or_dash(tenant),
            role.clone(),
            address.clone(),
            status.to_string(),
            action.clone(),
            shown(subject),
            shown(detail),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

impl At {
    /// The database, if that is to be asked.
    fn url(&self) -> Result<Option<DatabaseUrl>, TokensError> {
        match &self.database {
            None => Ok(None),
            Some(Database::Named(url)) => Ok(Some(url.clone())),
            Some(Database::Usual) => {
                let config = ServeConfig::from_args(&ServeArgs::default());
                Ok(Some(config.map_err(|error| TokensError::Database(error.to_string()))?.database_url))
            }
        }
    }

    /// The same, opened. One that is not there is refused.
    async fn open_existing(&self) -> Result<Option<Store>, TokensError> {
        let Some(url) = self.url()? else { return Ok(None) };
        match &url {
            DatabaseUrl::Sqlite(path) if is_missing(path) => {
                Err(TokensError::NoFile(path.display().to_string()))
            }
            _ => Ok(Store::open_beside(&url).await?),
        }
    }
}

/// Whether there is no such file, as far as this user may know.
fn is_missing(path: &Path) -> bool {
    path.try_exists().is_ok_and(|exists| !exists)
}

/// What follows `--database`, checked.
fn database(text: &str) -> Result<Database, String> {
    if text.is_empty() {
        return Ok(Database::Usual);
    }
    if text.len() == TOKEN_ID_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!(
            "that is the id of a token, and what follows --database is taken for its URL. Put the id first: \
             ringscope token revoke {text} --database"
        ));
    }
    match text.parse().map_err(|error| format!("{error}"))? {
        DatabaseUrl::None | DatabaseUrl::SqliteMemory => {
            Err(format!("{text} keeps nothing: give the database that the daemon uses"))
        }
        url => Ok(Database::Named(url)),
    }
}

async fn create(at: &At, wish: &TokenWish) -> Result<NewToken, TokensError> {
    let Some(url) = at.url()? else { return Ok(at.daemon.client()?.create_token(wish).await?) };
    let (made, row) = gate::made(wish, &config::user(), clock::now())?;
    let is_new = matches!(&url, DatabaseUrl::Sqlite(path) if is_missing(path));
    let Some(store) = Store::open_beside(&url).await? else {
        return Err(TokensError::Database(format!("{url} keeps nothing")));
    };
    if is_new {
        let _ = writeln!(
            io::stderr(),
            "ringscope: there was no database at {url}: it is made. A daemon with another one (its setting database_url) does \
             not know this token"
        );
    }
    if !store.add_token(&row).await? {
        return Err(TokenError::Full.into());
    }
    let detail = format!("{} ({}), {}", made.token.name, made.token.id, made.token.role.label());
    store.add_audit(&done("token_create", "tokens", detail)).await?;
    store.close().await;
    Ok(made)
}

/// Each file of the folder that is called as a role, in the order of roles.
async fn adopt(folder: &Path, at: &At, out: &mut impl Write) -> Result<(), TokensError> {
    let Some(url) = at.url()? else { return Err(TokensError::Database(ADOPT_NEEDS.to_owned())) };
    let Some(store) = Store::open_beside(&url).await? else {
        return Err(TokensError::Database(format!("{url} keeps nothing")));
    };
    let known = store.tokens().await?;
    for role in [Role::Ingest, Role::Read, Role::Operate, Role::Admin] {
        let file = folder.join(role.label());
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(TokensError::File { file, source }),
        };
        let name = format!("{} from {}", role.label(), folder.display());
        let row = gate::adopted(text.trim(), &name, role, &config::user(), clock::now())?;
        let (id, label) = (row.token.id.clone(), role.label());
        match known.iter().find(|other| other.token.id == id) {
            Some(other) if other.hash != row.hash => return Err(TokensError::Other { file, id }),
            Some(other) => {
                let state =
                    if other.token.revoked_at.is_some() { "is known, and revoked" } else { "is known" };
                writeln!(out, "token {id} ({label}) {state}")?;
                continue;
            }
            None => {}
        }
        if !store.add_token(&row).await? {
            return Err(TokenError::Full.into());
        }
        store.add_audit(&done("token_create", "tokens", format!("{name} ({id}), {label}"))).await?;
        writeln!(out, "token {id} ({label}) is taken")?;
    }
    store.close().await;
    Ok(())
}

async fn revoke(at: &At, id: &str) -> Result<Token, TokensError> {
    let Some(store) = at.open_existing().await? else {
        return Ok(at.daemon.client()?.revoke_token(id).await?);
    };
    store.revoke_token(id, clock::now()).await?;
    let found = store.tokens().await?.into_iter().find(|row| row.token.id == id);
    let token = found.map(|row| row.token).ok_or_else(|| TokenError::Unknown(id.to_owned()))?;
    let detail = format!("{} ({}), {}", token.name, token.id, token.role.label());
    store.add_audit(&done("token_revoke", &format!("tokens/{id}"), detail)).await?;
    store.close().await;
    Ok(token)
}

/// What somebody on the daemon's machine did.
fn done(action: &str, subject: &str, detail: String) -> AuditEntry {
    AuditEntry {
        id: 0,
        at: clock::now(),
        who: config::user(),
        token: String::new(),
        tenant: String::new(),
        role: String::new(),
        address: "local".to_owned(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        detail,
        status: 200,
    }
}

fn list(tokens: &[Token], now: Timestamp) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["ID", "ROLE", "TENANT", "STATE", "MADE", "BY", "LAST USED", "NAME"]);
    for token in tokens {
        let state = match (token.revoked_at, token.expires_at) {
            (Some(at), _) if token.unwritten.is_some() => format!("revoked {at}, unwritten"),
            (Some(at), _) => format!("revoked {at}"),
            (None, Some(at)) if at <= now => format!("ended {at}"),
            (None, Some(at)) => format!("until {at}"),
            (None, None) => "holds".to_owned(),
        };
        table.add_row([
            token.id.clone(),
            token.role.label().to_owned(),
            token.tenant.clone().unwrap_or_else(|| "all".to_owned()),
            state,
            token.created_at.to_string(),
            shown(&token.created_by),
            token.last_used_at.map_or_else(|| "never".to_owned(), |at| at.to_string()),
            shown(&token.name),
        ]);
    }
    table
}

/// A cell that is not empty, so that columns can be told apart.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { shown(text) }
}

/// Without what a terminal would obey.
fn shown(text: &str) -> String {
    text.chars().map(|c| if ringscope_api::unseen::is_odd(c) { '\u{fffd}' } else { c }).collect()
}

fn print_json<T: serde::Serialize>(value: &T, out: &mut impl Write) -> Result<(), TokensError> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Secrets go to the database alone: a daemon that took one would have to be sent it.
const ADOPT_NEEDS: &str = "tokens are taken into the daemon's database: give it with --database";
/// Of a token's id, which is hexadecimal.
const TOKEN_ID_CHARS: usize = 16;
