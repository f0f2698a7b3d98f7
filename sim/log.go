package sim

import (
	"fmt"

	"narad/env"
)

// Logging reports whether there is an event log. Ask it before a Logf whose arguments cost something.
func (w *World) Logging() bool { return w.options.Log != nil || w.options.Trace != nil }

// Logf writes a line to the event log: true time, running task, text. Without a log it does nothing.
func (w *World) Logf(format string, args ...any) {
	if tr := w.options.Trace; tr != nil && tr.Line != nil {
		tr.Line(Line{env.Instant(w.now), Task{w.current}, fmt.Sprintf(format, args...)})
	}
	if w.options.Log == nil {
		return
	}
	who := "-"
	if w.current != nil {
		who = w.current.String()
	}
	w.line = fmt.Appendf(w.line[:0], "%14.9f %-24s ", float64(w.now)/1e9, who)
	w.line = fmt.Appendf(w.line, format, args...)
	w.line = append(w.line, '\n')
	w.options.Log.Write(w.line)
}
