package env_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
)

func TestInstantSaturates(t *testing.T) {
	for _, c := range []struct {
		at   env.Instant
		d    time.Duration
		want env.Instant
	}{
		{5, 3, 8}, {5, -3, 2}, {0, math.MaxInt64, env.Forever}, {1, math.MaxInt64, env.Forever},
		{env.Forever, 1, env.Forever}, {env.Forever, -1, env.Forever - 1}, {env.Forever - 5, 6, env.Forever},
	} {
		require.Equal(t, c.want, c.at.Add(c.d), "%d + %d", c.at, c.d)
	}
	for _, c := range []struct {
		i, j env.Instant
		want time.Duration
	}{
		{8, 5, 3}, {5, 8, -3}, {env.Forever, 0, math.MaxInt64}, {env.Forever, -1, math.MaxInt64},
		{0, env.Forever, -math.MaxInt64}, {math.MinInt64, 0, math.MinInt64}, {math.MinInt64, 1, math.MinInt64},
		{-2, env.Forever, math.MinInt64}, {math.MinInt64, math.MinInt64, 0},
	} {
		require.Equal(t, c.want, c.i.Sub(c.j), "%d - %d", c.i, c.j)
	}
}

func TestWallMillis(t *testing.T) {
	require.Equal(t, int64(1_700_000_000_123), env.Wall(1_700_000_000_123_999_999).UnixMilli())
}
