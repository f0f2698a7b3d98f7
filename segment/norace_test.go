//go:build !race

package segment

const poolsLeak = false
