//! Members over real sockets: what gets through, who is let in, and what becomes of those who do not answer.

mod exchange;
mod mesh;
mod queues;
mod refusals;
mod support;
