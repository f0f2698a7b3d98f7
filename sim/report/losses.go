package report

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

// losses compares a disk before and after a power loss, file by file.
func losses(before, after *disk.Disk) (list []string) {
	old, left := contents(before), contents(after)
	for _, f := range old {
		i := slices.IndexFunc(left, func(g contentOf) bool { return g.path == f.path })
		if i < 0 {
			list = append(list, f.path+" is gone")
			continue
		}
		if text := f.changed(left[i]); text != "" {
			list = append(list, f.path+" "+text)
		}
	}
	for _, g := range left {
		if !slices.ContainsFunc(old, func(f contentOf) bool { return f.path == g.path }) {
			list = append(list, g.path+" is back")
		}
	}
	return list
}

// unsynced says why a power loss could take something from a file: what had been done to it last, and that no sync followed. lost
// begins with its path.
func (r *Recording) unsynced(machine, lost string) string {
	path, what, _ := strings.Cut(lost, " ")
	path = "data/" + path
	synced, where := sim.OpSync, path
	does := func(op sim.Op) bool { return op == sim.OpWrite || op == sim.OpResize }
	verb, object := "written", "the file"
	if strings.HasPrefix(what, "is ") { // gone, or back: a matter of its name
		synced, where = sim.OpSyncDir, path[:strings.LastIndexByte(path, '/')]
		does = func(op sim.Op) bool { return op == sim.OpCreate || op == sim.OpRename || op == sim.OpRemove }
		verb, object = "named", "its directory"
	}
	for _, c := range slices.Backward(r.Disk) {
		switch {
		case c.Machine != machine:
		case c.Op == synced && c.Path == where && strings.HasPrefix(c.Text, "ok"):
			return "" // it was synced since: the loss has another cause
		case c.Path == path && does(c.Op):
			return fmt.Sprintf(" (%s last at %.6f by %s, and no sync of %s returned after that)", verb, c.End.Sub(0).Seconds(), c.Who, object)
		}
	}
	return ""
}

// expected says what the failed check demands. One that asked the disk demands the same under any name.
func (r *Recording) expected(f Focus) string {
	if r.claimed() {
		return "What the engine says to be safe survives a loss of power at that very instant. " + f.Demand
	}
	return f.Demand
}

var (
	lostName  = regexp.MustCompile(`: the name (\S+) in (\S+)`)
	lostBytes = regexp.MustCompile(`: (sector \d+|the size \d+) of `)
	mayReturn = regexp.MustCompile(`could bring back (\S+)`)
)

// missing says what was not done, when the check asked the disk what it could lose: which call there was no sync after. "" when that is
// not known.
func (r *Recording) missing(f Focus) string {
	if f.Invariant == "INV-08" || f.Invariant == "INV-09" {
		return r.unwritten(f)
	}
	if !r.claimed() || len(f.Files) == 0 {
		return ""
	}
	text, file := r.Result.Err.Error(), f.Files[0]
	lost := " has"
	switch name := lostName.FindStringSubmatch(text); {
	case name != nil:
		lost = " is gone"
		if at := strings.LastIndex(file, "/"+name[1]); at >= 0 {
			file = file[:at+1+len(name[1])] // a directory on the way, perhaps
		}
	case mayReturn.MatchString(text):
		lost = " is back"
	case !lostBytes.MatchString(text):
		return ""
	}
	why := r.unsynced(f.Node, strings.TrimPrefix(file, "data/")+lost)
	if why == "" {
		return ""
	}
	return strings.TrimPrefix(file, "data/") + " was " + strings.TrimSuffix(strings.TrimPrefix(why, " ("), ")") + "."
}

// unwritten says that nothing was written of a partition between an ack that came back and the crash after it. "" when something was.
func (r *Recording) unwritten(f Focus) string {
	if len(f.Offsets) != 1 {
		return ""
	}
	acked, order := env.Instant(0), 0
	for _, e := range r.Events {
		if v, ok := e.Event.Event.(engine.Settled); ok && e.Node == f.Node && v.Key == f.Key && v.Offset == f.Offsets[0] {
			acked, order = e.At, e.Order
		}
	}
	at := slices.IndexFunc(r.Crashes, func(c Crashed) bool { return c.Node == f.Node && c.Order > order })
	if order == 0 || at < 0 {
		return ""
	}
	crash := r.Crashes[at]
	for _, e := range r.Events {
		v, ok := e.Event.Event.(engine.Consumer)
		if !ok || e.Node != f.Node || e.Order < order || e.Order > crash.Order {
			continue
		}
		if w, ok := v.Event.(committer.WindowWritten); ok && w.Key.Topic == f.Key.Topic && w.Key.Partition == f.Key.Partition {
			return ""
		}
	}
	return fmt.Sprintf("The ack of offset %d was accepted at %s. Until the crash at %s, %v later, no window of %s was written.",
		f.Offsets[0], clock(acked), clock(crash.At), crash.At.Sub(acked).Round(time.Microsecond), part(f.Key))
}

// contentOf is a file of a disk.
type contentOf struct {
	path string
	size int64
	head []byte // its first bytes, at most headMax
}

// headMax bounds how much of a file is compared.
const headMax = 4 << 20

func (f contentOf) changed(g contentOf) string {
	var parts []string
	if f.size != g.size {
		parts = append(parts, fmt.Sprintf("has %d bytes instead of %d", g.size, f.size))
	}
	both := min(len(f.head), len(g.head))
	sectors := 0
	for at := 0; at < both; at += vfs.SectorSize {
		end := min(at+vfs.SectorSize, both)
		if !bytes.Equal(f.head[at:end], g.head[at:end]) {
			sectors++
		}
	}
	if sectors > 0 {
		parts = append(parts, fmt.Sprintf("has %d sectors with older or no contents", sectors))
	}
	return strings.Join(parts, " and ")
}

// contents lists the files of a disk, by path. The disk is a clone or stands still: nothing waits and nothing fails.
func contents(d *disk.Disk) (list []contentOf) {
	root, err := disk.FS(d).OpenRoot("data", false)
	if err != nil {
		return nil
	}
	defer root.Close()
	walk(root, "", &list)
	return list
}

func walk(dir vfs.Dir, path string, list *[]contentOf) {
	infos, err := dir.List()
	if err != nil {
		return
	}
	for _, i := range infos {
		name := path + i.Name
		if i.Dir {
			if sub, err := dir.OpenDir(i.Name); err == nil {
				walk(sub, name+"/", list)
				sub.Close()
			}
			continue
		}
		f, err := dir.Open(i.Name)
		if err != nil {
			continue
		}
		size, _ := f.Size()
		head := make([]byte, min(size, headMax))
		n, _ := f.ReadAt(head, 0)
		*list = append(*list, contentOf{name, size, head[:n]})
		f.Close()
	}
}
