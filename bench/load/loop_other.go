//go:build !linux

package load

var driveAll = driveGoroutines
