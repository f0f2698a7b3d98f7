// Package tidy holds the house rules of the module as tests. It has no code but tests.
//
// Each rule is a function from the parsed sources of the module to the places that break it, and each is
// itself tested with planted violations, so a rule that no longer sees anything fails too. A failure says
// what is wrong, why it matters and what to do instead.
//
//   - lattice_test.go: who may import whom, every package named; who may reach the operating system.
//   - determinism_test.go: what code that runs in the simulator may not do, and what it does instead.
//   - maps_test.go: no walk over a map whose order can be seen; decided by types.
//   - text_test.go: package comments, formatting, forbidden marks, skipped tests, paths of one machine.
//   - cited_test.go: which lines of docs/requirements.md a test, checker or mutant cites; -v prints the table.
//   - module_test.go: reads the sources.
package tidy
