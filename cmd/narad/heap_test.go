package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The heap at which the next collection begins is never below the floor for long, nor above it by more than Go itself would have it.
func TestHeapFloor(t *testing.T) {
	for live := uint64(1 << 20); live <= 1<<34; live += live/7 + 1 {
		next := live + live*uint64(gcPercent(live))/100
		require.GreaterOrEqual(t, next, uint64(heapFloor)*98/100, "live %d", live)
		require.LessOrEqual(t, next, max(heapFloor, 2*live), "live %d", live)
	}
	require.Positive(t, gcPercent(0))
}
