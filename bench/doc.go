// Package bench measures the engine and its parts on the machine's own disk, without a front: what a durability cadence
// costs and what a crash brings back (cadence.go), the figures that the specification claims (claims.go), and how costs grow
// with what a node holds (growth.go). Package bench/load measures messages through the engine or a server, package
// bench/floor is the server to compare with, package bench/report says what was found.
//
// Everything here compares within one run. On a shared machine the speed of a disk changes from minute to minute, so what is
// to be compared takes turns, and the result is a ratio.
//
// Files: designs.go (ways to persist consumer state), meter.go (how far it trails acks), beside.go (produces beside it),
// cadence.go (the sweeps), returned.go and traffic.go (acks that come back after a crash), claims.go and gobench.go,
// growth.go and growdisk.go.
package bench
