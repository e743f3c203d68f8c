//! Messages that objects share: those of a named type, and those in the tables of a file.

use super::cursor::{Cursor, NOWHERE};
use super::fractal_heap::Heap;
use super::header::{self, Below, Table};

impl Below {
    /// Resolves a reference to a message in another object, such as a named type, or in a table.
    pub(crate) fn shared(&self, reference: &[u8], kind: u16) -> Result<Vec<u8>, String> {
        let wrong = || "a reference to a shared message is malformed".to_owned();
        let mut cursor = Cursor::new(reference);
        let (version, place) = (cursor.u8().ok_or_else(wrong)?, cursor.u8().ok_or_else(wrong)?);
        match (version, place) {
            (1, _) => cursor.skip(6).ok_or_else(wrong)?,
            (3, 1) => return self.table_message(cursor.bytes(8).ok_or_else(wrong)?, kind),
            (2, _) | (3, 2) => {}
            _ => return Err(wrong()),
        }
        let address = cursor.address(self.offset_size).ok_or_else(wrong)?;
        let found = self.messages(address)?;
        let message = found.iter().find(|message| message.kind == kind && !message.is_shared());
        Ok(message.ok_or_else(wrong)?.data.clone())
    }

    /// Returns the address of the object that contains the message of a reference; `None` for one in a table.
    pub(super) fn committed(&self, reference: &[u8]) -> Option<u64> {
        let mut cursor = Cursor::new(reference);
        match (cursor.u8()?, cursor.u8()?) {
            (1, _) => cursor.skip(6)?,
            (2, _) | (3, 2) => {}
            _ => return None,
        }
        cursor.address(self.offset_size)
    }

    /// Returns the message of a table that has an identifier in its heap.
    pub(super) fn table_message(&self, id: &[u8], kind: u16) -> Result<Vec<u8>, String> {
        let tables = self.tables.get_or_init(|| self.read_tables()).as_ref().map_err(Clone::clone)?;
        let bit = 1_u16.checked_shl(kind.into()).unwrap_or_default();
        let table = tables.iter().find(|table| table.kinds & bit != 0 && table.heap != NOWHERE);
        let table = table.ok_or("a message that no table of the file has")?;
        Heap::open(self, table.heap)?.get(self, id)
    }

    fn read_tables(&self) -> Result<Vec<Table>, String> {
        let wrong = || "the table of shared messages is malformed".to_owned();
        if self.extension == NOWHERE {
            return Err("the table of shared messages is missing".into());
        }
        let found = self.messages(self.extension)?;
        let message = found.iter().find(|message| message.kind == header::TABLES).ok_or_else(wrong)?;
        let mut cursor = Cursor::new(&message.data);
        cursor.skip(1).ok_or_else(wrong)?;
        let address = cursor.address(self.offset_size).ok_or_else(wrong)?;
        let count = cursor.u8().ok_or_else(wrong)?;
        let size = u64::from(self.offset_size).saturating_mul(2).saturating_add(14);
        let len = size.saturating_mul(count.into()).saturating_add(8);
        let bytes = self.checked(address, len)?;
        let mut cursor = Cursor::new(&bytes);
        if cursor.bytes(4) != Some(&b"SMTB"[..]) {
            return Err(wrong());
        }
        let mut next = || {
            cursor.skip(2)?;
            let kinds = cursor.u16()?;
            cursor.skip(10)?;
            cursor.skip(self.offset_size.into())?;
            Some(Table { kinds, heap: cursor.address(self.offset_size)? })
        };
        (0..count).map(|_| next().ok_or_else(wrong)).collect()
    }
}
