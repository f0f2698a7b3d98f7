// Package fuzz holds the fuzz targets that need more than one package: whole worlds, and whole engines on real files. The
// targets of formats and parsers are with what they fuzz; docs/fuzz.md lists all of them.
//
//	FuzzWorld   the bytes are the choices of a simulated world: clients, faults, schedule (world_test.go)
//	FuzzEngine  the bytes are operations on a real engine in a real directory, crashes among them (engine_test.go)
//	FuzzCanary  FuzzEngine with a bug planted; it must fail, and TestCanary sees that it does (canary_test.go)
package fuzz
