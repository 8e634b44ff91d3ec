//! Views as bytes: number, members, homes by the place of their member, members that are gone, lives.

use super::fields::{Field, Source};
use crate::view::View;

impl Field for View {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
        self.seats().to_vec().put(out);
        self.homes().collect::<Vec<(u16, u64)>>().put(out);
        self.all_gone().collect::<Vec<_>>().put(out);
        self.lives().collect::<Vec<(u16, u16)>>().put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        let (number, seats) = (u64::take(from)?, Field::take(from)?);
        View::of_parts(number, seats, Field::take(from)?, Field::take(from)?, Field::take(from)?)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Source<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}
