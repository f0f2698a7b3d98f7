package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"narad/client"
)

const contextsFile = "contexts.json"

// contexts are servers by name. Passwords are in it as they are, which is why only its owner may read the file.
type contexts struct {
	Selected string           `json:"selected,omitempty"`
	Contexts map[string]login `json:"contexts"`
}

// contextsPath returns the file of the contexts: in NARAD_CONFIG_DIR, or below the user's directory of configurations.
func contextsPath() (string, error) {
	if dir := os.Getenv("NARAD_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, contextsFile), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("where contexts are kept is not known: set NARAD_CONFIG_DIR")
	}
	return filepath.Join(dir, "narad", contextsFile), nil
}

// loadContexts reads the contexts; without a file, or a place for one, there are none.
func (a *app) loadContexts() (contexts, error) {
	none := contexts{Contexts: map[string]login{}}
	path, err := contextsPath()
	if err != nil {
		return none, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		a.note("warning: others may read %s, which can hold passwords; chmod 600 it", path)
	}
	c := none
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return none, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return c, nil
}

// save replaces the file as a whole.
func (c contexts) save() error {
	path, err := contextsPath()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, contextsFile+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (a *app) contextCommand() *cobra.Command {
	return group("ctx", "Servers by name",
		&cobra.Command{
			Use: "add NAME", Short: "Keep a server, with user and password, under a name",
			Long: `Keep the server of --server, with the user of --user and the password of --password-stdin (or of their variables), under
a name. An existing context of that name is replaced. The first one is selected. Only you may read the file.`,
			Args: args(1, 1, "one name"),
			RunE: func(_ *cobra.Command, names []string) error { return a.addContext(names[0]) },
		},
		&cobra.Command{
			Use: "select NAME", Short: "Use a context from now on", Args: args(1, 1, "one name"),
			RunE: func(_ *cobra.Command, names []string) error {
				return a.changeContexts(names[0], func(c *contexts) error { c.Selected = names[0]; return nil })
			},
		},
		a.contextListCommand(),
		&cobra.Command{
			Use: "rm NAME", Short: "Forget a context", Args: args(1, 1, "one name"),
			RunE: func(_ *cobra.Command, names []string) error {
				return a.changeContexts(names[0], func(c *contexts) error {
					delete(c.Contexts, names[0])
					if c.Selected == names[0] {
						c.Selected = ""
					}
					return nil
				})
			},
		},
	)
}

func (a *app) addContext(name string) error {
	if a.global.context != "" {
		return usagef("ctx add takes no --ctx")
	}
	l, err := a.given()
	if err != nil {
		return err
	}
	if l.Server == "" {
		return usagef("ctx add needs --server")
	}
	if _, err := client.New(l.Server, client.Options{Username: l.User}); err != nil {
		return usageError{err}
	}
	c, err := a.loadContexts()
	if err != nil {
		return err
	}
	c.Contexts[name] = l
	if c.Selected == "" {
		c.Selected = name
	}
	return c.save()
}

// changeContexts changes something about a context that exists.
func (a *app) changeContexts(name string, change func(*contexts) error) error {
	c, err := a.loadContexts()
	if err != nil {
		return err
	}
	if _, ok := c.Contexts[name]; !ok {
		return fmt.Errorf("there is no context %q", name)
	}
	if err := change(&c); err != nil {
		return err
	}
	return c.save()
}

func (a *app) contextListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List contexts, without passwords", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.loadContexts()
			if err != nil {
				return err
			}
			type line struct {
				Name     string `json:"name"`
				Selected bool   `json:"selected"`
				Server   string `json:"server"`
				User     string `json:"user,omitempty"`
			}
			lines := []line{}
			for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
				lines = append(lines, line{name, name == c.Selected, c.Contexts[name].Server, c.Contexts[name].User})
			}
			if asJSON {
				return a.printJSON(lines)
			}
			t := a.table("", "CONTEXT", "SERVER", "USER")
			for _, l := range lines {
				mark := ""
				if l.Selected {
					mark = "*"
				}
				t.row(mark, l.Name, l.Server, l.User)
			}
			return t.flush()
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
