//! A and C: four tables as sysbench has them, small transactions from four sessions.

use std::fmt::Write as _;

use super::{LabError, Size, Workload, connect};
use crate::server::Server;

const TABLES: u32 = 4;
/// Rows in each table before the log begins.
const FIRST_ROWS: u32 = 20_000;
/// Transactions at full size.
const TRANSACTIONS: u32 = 540_000;

/// Digits as sysbench fills its columns: groups of eleven with dashes between.
fn digits(rng: &mut fastrand::Rng, groups: usize) -> String {
    let mut text = String::with_capacity(groups * 12);
    for group in 0..groups {
        let dash = if group == 0 { "" } else { "-" };
        write!(text, "{dash}{:011}", rng.u64(0..100_000_000_000)).ok();
    }
    text
}

fn insert(rng: &mut fastrand::Rng, table: u32, rows: u32) -> String {
    let mut sql = format!("INSERT INTO sbtest{table} (k, c, pad) VALUES ");
    for row in 0..rows {
        let comma = if row == 0 { "" } else { "," };
        write!(sql, "{comma}({},'{}','{}')", rng.u32(0..1_000_000), digits(rng, 10), digits(rng, 5)).ok();
    }
    sql
}

pub(super) async fn prepare(server: &Server, workload: Workload) -> Result<(), LabError> {
    let mut session = connect(server, workload).await?;
    let mut rng = fastrand::Rng::with_seed(1);
    for table in 1..=TABLES {
        session
            .execute(&format!(
                "CREATE TABLE sbtest{table} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, \
                 c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY (k))"
            ))
            .await?;
        for _ in 0..FIRST_ROWS / 1000 {
            session.execute(&insert(&mut rng, table, 1000)).await?;
        }
    }
    session.close().await;
    Ok(())
}

/// Four sessions, each in a table of its own: no locks are waited for.
pub(super) async fn write(server: &Server, workload: Workload, size: Size) -> Result<(), LabError> {
    let each = size.of(TRANSACTIONS).div_ceil(TABLES);
    let sessions: Vec<_> = (1..=TABLES).map(|table| one_session(server, workload, table, each)).collect();
    for ended in futures(sessions).await {
        ended?;
    }
    Ok(())
}

/// Runs all at once on this task's thread.
async fn futures<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut running {
            if output.is_none()
                && let std::task::Poll::Ready(ended) = future.as_mut().poll(context)
            {
                *output = Some(ended);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(running.iter_mut().filter_map(|(_, output)| output.take()).collect())
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}

async fn one_session(server: &Server, workload: Workload, table: u32, transactions: u32) -> Result<(), LabError> {
    let mut session = connect(server, workload).await?;
    let mut rng = fastrand::Rng::with_seed(u64::from(table) + 1);
    let (mut low, mut high) = (1, FIRST_ROWS);
    for _ in 0..transactions {
        session.execute("BEGIN").await?;
        for _ in 0..rng.u32(1..=3) {
            let rows = rng.u32(1..=3);
            let sql = match rng.u32(0..10) {
                0..4 => {
                    high += rows;
                    insert(&mut rng, table, rows)
                }
                4..8 => {
                    let id = rng.u32(low..=high);
                    let c = digits(&mut rng, 10);
                    format!("UPDATE sbtest{table} SET k = k + 1, c = '{c}' WHERE id >= {id} ORDER BY id LIMIT {rows}")
                }
                _ => {
                    low += rows;
                    format!("DELETE FROM sbtest{table} ORDER BY id LIMIT {rows}")
                }
            };
            session.execute(&sql).await?;
        }
        session.execute("COMMIT").await?;
    }
    session.close().await;
    Ok(())
}
