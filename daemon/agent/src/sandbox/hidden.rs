//! Where the kernel hides processes (`hidepid`) it shows them to who may trace them. Who is under Landlock may trace nobody
//! outside, whatever capability he has.

/// Whether processes of others are hidden in this `/proc` from all who may not trace them, and who is in none of these groups.
/// Source: proc(5), `hidepid` and `gid`; proc_pid_mountinfo(5).
pub(super) fn hides_processes(mountinfo: &str, groups: &[u32]) -> bool {
    let options = mountinfo.lines().rev().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let is_proc = place.split(' ').nth(4) == Some("/proc") && kind.starts_with("proc ");
        is_proc.then(|| kind.split(' ').nth(2)).flatten()
    });
    let option = |name: &str| options?.split(',').find_map(|option| option.strip_prefix(name));
    let is_hidden = option("hidepid=").is_some_and(|hidden| !matches!(hidden, "0" | "off"));
    // `hidepid=ptraceable` knows no groups.
    let knows_groups = option("hidepid=").is_some_and(|hidden| !matches!(hidden, "4" | "ptraceable"));
    // Without `gid=` it is root's group.
    let group = option("gid=").map_or(Some(0), |group| group.parse().ok());
    is_hidden && !(knows_groups && group.is_some_and(|group| groups.contains(&group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_hidden_from_who_is_not_of_the_group() {
        let mount = |options: &str| {
            format!(
                "24 30 0:22 / /proc rw,nosuid - proc proc {options}\n25 30 0:23 / /sys rw - sysfs sysfs rw\n"
            )
        };
        for (options, groups, expected) in [
            ("rw", &[100][..], false),
            ("rw,hidepid=0", &[100], false),
            ("rw,hidepid=off", &[100], false),
            ("rw,hidepid=2", &[100], true),
            ("rw,hidepid=invisible,gid=26", &[100], true),
            ("rw,gid=26,hidepid=invisible", &[100, 26], false),
            ("rw,hidepid=1", &[0], false),
            ("rw,hidepid=ptraceable,gid=26", &[26], true),
        ] {
            assert_eq!(hides_processes(&mount(options), groups), expected, "{options} {groups:?}");
        }
        assert!(!hides_processes("", &[100]), "where nothing is known, nothing is hidden");
        // The mount above the other counts.
        let two = mount("rw,hidepid=2") + &mount("rw");
        assert!(!hides_processes(&two, &[100]));
    }
}
