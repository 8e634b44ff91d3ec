//! Which values a read may return: each block is an atomic register of values that may vanish with their writer's node.
//!
//! A value is *known* once its write has returned or a read has returned it. It is older than another that was written
//! by a write which began later, and than one that a read returned which began later: facts, whenever they come to be
//! known. It *binds* while its node is a member or once an fsync has covered it. A read must not return what is older
//! than a value that binds and was known when the read began.

/// Values by number: the first ones are what the blocks have at the beginning.
pub(super) type Values = u16;

/// What a read of lost flash returns.
pub(super) const FOREIGN: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Value {
    block: u8,
    /// Who wrote it; nobody what was there at the beginning.
    node: Option<u8>,
    returned: bool,
    seen: bool,
    synced: bool,
    older: Values,
}

/// All values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Register {
    values: Vec<Value>,
    /// Nodes whose unsynced values bind nobody any more.
    lost: u8,
}

fn bit(value: u8) -> Values {
    1 << value
}

impl Register {
    pub(super) fn new(blocks: u8) -> Register {
        let first = |block| Value { block, node: None, returned: true, seen: true, synced: true, older: 0 };
        Register { values: (0..blocks).map(first).collect(), lost: 0 }
    }

    /// What is known of a block.
    pub(super) fn known(&self, block: u8) -> Values {
        let known = |value: &Value| value.block == block && (value.returned || value.seen);
        self.values.iter().enumerate().filter(|(_, value)| known(value)).fold(0, |all, (at, _)| all | bit(at as u8))
    }

    /// A write begins.
    pub(super) fn begin(&mut self, node: u8, block: u8) -> u8 {
        let older = self.known(block);
        self.values.push(Value { block, node: Some(node), returned: false, seen: false, synced: false, older });
        self.close();
        self.values.len() as u8 - 1
    }

    /// It has returned.
    pub(super) fn wrote(&mut self, value: u8) {
        self.values[value as usize].returned = true;
    }

    /// What a node's fsync that begins now will cover, of some blocks.
    pub(super) fn to_sync(&self, node: u8, blocks: impl Fn(u8) -> bool) -> Values {
        let mine = |value: &Value| value.node == Some(node) && value.returned && blocks(value.block);
        self.values.iter().enumerate().filter(|(_, value)| mine(value)).fold(0, |all, (at, _)| all | bit(at as u8))
    }

    /// It has returned.
    pub(super) fn synced(&mut self, values: Values) {
        for (at, value) in self.values.iter_mut().enumerate() {
            value.synced |= values & bit(at as u8) != 0;
        }
    }

    /// A node is no member any more.
    pub(super) fn lose(&mut self, node: u8) {
        self.lost |= 1 << node;
    }

    fn binds(&self, value: &Value) -> bool {
        value.synced || value.node.is_none_or(|node| self.lost & (1 << node) == 0)
    }

    /// A read that began when `known` was known returns a value.
    pub(super) fn read(&mut self, block: u8, known: Values, value: u8) -> Result<(), String> {
        if value == FOREIGN || self.values[value as usize].block != block {
            return Err("foreign bytes are read".to_string());
        }
        let newer = self.values.iter().enumerate().find(|(at, other)| {
            *at != value as usize && known & bit(*at as u8) != 0 && self.binds(other) && other.older & bit(value) != 0
        });
        if let Some((at, _)) = newer {
            return Err(format!("{value} is read after {at}"));
        }
        self.values[value as usize].seen = true;
        self.values[value as usize].older |= known & !bit(value);
        self.close();
        Ok(())
    }

    /// What is older than an older one is older.
    fn close(&mut self) {
        loop {
            let before = self.values.clone();
            for at in 0..self.values.len() {
                let older = (0..before.len()).filter(|other| before[at].older & bit(*other as u8) != 0);
                self.values[at].older |= older.fold(0, |all, other| all | before[other].older);
            }
            if self.values == before {
                return;
            }
        }
    }
}
