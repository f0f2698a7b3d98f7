package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// simulated are the packages whose code runs in the simulator: every choice in them must come from the world
// that they are given, or a run cannot be repeated.
var simulated = []string{"record", "wal", "segment", "inflight", "committer", "metastore", "engine", "cluster"}

// The remedies, by what is forbidden.
const (
	useGo      = "start tasks with env.Env.Go or env.Group"
	useWaiter  = "block with env.Waiter, env.Event or env.Queue"
	useClock   = "read env.Env.Now or Wall, or take the instant as an argument; wait with Waiter.ParkUntil or Env.Sleep"
	useFiles   = "reach files through vfs.Dir"
	useStream  = "draw from env.Env.Stream"
	useEvents  = "tell the engine's listener; whoever listens may log"
	useNetwork = "send messages through env.Env; sockets are the server's"
	letItCrash = "a simulated crash unwinds tasks by a panic, which must reach the root of the task"
	useSorted  = "go through the keys in an order of their own"
)

// bannedImports are whole packages, each with what is below it.
var bannedImports = map[string]string{
	"os": useFiles, "net": useNetwork, "math/rand": useStream, "crypto/rand": useStream, "hash/maphash": useStream,
	"log": useEvents, "context": useWaiter, "runtime": "what the runtime is up to is no input",
	"syscall": useFiles, "golang.org/x/sys": useFiles, "testing": "that is for tests",
}

// bannedNames are single names of packages that are fine otherwise.
var bannedNames = map[string]map[string]string{
	"time": {
		"Now": useClock, "Since": useClock, "Until": useClock, "Sleep": useClock, "After": useClock, "AfterFunc": useClock,
		"Tick": useClock, "NewTimer": useClock, "NewTicker": useClock, "Local": useClock, "LoadLocation": useClock,
	},
	"sync": {"Cond": useWaiter, "NewCond": useWaiter, "WaitGroup": useGo, "Map": useSorted},
	"fmt":  {"Print": useEvents, "Printf": useEvents, "Println": useEvents},
}

func isDeterministic(m *module) (broken []string) {
	for _, f := range m.production() {
		if !slices.Contains(simulated, f.pkg()) {
			continue
		}
		say := func(n ast.Node, what, instead string) {
			broken = append(broken, fmt.Sprintf("%s: %s in package %s, which runs in the simulator: %s", m.at(n), what, f.pkg(), instead))
		}
		for _, spec := range f.ast.Imports {
			if p, err := strconv.Unquote(spec.Path.Value); err == nil {
				if instead := bannedImport(p); instead != "" {
					say(spec, "import of "+p, instead)
				}
			}
		}
		names := localNames(f)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if what, instead := banned(n, names); what != "" {
				say(n, what, instead)
			}
			return true
		})
	}
	return broken
}

// bannedImport returns what to use instead of a package, "" when it is allowed.
func bannedImport(p string) string {
	for ; p != "."; p = path.Dir(p) {
		if instead, ok := bannedImports[p]; ok {
			return instead
		}
	}
	return ""
}

// banned judges one node: what it is and what to use instead.
func banned(n ast.Node, imported map[string]string) (what, instead string) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement", useGo
	case *ast.SelectStmt:
		return "select", useWaiter
	case *ast.ChanType:
		return "channel", useWaiter
	case *ast.SendStmt:
		return "send to a channel", useWaiter
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receive from a channel", useWaiter
		}
	case *ast.CallExpr:
		switch fn, _ := n.Fun.(*ast.Ident); {
		case fn == nil:
		case fn.Name == "recover" && len(n.Args) == 0:
			return "recover", letItCrash
		case fn.Name == "print" || fn.Name == "println":
			return fn.Name, useEvents
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if instead := bannedNames[imported[x.Name]][n.Sel.Name]; instead != "" {
				return imported[x.Name] + "." + n.Sel.Name, instead
			}
		}
	}
	return "", ""
}

// localNames maps the names that a file gives its imports to their paths.
func localNames(f *file) map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser let it pass
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// noDotImports keeps the rule above from being walked around.
func noDotImports(m *module) (broken []string) {
	for _, f := range m.golang() {
		for _, spec := range f.ast.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				broken = append(broken, fmt.Sprintf("%s: dot import: a reader must see where a name comes from", m.at(spec)))
			}
		}
	}
	return broken
}

func TestDeterminism(t *testing.T)  { hold(t, isDeterministic) }
func TestNoDotImports(t *testing.T) { hold(t, noDotImports) }

func TestDeterminismIsSeenBroken(t *testing.T) {
	body := func(imports, body string) map[string]string {
		src := "package wal\n"
		for _, p := range strings.Fields(imports) {
			src += "import " + p + "\n"
		}
		return inFile("wal/a.go", src+"func f() {\n"+body+"\n}\n")
	}
	rule(isDeterministic).check(t, []planted{
		{"go", body("", "go f()"), []string{"wal/a.go:3: go statement in package wal, which runs in the simulator: start tasks with env.Env.Go"}},
		{"select", body("", "select {}"), []string{"select"}},
		{"channel", body("", "var c chan int; _ = c"), []string{"channel"}},
		{"send", body("", "c <- 1"), []string{"send"}},
		{"receive", body("", "<-c"), []string{"receive"}},
		{"recover", body("", "defer func() { recover() }()"), []string{"recover"}},
		{"a method called recover", body("", "e.recover()"), nil},
		{"println", body("", "println()"), []string{"println"}},
		{"clock", body(`"time"`, "time.Now(); time.Since(x); time.Until(x)"), []string{"time.Now", "time.Since", "time.Until"}},
		{"timers", body(`"time"`, "time.Sleep(1); time.After(1); time.AfterFunc(1, f); time.NewTimer(1); time.NewTicker(1); time.Tick(1)"),
			[]string{"time.Sleep", "time.After ", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick "}},
		{"a clock taken as a value", body(`"time"`, "now := time.Now; _ = now"), []string{"time.Now"}},
		{"a renamed clock", inFile("wal/a.go", "package wal\nimport t \"time\"\nvar x = t.Now()\n"), []string{"time.Now"}},
		{"durations", body(`"time"`, "var d time.Duration = time.Second; _ = d"), nil},
		{"something else called time", body("", "time.Now()"), nil},
		{"files", body(`"os"`, ""), []string{"import of os"}},
		{"sockets", body(`"net/http"`, ""), []string{"import of net/http"}},
		{"randomness", body(`"math/rand" "math/rand/v2" "crypto/rand" "hash/maphash"`, ""),
			[]string{"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash"}},
		{"logs", body(`"log" "log/slog"`, ""), []string{"import of log", "import of log/slog"}},
		{"harmless neighbours", body(`"math" "math/bits" "hash/crc32" "crypto/sha256" "sync/atomic"`, ""), nil},
		{"waiting outside the world", body(`"sync"`, "var a sync.WaitGroup; var b sync.Cond; var c sync.Map; _, _, _ = a, b, c"),
			[]string{"sync.WaitGroup", "sync.Cond", "sync.Map"}},
		{"locks on memory", body(`"sync"`, "var a sync.Mutex; var b sync.RWMutex; _, _ = a, b"), nil},
		{"a test", inFile("wal/a_test.go", "package wal\nimport \"time\"\nfunc f() { go f(); time.Now() }\n"), nil},
		{"a package that is real", inFile("server/a.go", "package server\nfunc f() { go f() }\n"), nil},
	})
}

func TestNoDotImportsIsSeenBroken(t *testing.T) {
	rule(noDotImports).check(t, []planted{
		{"dot", inFile("wal/a.go", "package wal\nimport . \"time\"\n"), []string{"dot import"}},
		{"blank", inFile("wal/a.go", "package wal\nimport _ \"time\"\n"), nil},
	})
}
