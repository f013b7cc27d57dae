//! What a cluster of a test's own is made of: its folder, its programs, its settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ringscope_daemon::embedded::{self, Library};

use crate::cluster::NODES;
use crate::common::free_port;
use crate::common::slurm::SETTINGS;

/// What every node says it has; more than this machine, so that jobs need not wait for each other.
const CPUS: usize = 64;

/// The first process of the namespace. `$1`: the cluster's folder, `$2`: ringscope, `$3`: the folder of segments, `$4`: the port
/// of the daemon; the rest are nodes.
pub(crate) const FIRST: &str = r#"
PATH=$PATH:/usr/sbin
dir=$1 ringscope=$2 segments=$3 port=$4; shift 4
munge=$dir/munge
munged --foreground --force --key-file="$munge/key" --socket="$munge/socket" --pid-file="$munge/pid" \
  --log-file="$dir/log/munged.log" --seed-file="$munge/seed" --num-threads=2 &
while ! [ -S "$munge/socket" ]; do sleep 0.05; done
"$ringscope" serve --listen "127.0.0.1:$port" --data-dir "$dir/data" --agent-dir "$segments" --agent-other-hosts true \
  --agent-hardware-interval 0s >"$dir/log/serve.log" 2>&1 &
slurmctld -D -f "$dir/slurm.conf" >/dev/null 2>&1 &
for node; do slurmd -D -f "$dir/slurm.conf" -N "$node" >/dev/null 2>&1 & done
read -r _
kill -KILL -1
rm -rf "$dir" "$segments"
"#;

/// Builds the program that jobs run.
pub(crate) fn compile(dir: &Path) {
    let engine = embedded::path_of(Library::Engine, &dir.join("libraries")).unwrap();
    let library = engine.parent().unwrap().display().to_string();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine");
    let mut cc = Command::new("cc");
    cc.arg(sources.join("examples/job.c"))
        .arg("-o")
        .arg(dir.join("job"))
        .arg("-I")
        .arg(sources.join("include"));
    cc.args([&format!("-L{library}"), "-lrsccl", &format!("-Wl,-rpath,{library}")]);
    let status = cc.status().unwrap_or_else(|error| panic!("cc: {error}; apt-get install gcc libc6-dev"));
    assert!(status.success(), "cc -lrsccl");
}

/// Writes what Slurm reads.
pub(crate) fn configure(dir: &Path) {
    for folder in ["log", "state", "munge", "scripts", "slurm", "jobs"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    // Ranks of other users meet there too.
    fs::set_permissions(dir.join("jobs"), fs::Permissions::from_mode(0o1777)).unwrap();
    let mut key = [0; 128];
    getrandom::fill(&mut key).unwrap();
    fs::write(dir.join("munge/key"), key).unwrap();
    fs::set_permissions(dir.join("munge/key"), fs::Permissions::from_mode(0o400)).unwrap();
    scripts(dir);
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_str().unwrap().split('.').next().unwrap().to_owned();
    let root = dir.display();
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost={machine}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={root}/munge/socket\nCredType=cred/munge\nStateSaveLocation={root}/state\n\
         SlurmdSpoolDir={root}/spool-%n\nSlurmctldPidFile={root}/ctld.pid\nSlurmdPidFile={root}/slurmd-%n.pid\n\
         SlurmctldLogFile={root}/log/slurmctld.log\nSlurmdLogFile={root}/log/slurmd-%n.log\n",
        free_port()
    );
    text += SETTINGS;
    for script in ["prolog", "task_prolog", "epilog"] {
        let name = script.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>();
        text += &format!("{name}={root}/slurm/{script}.sh\n");
    }
    for node in NODES {
        fs::create_dir(dir.join(format!("spool-{node}"))).unwrap();
        text += &format!(
            "NodeName={node} NodeHostname={machine} NodeAddr=127.0.0.1 Port={} CPUs={CPUS} RealMemory=2000\n",
            free_port()
        );
    }
    text += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
    text += "PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP\n";
    fs::write(dir.join("slurm.conf"), text).unwrap();
}

/// The scripts of `packaging/slurm`, with a file of settings of the cluster's own, and what calls them where they are.
fn scripts(dir: &Path) {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm");
    let put = |script: &str, folder: &str, name: &str| {
        let text = fs::read_to_string(packaged.join(script)).unwrap();
        let text = text.replace("/etc/ringscope/slurm.env", &dir.join("slurm.env").display().to_string());
        let text = text.replace("/usr/share/ringscope/slurm", &dir.join("scripts").display().to_string());
        let path = dir.join(folder).join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    put("drain.sh", "scripts", "drain.sh");
    for script in ["prolog.sh", "task_prolog.sh", "epilog.sh"] {
        put(script, "scripts", script);
        put("call.sh", "slurm", script);
    }
}
