//! Where an agent listens, and the addresses that the others are told.
//!
//! One site file serves all nodes, so `[cluster] listen` names what is right on each: an interface, a port, or nothing.
//!
//! | `listen` | listens at | the others are told |
//! |---|---|---|
//! | nothing | the addresses that the node's name resolves to, a free port each | the same |
//! | `:7000` | the same, at port 7000 | the same |
//! | `ib0`, `ib0:7000` | the interface's addresses | the same |
//! | an address or a host name, `[::1]:7000` | its addresses | the same |
//! | `0.0.0.0:7000`, `[::]:7000` | all addresses | those that the node's name resolves to |
//!
//! Where the node's name resolves to loopback alone, as Debian sets it up, the addresses of the interfaces that are up
//! take its place. Names are looked up here and nowhere else: that may wait, and an agent that serves must not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

use crate::error::{Error, Result};

/// The setting `listen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Empty: where the node's name leads.
    at: String,
    /// Zero: a free one.
    port: u16,
}

impl FromStr for Listen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Listen> {
        let wrong = |problem: &str| Error::Listen { listen: text.into(), problem: problem.into() };
        if text.parse::<IpAddr>().is_ok() {
            return Ok(Listen { at: text.into(), port: 0 });
        }
        let (at, port) = match text.rsplit_once(':') {
            Some((at, port)) => (at, port.parse().map_err(|_| wrong("what follows the last colon is no port"))?),
            None => (text, 0),
        };
        let bare = at.strip_prefix('[').and_then(|at| at.strip_suffix(']')).unwrap_or(at);
        if bare.contains(|letter: char| letter.is_whitespace() || "[]/".contains(letter)) {
            return Err(wrong("it is an interface, an address or a host name, a colon and a port; each may be absent"));
        }
        Ok(Listen { at: bare.into(), port })
    }
}

/// Sockets that listen, and where the others reach them.
pub(crate) struct Bound {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) told: Vec<SocketAddr>,
}

impl Listen {
    /// Listens. May wait for a name service.
    pub(crate) fn bind(&self) -> Result<Bound> {
        let wrong = |problem: String| Error::Listen { listen: self.to_text(), problem };
        let everywhere = self.at.parse().ok().filter(IpAddr::is_unspecified);
        let reached = match everywhere {
            Some(_) => addresses_of_node(),
            None if self.at.is_empty() => addresses_of_node(),
            None => addresses_of(&self.at),
        }
        .map_err(wrong)?;
        let bound = everywhere.map_or(reached.clone(), |all| vec![all]);
        let mut listeners = Vec::new();
        let mut told = Vec::new();
        for address in bound {
            let at = SocketAddr::new(address, self.port);
            let failed = |error| Error::system(format!("listen at {at}"), error);
            let listener = TcpListener::bind(at).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            told.push(listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        if everywhere.is_some() {
            let port = told[0].port();
            told = reached.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        }
        Ok(Bound { listeners, told })
    }

    fn to_text(&self) -> String {
        let at = if self.at.contains(':') { format!("[{}]", self.at) } else { self.at.clone() };
        if self.port == 0 { at } else { format!("{at}:{}", self.port) }
    }
}

/// Where other nodes reach this one.
fn addresses_of_node() -> std::result::Result<Vec<IpAddr>, String> {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let named = resolve(&name).unwrap_or_default();
    let found = reachable(if named.iter().all(is_local) { interfaces(None) } else { named });
    if found.is_empty() {
        return Err(format!(
            "this node's name {name:?} resolves to no address that other nodes reach, and no interface has one: name \
             an interface or an address"
        ));
    }
    Ok(found)
}

/// Those of an interface, an address, or a host name.
fn addresses_of(at: &str) -> std::result::Result<Vec<IpAddr>, String> {
    if let Ok(address) = at.parse() {
        return Ok(vec![address]);
    }
    let interface = interfaces(Some(at));
    let found = if interface.is_empty() { resolve(at)? } else { interface };
    if found.is_empty() { Err(format!("{at} has no address")) } else { Ok(unique(found)) }
}

fn resolve(name: &str) -> std::result::Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| format!("no interface, and no host name: {error}"))?;
    Ok(found.map(|address| address.ip()).collect())
}

/// The addresses of the interface of this name, or of all, that are up; without those that need to be told by which
/// interface.
fn interfaces(name: Option<&str>) -> Vec<IpAddr> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    all.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP))
        .filter(|one| name.is_none_or(|name| one.interface_name == name))
        .filter_map(|one| one.address.as_ref().and_then(address))
        .filter(|address| !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()))
        .collect()
}

fn address(storage: &SockaddrStorage) -> Option<IpAddr> {
    let four = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    four.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(Ipv6Addr::from(address.ip().octets()))))
}

fn is_local(address: &IpAddr) -> bool {
    address.is_loopback() || matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn reachable(found: Vec<IpAddr>) -> Vec<IpAddr> {
    unique(found.into_iter().filter(|address| !is_local(address)).collect())
}

fn unique(found: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut kept = Vec::new();
    for address in found {
        if !kept.contains(&address) {
            kept.push(address);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(at: &str, port: u16) -> Listen {
        Listen { at: at.into(), port }
    }

    #[test]
    fn a_setting_is_a_place_and_a_port_and_each_may_be_absent() {
        let cases = [
            ("", listen("", 0)),
            (":7000", listen("", 7000)),
            ("ib0", listen("ib0", 0)),
            ("ib0:7000", listen("ib0", 7000)),
            ("10.1.2.3", listen("10.1.2.3", 0)),
            ("10.1.2.3:7", listen("10.1.2.3", 7)),
            ("fe80::1", listen("fe80::1", 0)),
            ("[fe80::1]:7", listen("fe80::1", 7)),
            ("0.0.0.0:7", listen("0.0.0.0", 7)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Listen>().unwrap(), expected, "{text}");
        }
        for text in ["a:b", "a:70000", "10.1.0.0/16", "a b", "[a:7"] {
            let error = text.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains(&format!("listen = \"{text}\"")), "{error}");
        }
    }

    #[test]
    fn an_interface_an_address_and_a_name_are_places() {
        for at in ["lo", "127.0.0.1", "localhost"] {
            let bound = at.parse::<Listen>().unwrap().bind().unwrap();
            assert!(!bound.listeners.is_empty() && bound.told.iter().all(|address| address.ip().is_loopback()), "{at}");
            assert!(bound.told.iter().all(|address| address.port() != 0));
        }
        let error = "no-such-host.invalid".parse::<Listen>().unwrap().bind().err().unwrap().to_string();
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn others_are_never_told_an_address_that_is_each_nodes_own() {
        for text in ["", "0.0.0.0"] {
            match text.parse::<Listen>().unwrap().bind() {
                Ok(bound) => assert!(bound.told.iter().all(|at| !is_local(&at.ip()) && !at.ip().is_unspecified())),
                // A machine without a network.
                Err(error) => assert!(error.to_string().contains("name an interface")),
            }
        }
    }
}
