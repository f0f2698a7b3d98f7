//go:build race

package segment

// pools are emptied at random under the race detector.
const poolsLeak = true
