package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// counts is an observer.
type counts struct {
	mu      sync.Mutex
	reasons map[string]int
	running int
}

func (c *counts) SchemaStarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
}

func (c *counts) SchemaFinished(_ time.Duration, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.reasons[reason]++
}

func TestCheckerKeepsIncarnationsApart(t *testing.T) {
	c := NewChecker(CheckerOptions{})
	ctx := context.Background()
	require.NoError(t, c.Check(ctx, Key{"aa", 1}, "orders", []byte(`{"type":"string"}`), []byte(`"x"`)))
	// The name now belongs to another topic, whose first version is another document (B201).
	require.NoError(t, c.Check(ctx, Key{"bb", 1}, "orders", []byte(`{"type":"number"}`), []byte(`1`)))
	require.Error(t, c.Check(ctx, Key{"aa", 1}, "orders", []byte(`{"type":"string"}`), []byte(`1`)))
	require.Error(t, c.Check(ctx, Key{"bb", 2}, "orders", []byte(`{"type":"null"}`), []byte(`1`)))
}

func TestCheckerCacheIsBounded(t *testing.T) {
	c := NewChecker(CheckerOptions{CacheBytes: 1000})
	for i := range 100 {
		document := fmt.Sprintf(`{"title":"%s"}`, strings.Repeat("a", 100))
		require.NoError(t, c.Check(context.Background(), Key{"aa", i}, "orders", []byte(document), []byte(`1`)))
	}
	require.LessOrEqual(t, c.bytes, 1000)
	require.Len(t, c.cached, c.recent.Len())
	require.NotEmpty(t, c.cached)
}

func TestCheckerDropsWhatDoesNotCompile(t *testing.T) {
	c := NewChecker(CheckerOptions{})
	require.Error(t, c.Check(context.Background(), Key{"aa", 1}, "orders", []byte(`{"type":7}`), []byte(`1`)))
	require.Empty(t, c.cached)
	require.Zero(t, c.bytes)
}

func TestCheckerSlots(t *testing.T) {
	large := []byte(`"` + strings.Repeat("a", payloadCheap) + `"`)
	synctest.Test(t, func(t *testing.T) {
		seen := &counts{reasons: map[string]int{}}
		c := NewChecker(CheckerOptions{Slots: 1, Observer: seen})
		check := func(ctx context.Context, message []byte) error {
			return c.Check(ctx, Key{"aa", 1}, "orders", []byte(`{"type":"string"}`), message)
		}
		release := make(chan struct{})
		go c.InSlot(context.Background(), func() error { <-release; return nil })
		synctest.Wait()

		require.NoError(t, check(t.Context(), []byte(`"small"`))) // takes no slot
		began := time.Now()
		require.ErrorIs(t, check(t.Context(), large), ErrBusy)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualError(t, ErrBusy, "schema: validation capacity busy, retry")

		leaving, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		var refused *Error
		require.ErrorAs(t, check(leaving, large), &refused)
		require.Equal(t, ReasonCanceled, refused.Reason)

		time.AfterFunc(time.Second, func() { close(release) })
		require.NoError(t, check(t.Context(), large))
		require.Error(t, c.Document(t.Context(), func() error { return refuse(ReasonPaths, "too many") }))
		require.Equal(t, map[string]int{"busy": 1, "canceled": 1, "": 2, "definition_paths": 1}, seen.reasons)
		require.Zero(t, seen.running)
	})
}

// One who leaves does not fail those who wait for the same schema.
func TestCheckerCompilesOnceForAll(t *testing.T) {
	large := []byte(`{"title":"` + strings.Repeat("a", payloadCheap) + `"}`)
	synctest.Test(t, func(t *testing.T) {
		c := NewChecker(CheckerOptions{Slots: 1})
		release := make(chan struct{})
		go c.InSlot(context.Background(), func() error { <-release; return nil }) // holds up the compilation
		synctest.Wait()
		first, leave := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() { results <- c.Check(first, Key{"aa", 1}, "orders", large, []byte(`1`)) }()
		synctest.Wait()
		leave()
		require.Error(t, <-results)
		go func() { results <- c.Check(t.Context(), Key{"aa", 1}, "orders", large, []byte(`1`)) }()
		synctest.Wait()
		close(release)
		require.NoError(t, <-results)
	})
}

func TestNext(t *testing.T) {
	base := func(n int64) *int64 { return &n }
	v1 := []byte(`{"type":"integer"}`)
	history := [][]byte{v1}
	many := make([][]byte, VersionsMax)
	for i := range many {
		many[i] = v1
	}
	full := [][]byte{}
	for range 16 {
		full = append(full, []byte(`{"title":"`+strings.Repeat("a", DocumentBytesMax-12)+`"}`))
	}
	full = append(full, v1)
	for _, c := range []struct {
		name     string
		history  [][]byte
		base     *int64
		document string
		want     string // empty: nothing is stored
		err      error
	}{
		{"first", nil, nil, ` { "type" : "string" } `, `{"type":"string"}`, nil},
		{"first on base 0", nil, base(0), `true`, `true`, nil},
		{"first on another base", nil, base(1), `true`, "", ErrVersion},
		{"wider", history, base(1), `{"type":"number"}`, `{"type":"number"}`, nil},
		{"same value", history, nil, `{ "type":"integer" }`, "", nil},
		{"annotation", history, nil, `{"type":"integer","title":"n","default":3,"$comment":"c"}`, "", nil},
		{"same value on an old base", history, base(0), `{"type":"integer"}`, "", ErrVersion},
		{"narrower", history, nil, `{"type":"integer","minimum":1}`, "", ErrIncompatible},
		{"unknown keyword", history, nil, `{"type":"integer","x":1}`, `{"type":"integer","x":1}`, nil},
		{"1001st version", many, nil, `{"type":"number"}`, "", ErrFull},
		{"the same as the 1000th", many, nil, `{"type":"integer"}`, "", nil},
		{"4 MiB and more", full, nil, `{"type":"number"}`, "", ErrFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Next("orders", c.history, c.base, []byte(c.document))
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
	_, err := Next("orders", history, nil, []byte(`{"type":`))
	require.Equal(t, ReasonMalformed, reasonOf(t, err))
	require.False(t, errors.Is(err, ErrIncompatible))
}

// A property called like an annotation, and a value that looks like one, are none.
func TestAnnotations(t *testing.T) {
	same := func(a, b string) bool {
		x, err := decode([]byte(a), 64, "")
		require.Nil(t, err)
		y, err := decode([]byte(b), 64, "")
		require.Nil(t, err)
		return sameDocument(x, y)
	}
	require.True(t, same(`{"items":{"title":"a"},"anyOf":[{"description":"b","type":"null"}]}`, `{"items":{},"anyOf":[{"type":"null","deprecated":true}]}`))
	require.False(t, same(`{"properties":{"title":{}}}`, `{"properties":{}}`))
	require.False(t, same(`{"const":{"title":1}}`, `{"const":{}}`))
	require.False(t, same(`{"enum":[{"default":1}]}`, `{"enum":[{}]}`))
}
