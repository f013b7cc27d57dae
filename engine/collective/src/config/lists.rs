//! `NCCL_ALGO` and `NCCL_PROTO` as NCCL reads them (`parseList` in `src/graph/tuning.cc`, the same from 2.27 to 2.30): a list
//! of names, or, after `^`, of those that are left out; further lists after `;` are each of one function.

const FUNCTIONS: [&str; 5] = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"];
const ALGORITHMS: [&str; 7] = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];

/// What NCCL says of the lists, if it does not understand one.
pub(super) fn mistake(lookup: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let of = |name: &str, known: &[&str]| lookup(name).and_then(|list| of_list(&list, known));
    of("NCCL_PROTO", &PROTOCOLS).or_else(|| of("NCCL_ALGO", &ALGORITHMS))
}

fn of_list(text: &str, known: &[&str]) -> Option<String> {
    tokens(text, ';').find_map(|entry| {
        let mut parts = tokens(entry, ':');
        let (function, names) = match (parts.next()?, parts.next()) {
            (function, Some(names)) => (Some(function), names),
            (names, None) if std::ptr::eq(entry.as_ptr(), text.as_ptr()) => (None, names),
            _ => return Some(format!("All entries except the first must have a prefix: \"{text}\"")),
        };
        if let Some(function) = function.filter(|function| !is_in(&FUNCTIONS, function)) {
            return Some(format!("Unrecognized prefix token \"{function}\" when parsing \"{text}\""));
        }
        let unknown =
            tokens(names.strip_prefix('^').unwrap_or(names), ',').find(|name| !is_in(known, name))?;
        Some(format!("Unrecognized element token \"{unknown}\" when parsing \"{text}\""))
    })
}

/// As `strtok`'s: none is empty.
fn tokens(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).filter(|token| !token.is_empty())
}

fn is_in(known: &[&str], name: &str) -> bool {
    known.iter().any(|one| one.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nccl_understands_is_no_mistake() {
        for list in [
            "ring",
            "Tree,RING,pat",
            "^NVLSTree",
            "ring,collnetdirect;allreduce:tree;broadcast:^ring",
            ";",
            "ring;",
        ] {
            assert_eq!(of_list(list, &ALGORITHMS), None, "{list}");
        }
        assert_eq!(of_list("^LL128;allreduce:LL128", &PROTOCOLS), None);
    }

    #[test]
    fn nccl_says_what_it_does_not_understand() {
        for (list, what) in [
            ("foo", "Unrecognized element token \"foo\" when parsing \"foo\""),
            ("^ring,foo", "Unrecognized element token \"foo\" when parsing \"^ring,foo\""),
            ("ring;tree", "All entries except the first must have a prefix: \"ring;tree\""),
            ("ring;ring", "All entries except the first must have a prefix: \"ring;ring\""),
            ("ring;sum:tree", "Unrecognized prefix token \"sum\" when parsing \"ring;sum:tree\""),
        ] {
            assert_eq!(of_list(list, &ALGORITHMS).as_deref(), Some(what));
        }
        let both = |name: &str| Some(if name == "NCCL_PROTO" { "LL1" } else { "foo" }.to_owned());
        assert!(mistake(&both).unwrap().contains("\"LL1\""), "of the protocols first");
    }
}
