//! The engine by conversation: no socket, no sleep.

mod kept;
mod model;
mod once;
mod reads;
mod sessions;
mod steps;
mod store;
mod transactions;
mod values;
mod waiting;
mod watches;
mod whole;

use super::*;
use std::sync::Arc;

/// The state of a test: a space, and a clock that moves only when the test says so.
struct Bench {
    space: Space,
    now: Duration,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Options::default())
    }

    fn with(options: Options) -> Bench {
        Bench { space: Space::new(options).unwrap(), now: Duration::ZERO }
    }

    fn out(&mut self, fields: &[Value]) {
        self.out_with(fields, OutOptions::default()).unwrap();
    }

    fn out_with(&mut self, fields: &[Value], options: OutOptions) -> Result<u64, SpaceError> {
        self.space.out(self.now, &[Tuple::of(fields)], &options, None)
    }

    fn get(&mut self, template: &Template, get: Get) -> Option<Vec<Value>> {
        self.space.find(self.now, local(), template, &get, None).unwrap().map(|tuple| tuple.values())
    }

    fn rdp(&mut self, template: &Template) -> Option<Vec<Value>> {
        self.get(template, Get::default())
    }

    fn inp(&mut self, template: &Template) -> Option<Vec<Value>> {
        self.get(template, taking())
    }

    fn wait(&mut self, asker: Asker, template: &Template, get: &Get, seconds: u64) -> Option<Vec<Value>> {
        let deadline = self.now + Duration::from_secs(seconds);
        let found = self.space.wait(self.now, asker, template, get, Some(deadline), None);
        found.unwrap().map(|tuple| tuple.values())
    }

    fn count(&mut self, template: &Template) -> u64 {
        self.space.count(self.now, template, &Get::default(), None).unwrap()
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.space.on_tick(self.now);
    }

    fn commands(&mut self) -> Vec<Command> {
        std::iter::from_fn(|| self.space.next_command()).collect()
    }

    /// The answers so far: session, request, and the tuple or the error.
    fn answers(&mut self) -> Vec<(u64, u64, Result<Vec<Value>, SpaceError>)> {
        let answer = |command| match command {
            Command::Answer { session, request, answer } => {
                Some((session.0, request, answer.map(|tuple| tuple.values())))
            }
            Command::Notify { .. } => None,
        };
        self.commands().into_iter().filter_map(answer).collect()
    }
}

/// A client in the same process, which needs no acknowledgement.
fn local() -> Asker {
    Asker { session: SessionId(0), request: 0, acknowledges: false }
}

fn asker(session: u64, request: u64) -> Asker {
    Asker { session: SessionId(session), request, acknowledges: false }
}

fn remote(session: u64, request: u64) -> Asker {
    Asker { session: SessionId(session), request, acknowledges: true }
}

fn taking() -> Get {
    Get { take: true, ..Get::default() }
}

fn int(value: i64) -> Value {
    Value::Int(value)
}

fn str(value: &str) -> Value {
    Value::Str(value.into())
}

/// A template of actuals, where `None` is any.
fn like(fields: &[Option<Value>]) -> Template {
    let pattern = |field: &Option<Value>| field.as_ref().map_or(Pattern::Any, Pattern::actual);
    Template::new(fields.iter().map(pattern).collect(), None)
}

fn typed(tag: &str, kinds: u32) -> Template {
    Template::new(vec![Pattern::actual(&str(tag)), Pattern::of(kinds)], None)
}
