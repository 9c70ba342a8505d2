//! The source as one argument of a command line.

use millstream_wire::ConnectOptions;

use super::address::{HostPort, mysql_url};
use super::expand::{Context, expand};
use super::password::Password;

/// What `mysql://user:${PASSWORD}@host:port` says, variables put in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceUrl {
    /// Where the server is; for messages.
    pub at: HostPort,
    /// Who logs in.
    pub user: String,
    /// The password, if the URL has one.
    pub password: Option<Password>,
}

impl SourceUrl {
    /// Whether an argument is meant as a URL and not as a file.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with("mysql://") || text.starts_with("${")
    }

    /// Parses it as `source.url` of the configuration, but refuses a password that stands in it as it is: arguments are
    /// there for every user of the machine to read.
    ///
    /// # Errors
    /// What is wrong, without any part of the URL.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        if has_plain_password(text) {
            return Err("the URL holds a password, which everybody on this machine can see in the list of processes: \
                        put it in a variable and write '${NAME}' in its place, or use --password-file"
                .to_owned());
        }
        let url = mysql_url(&expand(text, Context::Url, env)?).map_err(|e| format!("the source's URL {e}"))?;
        if !url.others.is_empty() {
            return Err("the source's URL names several hosts; only a pipeline's may, name one here".to_owned());
        }
        let user = url.user.ok_or("the source's URL has no user: mysql://user:${PASSWORD}@host:3306")?;
        Ok(Self { at: url.at, user, password: url.password })
    }

    /// How to connect.
    #[must_use]
    pub fn connect_options(&self) -> ConnectOptions {
        let password = self.password.as_ref().map_or("", Password::reveal);
        ConnectOptions::tcp(self.at.host.as_str(), self.at.port)
            .user(self.user.as_str())
            .password(password)
            .attribute("program_name", "millstream")
    }
}

fn has_plain_password(text: &str) -> bool {
    let login = text.strip_prefix("mysql://").and_then(|rest| rest.rsplit_once('@'));
    let password = login.and_then(|(login, _)| login.split_once(':'));
    password.is_some_and(|(_, password)| !password.is_empty() && !password.contains("${"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_come_from_the_environment() {
        let env = |name: &str| match name {
            "PW" => Some("p@ss:/w%".to_owned()),
            "URL" => Some("mysql://a:b@c:1".to_owned()),
            _ => None,
        };
        for (text, user, password, at) in [
            ("mysql://repl:${PW}@db:3307/", "repl", Some("p@ss:/w%"), "db:3307"),
            ("${URL}", "a", Some("b"), "c:1"),
            ("mysql://repl@[::1]", "repl", None, "[::1]:3306"),
        ] {
            let url = SourceUrl::parse(text, &env).unwrap();
            assert_eq!((url.user.as_str(), url.at.to_string().as_str()), (user, at), "{text}");
            assert_eq!(url.password.as_ref().map(Password::reveal), password, "{text}");
        }
        for text in [
            "mysql://u:hunter2@db",
            "mysql://u:${NOPE}@db",
            "mysql://db",
            "mysql://u:${PW}@db:0",
            "mysql://u@db,db2",
            "${PW}",
        ] {
            let e = SourceUrl::parse(text, &env).unwrap_err();
            assert!(!e.contains("hunter2") && !e.contains("p@ss") && !e.contains("p%40"), "{text}: {e}");
        }
    }
}
