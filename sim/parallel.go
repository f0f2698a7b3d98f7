package sim

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// RunParallel calls fn(0) to fn(n-1) on as many goroutines as there are processors.
func RunParallel(n int, fn func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wait.Wait()
}
