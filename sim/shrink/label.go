package shrink

import (
	"runtime"
	"strings"
	"sync"
)

// sites caches the names of places in the code.
var sites sync.Map // uintptr to string

// Site names the function that draws the choice just now: "workload.(*node).strike". It is to be called from
// sim.Trace.Choice.
func Site() string {
	var pcs [24]uintptr
	inside := false
	for _, pc := range pcs[:runtime.Callers(2, pcs[:])] {
		name := siteOf(pc)
		switch {
		case !inside:
			inside = strings.HasSuffix(name, ".traceChoice")
		case !passesOn(name):
			return name
		}
	}
	return "sim"
}

// passesOn reports whether a function draws for the one that called it.
func passesOn(name string) bool {
	i := strings.LastIndexByte(name, '.')
	switch name[i+1:] {
	case "draw", "Choose", "Chance", "Duration", "percent":
		return true
	case "pick":
		return !strings.HasPrefix(name, "sim.") // the kernel's picks a task
	}
	return false
}

// siteOf shortens the name of a function to package, receiver and name.
func siteOf(pc uintptr) string {
	if name, ok := sites.Load(pc); ok {
		return name.(string)
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	name := frame.Function[strings.LastIndexByte(frame.Function, '/')+1:]
	name, _, _ = strings.Cut(name, "[...]")
	sites.Store(pc, name)
	return name
}
