package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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
