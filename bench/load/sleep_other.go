//go:build !linux

package load

import "time"

func sleepUntil(at int64) { time.Sleep(time.Duration(at - now())) }
