package inflight

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// INF-05
func TestHandleRoundTrip(t *testing.T) {
	for _, h := range []Handle{{0, 0, 1}, {7, 42, 99}, {math.MaxInt32, math.MaxInt64, math.MaxInt64}} {
		got, err := ParseHandle(h.String())
		require.NoError(t, err)
		require.Equal(t, h, got)
	}
	require.Equal(t, "3:14:159", Handle{3, 14, 159}.String())
}

// API-15: every malformed text is refused, with the part that is wrong.
func TestHandleRefused(t *testing.T) {
	for text, part := range map[string]string{
		"": "handle", "1": "handle", "1:2": "handle", ":": "handle",
		"::": "partition", ":1:1": "partition", "-1:0:1": "partition", "+1:0:1": "partition", " 1:0:1": "partition", "01:0:1": "partition",
		"2147483648:0:1": "partition", "0x1:0:1": "partition", "١:0:1": "partition", "00:0:1": "partition",
		"0::1": "offset", "0:-1:1": "offset", "0:1 :1": "offset", "0:9223372036854775808:1": "offset", "0:99999999999999999999999:1": "offset", "0:00:1": "offset",
		"0:0:": "nonce", "0:0:0": "nonce", "0:0:-5": "nonce", "0:0:1:": "nonce", "0:0:1:2": "nonce", "0:0:9223372036854775808": "nonce", "0:0:1\n": "nonce", "0:0:1e3": "nonce",
	} {
		_, err := ParseHandle(text)
		var bad *HandleError
		require.True(t, errors.As(err, &bad), "%q: %v", text, err)
		require.Equal(t, part, bad.Part, "%q", text)
	}
}

// FuzzParseHandle: whatever is accepted is the one text of its handle, and lies within the bounds. API-15, INF-05
func FuzzParseHandle(f *testing.F) {
	for _, text := range []string{"0:0:1", "2147483647:9223372036854775807:9223372036854775807", "1:02:3", "-1:0:1", "::", "0:0:18446744073709551617"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHandle(text)
		if err != nil {
			require.Equal(t, Handle{}, h)
			return
		}
		require.Equal(t, text, h.String())
		require.True(t, h.Partition >= 0 && h.Offset >= 0 && h.Nonce > 0)
	})
}
