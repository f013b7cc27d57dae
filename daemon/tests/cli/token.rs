//! `ringscope token`, and commands that bring one.

use std::fs;

use prost::Message as _;
use ringscope_api::Role;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, closed, config, sqlite, tokens};
use crate::common::{free_port, scratch, until};
use crate::{check, end, ringscope};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_is_made_in_the_database_and_the_others_by_the_daemon() {
    let dir = scratch("token");
    let database = sqlite(&dir);
    let first = ["token", "create", "--database", &database, "--name", "ann", "--role", "admin"];
    let (code, admin, told) = end(&mut ringscope(&first));
    assert_eq!(code, Some(0), "{told}");
    let admin = admin.trim_end();
    assert!(admin.starts_with("rsc_") && admin.len() == 85 && told.contains("shown this once"), "{told}");
    assert!(!told.contains(admin), "the secret goes to stdout alone");
    let file = dir.join("admin.token");
    fs::write(&file, format!("{admin}\n")).unwrap();
    let file = file.to_str().unwrap();
    let daemon = Daemon::start(config(&database)).await;
    daemon.until_ready().await;
    check(&["status", "--daemon", &daemon.url], 1, &["wants to know who asks", "--token-file"]);
    let (code, out, words) = end(&mut ringscope(&["status", "--daemon", &daemon.url, "--token-file", file]));
    assert_eq!(code, Some(0), "{out}{words}");
    let by_environment = |name: &str, value: &str| {
        let mut command = ringscope(&["status", "--daemon", &daemon.url]);
        end(command.env(name, value)).0
    };
    assert_eq!(by_environment("RINGSCOPE_TOKEN", admin), Some(0));
    assert_eq!(by_environment("RINGSCOPE_TOKEN_FILE", file), Some(0));
    assert_eq!(by_environment("RINGSCOPE_TOKEN", "rsc_wrong"), Some(1));
    // This machine, but not by its name.
    let elsewhere = daemon.url.replace("127.0.0.1", "0.0.0.0");
    let (code, _, words) = end(&mut ringscope(&["status", "--daemon", &elsewhere, "--token-file", file]));
    assert!(code == Some(0) && words.contains("by http: whoever sees the network"), "{words}");
    let (_, _, words) = end(&mut ringscope(&["status", "--daemon", &daemon.url, "--token-file", file]));
    assert_eq!(words, "");
    check(&["status", "--daemon", &daemon.url, "--token-file", "/nowhere"], 1, &["token file /nowhere"]);
    let at = |args: &[&str]| {
        let daemon = ["--daemon", &daemon.url, "--token-file", file];
        end(&mut ringscope(&[args, &daemon[..]].concat()))
    };
    let (code, reader, words) =
        at(&["token", "create", "--name", "grafana", "--role", "read", "--expires", "90d"]);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("of the role read, and ends at"), "{words}");
    let reader = reader.trim_end();
    let (_, list, _) = at(&["token", "list"]);
    assert!(list.contains("grafana") && list.contains("ann") && list.contains("holds"), "{list}");
    assert!(!list.contains(&reader[22..]) && !list.contains(&admin[22..]), "{list}");
    assert_eq!(by_environment("RINGSCOPE_TOKEN", reader), Some(0));
    let id = reader.split('_').nth(1).unwrap();
    let (code, words, _) = end(&mut ringscope(&["token", "revoke", "--database", &database, id]));
    assert!(code == Some(0) && words.contains("is revoked"), "{words}");
    until("revoked", async || by_environment("RINGSCOPE_TOKEN", reader) == Some(1)).await;
    let (code, trail, words) = at(&["audit"]);
    assert_eq!(code, Some(0), "{words}");
    for part in ["token_create", "token_revoke", "local", "127.0.0.1", "grafana"] {
        assert!(trail.contains(part), "{part} in {trail}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_token_speaks_by_its_name() {
    let dir = scratch("token-speaks");
    let url = sqlite(&dir);
    let [operate] = tokens(&url, [Role::Operate]).await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    for host in 0..2 {
        let batch = SMALL.batch(host, 1, 3, START_NS).encode_to_vec();
        let sent = daemon.client.post(format!("{}/api/v1/ingest", daemon.url)).bearer_auth(&operate);
        let sent = sent.header("content-type", "application/x-protobuf").body(batch).send().await.unwrap();
        assert_eq!(sent.status(), 200);
    }
    let run = |args: &[&str]| {
        let mut command = ringscope(args);
        let (code, out, words) =
            end(command.args(["--daemon", &daemon.url]).env("RINGSCOPE_TOKEN", &operate).env("USER", "root"));
        assert_eq!(code, Some(0), "{words}");
        out
    };
    let list = run(&["incidents"]);
    let id = list.split_whitespace().next().unwrap();
    let said = run(&["incident", id, "--acknowledge"]);
    assert!(said.contains("the operate looks after it\n"), "{said}");
    let said = run(&["incident", id, "--note", "The cable is ordered.", "--by", "ann"]);
    assert!(said.contains("the operate (for ann): The cable is ordered."), "{said}");
    daemon.stop().await;
}

#[test]
fn wrong_usage_says_what_is_right() {
    check(
        &["token", "create", "--name", "x", "--role", "root"],
        64,
        &["root", "ingest, read, operate and admin"],
    );
    check(&["token", "create", "--role", "read"], 64, &["--name"]);
    check(&["token", "list", "--database", "none"], 64, &["keeps nothing"]);
    check(&["token", "list", "--database", "mysql://x"], 64, &["--database", "sqlite:PATH"]);
    let swallowed = ["token", "revoke", "--database", "3f2a9c1b7d5e8046"];
    check(&swallowed, 64, &["the id of a token", "ringscope token revoke 3f2a9c1b7d5e8046 --database"]);
    check(&["token", "revoke", "--database", "sqlite:x"], 64, &["not provided", "<ID>"]);
    let both = ["token", "list", "--database", "sqlite:x", "--token-file", "x"];
    check(&both, 64, &["cannot be used with"]);
    let url = format!("http://127.0.0.1:{}", free_port());
    check(&["token", "list", "--daemon", &url], 1, &["Is `ringscope serve` running"]);
    check(
        &["serve", "--listen", "0.0.0.0:0", "--database-url", "none"],
        1,
        &["--insecure-open", "--database-url"],
    );
    check(&["serve", "--trusted-proxy", "0.0.0.0/0"], 64, &["--trusted-proxy", "everybody"]);
    check(&["serve", "--trusted-proxy", "10.0.0.1"], 64, &["--proxy-role"]);
}

#[test]
fn only_making_a_token_makes_a_database() {
    let dir = scratch("token-no-file");
    let path = dir.join("mistyped.db");
    let database = format!("sqlite:{}", path.display());
    let missing = format!("there is no database at {}", path.display());
    check(&["token", "list", "--database", &database], 1, &[&missing, "database_url"]);
    check(&["token", "revoke", "3f2a9c1b7d5e8046", "--database", &database], 1, &[&missing]);
    check(&["audit", "--database", &database], 1, &[&missing]);
    assert!(!path.exists(), "asking leaves no file");
    let create = ["token", "create", "--database", &database, "--name", "ann", "--role", "admin"];
    let (code, first, told) = end(&mut ringscope(&create));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&format!("there was no database at {database}: it is made")), "{told}");
    let (code, _, told) = end(&mut ringscope(&create));
    assert!(code == Some(0) && !told.contains("it is made."), "{told}");
    let id = first.split('_').nth(1).unwrap();
    let (code, words, told) = end(&mut ringscope(&["token", "revoke", id, "--database", &database]));
    assert!(code == Some(0) && words.contains("is revoked"), "{words}{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_were_made_elsewhere_are_taken_once() {
    let dir = scratch("token-adopt");
    let database = sqlite(&dir);
    let folder = dir.join("tokens");
    fs::create_dir(&folder).unwrap();
    let token = |digit: &str| format!("rsc_{}_{}", digit.repeat(16), digit.repeat(64));
    let (read, admin) = (token("a"), token("b"));
    fs::write(folder.join("read"), format!("{read}\n")).unwrap();
    fs::write(folder.join("admin"), &admin).unwrap();
    fs::write(folder.join("..data"), "what Kubernetes leaves beside them").unwrap();
    let folder_text = folder.to_str().unwrap();
    let adopt = || end(&mut ringscope(&["token", "adopt", folder_text, "--database", &database]));
    let (code, out, words) = adopt();
    assert!(code == Some(0) && out.matches("is taken").count() == 2, "{out}{words}");
    assert!(!format!("{out}{words}").contains(&read[22..]), "{out}{words}");
    let (code, out, _) = adopt();
    assert!(code == Some(0) && out.matches("is known").count() == 2, "{out}");

    let daemon = Daemon::start(closed(&database)).await;
    daemon.until_ready().await;
    let status =
        |token: &str| end(ringscope(&["status", "--daemon", &daemon.url]).env("RINGSCOPE_TOKEN", token)).0;
    assert_eq!((status(&read), status(&admin), status(&token("c"))), (Some(0), Some(0), Some(1)));
    daemon.stop().await;

    // One that was revoked stays so, whatever the folder says.
    let (code, _, words) =
        end(&mut ringscope(&["token", "revoke", &"a".repeat(16), "--database", &database]));
    assert_eq!(code, Some(0), "{words}");
    assert!(adopt().1.contains("is known, and revoked"));
    fs::write(folder.join("read"), format!("rsc_{}_{}", "a".repeat(16), "d".repeat(64))).unwrap();
    let (code, _, words) = adopt();
    assert!(code == Some(1) && words.contains("another token of the id"), "{words}");
    fs::write(folder.join("read"), "secret").unwrap();
    let (code, _, words) = adopt();
    assert!(
        code == Some(1) && words.contains("of the role read is none") && !words.contains("secret"),
        "{words}"
    );
    check(&["token", "adopt", folder_text], 1, &["give it with --database"]);
}
