//go:build unix

package main

import "syscall"

// ownFiles has what the process creates belong to its user alone, also where a library chooses wider permissions.
func ownFiles() { syscall.Umask(0o077) }
