//! The order of MariaDB's UUIDs (`plugin/type_uuid/sql_type_uuid.h`): of versions 1 to 5 the groups are compared from the last to
//! the first, so that what a host makes lies together; all others are compared as they are. So it is since 10.10.6, 10.11.5 and
//! 11.0.3; servers before compared all of them from the last group, and the reader of a chunk stops where keys come in another
//! order.

/// The bytes whose order is the server's.
pub(crate) fn order(uuid: [u8; 16]) -> [u8; 16] {
    if is_swapped(uuid) { swapped(uuid) } else { uuid }
}

/// The UUID of such bytes; `None` if there is none. (Where the bytes would do for two, the server takes only one of them: it
/// refuses what has version 8 or later and not the usual variant.)
pub(crate) fn value(order: [u8; 16]) -> Option<[u8; 16]> {
    let other = unswapped(order);
    if is_swapped(other) { Some(other) } else { (!is_swapped(order)).then_some(order) }
}

/// Whether the groups are compared from the last one. The server looks at whole bytes.
const fn is_swapped(uuid: [u8; 16]) -> bool {
    let [_, _, _, _, _, _, version, _, variant, ..] = uuid;
    version > 0 && version < 0x60 && variant & 0x80 != 0
}

const fn swapped(uuid: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = uuid;
    [k, l, m, n, o, p, i, j, g, h, e, f, a, b, c, d]
}

const fn unswapped(order: [u8; 16]) -> [u8; 16] {
    let [k, l, m, n, o, p, i, j, g, h, e, f, a, b, c, d] = order;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the rule that `ORDER BY` follows on 10.11.18 and 11.8.9 for UUIDs of every version and variant.
    #[test]
    fn the_order_is_the_servers() {
        let ascending: [u128; 7] = [
            0x00000000_0000_0000_0000_000000000000,
            0x00000000_2ea2_00af_ad3a_d7a6c2107257,
            0x00000001_0000_7000_8000_000000000000,
            0xffffffff_ffff_1fff_8000_100000000000,
            0x00000000_0000_4000_8000_100000000001,
            0xff000000_0000_1000_0000_000000000000,
            0x00000000_0000_5000_8000_ffffffffffff,
        ];
        let orders = ascending.map(|uuid| order(uuid.to_be_bytes()));
        assert!(orders.is_sorted(), "{orders:x?}");
        for (uuid, order) in ascending.iter().zip(orders) {
            assert_eq!(value(order), Some(uuid.to_be_bytes()));
        }
    }
}
