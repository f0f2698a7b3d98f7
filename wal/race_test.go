//go:build race

package wal

// pools are emptied at random under the race detector.
const poolsLeak = true
