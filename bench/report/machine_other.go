//go:build !linux

package report

// readSystem leaves what only Linux is asked for.
func (m *Machine) readSystem(string) {}
