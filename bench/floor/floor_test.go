package floor

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, size int64) (*Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path, size)
	require.NoError(t, err)
	return l, path
}

// What is answered is in the file, once for each request.
func TestAppend(t *testing.T) {
	l, path := open(t, 1<<20)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			w := httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf("<%04d>", i))))
			if w.Code != http.StatusAccepted {
				t.Errorf("status %d", w.Code)
			}
		})
	}
	group.Wait()
	require.NoError(t, l.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, data, 1<<20)
	for i := range 50 {
		require.Equal(t, 1, bytes.Count(data, fmt.Appendf(nil, "<%04d>", i)))
	}
}

func TestStartsOver(t *testing.T) {
	l, path := open(t, 10)
	require.NoError(t, l.Append([]byte("abcdef")))
	require.NoError(t, l.Append([]byte("ghijkl")))
	require.NoError(t, l.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "ghijkl\x00\x00\x00\x00", string(data))
}

// A failed write is told to everybody, from then on.
func TestFails(t *testing.T) {
	l, _ := open(t, 10)
	require.NoError(t, l.file.Close())
	require.Error(t, l.Append([]byte("a")))
	require.Error(t, l.Append([]byte("b")))
}

func TestRefuses(t *testing.T) {
	l, _ := open(t, 10)
	defer l.Close()
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRequest(http.MethodPost, "/", nil),
		httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, MaxBody+1))),
	} {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code)
	}
}
