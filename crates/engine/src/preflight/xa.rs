//! XA transactions that are prepared now, and whether they can be seen.

use millstream_wire::Connection;

use crate::pipeline::xa_list::{is_refused, logs_prepare};
use crate::snapshot::fence::prepared_xa;

/// What to know before the start.
pub(super) async fn warnings(connection: &mut Connection, account: &str) -> Vec<String> {
    if !logs_prepare(connection.version()) {
        return Vec::new();
    }
    match prepared_xa(connection).await {
        Ok(list) => list
            .first()
            .map(|first| {
                format!(
                    "{} prepared XA transaction(s) on the source, such as {first}: nothing is read before they are committed or \
                     rolled back",
                    list.len()
                )
            })
            .into_iter()
            .collect(),
        Err(e) if e.connection().is_some_and(is_refused) => vec![format!(
            "{account} cannot see prepared XA transactions: one that was prepared before the start stops the run when it is \
             committed later. GRANT XA_RECOVER_ADMIN ON *.* TO {account}"
        )],
        Err(e) => vec![format!("prepared XA transactions cannot be listed: {e}")],
    }
}
