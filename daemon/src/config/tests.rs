use std::io::Write as _;

use super::*;

#[test]
fn one_of_several_daemons_shares_a_postgres_and_says_where_it_is_reached() {
    let load = |settings: &[(&'static str, &str)]| {
        let settings: BTreeMap<_, _> =
            settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        ServeConfig::load(&ServeArgs::default(), &|name| settings.get(name).cloned())
    };
    let postgres = ("RINGSCOPE_DATABASE_URL", "postgres://u@db/ring");
    let url = |url| ("RINGSCOPE_CLUSTER_URL", url);
    let config = load(&[postgres, url("http://node-1:9440/")]).unwrap();
    assert_eq!((config.cluster_url.as_deref(), config.with_agent), (Some("http://node-1:9440"), false));
    assert!(load(&[postgres]).unwrap().with_agent);
    for (settings, part) in [
        (vec![url("http://node-1:9440")], "share a Postgres"),
        (vec![postgres, url("node-1:9440")], "expected an address like http://node-1:9440"),
        (vec![postgres, url("https://node-1:9440")], "no certificate"),
        (vec![postgres, url("http://node-1:9440"), ("RINGSCOPE_WITH_AGENT", "true")], "ringscope agent"),
        (
            vec![
                postgres,
                url("http://a:1"),
                ("RINGSCOPE_TLS_CERT", "c.pem"),
                ("RINGSCOPE_TLS_KEY", "k.pem"),
            ],
            "begin it with https://",
        ),
    ] {
        let mistakes = load(&settings).unwrap_err().to_string();
        assert!(mistakes.contains(part), "{part:?} in {mistakes}");
    }
}

fn args(text: &[(&str, &str)]) -> ServeArgs {
    let value = |name: &str| text.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    ServeArgs {
        listen: value("listen"),
        database_url: value("database_url"),
        retention: value("retention"),
        body_limit: value("body_limit"),
        with_agent: value("with_agent"),
        look: value("look"),
        config: value("config").map(PathBuf::from),
        ..ServeArgs::default()
    }
}

fn no_environment(_: &str) -> Option<String> {
    None
}

fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("ringscope-config-{}-{name}.toml", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.display().to_string()
}

#[test]
fn defaults_need_no_server() {
    let home = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
    let config = ServeConfig::load(&ServeArgs::default(), &home).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:9440");
    assert_eq!(config.database_url.to_string(), "sqlite:/home/ada/.local/share/ringscope/ringscope.db");
    assert!(config.with_agent && config.look);
}

#[test]
fn command_line_beats_environment_beats_file() {
    let path = file(
        "order",
        "listen = \"1.1.1.1:1\"\nretention = \"3d\"\nbody_limit = 1048576\nwith_agent = false\n",
    );
    let env = |name: &str| match name {
        "RINGSCOPE_LISTEN" => Some("2.2.2.2:2".to_owned()),
        "RINGSCOPE_RETENTION" => Some("2d".to_owned()),
        _ => None,
    };
    let said = args(&[("listen", "3.3.3.3:3"), ("look", "false"), ("config", &path)]);
    let config = ServeConfig::load(&said, &env).unwrap();
    assert!(!config.look);
    assert_eq!(config.listen.to_string(), "3.3.3.3:3");
    assert_eq!(config.retention, Duration::from_secs(2 * 86_400));
    assert_eq!(config.body_limit_bytes, 1 << 20);
    assert!(!config.with_agent);
}

#[test]
fn what_is_fine_is_kept_no_longer_than_all() {
    let load = |all: &'static str, fine: Option<&'static str>| {
        let env = move |name: &str| match name {
            "RINGSCOPE_RETENTION" => Some(all.to_owned()),
            "RINGSCOPE_RAW_RETENTION" => fine.map(str::to_owned),
            _ => None,
        };
        ServeConfig::load(&ServeArgs::default(), &env)
    };
    let day = Duration::from_secs(86_400);
    let config = load("1d", None).unwrap();
    assert_eq!((config.retention, config.raw_retention), (day, day), "the default gives way");
    assert_eq!(load("3d", Some("3d")).unwrap().raw_retention, 3 * day);
    let error = load("1d", Some("2d")).unwrap_err().to_string();
    assert!(error.contains("raw_retention is longer than retention"), "{error}");
}

#[test]
fn all_mistakes_are_named_at_once_and_no_password() {
    let path = file("bad", "sample_interval = \"1 parsec\"\nlissten = 1\ndata_dir = []\n");
    let env = |name: &str| (name == "RINGSCOPE_RETENTION").then(|| "0d".to_owned());
    let bad = args(&[
        ("listen", "here"),
        ("database_url", "mysql://u:s3cret@db/x"),
        ("body_limit", "1KiB"),
        ("with_agent", "maybe"),
        ("config", &path),
    ]);
    let error = ServeConfig::load(&bad, &env).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.mistakes.len(), 8, "{text}");
    for part in [
        "--listen",
        "--database-url",
        "RINGSCOPE_RETENTION",
        "--body-limit",
        "--with-agent",
        "sample_interval",
        "lissten",
        "data_dir",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn the_agents_own_variables_hold_here_too() {
    let load = |args: &ServeArgs, variables: &[(&str, &str)]| {
        let env = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        ServeConfig::load(args, &env).unwrap()
    };
    let none = ServeArgs::default();
    let config = load(&none, &[]);
    assert_eq!(config.agent_dir, PathBuf::from(DEFAULT_DIR));
    assert!(config.agent_look && config.agent_kernel_log);
    let shared = ("RINGSCOPE_DIR", "/run/segments");
    let off = [shared, ("RINGSCOPE_LOOK", "off"), ("RINGSCOPE_KERNEL_LOG", "false")];
    let config = load(&none, &off);
    assert_eq!(config.agent_dir, PathBuf::from("/run/segments"));
    assert!(!config.agent_look && !config.agent_kernel_log);
    let config = load(&none, &[shared, ("RINGSCOPE_AGENT_DIR", "/run/mine")]);
    assert_eq!(config.agent_dir, PathBuf::from("/run/mine"), "its own name says it more exactly");
    let args = ServeArgs { agent_dir: Some("/run/named".into()), ..ServeArgs::default() };
    assert_eq!(load(&args, &[shared]).agent_dir, PathBuf::from("/run/named"));
    assert_eq!(load(&none, &[("RINGSCOPE_DIR", "")]).agent_dir, PathBuf::from(DEFAULT_DIR));
}

#[test]
fn origins_come_from_everywhere_and_are_no_paths() {
    let origins = |args: &ServeArgs, env: &dyn Fn(&str) -> Option<String>| {
        ServeConfig::load(args, env).map(|config| config.cors_origins)
    };
    assert_eq!(origins(&ServeArgs::default(), &no_environment), Ok(Vec::new()));
    let named = vec!["https://one".to_owned(), "http://[::1]:3000".to_owned()];
    let args = ServeArgs { cors_origin: named.clone(), ..ServeArgs::default() };
    assert_eq!(origins(&args, &no_environment), Ok(named.clone()));
    let env =
        |name: &str| (name == "RINGSCOPE_CORS_ORIGINS").then(|| "https://ONE, http://[::1]:3000".to_owned());
    assert_eq!(origins(&ServeArgs::default(), &env), Ok(named.clone()));
    let path = file("origins", "cors_origins = [\"https://one\", \"http://[::1]:3000\"]\n");
    let config = Some(PathBuf::from(path));
    assert_eq!(origins(&ServeArgs { config, ..ServeArgs::default() }, &no_environment), Ok(named));
    for wrong in ["*", "grafana", "https://one/path", "ftp://one", "https://"] {
        let args = ServeArgs { cors_origin: vec![wrong.to_owned()], ..ServeArgs::default() };
        let error = ServeConfig::load(&args, &no_environment).unwrap_err().to_string();
        assert!(error.contains("--cors-origin") && error.contains("https://grafana.example.org"), "{error}");
    }
}

#[test]
fn names_of_the_daemon_come_from_everywhere_and_have_no_port() {
    let hosts = |args: &ServeArgs, env: &dyn Fn(&str) -> Option<String>| {
        ServeConfig::load(args, env).map(|config| config.allowed_hosts)
    };
    assert_eq!(hosts(&ServeArgs::default(), &no_environment), Ok(Vec::new()));
    let named = vec!["ringscope.cluster".to_owned(), "rings_2".to_owned()];
    let args = ServeArgs { allowed_host: named.clone(), ..ServeArgs::default() };
    assert_eq!(hosts(&args, &no_environment), Ok(named.clone()));
    let env =
        |name: &str| (name == "RINGSCOPE_ALLOWED_HOSTS").then(|| "Ringscope.Cluster, rings_2".to_owned());
    assert_eq!(hosts(&ServeArgs::default(), &env), Ok(named.clone()));
    let path = file("hosts", "allowed_hosts = [\"ringscope.cluster\", \"rings_2\"]\n");
    let config = Some(PathBuf::from(path));
    assert_eq!(hosts(&ServeArgs { config, ..ServeArgs::default() }, &no_environment), Ok(named));
    for wrong in ["*", "a:9440", "http://a", "*.cluster", ".cluster", "a/b"] {
        let args = ServeArgs { allowed_host: vec![wrong.to_owned()], ..ServeArgs::default() };
        let error = ServeConfig::load(&args, &no_environment).unwrap_err().to_string();
        assert!(error.contains("--allowed-host") && error.contains("without a port"), "{error}");
    }
}

#[test]
fn targets_come_from_everywhere_and_are_secrets() {
    let shown =
        |config: ServeConfig| config.notify.targets.iter().map(ToString::to_string).collect::<Vec<_>>();
    let path = file(
        "targets",
        "alertmanager = [\"http://a:9093\", \"http://b:9093\"]\nwebhook = \"https://h/s3cret\"\nnotify_severity = \"critical\"\n",
    );
    let from_file = ServeArgs { config: Some(PathBuf::from(path)), ..ServeArgs::default() };
    let config = ServeConfig::load(&from_file, &no_environment).unwrap();
    assert_eq!(config.notify.severity, ringscope_api::Severity::Critical);
    assert_eq!(
        shown(config),
        ["alertmanager http://a:9093", "alertmanager http://b:9093", "webhook https://h/…"]
    );
    let env = |name: &str| match name {
        "RINGSCOPE_ALERTMANAGER" => Some("http://c:9093 http://d:9093".to_owned()),
        "RINGSCOPE_PUBLIC_URL" => Some("https://rs/".to_owned()),
        _ => None,
    };
    let args = ServeArgs { webhook: vec!["http://one/x".into(), "http://two/y".into()], ..from_file };
    let config = ServeConfig::load(&args, &env).unwrap();
    assert_eq!(config.notify.public_url.as_deref(), Some("https://rs"));
    let expected = [
        "alertmanager http://c:9093",
        "alertmanager http://d:9093",
        "webhook http://one/…",
        "webhook http://two/…",
    ];
    assert_eq!(shown(config), expected);
    let args = ServeArgs {
        webhook: vec!["s3cret".into()],
        notify_severity: Some("bad".into()),
        public_url: Some("rs".into()),
        ..ServeArgs::default()
    };
    let error = ServeConfig::load(&args, &no_environment).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.mistakes.len(), 3, "{text}");
    assert!(text.contains("--webhook") && !text.contains("s3cret"), "{text}");
}

#[test]
fn broken_file_is_named() {
    let path = file("broken", "listen = ");
    for config in [path.as_str(), "/nonexistent/ringscope.toml"] {
        let error = ServeConfig::load(&args(&[("config", config)]), &no_environment).unwrap_err();
        assert!(error.to_string().contains(config), "{error}");
    }
}

#[test]
fn durations() {
    let cases = [("250ms", 250), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), ("7d", 604_800_000)];
    for (text, ms) in cases {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
    }
    for text in ["", "5", "s", "-1s", "1y", "99999999999999999d"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}
