// Package config turns what an operator wrote into a checked configuration of one node.
//
// A value comes from the default, the JSON file, the environment or the command line; the later one wins. Nothing is
// guessed: an unknown key of the file, a value of the wrong kind, a value out of its range and a pair of values that
// contradict each other are refused, all in one error, each with its key, its value, the place that it came from and
// what is allowed. An environment variable that looks like one of ours and is none is a warning only, because platforms
// set such variables on their own (a Kubernetes service named "narad" does).
//
// An environment variable that is set to the empty text counts as not set.
//
// Keys of what this version does not have (more nodes, fan-out, remotes) are read and checked like the others, and refused
// when they ask for anything but their default: an operator is told, not ignored. Internal constants are no keys: a
// file that sets one is refused.
//
// The package reads no file and no environment by itself; [Load] gets both as values.
//
// Files: config.go (Config), settings.go (the table of all keys), kinds.go (kinds of values), load.go (Load, sources and
// precedence), file.go (JSON to keys), rules.go (rules between keys), problem.go (errors), table.go (the documentation of all keys).
package config
