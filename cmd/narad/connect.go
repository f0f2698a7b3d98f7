package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"narad/client"
)

// Variables of the environment that say which server, and as whom.
const (
	envServer   = "NARAD_ADDR"
	envUser     = "NARAD_USER"
	envPassword = "NARAD_PASS"
)

// globalFlags say which server a command talks to, and as whom. A flag beats its variable, and that beats the context.
type globalFlags struct {
	server, user, password string
	passwordStdin          bool
	context                string
	flags                  *pflag.FlagSet
}

func (g *globalFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&g.server, "server", "s", "", "server to talk to, or several nodes of it with commas ("+envServer+"; default: the selected context, or "+client.DefaultServer+")")
	f.StringVarP(&g.user, "user", "u", "", "user ("+envUser+")")
	f.StringVarP(&g.password, "password", "p", "", "password; others on this machine can read it in the list of processes, so rather use --password-stdin or "+envPassword)
	f.BoolVar(&g.passwordStdin, "password-stdin", false, "read the password from the first line of the standard input")
	f.StringVar(&g.context, "ctx", "", "context to use instead of the selected one")
	g.flags = f
}

// login is a server and who talks to it.
type login struct {
	Server   string `json:"server"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// given returns what flags and environment say; what they do not say is empty.
func (a *app) given() (l login, err error) {
	g := &a.global
	l = login{os.Getenv(envServer), os.Getenv(envUser), os.Getenv(envPassword)}
	if g.flags.Changed("server") {
		l.Server = g.server
	}
	if g.flags.Changed("user") {
		l.User = g.user
	}
	switch {
	case g.flags.Changed("password") && g.passwordStdin:
		return l, usagef("give --password or --password-stdin, not both")
	case g.flags.Changed("password"):
		l.Password = g.password
	case g.passwordStdin:
		if l.Password, err = a.readLine(); err != nil {
			return l, fmt.Errorf("--password-stdin: %w", err)
		}
	}
	return l, nil
}

// login returns the server to talk to, and as whom. The credentials of a context are for its server and its user only: they
// are not sent to a server that a flag or a variable names.
func (a *app) login() (login, error) {
	l, err := a.given()
	if err != nil {
		return l, err
	}
	if l.Server == "" || a.global.context != "" {
		saved, err := a.chosenContext()
		if err != nil {
			return l, err
		}
		l = l.over(saved)
	}
	if l.Server == "" {
		l.Server = client.DefaultServer
	}
	if l.User != "" && l.Password == "" {
		if l.Password, err = a.askPassword(fmt.Sprintf("Password of %s: ", l.User)); err != nil {
			return l, err
		}
	}
	return l, nil
}

// over returns l with what it lacks from a context.
func (l login) over(saved login) login {
	if l.Server != "" && l.Server != saved.Server {
		return l
	}
	l.Server = saved.Server
	if l.User == "" {
		l.User = saved.User
	}
	if l.Password == "" && l.User == saved.User {
		l.Password = saved.Password
	}
	return l
}

// chosenContext returns the context of --ctx, or the selected one; nothing when there is none.
func (a *app) chosenContext() (login, error) {
	name := a.global.context
	if name != "" {
		for _, v := range []string{envServer, envUser, envPassword} {
			if os.Getenv(v) != "" {
				return login{}, usagef("--ctx is given, but %s is set: unset it, or do without --ctx", v)
			}
		}
	}
	saved, err := a.loadContexts()
	if err != nil {
		return login{}, err
	}
	if name == "" {
		return saved.Contexts[saved.Selected], nil
	}
	l, ok := saved.Contexts[name]
	if !ok {
		return login{}, usagef("there is no context %q", name)
	}
	return l, nil
}

// client returns a client of the server that the command line names.
func (a *app) client() (*client.Client, error) {
	l, err := a.login()
	if err != nil {
		return nil, err
	}
	return a.clientOf(l)
}

// clientOf returns a client of a server. It warns before credentials can be read on their way.
func (a *app) clientOf(l login) (*client.Client, error) {
	c, err := client.New(l.Server, client.Options{Name: "narad-cli", Username: l.User, Password: l.Password})
	if err != nil {
		return nil, usageError{err}
	}
	for node := range strings.SplitSeq(l.Server, ",") {
		if l.Password != "" && exposes(strings.TrimSpace(node)) {
			a.note("warning: user and password go unencrypted to %s", strings.TrimSpace(node))
		}
	}
	return c, nil
}

// exposes reports whether what is sent to a URL can be read on the way.
func exposes(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
