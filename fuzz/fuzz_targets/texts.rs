//! Texts of others on their way to a terminal or a log, addresses, names of files, and answers of proxies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::proxy::{Answer, Proxy};
use phalanx_core::text::{escaped, escaped_lines};
use phalanx_net::address::Address;

fuzz_target!(|bytes: &[u8]| {
    let proxy = Proxy::parse("http://ada:word@proxy:3128").ok().flatten().expect("is one");
    if let Answer::Refused(why) = proxy.judge(bytes) {
        assert!(!why.chars().any(|c| c.is_control() && c != '\t'));
    }
    let lines = escaped_lines(bytes);
    let lines = std::str::from_utf8(&lines).expect("what is not UTF-8 is escaped");
    let ends = lines.replace("\r\n", "\n");
    assert!(!ends.chars().any(|c| c.is_control() && c != '\t' && c != '\n'));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert!(!escaped(text).chars().any(|c| c.is_control() && c != '\t'));
    if let Ok(address) = text.parse::<Address>() {
        let again = address.to_string().parse::<Address>().map(|address| address.to_string());
        assert_eq!(again.ok(), Some(address.to_string()));
    }
});
