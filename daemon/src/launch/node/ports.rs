//! Free ports, held until the processes start that listen there.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

/// Ports that are held.
#[derive(Debug, Default)]
pub(super) struct Held(Vec<TcpListener>);

impl Held {
    /// So many of the range, from a place in it that chance chooses: two jobs that begin at once seldom meet.
    ///
    /// # Errors
    /// There are not so many, in words.
    pub(super) fn find(count: u16, first: u16, last: u16) -> Result<Self, String> {
        let size = u32::from(last.saturating_sub(first)) + 1;
        let mut random = [0; 4];
        // Without chance the search begins at the first.
        let _ = getrandom::fill(&mut random);
        let start = u32::from_ne_bytes(random) % size;
        let ports = (0..size).filter_map(|step| u16::try_from(u32::from(first) + (start + step) % size).ok());
        let held: Vec<TcpListener> = ports.filter_map(listen).take(usize::from(count)).collect();
        if held.len() < usize::from(count) {
            return Err(format!(
                "of the ports {first}-{last} only {} can be listened on, and the job needs {count}: name others with --ports A-B",
                held.len()
            ));
        }
        Ok(Self(held))
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> Vec<u16> {
        self.0.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port())).collect()
    }
}

/// On all addresses, of both kinds where the machine has both.
fn listen(port: u16) -> Option<TcpListener> {
    let of_both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    match of_both {
        Ok(listener) => Some(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_found_again_and_a_full_range_is_said() {
        let one = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
        let port = one.as_ref().unwrap().local_addr().unwrap().port();
        let error = Held::find(1, port, port).unwrap_err();
        assert!(error.contains(&format!("{port}-{port}")) && error.contains("--ports"), "{error}");
        drop(one);
        let held = Held::find(1, port, port).unwrap();
        assert_eq!(held.numbers(), [port]);
    }

    #[test]
    fn a_range_may_end_at_the_last_port_there_is() {
        assert_eq!(Held::find(2, 65_500, 65_535).unwrap().numbers().len(), 2);
    }
}
