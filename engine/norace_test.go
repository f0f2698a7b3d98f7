//go:build !race

package engine

const poolsLeak = false
