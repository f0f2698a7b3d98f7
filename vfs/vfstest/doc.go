// Package vfstest holds every implementation of package vfs to the sentences of its interfaces.
//
// [Run] is the suite of a [vfs.Dir] and the files below it, [RunFS] that of a [vfs.FS]. Both know nothing of
// an operating system: what only one has (symbolic links, permissions, other processes) is tested beside its
// implementation. [Differential] applies one random sequence of operations to two directories and compares
// every answer and the contents at the end, so a simulated disk is also held to what no one thought of.
//
// Neither tests durability: the operating system cannot be crashed here. Rules D1 to D5 are tested with the
// simulated disk.
//
// Files: vfstest.go (Run, RunFS), names.go (names, directories, lists), move.go (rename, remove, pinning),
// files.go (bytes), identity.go (ID), closing.go (use after Close), locks.go, functions.go (ReadFile,
// ReplaceFile, RemoveAll), differential.go.
package vfstest
