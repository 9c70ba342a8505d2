//! Addresses: `mysql://…`, `http://…`, `host:port`.

use core::fmt;

use percent_encoding::percent_decode_str;

use super::Password;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name or address; IPv6 without its brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `http://host:port` or `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpEndpoint {
    /// https.
    pub tls: bool,
    /// Where.
    pub at: HostPort,
}

impl fmt::Display for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.at)
    }
}

/// What `mysql://user:password@host:port` says.
#[derive(Debug)]
pub(super) struct MysqlUrl {
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) at: HostPort,
    /// Further hosts, in their order.
    pub(super) others: Vec<HostPort>,
}

const MYSQL_FORM: &str = "mysql://user:password@host:3306";

/// Errors never quote the URL: it may hold a password.
pub(super) fn mysql_url(text: &str) -> Result<MysqlUrl, String> {
    let Some(rest) = text.strip_prefix("mysql://") else {
        return Err(format!("must be of the form {MYSQL_FORM}"));
    };
    // The last @ before the path: passwords with a raw @ are a common slip, and hosts hold none.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at_checked(at).unwrap_or((rest, "")),
        None => (rest, ""),
    };
    if !matches!(tail, "" | "/") {
        return Err(format!(
            "has something after the port; it is {MYSQL_FORM} alone (ssl_mode and the like are keys of their own, \
             and a / ? # or @ in a user name or password is written %2F %3F %23 %40)"
        ));
    }
    let (user, password) = match login.map(|l| l.split_once(':').map_or((l, None), |(u, p)| (u, Some(p)))) {
        Some((user, password)) => (Some(decoded(user, "user name")?), password),
        None => (None, None),
    };
    let password = password.map(|p| decoded(p, "password").map(Password::new)).transpose()?;
    let mut hosts: Vec<HostPort> = Vec::new();
    for host in authority.split(',') {
        let host = host_port(host, Some(3306))?;
        if host.host.contains(',') {
            return Err("has a comma inside a host: the commas between hosts stand in the URL itself".to_owned());
        }
        if hosts.contains(&host) {
            return Err(format!("names the host {host} twice"));
        }
        hosts.push(host);
    }
    let mut hosts = hosts.into_iter();
    let at = hosts.next().ok_or("has no host")?;
    Ok(MysqlUrl { user: user.filter(|u| !u.is_empty()), password, at, others: hosts.collect() })
}

/// `http(s)://host[:port]`.
pub(super) fn http_endpoint(text: &str, default_port: u16) -> Result<HttpEndpoint, String> {
    let form = format!("must be of the form http://host:{default_port} or https://host:{default_port}");
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(form),
    };
    if rest.contains('@') {
        return Err("must not hold a user or password; they are keys of their own".to_owned());
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(form);
    }
    Ok(HttpEndpoint { tls, at: host_port(authority, Some(default_port))? })
}

/// `host:port`, `[v6]:port`; without a default the port must be there. The host may be percent-encoded.
pub(super) fn host_port(text: &str, default_port: Option<u16>) -> Result<HostPort, String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, tail)) = rest.split_once(']') else {
            return Err("has \"[\" without \"]\" in its host".to_owned());
        };
        let port = match tail.strip_prefix(':') {
            Some(port) => Some(port),
            None if tail.is_empty() => None,
            None => return Err("has something between \"]\" and the port".to_owned()),
        };
        (host.to_owned(), port)
    } else {
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address is written in brackets: [::1]:3306".to_owned());
            }
            Some((host, port)) => (decoded(host, "host")?, Some(port)),
            None => (decoded(text, "host")?, None),
        }
    };
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    let port = match (port, default_port) {
        (Some(port), _) => match decoded(port, "port")?.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err("its port is not a number from 1 to 65535".to_owned()),
        },
        (None, Some(port)) => port,
        (None, None) => return Err("must be of the form host:port".to_owned()),
    };
    Ok(HostPort { host, port })
}

fn decoded(text: &str, what: &str) -> Result<String, String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(format!("its {what} is not UTF-8 after percent-decoding")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_urls() {
        for (text, user, password, at) in [
            ("mysql://repl:pw@127.0.0.1:3306", Some("repl"), Some("pw"), "127.0.0.1:3306"),
            ("mysql://repl:p%40%2Fw@db", Some("repl"), Some("p@/w"), "db:3306"),
            ("mysql://repl:p@w@db:1/", Some("repl"), Some("p@w"), "db:1"),
            ("mysql://repl@[::1]:3307", Some("repl"), None, "[::1]:3307"),
            ("mysql://db", None, None, "db:3306"),
        ] {
            let url = mysql_url(text).unwrap();
            assert_eq!(url.user.as_deref(), user, "{text}");
            assert_eq!(url.password.as_ref().map(Password::reveal), password, "{text}");
            assert_eq!(url.at.to_string(), at, "{text}");
            assert!(url.others.is_empty(), "{text}");
        }
        let url = mysql_url("mysql://u:p,w@h1,[::1]:3307,10.0.0.1:1/").unwrap();
        let hosts: Vec<String> = [url.at].iter().chain(&url.others).map(ToString::to_string).collect();
        assert_eq!(hosts, ["h1:3306", "[::1]:3307", "10.0.0.1:1"]);
        assert_eq!(url.password.unwrap().reveal(), "p,w");
        for (text, want) in [
            ("postgres://x", "must be of the form"),
            ("mysql://u:secret@h:0", "port"),
            ("mysql://u:secret@h:1/db", "after the port"),
            ("mysql://u:secret@", "no host"),
            ("mysql://u:secret@::1", "brackets"),
            ("mysql://u:secret@h1,", "no host"),
            ("mysql://u:secret@h1,h2,h1:3306", "h1:3306 twice"),
            ("mysql://u:secret@h1%2Ch2", "comma"),
        ] {
            let e = mysql_url(text).unwrap_err();
            assert!(e.contains(want), "{text}: {e}");
            assert!(!e.contains("secret"), "{text}: {e}");
        }
    }

    #[test]
    fn http_endpoints() {
        assert_eq!(http_endpoint("http://fe", 8030).unwrap().to_string(), "http://fe:8030");
        assert_eq!(http_endpoint("https://fe:1/", 8030).unwrap().to_string(), "https://fe:1");
        for bad in ["fe:8030", "http://u:p@fe", "http://fe/api", "http://fe:99999", "ftp://fe"] {
            assert!(http_endpoint(bad, 8030).is_err(), "{bad}");
        }
    }
}
