//! The network policy: the addresses to which users' processes may connect.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Most hosts in the owner's list.
const MOST_HOSTS: usize = 64;

/// The owner's policy for connections of processes, beside the links of their program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// All addresses.
    #[default]
    All,
    /// No address.
    None,
    /// The members and the hubs of the grid.
    Grid,
    /// These hosts, each at one port or at all ports.
    Hosts(Vec<(String, Option<u16>)>),
}

impl FromStr for Network {
    type Err = String;

    fn from_str(words: &str) -> Result<Network, String> {
        match words {
            "all" => return Ok(Network::All),
            "none" => return Ok(Network::None),
            "grid" => return Ok(Network::Grid),
            _ => {}
        }
        let hosts: Option<Vec<_>> = words.split(',').map(|word| host(word.trim())).collect();
        hosts.filter(|hosts| hosts.len() <= MOST_HOSTS).map(Network::Hosts).ok_or_else(|| {
            format!(
                "--network {words:?}: write none, grid, all, or at most {MOST_HOSTS} hosts, each with a port if it is to be \
                 one only, like data.example.org:443,192.0.2.7"
            )
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::All => f.write_str("all"),
            Network::None => f.write_str("none"),
            Network::Grid => f.write_str("grid"),
            Network::Hosts(hosts) => {
                let word = |(host, port): &(String, Option<u16>)| match port {
                    Some(port) => format!("{host}:{port}"),
                    None => host.clone(),
                };
                f.write_str(&hosts.iter().map(word).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Parses a host with an optional port: `name`, `name:443`, `192.0.2.7`, `2001:db8::7`, `[2001:db8::7]:443`.
fn host(word: &str) -> Option<(String, Option<u16>)> {
    if let Ok(address) = word.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), Some(address.port())));
    }
    if let Ok(ip) = word.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some((ip.to_string(), None));
    }
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok().filter(|port| *port > 0)?)),
        None => (word, None),
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= 253 && name.bytes().all(is_letter) && !name.starts_with('-');
    is_name.then(|| (name.to_owned(), port))
}

/// An address to which processes may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The address.
    pub ip: IpAddr,
    /// The port. `None`: all ports.
    pub port: Option<u16>,
}

impl Way {
    fn leads_to(&self, to: &SocketAddr) -> bool {
        self.ip.to_canonical() == to.ip().to_canonical() && self.port.is_none_or(|port| port == to.port())
    }
}

/// The scope of an address: the machines on which it means the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Machines of one network.
    Link,
    /// One machine: each machine means itself (loopback).
    Own,
    /// The address belongs to no machine.
    None,
}

fn scope(ip: IpAddr) -> Scope {
    let (is_none, is_own, is_link) = match ip.to_canonical() {
        IpAddr::V4(ip) => {
            (ip.octets()[0] == 0 || ip.is_multicast() || ip.is_broadcast(), ip.is_loopback(), ip.is_link_local())
        }
        IpAddr::V6(ip) => {
            (ip.is_unspecified() || ip.is_multicast(), ip.is_loopback(), ip.segments()[0] & 0xffc0 == 0xfe80)
        }
    };
    match (is_none, is_own, is_link) {
        (true, ..) => Scope::None,
        (_, true, _) => Scope::Own,
        (.., true) => Scope::Link,
        _ => Scope::All,
    }
}

/// Whether an address from a hub means the same machine here. A loopback or link-local address does only if a hub has such an address too.
/// Otherwise a member could open the owner's services by reporting such an address.
pub fn means_same(ip: IpAddr, hubs: &[IpAddr]) -> bool {
    match scope(ip) {
        Scope::All => true,
        Scope::None => false,
        narrow => hubs.iter().any(|hub| scope(*hub) == narrow),
    }
}

/// The machines of a program that a launcher may name. `members`: the executors of the grid. `None`: they are unknown, so that all
/// addresses are allowed except loopback and link-local ones. Loopback addresses are allowed if the launcher is on this machine.
#[cfg(any(target_os = "linux", test))]
pub fn known(machines: &[IpAddr], members: Option<&[IpAddr]>, from: Option<IpAddr>) -> Vec<IpAddr> {
    let is_here = from.is_some_and(|ip| scope(ip) == Scope::Own);
    let is_known = |ip: IpAddr| match members {
        Some(members) => members.iter().any(|member| member.to_canonical() == ip.to_canonical()),
        None => scope(ip) == Scope::All || is_here && scope(ip) == Scope::Own,
    };
    machines.iter().copied().filter(|ip| is_known(*ip)).collect()
}

/// The connections that one program may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    /// Whether the program may have network sockets.
    pub has_sockets: bool,
    /// Whether the program may listen, because ranks on its other machines connect to it.
    pub listens: bool,
    /// Addresses to which the program may connect.
    pub allowed: Vec<Way>,
}

impl Ways {
    /// The ways of a program with ranks on `machines`, which is empty for a program of interpreters. `grid`: the addresses of the grid, or
    /// of the hosts that the owner has named. Returns `None` if the program may connect to all addresses.
    pub fn new(network: &Network, grid: &[Way], machines: &[IpAddr]) -> Option<Ways> {
        let own = |ip: &IpAddr| Way { ip: *ip, port: None };
        let is_spread = machines.len() > 1;
        let allowed: Vec<Way> = machines.iter().filter(|_| is_spread).map(own).chain(grid.iter().copied()).collect();
        match network {
            Network::All => None,
            Network::None => Some(Ways { has_sockets: is_spread, listens: is_spread, allowed }),
            _ => Some(Ways { has_sockets: true, listens: is_spread, allowed }),
        }
    }

    /// Whether the program may connect to an address.
    pub fn lead_to(&self, to: &SocketAddr) -> bool {
        self.allowed.iter().any(|way| way.leads_to(to))
    }
}

/// The addresses of hosts that the owner has named, and of the name servers if a host is a name. The error names the host that has no
/// address.
pub fn resolve(hosts: &[(String, Option<u16>)]) -> Result<Vec<Way>, String> {
    let (mut ways, mut has_names) = (Vec::new(), false);
    for (host, port) in hosts {
        let found = (host.as_str(), port.unwrap_or(0)).to_socket_addrs();
        let found = found.map_err(|error| format!("--network: {host} has no address: {error}"))?;
        ways.extend(found.map(|address| Way { ip: address.ip(), port: *port }));
        has_names |= host.parse::<IpAddr>().is_err();
    }
    if has_names {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = text.lines().filter_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok());
        ways.extend(servers.map(|ip| Way { ip, port: Some(53) }));
    }
    Ok(ways)
}

/// The variable and value with which the C library looks names up over TCP, because the policy allows programs no datagrams.
pub const BY_TCP: (&str, &str) = ("RES_OPTIONS", "use-vc");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        let read = |words: &str| words.parse::<Network>();
        assert_eq!((read("none"), read("grid"), read("all")), (Ok(Network::None), Ok(Network::Grid), Ok(Network::All)));
        let hosts = |hosts: &[(&str, Option<u16>)]| {
            Ok(Network::Hosts(hosts.iter().map(|(host, port)| ((*host).to_owned(), *port)).collect()))
        };
        let expected = hosts(&[("a.example", None), ("b", Some(443)), ("192.0.2.7", None), ("2001:db8::7", Some(80))]);
        assert_eq!(read("a.example, b:443,192.0.2.7,[2001:db8::7]:80"), expected);
        assert_eq!(read("2001:db8::7"), hosts(&[("2001:db8::7", None)]));
        for wrong in ["", ",", "a,,b", "a:0", "a:x", "a:70000", "-a", "a b", "a/24", "http://a", &"a,".repeat(65)] {
            assert!(read(wrong).is_err_and(|why| why.contains("write none, grid, all")), "{wrong:?}");
        }
    }

    #[test]
    fn programs_reach_what_is_allowed_and_their_own_machines() {
        let [one, two]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let to = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        assert_eq!(Ways::new(&Network::All, &[], &[one, two]), None);
        let alone = Ways::new(&Network::None, &[], &[one]).unwrap();
        assert!(!alone.has_sockets && !alone.lead_to(&to("10.0.0.1", 80)));
        let ranks = Ways::new(&Network::None, &[], &[one, two]).unwrap();
        assert!(ranks.has_sockets && ranks.listens && ranks.lead_to(&to("10.0.0.2", 40_000)));
        assert!(ranks.lead_to(&to("::ffff:10.0.0.2", 1)) && !ranks.lead_to(&to("10.0.0.3", 1)));
        let hub = Way { ip: "192.0.2.1".parse().unwrap(), port: Some(7400) };
        let grid = Ways::new(&Network::Grid, &[hub], &[]).unwrap();
        assert!(grid.has_sockets && !grid.listens);
        assert_eq!([7400, 22].map(|port| grid.lead_to(&to("192.0.2.1", port))), [true, false]);
    }

    #[test]
    fn a_launcher_opens_no_address_but_those_of_the_grid() {
        let ips = |words: &[&str]| words.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
        let machines = ips(&["10.0.0.1", "::ffff:10.0.0.2", "127.0.0.1", "169.254.1.1", "fe80::1", "::", "224.0.0.1"]);
        let (far, here) = (Some("10.0.0.9".parse().unwrap()), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(known(&machines, Some(&ips(&["10.0.0.2"])), here), machines[1..2]);
        assert!(known(&machines, Some(&[]), far).is_empty());
        assert_eq!(known(&machines, None, far), machines[..2]);
        assert_eq!(known(&machines, None, None), machines[..2]);
        assert_eq!(known(&machines, None, here), machines[..3]);
        let kept = |hub: &str| machines.iter().filter(|ip| means_same(**ip, &ips(&[hub]))).count();
        assert_eq!(["10.0.0.3", "::1", "169.254.0.1", "0.0.0.0"].map(kept), [2, 3, 4, 2]);
    }

    #[test]
    fn addresses_need_no_look_up() {
        let ways = resolve(&[("192.0.2.7".to_owned(), Some(443)), ("::1".to_owned(), None)]).unwrap();
        let way = |ip: &str, port| Way { ip: ip.parse().unwrap(), port };
        assert_eq!(ways, [way("192.0.2.7", Some(443)), way("::1", None)]);
        assert!(resolve(&[("no-such-host.invalid".to_owned(), None)]).is_err_and(|why| why.contains("has no address")));
    }
}
