package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// readSystem fills in what Linux tells. What it does not tell stays empty.
func (m *Machine) readSystem(dir string) {
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		m.System = "Linux " + text(uts.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
		m.Load = float64(info.Loads[0]) / 65536
	}
	m.FileSystem = fileSystem(dir)
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// fileSystem is type and options of the mount that dir is on.
func fileSystem(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	want := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	for line := range strings.Lines(string(b)) {
		front, back, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(front), strings.Fields(back)
		if ok && len(fields) > 2 && len(rest) > 2 && fields[2] == want {
			return rest[0] + " (" + rest[2] + ")"
		}
	}
	return ""
}
