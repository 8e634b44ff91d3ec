//! Which bytes are worth flash: one file a paper, and the cost models they decide by.
//!
//! **The client side** ([`client`]) is asked for each request of a file. A run's [`client::chain::Chain`] says which
//! policies are asked in which order; `chain.first_part(s4d, regions, request)` is the whole question, and its answer
//! a [`client::Decision`]. [`client::s4d::S4d`] goes by the request, [`client::carl::Regions`] by a plan, and
//! [`client::d_carl::DCarl`] moves regions while the program runs.
//!
//! **The server side** ([`server`]) is asked by a volume's engine, which holds a [`server::Policy`], most often the
//! [`server::Chain`] of LiU and iTransformer, and tells it what it is doing ([`server::Load`]).
//!
//! **Cost models** ([`cost`]): S4D's benefit of a request, CARL's of a size and its gain table of regions.
//!
//! **Guesses of order** ([`order`]): whether the disk serves a request well anyway. A client puts them into the
//! request's [`order::Distance`]; servers' policies keep their own.
//!
//! A policy sees requests and answers with a decision. It keeps no data, reads no clock and touches no mechanism.
#![forbid(unsafe_code)]

pub mod client;
pub mod cost;
pub mod order;
pub mod server;
