//! Ports, where groups of processes find each other, and names of services for them (MPI 5.0, 11.8.2 and 11.8.4).

use crate::wire::universe::{Answer, MOST_PORT_NAME, Refusal, Side};
use std::collections::{BTreeMap, VecDeque};

/// Limit on the ports, on the services, and on the questions that wait at one port.
const MOST: usize = 1 << 12;

/// The asking process, and the number of its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    pub rank: u32,
    pub number: u32,
}

/// The answer to a question.
pub type Reply = (Asker, Answer);

/// All ports and services of a program.
#[derive(Debug, Default)]
pub struct Ports {
    ports: BTreeMap<String, Port>,
    services: BTreeMap<String, Service>,
}

#[derive(Debug)]
struct Port {
    owner: u32,
    accepting: VecDeque<(Asker, Side)>,
    connecting: VecDeque<(Asker, Side)>,
}

#[derive(Debug)]
struct Service {
    owner: u32,
    port: String,
}

/// The end of a meeting at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Accepts,
    Connects,
}

impl Ports {
    pub fn open(&mut self, owner: u32, port: String) -> Answer {
        if port.len() > MOST_PORT_NAME || self.ports.contains_key(&port) {
            return refuse(Refusal::Name, format!("a port cannot be called {port:?}"));
        }
        if self.ports.len() >= MOST {
            return refuse(Refusal::Full, format!("{MOST} ports are open"));
        }
        self.ports.insert(port, Port { owner, accepting: VecDeque::new(), connecting: VecDeque::new() });
        Answer::Done
    }

    /// Closes a port. Processes that wait there are told.
    pub fn close(&mut self, asker: Asker, port: &str) -> Vec<Reply> {
        let closed = self.ports.remove(port).map(|closed| closed.waiting());
        let answer = if closed.is_some() { Answer::Done } else { no_port(port) };
        let told = closed.into_iter().flatten().map(|(asker, _)| (asker, no_port(port)));
        told.chain([(asker, answer)]).collect()
    }

    pub fn publish(&mut self, owner: u32, service: String, port: String) -> Answer {
        if service.len() > MOST_PORT_NAME || port.len() > MOST_PORT_NAME {
            return refuse(Refusal::Name, format!("the name has more than {MOST_PORT_NAME} bytes"));
        }
        if let Some(taken) = self.services.get(&service) {
            return refuse(Refusal::Name, format!("the service {service:?} is published, as {}", taken.port));
        }
        if self.services.len() >= MOST {
            return refuse(Refusal::Full, format!("{MOST} services are published"));
        }
        self.services.insert(service, Service { owner, port });
        Answer::Done
    }

    pub fn unpublish(&mut self, service: &str) -> Answer {
        match self.services.remove(service) {
            Some(_) => Answer::Done,
            None => no_service(service),
        }
    }

    pub fn look_up(&self, service: &str) -> Answer {
        self.services.get(service).map_or_else(|| no_service(service), |found| Answer::Port(found.port.clone()))
    }

    /// Meets a process that waits at the other end of the port, or waits for one.
    pub fn meet(&mut self, asker: Asker, end: End, name: &str, side: Side) -> Vec<Reply> {
        let Some(port) = self.ports.get_mut(name) else { return vec![(asker, no_port(name))] };
        let (own, other) = match end {
            End::Accepts => (&mut port.accepting, &mut port.connecting),
            End::Connects => (&mut port.connecting, &mut port.accepting),
        };
        let Some((other, theirs)) = other.pop_front() else {
            if own.len() >= MOST {
                return vec![(asker, refuse(Refusal::Full, format!("{MOST} groups wait at {name}")))];
            }
            own.push_back((asker, side));
            return Vec::new();
        };
        if side.processes.iter().any(|process| theirs.processes.contains(process)) {
            let refusal = refuse(Refusal::Sides, "the two groups have a process in common".to_owned());
            return vec![(asker, refusal.clone()), (other, refusal)];
        }
        vec![(asker, Answer::Side(theirs)), (other, Answer::Side(side))]
    }

    /// A process has left: its ports and services are removed, and its questions are dropped.
    pub fn leave(&mut self, rank: u32) -> Vec<Reply> {
        self.services.retain(|_, service| service.owner != rank);
        for port in self.ports.values_mut() {
            port.accepting.retain(|(asker, _)| asker.rank != rank);
            port.connecting.retain(|(asker, _)| asker.rank != rank);
        }
        let its = |(name, port): (&String, &Port)| (port.owner == rank).then(|| name.clone());
        let its: Vec<String> = self.ports.iter().filter_map(its).collect();
        let close = |name: String| {
            let waiting = self.ports.remove(&name).map(Port::waiting).unwrap_or_default();
            waiting.into_iter().map(move |(asker, _)| (asker, no_port(&name)))
        };
        its.into_iter().flat_map(close).collect()
    }
}

impl Port {
    fn waiting(self) -> VecDeque<(Asker, Side)> {
        self.accepting.into_iter().chain(self.connecting).collect()
    }
}

pub fn refuse(why: Refusal, text: String) -> Answer {
    Answer::Refused { why, text }
}

fn no_port(name: &str) -> Answer {
    let known = "it was closed, or is one of a program that another command has started, which cannot be met";
    refuse(Refusal::Port, format!("there is no port {name:?} here: {known}"))
}

fn no_service(name: &str) -> Answer {
    refuse(Refusal::Service, format!("no service {name:?} is published here"))
}
