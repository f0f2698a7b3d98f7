//go:build !race

package wal

const poolsLeak = false
