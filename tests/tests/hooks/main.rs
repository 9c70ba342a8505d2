//! Races between a chunk and the stream, crashes at every step, and failures at chosen moments: the engine runs in this
//! process and is halted at the named places of `pipeline::hooks`, so that each happens for certain.

mod crashes;
mod disturb;
mod memory;
mod races;
mod script;
mod skip;
mod weights;
