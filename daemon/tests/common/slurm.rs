//! What all clusters of Slurm have that tests start on one machine.

/// What they are made of, and where it comes from.
pub const PROGRAMS: [&str; 6] = ["munged", "slurmctld", "slurmd", "sbatch", "salloc", "srun"];
pub const PACKAGES: &str = "munge slurmctld slurmd slurm-client";

/// For a small cluster on a machine without cgroups of its own, where nothing waits longer than it must.
pub const SETTINGS: &str = "\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
ReturnToService=2
SlurmdTimeout=60
KillWait=1
MinJobAge=300
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
SlurmctldDebug=info
SlurmdDebug=info
";
