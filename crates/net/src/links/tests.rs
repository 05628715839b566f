//! Behaviour of a network, by what it makes of frames: no root, no sleep, and time is what the test says.

mod background;
mod clocks;
mod impairments;
mod lans;
mod partitions;
mod passages;
mod pipes;
mod routes;
mod series;
mod shapes;
