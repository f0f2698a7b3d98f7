// Package model is the reference queue: what a partition may do, in plain maps, and the sequential
// specification of one stored copy of a message for porcupine. It knows nothing of the engine; package check
// feeds it with what the engine reports and with what clients saw.
//
// Everything that is not allowed comes back as a [Violation] that names the invariant (INV-nn of
// docs/requirements.md), so that a failing run can be grouped by it.
//
// Files: partition.go (lease table, frontier and disk snapshots of one partition), copy.go (one stored copy),
// violation.go.
package model
