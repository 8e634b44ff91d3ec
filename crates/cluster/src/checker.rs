//! Every interleaving of small cases, of the very machines: nodes with a thread each, a network that loses, doubles and
//! overtakes, a membership service, logs, data files and a slow file with a cache on each node. `spec/cluster.md` has
//! the rows and what each variant finds.

mod actions;
mod alone;
mod explorer;
mod forced;
mod node;
mod rank;
mod register;
mod row;
mod rows;
mod shared;
mod steps;
mod world;
