//! Addresses of servers, and where a redirect leads. Pure.

use core::fmt;

/// Scheme, host and port of an FE or BE.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether it is https.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
pub(crate) fn split_host_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some("")))
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        }
    };
    let port = match port? {
        "" => None,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    let sane = |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'@' | b'?' | b'#' | b'[' | b']' | b'\\');
    (!host.is_empty() && host.bytes().all(sane)).then_some((host, port))
}

fn split_scheme(url: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.eq_ignore_ascii_case("http") {
        Some((false, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Some((true, rest))
    } else {
        None
    }
}

impl Endpoint {
    /// Reads `http://host:port` (or `host:port`); `None` for anything more, such as credentials or a path.
    #[must_use]
    pub fn parse(url: &str, default_port: u16) -> Option<Self> {
        let (tls, rest) = split_scheme(url).or_else(|| (!url.contains("://")).then_some((false, url)))?;
        let (host, port) = split_host_port(rest.strip_suffix('/').unwrap_or(rest))?;
        Some(Self { tls, host: host.to_owned(), port: port.unwrap_or(default_port) })
    }

    /// `host:port` for the Host header, IPv6 in brackets.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Where a `Location` leads from a request to `from` with `path`: the server, and the path with its query.
///
/// Doris puts user and password in front of the host, not always percent-encoded; they are dropped, whatever is in them.
/// So the host's end is looked for by the path that is known, and its beginning by the last `@`.
#[must_use]
pub(crate) fn follow(from: &Endpoint, path: &str, location: &str) -> Option<(Endpoint, String)> {
    let location = location.trim();
    let (endpoint, target) = if location.starts_with('/') && !location.starts_with("//") {
        (from.clone(), location)
    } else {
        let (tls, rest) = split_scheme(location)?;
        let end = rest.find(path).or_else(|| rest.find('/')).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end)?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split_host_port(authority)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        (Endpoint { tls, host: host.to_owned(), port }, target)
    };
    let target = target.strip_suffix('?').unwrap_or(target);
    let target = if target.is_empty() { path } else { target };
    let clean = target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    clean.then(|| (endpoint, target.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endpoint(tls: bool, host: &str, port: u16) -> Endpoint {
        Endpoint { tls, host: host.into(), port }
    }

    #[test]
    fn endpoints() {
        for (text, expected) in [
            ("http://fe:8031", Some(endpoint(false, "fe", 8031))),
            ("https://fe/", Some(endpoint(true, "fe", 8030))),
            ("fe:1", Some(endpoint(false, "fe", 1))),
            ("HTTP://[::1]:8030", Some(endpoint(false, "::1", 8030))),
            ("[fe80::1]", Some(endpoint(false, "fe80::1", 8030))),
            ("http://root:secret@fe:8030", None),
            ("http://fe:8030/api", None),
            ("http://fe:99999", None),
            ("http://fe:+1", None),
            ("mysql://fe", None),
            ("http://", None),
            ("", None),
        ] {
            assert_eq!(Endpoint::parse(text, 8030), expected, "{text}");
        }
        assert_eq!(endpoint(true, "::1", 8040).to_string(), "https://[::1]:8040");
    }

    #[test]
    fn redirects() {
        let fe = endpoint(false, "fe", 8030);
        let path = "/api/d/t/_stream_load";
        let be = || endpoint(false, "be", 8040);
        #[rustfmt::skip]
        let table = [
            ("http://be:8040/api/d/t/_stream_load", Some((be(), path.to_owned()))),
            ("http://be:8040/api/d/t/_stream_load?", Some((be(), path.to_owned()))),
            ("http://be:8040/api/d/t/_stream_load?x=1&y", Some((be(), format!("{path}?x=1&y")))),
            ("http://root:pw@be:8040/api/d/t/_stream_load?", Some((be(), path.to_owned()))),
            ("http://root@default_cluster:p@ss:/é%/@be:8040/api/d/t/_stream_load?", Some((be(), path.to_owned()))),
            ("http://root:%40%3A@be:8040/api/d/t/_stream_load", Some((be(), path.to_owned()))),
            ("https://[2001:db8::1]:8040/api/d/t/_stream_load", Some((endpoint(true, "2001:db8::1", 8040), path.to_owned()))),
            ("http://u:p@[::1]:8040/api/d/t/_stream_load", Some((endpoint(false, "::1", 8040), path.to_owned()))),
            ("http://be:8040", Some((be(), path.to_owned()))),
            ("http://be/other", Some((endpoint(false, "be", 80), "/other".to_owned()))),
            ("/api/d/t/_stream_load?x", Some((fe.clone(), format!("{path}?x")))),
            ("//be:8040/api/d/t/_stream_load", None),
            ("ftp://be/x", None),
            ("http://be:80x40/api/d/t/_stream_load", None),
            ("http://be:8040/a b", None),
            ("", None),
        ];
        for (location, expected) in table {
            assert_eq!(follow(&fe, path, location), expected, "{location}");
        }
    }

    proptest! {
        #[test]
        fn any_location_is_survived_and_no_userinfo_stays(location in any::<String>(), password in "[ -~]{0,12}") {
            let fe = endpoint(false, "fe", 8030);
            let _unused = follow(&fe, "/api/d/t/_stream_load", &location);
            let with = format!("http://root:{password}@be:8040/api/d/t/_stream_load");
            if let Some((endpoint, _)) = follow(&fe, "/api/d/t/_stream_load", &with) {
                prop_assert_eq!(endpoint.to_string(), "http://be:8040");
            }
        }
    }
}
