//! An HTTP proxy as the way to a hub: which one is used, what is said to it, and what it answers (RFC 9110, section 9.3.6).
//!
//! What a proxy answers is hostile input. It decides nothing but whether bytes go through: the handshake inside proves the hub.

use crate::text::escaped;
use core::net::{IpAddr, Ipv6Addr};
use ipnet::IpNet;
use std::fmt;
use thiserror::Error;

/// Longest answer that is read.
pub const MOST_ANSWER: usize = 8192;
/// Longest text of a proxy that is shown, in characters.
const MOST_SHOWN: usize = 100;
/// The port of a proxy that is named without one, as curl has it.
const PORT: u16 = 1080;
/// The end of an answer's head.
const END: &[u8] = b"\r\n\r\n";
/// The digits of base 64 (RFC 4648).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its host, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The name and the password for it, in base 64.
    authorization: Option<String>,
}

/// A text names no proxy that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProxyError {
    /// It is none.
    #[error("it is no HOST:PORT, http://HOST:PORT or http://NAME:PASSWORD@HOST:PORT")]
    None,
    /// It is of another kind.
    #[error("{0} proxies are not supported, only HTTP proxies: http://HOST:PORT")]
    Kind(String),
}

/// What a proxy has answered so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its end has not come.
    Part,
    /// From now on, bytes go to the hub.
    Open,
    /// The proxy refuses; the text says why.
    Refused(String),
    /// It is no HTTP proxy.
    Other,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Without the password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", at(&self.host, self.port))
    }
}

impl Proxy {
    /// Reads what a variable like `HTTPS_PROXY` has. An empty text is no proxy.
    ///
    /// # Errors
    /// The text names none that can be used.
    pub fn parse(text: &str) -> Result<Option<Proxy>, ProxyError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(ProxyError::Kind(escaped(scheme).chars().take(MOST_SHOWN).collect()));
        }
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let (host, port) = split(place).ok_or(ProxyError::None)?;
        let authorization = match user.filter(|user| !user.is_empty()) {
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                let decoded = [unescaped(name), unescaped(password)].map(|part| part.ok_or(ProxyError::None));
                let [name, password] = decoded;
                Some(base64(&[&name?[..], b":", &password?].concat()))
            }
            None => None,
        };
        Ok(Some(Proxy { host, port: port.unwrap_or(PORT), authorization }))
    }

    /// The request for a way to a hub.
    pub fn request(&self, host: &str, port: u16) -> Vec<u8> {
        let to = at(host, port);
        let user =
            self.authorization.iter().map(|it| format!("Proxy-Authorization: Basic {it}\r\n")).collect::<String>();
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{user}\r\n").into_bytes()
    }

    /// Judges what the proxy has answered so far. Nothing that follows its end may have been read.
    pub fn judge(&self, answer: &[u8]) -> Answer {
        let is_http = answer.iter().zip(b"HTTP/1.").all(|(one, other)| one == other);
        if !is_http || (answer.len() >= MOST_ANSWER && !answer.ends_with(END)) {
            return Answer::Other;
        }
        if !answer.ends_with(END) {
            return Answer::Part;
        }
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let text = String::from_utf8_lossy(line);
        let mut words = text.splitn(3, ' ').skip(1);
        let (code, reason) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if code.len() != 3 || !code.bytes().all(|digit| digit.is_ascii_digit()) {
            return Answer::Other;
        }
        let said: String = escaped(&format!("{code} {reason}")).chars().take(MOST_SHOWN).collect();
        let said = said.trim_end();
        match code.as_bytes() {
            [b'2', ..] => Answer::Open,
            b"407" if self.authorization.is_some() => {
                Answer::Refused(format!("it does not accept the name and the password in HTTPS_PROXY ({said})"))
            }
            b"407" => Answer::Refused(format!(
                "it asks for a name and a password ({said}): HTTPS_PROXY=http://NAME:PASSWORD@{self}"
            )),
            b"502" | b"503" | b"504" => Answer::Refused(format!("it does not reach the hub ({said})")),
            _ => Answer::Refused(format!(
                "it refuses the connection ({said}): most proxies let connections through to port 443 only, so let the hub \
                 listen there, or ask the proxy's owner"
            )),
        }
    }
}

/// Whether a host is reached without a proxy, as `NO_PROXY` says: names with all that ends so, addresses and networks, with commas
/// between them, or `*`. This machine always is.
pub fn is_exempt(no_proxy: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|it| it.to_canonical().is_loopback()) {
        return true;
    }
    no_proxy.split([',', ' ']).map(str::trim).filter(|one| !one.is_empty()).any(|one| {
        let named = one.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
        match address {
            _ if one == "*" => true,
            Some(address) => {
                let is_it = one.trim_matches(['[', ']']).parse().is_ok_and(|other: IpAddr| other == address);
                is_it || one.parse().is_ok_and(|network: IpNet| network.contains(&address))
            }
            None => host == named || host.strip_suffix(&named).is_some_and(|rest| rest.ends_with('.')),
        }
    })
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host and the port of a place. Neither has what could end a line of the request.
fn split(place: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, (!port.is_empty()).then_some(port).map(|port| port.strip_prefix(':').unwrap_or("no port")))
        }
        None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let port = port.map(str::parse).transpose().ok()?.filter(|port| *port != 0);
    (!host.is_empty() && host.chars().all(is_host) && (place.starts_with('[') || !host.contains(':')))
        .then(|| (host.to_owned(), port))
}

/// The bytes of a text in which `%40` stands for `@`, as in addresses.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        rest = more;
        if *first == b'%' {
            let digits =
                std::str::from_utf8(more.get(..2)?).ok().filter(|it| it.bytes().all(|c| c.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            text.push(if is_there { char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn proxy(text: &str) -> Proxy {
        Proxy::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_proxy_is_named_as_in_other_programs() {
        for text in ["http://proxy:3128", "proxy:3128", "HTTP://proxy:3128/", "http://@proxy:3128/?x#y", " proxy:3128 "]
        {
            assert_eq!(proxy(text), Proxy { host: "proxy".into(), port: 3128, authorization: None }, "{text}");
        }
        assert_eq!(proxy("[fd00::1]:8080").to_string(), "[fd00::1]:8080");
        assert_eq!((proxy("proxy").port, proxy("http://[::1]").port), (1080, 1080));
        assert_eq!(Proxy::parse(" "), Ok(None));
        assert_eq!(Proxy::parse("socks5://proxy:1080"), Err(ProxyError::Kind("socks5".into())));
        for wrong in [
            "http://",
            "proxy:port",
            "proxy:0x",
            "a b:1",
            "[proxy]:1",
            "::1",
            "[::1]1",
            "x\r\nEvil: 1:80",
            "u%4:p@proxy",
        ] {
            assert_eq!(Proxy::parse(wrong), Err(ProxyError::None), "{wrong}");
        }
    }

    #[test]
    fn the_password_is_said_to_the_proxy_only() {
        let proxy = proxy("http://ada:open%20sesame%40@proxy:3128");
        let request = String::from_utf8(proxy.request("hub", 443)).unwrap();
        // RFC 7617: base 64 of `ada:open sesame@`.
        assert_eq!(
            request,
            "CONNECT hub:443 HTTP/1.1\r\nHost: hub:443\r\nProxy-Authorization: Basic YWRhOm9wZW4gc2VzYW1lQA==\r\n\r\n"
        );
        assert!(!format!("{proxy:?} {proxy}").contains("sesame"));
        assert!(String::from_utf8(proxy.request("fd00::7", 443)).unwrap().starts_with("CONNECT [fd00::7]:443 "));
        assert_eq!(["", "f", "fo", "foo"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v"]);
    }

    #[test]
    fn answers_are_read_and_refusals_say_what_to_do() {
        let plain = proxy("proxy:3128");
        for open in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200\r\n\r\n", "HTTP/1.1 204 x\r\nVia: 1.1 tinyproxy\r\n\r\n"]
        {
            assert_eq!(plain.judge(open.as_bytes()), Answer::Open, "{open}");
            for end in 0..open.len() - 1 {
                assert_eq!(plain.judge(&open.as_bytes()[..end]), Answer::Part, "{end} of {open}");
            }
        }
        let refused = |proxy: &Proxy, code| match proxy.judge(format!("HTTP/1.1 {code} No\r\n\r\n").as_bytes()) {
            Answer::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        assert!(refused(&plain, 407).contains("HTTPS_PROXY=http://NAME:PASSWORD@proxy:3128"));
        assert!(refused(&proxy("u:p@proxy"), 407).contains("does not accept the name"));
        assert!(refused(&plain, 403).contains("(403 No): most proxies"));
        assert!(refused(&plain, 502).contains("does not reach the hub (502 No)"));
        let other =
            ["SSH-2.0-x\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "HTTP/1.1  200\r\n\r\n", "\r\n\r\n"];
        for other in other {
            assert_eq!(plain.judge(other.as_bytes()), Answer::Other, "{other}");
        }
        let endless = format!("HTTP/1.1 200 {}", "x".repeat(MOST_ANSWER));
        assert_eq!(plain.judge(endless.as_bytes()), Answer::Other);
    }

    #[test]
    fn what_needs_no_proxy_is_told_as_in_other_programs() {
        let list = "corp.example, .lab, 10.0.0.0/8,192.0.2.7 *.net";
        for host in [
            "corp.example",
            "HUB.corp.example",
            "a.lab",
            "lab",
            "10.1.2.3",
            "192.0.2.7",
            "x.net",
            "localhost",
            "127.0.0.9",
            "::1",
        ] {
            assert!(is_exempt(list, host), "{host}");
        }
        for host in ["notcorp.example", "corp.example.org", "192.0.2.8", "hub", "fd00::1"] {
            assert!(!is_exempt(list, host), "{host}");
        }
        assert!(is_exempt("*", "hub") && is_exempt("fd00::/8", "fd00::1") && !is_exempt("", "hub"));
    }

    proptest! {
        #[test]
        fn no_answer_makes_a_panic_or_reaches_a_terminal(
            tail in prop::collection::vec(any::<u8>(), 0..200),
            code in 0..1000_u32,
            is_http in any::<bool>(),
        ) {
            let head = if is_http { format!("HTTP/1.1 {code:03} ").into_bytes() } else { Vec::new() };
            let answer = [&head[..], &tail, END].concat();
            for end in 0..=answer.len() {
                if let Answer::Refused(why) = proxy("proxy").judge(&answer[..end]) {
                    prop_assert!(is_http && !(200..300).contains(&code));
                    prop_assert!(why.len() < 700 && why.chars().all(|c| c == '\t' || !c.is_control()), "{why:?}");
                }
            }
        }

        #[test]
        fn no_text_makes_a_panic_or_another_line_of_a_request(text in ".{0,60}", host in "[a-z.:]{1,9}") {
            if let Ok(Some(proxy)) = Proxy::parse(&text) {
                let request = String::from_utf8(proxy.request(&host, 1)).expect("is text");
                prop_assert!(request.matches("\r\n").count() <= 4 && request.ends_with("\r\n\r\n"));
            }
            let _ = is_exempt(&text, &host);
        }
    }
}
