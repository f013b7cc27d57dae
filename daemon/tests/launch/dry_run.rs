//! What a dry run says, whole: a user checks by it what would be started.

use crate::{end, launch};

#[test]
fn a_dry_run_tells_hosts_commands_agents_and_variables_and_starts_nothing() {
    let options = ["-n", "3", "--servers", "2", "-H", "localhost:2,b:4", "--job", "mine", "--dry-run"];
    let paths = ["--chdir", "/srv/my job", "--remote-ringscope", "/opt/ringscope", "--ssh", "ssh -p 2222"];
    let more = ["--daemon", "http://u:pw@d:9440", "--level", "steps", "-x", "KEY=hidden", "--restarts", "3"];
    let mut command = launch(&[&options[..], &paths, &more, &["--", "touch", "/no/file", "a b"]].concat());
    let ended = end(command.env_clear().env("NCCL_DEBUG", "WARN").env("HOME", "/root"));
    ended.check(0, &[]);
    assert_eq!(ended.out, WHOLE);
}

const WHOLE: &str = "\
job mine: 3 workers and 2 servers on 2 hosts

 HOST       REACHED BY    SLOTS  RANKS  SERVERS
 localhost  this machine  2      0-1    1
 b          ssh           4      2      0

Each worker is, in '/srv/my job':
  ringscope run --level steps -- touch /no/file 'a b'
Each server is, in the same folder, where ringscope-sumd lies beside ringscope or else in PATH:
  ringscope run --level steps -- ringscope-sumd

Other hosts are reached by:
  ssh -p 2222 -T -o BatchMode=yes -o ConnectTimeout=15 -o ConnectionAttempts=1 -o ControlMaster=no -o ServerAliveInterval=15 -o LogLevel=ERROR -- HOST 'exec /opt/ringscope launch-node --silence-ms 30000 --grace-ms 5000'

Agents: where none runs one is started that sends to http://…@d:9440, and is ended with the job

Each worker gets:
 RANK  WORLD_SIZE  LOCAL_RANK  LOCAL_WORLD_SIZE  NODE_RANK  GROUP_RANK  GROUP_WORLD_SIZE  RSUM_RANK
 0     3           0           2                 0          0           2                 0
 1     3           1           2                 0          0           2                 1
 2     3           0           1                 1          1           2                 2

Each worker and server gets:
  MASTER_ADDR=(localhost as the others see it)
  MASTER_PORT=(picked)
  RSUM_ROOT=(localhost as the others see it):(picked)
  RSUM_SECRET=(made at the start)
  RSUM_WORKERS=3
  RSUM_SERVERS=2
  RINGSCOPE_JOB=mine
  RINGSCOPE_RESTART=0
  TORCHELASTIC_RESTART_COUNT=0
  TORCHELASTIC_MAX_RESTARTS=3
and, as they are set here or by -x (on this machine all that are set here):
  KEY, NCCL_DEBUG
Ports are picked on localhost at the start, free ones of 20000-29999 (--ports); rank 0 listens there. Servers come to RSUM_ROOT, and listen on ports that the system gives them.

Nothing was started, and no host was asked: each is asked at the start whether it has the folder and the command.
";

#[test]
fn a_dry_run_says_what_is_left_out() {
    let ended = end(launch(&["--no-collector", "--dry-run", "--", "true"]).env_clear());
    ended.check(0, &[]);
    for part in [
        "1 worker and 0 servers on 1 host",
        "  true\n",
        "Agents: none is started, for no --daemon is named",
        "MASTER_ADDR=127.0.0.1\n",
        "  nothing\n",
    ] {
        assert!(ended.out.contains(part), "{part} in {ended:#?}");
    }
    let node = ["--node", "0/1", "--meet", "a:1", "--daemon", "http://d:1", "--no-agent"];
    let ended = end(&mut launch(&[&node[..], &["--dry-run", "--", "true"]].concat()));
    ended.check(0, &[]);
    for part in ["Other nodes come by themselves to a:1.", "Agents: none is started, for --no-agent was said"]
    {
        assert!(ended.out.contains(part), "{part} in {ended:#?}");
    }
}
