package raft

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger lets the library log through slog.
type logger struct {
	to   *slog.Logger
	name string
	args []any
}

var _ hclog.Logger = (*logger)(nil)

func newLogger(to *slog.Logger) hclog.Logger { return &logger{to: to} }

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Trace:
		return slog.LevelDebug - 4
	case hclog.Debug, hclog.NoLevel:
		return slog.LevelDebug
	case hclog.Info:
		return slog.LevelInfo
	case hclog.Warn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	if level == hclog.Off {
		return
	}
	if l.name != "" {
		msg = l.name + ": " + msg
	}
	l.to.Log(context.Background(), slogLevel(level), msg, args...)
}

func (l *logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *logger) is(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), slogLevel(level))
}

func (l *logger) IsTrace() bool { return l.is(hclog.Trace) }
func (l *logger) IsDebug() bool { return l.is(hclog.Debug) }
func (l *logger) IsInfo() bool  { return l.is(hclog.Info) }
func (l *logger) IsWarn() bool  { return l.is(hclog.Warn) }
func (l *logger) IsError() bool { return l.is(hclog.Error) }

func (l *logger) ImpliedArgs() []any { return l.args }
func (l *logger) Name() string       { return l.name }

func (l *logger) With(args ...any) hclog.Logger {
	return &logger{l.to.With(args...), l.name, append(append([]any{}, l.args...), args...)}
}

func (l *logger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l *logger) ResetNamed(name string) hclog.Logger { return &logger{l.to, name, l.args} }

// SetLevel does nothing: slog's handler has the level.
func (l *logger) SetLevel(hclog.Level) {}

func (l *logger) GetLevel() hclog.Level {
	for level := hclog.Trace; level < hclog.Error; level++ {
		if l.is(level) {
			return level
		}
	}
	return hclog.Error
}

func (l *logger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelInfo)
}

func (l *logger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
