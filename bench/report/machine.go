package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
)

// Machine is what the figures were measured on.
type Machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Memory     int64   `json:"memory_bytes"` // 0: not known
	System     string  `json:"system"`       // operating system and kernel
	FileSystem string  `json:"file_system"`  // of the directory that was measured in
	Load       float64 `json:"load_average"` // of the last minute before the run; near the number of cores, figures are worth little
	Go         string  `json:"go"`
	Revision   string  `json:"revision"` // of the source
	// Sync is the raw latency of appending 1 KiB and syncing it, measured before anything else.
	Sync SyncLatency `json:"sync"`
}

// Describe returns the facts of this machine and of the file system of dir, and measures its raw sync latency.
func Describe(dir string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Revision: revision(), System: runtime.GOOS, CPU: runtime.GOARCH}
	m.readSystem(dir)
	var err error
	m.Sync, err = measureSync(dir)
	return m, err
}

// Program returns a hash of the running program: two results with the same one are of the same source.
func Program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// revision is what the build knows of its source, "" when it knows nothing.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var rev, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return rev + dirty
}

func (m Machine) lines() []string {
	host := fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)
	if m.Memory > 0 {
		host += ", " + Bytes(float64(m.Memory))
	}
	lines := []string{
		fmt.Sprintf("%s; %s; %s; %s; load %.2f before the run", host, m.System, m.FileSystem, m.Go, m.Load),
		"raw write of 1 KiB and sync: " + m.Sync.String(),
	}
	if m.Load > float64(m.Cores)/4 {
		lines = append(lines, "the machine was busy: believe ratios within a row, not times")
	}
	if m.Revision != "" {
		lines[0] += "; source " + m.Revision
	}
	return lines
}

// scratch makes a directory below dir and returns it with what removes it.
func scratch(dir string) (string, func(), error) {
	path, err := os.MkdirTemp(dir, "narad-bench-")
	return path, func() { os.RemoveAll(path) }, err
}
