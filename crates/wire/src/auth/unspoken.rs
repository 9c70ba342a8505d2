use crate::error::Error;

/// Plugins that servers ask for and that are not spoken here, with what to do. The advice for the rest is general.
const KNOWN: [(&str, &str); 9] = [
    (
        "mysql_old_password",
        "the password is stored as before MySQL 4.1, which is broken: give the account a new one (ALTER USER, or SET \
         PASSWORD with old_passwords = 0)",
    ),
    ("dialog", "PAM by dialog is not supported: set pam_use_cleartext_plugin on the server, and allow it here"),
    ("auth_gssapi_client", "Kerberos is not supported: give the account a password (client_ed25519, parsec)"),
    ("authentication_kerberos_client", "Kerberos is not supported: give the account a password"),
    ("authentication_ldap_sasl_client", "LDAP by SASL is not supported: use LDAP by cleartext, or a password"),
    ("authentication_webauthn_client", "WebAuthn needs a person: give the account a password only"),
    ("authentication_openid_connect_client", "OpenID Connect is not supported: give the account a password"),
    ("authentication_oci_client", "OCI tokens are not supported: give the account a password"),
    ("authentication_windows_client", "Windows logins are not supported: give the account a password"),
];

/// The refusal of a plugin by its name.
pub(crate) fn refusal(plugin: &[u8]) -> Error {
    let known = KNOWN.iter().find(|(name, _)| name.as_bytes() == plugin);
    let what = known.map_or(
        "the account's authentication plugin is not supported: use caching_sha2_password, sha256_password or \
         mysql_native_password, on MariaDB ed25519, parsec or mysql_native_password",
        |(_, what)| what,
    );
    Error::auth(what, Some(plugin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: W7
    #[test]
    fn every_refusal_names_the_plugin_and_what_to_do() {
        for name in KNOWN.map(|(name, _)| name).into_iter().chain(["some_plugin"]) {
            let error = refusal(name.as_bytes());
            assert!(error.is_auth() && !error.is_retryable());
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(": "), "{text}");
        }
        assert!(refusal(b"a\nb").to_string().contains("a\\nb"));
    }
}
