package realfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"narad/sim/disk"
	"narad/vfs"
)

// fileMax bounds the files of an image, in bytes.
const fileMax = 1 << 30

// Materialise makes dir what the data directory of the disk is. dir must be empty or missing.
func Materialise(d *disk.Disk, dir string) error {
	if err := emptyDir(dir); err != nil {
		return err
	}
	root, err := disk.FS(d.Clone()).OpenRoot(recordRoot, true)
	if err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	defer root.Close()
	if err := copyDir(root, dir); err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	return nil
}

// CopyDir makes dir a copy of another data directory. dir must be empty or missing.
func CopyDir(from, dir string) error {
	if err := emptyDir(dir); err != nil {
		return err
	}
	root, err := vfs.ReadOnly(vfs.OS{}).OpenRoot(from, false)
	if err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	defer root.Close()
	if err := copyDir(root, dir); err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	return nil
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, vfs.DirMode); err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("realfs: %s is not empty", dir)
	}
	return nil
}

func copyDir(from vfs.Dir, to string) error {
	entries, err := from.List()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(to, entry.Name)
		if !entry.Dir {
			content, err := vfs.ReadFile(from, entry.Name, fileMax)
			if err == nil {
				err = os.WriteFile(path, content, vfs.FileMode)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(path, vfs.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		sub, err := from.OpenDir(entry.Name)
		if err != nil {
			return err
		}
		err = copyDir(sub, path)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
