//! What rows and events cost in allocations: nothing for each of them, once the buffers are there.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::{BinlogDump, ColumnDefinition, DumpStart, Row, RowFormat, server};

use super::connected;

const COUNT: usize = 20_000;
/// Read before anything is counted: buffers grow to their size.
const WARM: usize = 1_000;

/// The value of a future that has nothing to wait for.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("all of its bytes are there"),
    }
}

fn result_set() -> Vec<Vec<u8>> {
    let rows = (0..COUNT).map(|n| [Some(n.to_string()), None, Some("text that is a bit longer".repeat(n % 4))]);
    server::result_set(&["id", "nothing", "text"], rows)
}

fn touch(row: &Row) -> usize {
    row.values().inspect(|value| assert!(black_box(value).is_ok())).count()
}

/// Packets to rows, without a socket.
#[test]
fn result_rows_are_read_without_any_allocation() {
    let (mut codec, mut stream) = (PacketCodec::new(MAX_PACKET), Vec::new());
    codec.encode(b"\x03SELECT", &mut Vec::new());
    for packet in result_set() {
        codec.encode(&packet, &mut stream);
    }
    let mut codec = PacketCodec::new(MAX_PACKET);
    codec.encode(b"\x03SELECT", &mut Vec::new());
    let mut input = BytesMut::from(&stream[..]);
    let mut reader = ResultReader::new(CapabilityFlags::empty(), RowFormat::Text);
    let mut columns: Arc<[ColumnDefinition]> = Arc::new([]);
    let mut rows = 0;
    while rows == 0 {
        let packet = codec.decode(&mut input).unwrap().unwrap();
        match reader.handle(&packet).unwrap() {
            QueryEvent::Columns(known) => columns = known,
            QueryEvent::Row => rows += touch(&Row::new(packet, columns.clone(), RowFormat::Text)) / 3,
            _ => {}
        }
    }
    let used = measure(|| {
        while rows < COUNT {
            let packet = codec.decode(&mut input).unwrap().unwrap();
            assert_eq!(reader.handle(&packet).unwrap(), QueryEvent::Row);
            rows += touch(&Row::new(packet, columns.clone(), RowFormat::Text)) / 3;
        }
    });
    assert_eq!(used.count_total, 0);
}

/// The same through the driver.
#[test]
fn the_drivers_rows_are_read_without_any_allocation() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut connection, _server) = runtime.block_on(async {
        let (connection, server) = connected(16 << 20, |mut s| async move {
            // The answer lies in the pipe before the question.
            s.codec.begin_answer();
            s.send_all(&result_set()).await;
            s
        })
        .await;
        (connection, server.await.unwrap())
    });
    let _context = runtime.enter();
    let mut rows = ready(connection.query("SELECT")).unwrap();
    for _ in 0..WARM {
        touch(&ready(rows.next()).unwrap().unwrap());
    }
    let used = measure(|| {
        for _ in WARM..COUNT {
            touch(&ready(rows.next()).unwrap().unwrap());
        }
    });
    assert_eq!(used.count_total, 0);
    assert!(ready(rows.next()).unwrap().is_none());
}

#[test]
fn events_of_a_dump_take_no_allocation_and_kept_ones_less_than_one() {
    let event = |n: usize| {
        let mut packet = vec![0; 20 + n % 700];
        let length = u32::try_from(packet.len() - 1).unwrap();
        packet[10..14].copy_from_slice(&length.to_le_bytes());
        packet
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut stream, _server) = runtime.block_on(async {
        let (connection, server) = connected(16 << 20, move |mut s| async move {
            for _ in 0..2 {
                s.command().await;
                s.send(&server::ok(0)).await;
            }
            s.command().await;
            for n in 0..COUNT {
                s.send(&event(n)).await;
            }
            s
        })
        .await;
        let start = DumpStart::Position { file: "binlog.000001".into(), position: 4 };
        let dump = BinlogDump::new(start, 7, "7e51f3a0-0b5c-4bd1-9f5e-0d8f6f0f3a11");
        let stream = connection.dump(dump).await.unwrap();
        (stream, server.await.unwrap())
    });
    let _context = runtime.enter();
    for n in 0..WARM {
        assert_eq!(ready(stream.next()).unwrap().unwrap().len(), event(n).len() - 1);
    }
    let used = measure(|| {
        for _ in WARM..COUNT / 2 {
            drop(black_box(ready(stream.next()).unwrap().unwrap()));
        }
    });
    assert_eq!(used.count_total, 0);

    // Events that are kept keep their buffer: the next read needs another one.
    let mut kept: Vec<Bytes> = Vec::with_capacity(COUNT);
    let used = measure(|| kept.extend((COUNT / 2..COUNT).map(|_| ready(stream.next()).unwrap().unwrap())));
    println!("{} allocations for {} events that are kept", used.count_total, kept.len());
    assert!(used.count_total < kept.len() as u64 / 100);
}
