//! Several results, cursors, and a server that asks for files.

use millstream_wire::flags::StatusFlags;
use millstream_wire::response::{EofPacket, OkPacket, encode_err};
use millstream_wire::{ColumnDefinition, ColumnType, Value, server};

use crate::{Server, connected};

fn eof(status: StatusFlags) -> Vec<u8> {
    EofPacket { warnings: 0, status }.encode()
}

fn number(name: &str) -> ColumnDefinition {
    ColumnDefinition { column_type: ColumnType::LONG, ..ColumnDefinition::text(name) }
}

/// A result set of one number per row, as text.
fn result(name: &str, rows: &[&str], end: StatusFlags) -> Vec<Vec<u8>> {
    let mut packets = server::result_set_of(&[number(name)], rows.iter().map(|v| [Some(*v)]));
    *packets.last_mut().unwrap() = eof(end);
    packets
}

/// A binary row of one number.
fn binary(value: i32) -> Vec<u8> {
    [&[0, 0][..], &value.to_le_bytes()].concat()
}

async fn prepare(s: &mut Server) {
    assert_eq!(s.command().await[0], 0x16);
    s.send_all(&[vec![0, 7, 0, 0, 0, 1, 0, 0, 0], number("n").encode(), eof(StatusFlags::empty())]).await;
}

#[tokio::test]
async fn a_call_gives_its_results_one_after_the_other() {
    let more = StatusFlags::MORE_RESULTS;
    let (mut c, server) = connected(64, move |mut s| async move {
        for _ in 0..4 {
            s.query("CALL p()").await;
            s.send_all(&result("a", &["1", "2"], more)).await;
            s.send_all(&result("b", &[], more)).await;
            s.send_all(&result("c", &["-3"], more | StatusFlags::PS_OUT_PARAMS)).await;
            s.send(&OkPacket { affected_rows: 9, ..OkPacket::default() }.encode()).await;
        }
        s.query("CALL p()").await;
        s.send_all(&result("a", &["1"], more)).await;
        s.send(&encode_err(1317, *b"70100", "interrupted")).await;
        s.query("SELECT 1").await;
        s.send(&server::ok(0)).await;
    })
    .await;

    // All of them.
    let mut rows = c.query("CALL p()").await.unwrap();
    let mut all = Vec::new();
    loop {
        let name = rows.columns().first().map(|c| c.name.clone());
        let mut values = Vec::new();
        assert!(rows.end().is_none() || name.is_none());
        while let Some(row) = rows.next().await.unwrap() {
            values.extend(row.values().map(|v| match v.unwrap() {
                Value::Int(v) => v,
                other => panic!("{other:?}"),
            }));
        }
        let end = rows.end().unwrap();
        all.push((name, values, end.affected_rows, end.status.contains(StatusFlags::PS_OUT_PARAMS)));
        if !rows.next_result().await.unwrap() {
            break;
        }
    }
    let name = |name: &str| Some(name.to_owned());
    let want = [
        (name("a"), vec![1, 2], 0, false),
        (name("b"), vec![], 0, false),
        (name("c"), vec![-3], 0, true),
        (None, vec![], 9, false),
    ];
    assert_eq!(all, want);
    assert!(!rows.next_result().await.unwrap() && rows.next().await.unwrap().is_none());

    // Rows that are passed over, results that are left to the next command, the first of them as a whole, the last OK.
    let mut rows = c.query("CALL p()").await.unwrap();
    assert!(rows.next_result().await.unwrap() && rows.next_result().await.unwrap());
    assert_eq!(rows.columns()[0].name, "c");
    let whole = c.query_all("CALL p()").await.unwrap();
    assert_eq!((whole.columns(), whole.len(), whole.text(1, "a")), (&["a".to_owned()][..], 2, Some("2")));
    assert_eq!(c.execute("CALL p()").await.unwrap().affected_rows, 9);
    // An error in a later result is an error of the whole.
    assert_eq!(c.query_all("CALL p()").await.unwrap_err().server_error().unwrap().code, 1317);
    c.execute("SELECT 1").await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_cursor_fetches_some_rows_at_a_time() {
    let open = StatusFlags::CURSOR_EXISTS;
    let (mut c, server) = connected(64, move |mut s| async move {
        prepare(&mut s).await;
        let head = [vec![1], number("n").encode()];
        assert_eq!(s.command().await[..], [0x17, 7, 0, 0, 0, 1, 1, 0, 0, 0]);
        s.send_all(&head).await;
        s.send(&eof(open)).await;
        for (rows, status) in [(0..2, open), (2..4, open), (4..5, StatusFlags::LAST_ROW_SENT)] {
            assert_eq!(s.command().await[..], [0x1c, 7, 0, 0, 0, 2, 0, 0, 0]);
            s.send_all(&rows.map(binary).collect::<Vec<_>>()).await;
            s.send(&eof(status)).await;
        }
        // A cursor that is left early; the rows of its last fetch are read first.
        assert_eq!(s.command().await[0], 0x17);
        s.send_all(&head).await;
        s.send(&eof(open)).await;
        assert_eq!(s.command().await[0], 0x1c);
        s.send_all(&[binary(0), binary(1), eof(open)]).await;
        assert_eq!(s.command().await[..], [0x1a, 7, 0, 0, 0]);
        s.send(&server::ok(0)).await;
        // No cursor for this one: the rows come at once.
        assert_eq!(s.command().await[0], 0x17);
        s.send_all(&head).await;
        s.send_all(&[eof(StatusFlags::empty()), binary(8), eof(StatusFlags::empty())]).await;
        // A cursor without end and without rows.
        assert_eq!(s.command().await[0], 0x17);
        s.send_all(&head).await;
        s.send(&eof(open)).await;
        assert_eq!(s.command().await[0], 0x1c);
        s.send(&eof(open)).await;
        // An error in place of rows.
        assert_eq!(s.command().await[0], 0x17);
        s.send_all(&head).await;
        s.send(&eof(open)).await;
        assert_eq!(s.command().await[0], 0x1c);
        s.send(&encode_err(1317, *b"70100", "interrupted")).await;
        assert_eq!(s.command().await[..], [0x19, 7, 0, 0, 0]);
        assert_eq!(s.command().await[0], 0x0e);
        s.send(&server::ok(0)).await;
    })
    .await;
    let statement = c.prepare("SELECT n FROM t").await.unwrap();
    let mut cursor = c.open_cursor(&statement, &[], 2).await.unwrap();
    assert_eq!(cursor.columns().len(), 1);
    for n in 0..5 {
        let row = cursor.next().await.unwrap().unwrap();
        assert!(row.values().eq([Ok(Value::Int(n))]));
    }
    assert!(cursor.next().await.unwrap().is_none() && cursor.next().await.unwrap().is_none());
    cursor.close().await.unwrap();

    let mut cursor = c.open_cursor(&statement, &[], 2).await.unwrap();
    assert!(cursor.next().await.unwrap().is_some());
    cursor.close().await.unwrap();

    let mut cursor = c.open_cursor(&statement, &[], 2).await.unwrap();
    assert!(cursor.next().await.unwrap().unwrap().values().eq([Ok(Value::Int(8))]));
    assert!(cursor.next().await.unwrap().is_none());

    let mut cursor = c.open_cursor(&statement, &[], 2).await.unwrap();
    assert!(cursor.next().await.unwrap_err().to_string().contains("neither rows nor their end"));

    let mut cursor = c.open_cursor(&statement, &[], 2).await.unwrap();
    assert_eq!(cursor.next().await.unwrap_err().server_error().unwrap().code, 1317);
    assert!(cursor.next().await.unwrap().is_none());
    assert!(c.open_cursor(&statement, &[Value::Int(1)], 2).await.is_err());
    c.close_statement(statement).await.unwrap();
    c.ping().await.unwrap();
    server.await.unwrap();
}

/// Conformance: W13
#[tokio::test]
async fn a_server_that_asks_for_a_file_gets_none() {
    let (mut c, server) = connected(64, |mut s| async move {
        for answer in [server::ok(0), encode_err(2, *b"HY000", "nothing came")] {
            s.query("SELECT 1").await;
            s.send(b"\xfb/etc/shadow").await;
            assert!(s.packet().await.is_empty());
            s.send(&answer).await;
        }
        assert_eq!(s.command().await[0], 0x0e);
        s.send(&server::ok(0)).await;
    })
    .await;
    for _ in 0..2 {
        let e = c.execute("SELECT 1").await.unwrap_err();
        assert!(e.is_file_request() && !e.is_retryable() && e.to_string().contains("\"/etc/shadow\""), "{e}");
        assert!(c.is_usable());
    }
    c.ping().await.unwrap();
    server.await.unwrap();
}
