//! Hosts and their slots, out of a list, a file, or what Slurm says. Knows no machine.

/// A host, and how many workers it takes; none: as many as come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// Its name or address.
    pub(super) host: String,
    /// How many workers.
    pub(super) slots: Option<u32>,
}

/// Hosts of one job at most.
pub(super) const MAX_HOSTS: usize = 16_384;

/// `a:4`, `b`, `[fd00::1]:4`. A host that is named twice has the slots of both.
pub(super) fn of_list(words: &[String]) -> Result<Vec<Slots>, String> {
    let words = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
    joined(words.map(one).collect::<Result<_, _>>()?)
}

/// A host a line: `a`, `a:4`, `a slots=4`. What is behind # says nothing.
pub(super) fn of_file(text: &str) -> Result<Vec<Slots>, String> {
    let lines =
        text.lines().enumerate().map(|(number, line)| (number, line.split('#').next().unwrap_or_default()));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let hosts: Vec<Slots> = lines
        .map(|(number, line)| of_line(line).map_err(|error| format!("line {}: {error}", number + 1)))
        .collect::<Result<_, _>>()?;
    if hosts.is_empty() { Err("there is no host in it".to_owned()) } else { joined(hosts) }
}

fn of_line(line: &str) -> Result<Slots, String> {
    let mut words = line.split_whitespace();
    let mut host = one(words.next().unwrap_or_default())?;
    for word in words {
        let slots = word.strip_prefix("slots=").ok_or_else(|| format!("{word:?} is not slots=N"))?;
        host.slots = Some(number(slots)?);
    }
    Ok(host)
}

fn one(word: &str) -> Result<Slots, String> {
    let (host, slots) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or_default())),
        // Several colons are an IPv6 address.
        None => match word.split_once(':') {
            Some((host, slots)) if !slots.contains(':') => (host, Some(slots)),
            _ => (word, None),
        },
    };
    // What begins so would be an option to ssh.
    let is_name = !host.is_empty()
        && !host.starts_with('-')
        && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_name {
        return Err(format!("{word:?} is no host: expected NAME or NAME:SLOTS"));
    }
    Ok(Slots { host: host.to_owned(), slots: slots.map(number).transpose()? })
}

fn number(text: &str) -> Result<u32, String> {
    let slots = text.parse().ok().filter(|slots| *slots > 0);
    slots.ok_or_else(|| format!("{text:?} is no number of slots: expected 1 or more, e.g. a:4"))
}

fn joined(hosts: Vec<Slots>) -> Result<Vec<Slots>, String> {
    let mut joined: Vec<Slots> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for host in hosts {
        match places.get(&host.host).and_then(|place: &usize| joined.get_mut(*place)) {
            Some(Slots { slots, .. }) => *slots = slots.zip(host.slots).map(|(a, b)| a.saturating_add(b)),
            None => {
                places.insert(host.host.clone(), joined.len());
                joined.push(host);
            }
        }
    }
    if joined.len() > MAX_HOSTS {
        return Err(format!("{} hosts, and a job has {MAX_HOSTS} at most", joined.len()));
    }
    Ok(joined)
}

/// `SLURM_TASKS_PER_NODE`: `4(x2),3`.
pub(super) fn of_slurm(nodes: &[String], tasks: Option<&str>) -> Result<Vec<Slots>, String> {
    let mut slots = Vec::new();
    for group in tasks.unwrap_or("1").split(',') {
        let wrong = || {
            format!(
                "SLURM_TASKS_PER_NODE is {:?}, which is not as Slurm writes it, e.g. 4(x2),3",
                tasks.unwrap_or_default()
            )
        };
        let (tasks, count) = match group.split_once("(x") {
            Some((tasks, count)) => (tasks, count.strip_suffix(')').and_then(|count| count.parse().ok())),
            None => (group, Some(1_usize)),
        };
        let tasks: u32 = tasks.trim().parse().map_err(|_| wrong())?;
        let count = count.filter(|count| *count <= MAX_HOSTS).ok_or_else(wrong)?;
        slots.extend(std::iter::repeat_n(tasks, count));
        if slots.len() > MAX_HOSTS {
            return Err(wrong());
        }
    }
    // Inside a smaller step the variable may tell of more nodes than there are; where it tells of fewer, each takes one.
    let slots = slots.into_iter().map(Some).chain(std::iter::repeat(Some(1)));
    Ok(nodes.iter().cloned().zip(slots).map(|(host, slots)| Slots { host, slots }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hosts: Result<Vec<Slots>, String>) -> String {
        let one =
            |Slots { host, slots }: Slots| host + &slots.map_or(String::new(), |slots| format!("={slots}"));
        match hosts {
            Ok(hosts) => hosts.into_iter().map(one).collect::<Vec<_>>().join(" "),
            Err(error) => format!("! {error}"),
        }
    }

    fn list(text: &str) -> String {
        shown(of_list(&text.split(',').map(str::to_owned).collect::<Vec<_>>()))
    }

    #[test]
    fn hosts_of_a_list() {
        assert_eq!(list("a:4,b:4"), "a=4 b=4");
        assert_eq!(list("a,b"), "a b");
        assert_eq!(list("a:2,b,a:2"), "a=4 b");
        assert_eq!(list("fd00::1,[fd00::2]:3,me@c:1"), "fd00::1 fd00::2=3 me@c=1");
        for wrong in ["a:0", "a:x", ":4", "-oProxyCommand=x", "a b:1", "[::1]x"] {
            assert!(list(wrong).starts_with('!'), "{wrong}: {}", list(wrong));
        }
    }

    #[test]
    fn hosts_of_a_file() {
        assert_eq!(shown(of_file("# mine\na slots=4\n\nb:2 # two\nc\n")), "a=4 b=2 c");
        assert_eq!(shown(of_file("\n#\n")), "! there is no host in it");
        assert!(shown(of_file("a\nb slot=4")).contains("line 2"));
    }

    #[test]
    fn hosts_of_an_allocation() {
        let nodes: Vec<String> = ["n1", "n2", "n3"].map(str::to_owned).into();
        assert_eq!(shown(of_slurm(&nodes, Some("4(x2),3"))), "n1=4 n2=4 n3=3");
        assert_eq!(shown(of_slurm(&nodes, Some("2"))), "n1=2 n2=1 n3=1");
        assert_eq!(shown(of_slurm(&nodes[..1], Some("4(x2)"))), "n1=4");
        for wrong in ["4(x", "4(x999999999)", "x", ""] {
            assert!(shown(of_slurm(&nodes, Some(wrong))).starts_with('!'), "{wrong}");
        }
    }
}
