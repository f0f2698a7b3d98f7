// Package torture loads a real server process over HTTP, kills it with SIGKILL again and again, sometimes while it recovers
// from the last time, and judges all that its clients saw.
//
// After SIGKILL everything that was written is still in the page cache. What a power loss takes is the subject of the
// simulator and of sim/realfs.
//
//	process.go  one server process
//	config.go   how much of it
//	run.go      lives and deaths, drain, end
//	clients.go  producers and consumers, with their habits
//	history.go  what clients saw, and the rules for it, by intervals of time
//	linear.go   the same history, copy by copy, for porcupine
//	report.go   figures, as text and as a page
package torture
