//! The guests' network: names and addresses.
//!
//! | NIC | address | for |
//! |---|---|---|
//! | `rdma0`, and `rxe0` on it | 10.9.0.N | RDMA alone |
//! | `tcp0` | 10.8.0.N | TCP: bootstrap, control, comparison |
//! | `cmd0` | 10.0.2.15 | commands of this machine |

/// Of `rdma0`: RoCE's largest packet has 4096 bytes of payload, and its headers.
pub(super) const RDMA_MTU: u32 = 4200;
/// The device on `rdma0`.
pub(crate) const DEVICE: &str = "rxe0";
/// A cable between the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// `rdma0`
    Rdma,
    /// `tcp0`
    Tcp,
}

impl Link {
    /// The NIC's name, in both guests.
    pub(crate) fn nic(self) -> &'static str {
        match self {
            Self::Rdma => "rdma0",
            Self::Tcp => "tcp0",
        }
    }

    /// A guest's address on it.
    pub(crate) fn address(self, guest: u8) -> String {
        match self {
            Self::Rdma => format!("10.9.0.{guest}"),
            Self::Tcp => format!("10.8.0.{guest}"),
        }
    }
}

/// Name of a guest, as it calls itself.
pub(super) fn name(guest: u8) -> String {
    format!("g{guest}")
}

/// Of the NIC on cable `a` or `b`, or of `c`, the commands' one. `init.sh` knows them by that.
pub(super) fn mac(cable: &str, guest: u8) -> String {
    format!("52:54:00:0{cable}:00:0{guest}")
}

/// The guests' `/etc/hosts`: names lead to `tcp0`.
pub(super) fn hosts() -> String {
    let line = |guest| format!("{} {}\n", Link::Tcp.address(guest), name(guest));
    ["127.0.0.1 localhost\n".to_owned(), line(1), line(2)].concat()
}
