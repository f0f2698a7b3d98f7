package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"narad/client"
)

func (a *app) userCommand() *cobra.Command {
	return group("user", "Users, what they may do, and passwords",
		a.userAddCommand(), a.userGrantCommand(), a.userListCommand(), a.userRemoveCommand(), a.userPasswordCommand())
}

const grantUsage = "what the user may do, as ACTION:TOPIC,TOPIC…; the actions are produce, consume and create, a topic may end in *; or admin. May be given several times"

// parseGrants understands "produce:orders,billing-*" and "admin".
func parseGrants(texts []string) ([]client.Grant, error) {
	grants := []client.Grant{}
	for _, text := range texts {
		action, patterns, _ := strings.Cut(text, ":")
		g := client.Grant{Action: action}
		switch {
		case action == "admin" && patterns != "":
			return nil, usagef("--grant is %q, but admin takes no topics", text)
		case action == "admin":
		case !slices.Contains([]string{"produce", "consume", "create"}, action):
			return nil, usagef("--grant is %q, allowed are produce:TOPICS, consume:TOPICS, create:TOPICS and admin", text)
		case patterns == "":
			return nil, usagef("--grant is %q, but %s needs topics: %s:orders or %s:*", text, action, action, action)
		default:
			g.Patterns = strings.Split(patterns, ",")
		}
		grants = append(grants, g)
	}
	return grants, nil
}

func grantsText(u client.User) string {
	if u.Root {
		return "root"
	}
	var texts []string
	for _, g := range u.Grants {
		text := g.Action
		if len(g.Patterns) > 0 {
			text += ":" + strings.Join(g.Patterns, ",")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// newPassword returns a password to set: of a flag, of the next line of the standard input, or asked for twice at a terminal.
func (a *app) newPassword(cmd *cobra.Command, flag string, fromStdin bool) (string, error) {
	given := cmd.Flags().Lookup(flag)
	switch {
	case given != nil && given.Changed && fromStdin:
		return "", usagef("give --%s or --%s-stdin, not both", flag, flag)
	case given != nil && given.Changed:
		return given.Value.String(), nil
	case fromStdin:
		return a.readLine()
	}
	first, err := a.askPassword("New password: ")
	if err != nil {
		return "", err
	}
	if first == "" {
		return "", usagef("give a password with --%s-stdin", flag)
	}
	second, err := a.askPassword("Once more: ")
	if err == nil && first != second {
		err = errors.New("the two passwords differ")
	}
	return first, err
}

func (a *app) userAddCommand() *cobra.Command {
	var grants []string
	var fromStdin bool
	cmd := &cobra.Command{
		Use: "add USER", Short: "Create a user", Args: args(1, 1, "the name of one user"),
		RunE: func(cmd *cobra.Command, names []string) error {
			parsed, err := parseGrants(grants)
			if err != nil {
				return err
			}
			c, err := a.client() // takes the first line of the standard input, if both passwords come from there
			if err != nil {
				return err
			}
			password, err := a.newPassword(cmd, "user-password", fromStdin)
			if err != nil {
				return err
			}
			u, err := c.CreateUser(cmd.Context(), names[0], password, parsed)
			if err != nil {
				return err
			}
			return a.print("created user %s\n", u.Name)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&grants, "grant", nil, grantUsage)
	f.String("user-password", "", "password of the new user; others on this machine can read it in the list of processes")
	f.BoolVar(&fromStdin, "user-password-stdin", false, "read the password of the new user from the standard input: its first line, or the second one with --password-stdin")
	return cmd
}

func (a *app) userGrantCommand() *cobra.Command {
	var grants []string
	cmd := &cobra.Command{
		Use: "grant USER", Short: "Replace what a user may do; without --grant it may do nothing",
		Args: args(1, 1, "the name of one user, and what it may do as --grant"),
		RunE: func(cmd *cobra.Command, names []string) error {
			parsed, err := parseGrants(grants)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			u, err := c.SetGrants(cmd.Context(), names[0], parsed)
			if err != nil {
				return err
			}
			return a.print("user %s may: %s\n", u.Name, grantsText(u))
		},
	}
	cmd.Flags().StringArrayVar(&grants, "grant", nil, grantUsage)
	return cmd
}

func (a *app) userListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List users", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			users, err := c.Users(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(append([]client.User{}, users...))
			}
			t := a.table("USER", "CREATED", "MAY")
			for _, u := range users {
				t.row(u.Name, time.UnixMilli(u.CreatedAtMs).UTC().Format(time.RFC3339), grantsText(u))
			}
			return t.flush()
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) userRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "rm USER", Short: "Delete a user; its topics stay and belong to nobody", Args: args(1, 1, "the name of one user"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if !force {
				yes, err := a.confirm(fmt.Sprintf("Delete user %s?", names[0]))
				if err != nil || !yes {
					return fmt.Errorf("user %s was not deleted", names[0])
				}
			}
			if err := c.DeleteUser(cmd.Context(), names[0]); err != nil {
				return err
			}
			return a.print("deleted user %s\n", names[0])
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return cmd
}

func (a *app) userPasswordCommand() *cobra.Command {
	var fromStdin bool
	cmd := &cobra.Command{
		Use: "passwd [USER]", Short: "Change a password, by default your own", Args: args(0, 1, "at most one user"),
		RunE: func(cmd *cobra.Command, names []string) error {
			l, err := a.login()
			if err != nil {
				return err
			}
			c, err := a.clientOf(l)
			if err != nil {
				return err
			}
			name := l.User
			if len(names) == 1 {
				name = names[0]
			}
			if name == "" {
				return usagef("user passwd needs a user")
			}
			password, err := a.newPassword(cmd, "new-password", fromStdin)
			if err != nil {
				return err
			}
			current := ""
			if name == l.User {
				current = l.Password
			}
			if err := c.SetPassword(cmd.Context(), name, password, current); err != nil {
				return err
			}
			return a.print("changed the password of %s\n", name)
		},
	}
	cmd.Flags().BoolVar(&fromStdin, "new-password-stdin", false, "read the new password from the standard input: its first line, or the second one with --password-stdin")
	return cmd
}
