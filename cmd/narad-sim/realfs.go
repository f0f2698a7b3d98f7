package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"narad/sim/disk"
	"narad/sim/realfs"
)

// realfsFlags are those of narad-sim realfs.
type realfsFlags struct {
	config      realfs.Config
	rounds      int
	personality string
	image       string
	mutant      string
	json        bool
}

func parseRealfs(args []string) (f realfsFlags, err error) {
	set := flag.NewFlagSet("narad-sim realfs", flag.ContinueOnError)
	set.IntVar(&f.rounds, "rounds", 10, "how many data directories to take through their lives")
	set.Uint64Var(&f.config.Seed, "seed", 1, "of the first round: what clients do, where cuts are, what survives; goroutines and disks do as they like")
	set.StringVar(&f.personality, "disk", "both", "what a loss of power may do: adversarial, ordered, or both in turn")
	set.IntVar(&f.config.Lives, "lives", 2, "of a round, each begins with an image of the one before")
	set.DurationVar(&f.config.Run, "run", 400*time.Millisecond, "how long clients are at a life; with a few milliseconds most cuts are enumerated")
	set.IntVar(&f.config.Cuts, "cuts", 5, "of a life, at random changes of files")
	set.IntVar(&f.config.Draws, "draws", 5, "of a cut, images of a loss of power")
	set.IntVar(&f.config.Enumerate, "enumerate", 16, "look at every image of a cut whose loss of power can go in at most so many ways")
	set.StringVar(&f.config.Dir, "dir", "", "where to make the directories, on the file system to be tried (default: that of temporary files)")
	set.StringVar(&f.image, "image", "", "judge an image that was kept once more, and run nothing")
	set.StringVar(&f.mutant, "mutant", "", "plant this bug of the catalogue first; then a violation is what is wanted")
	set.BoolVar(&f.json, "json", false, "print the counts as JSON")
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: narad-sim realfs [flags]\n\n")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	c := f.config
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.rounds < 1 || c.Lives < 1 || c.Cuts < 1 || c.Draws < 1 || c.Enumerate < 1 || c.Run <= 0:
		return f, errors.New("-rounds, -lives, -cuts, -draws, -enumerate and -run must be at least 1")
	case f.personality != "both" && f.personality != "adversarial" && f.personality != "ordered":
		return f, fmt.Errorf("-disk is adversarial, ordered or both, not %q", f.personality)
	}
	return f, nil
}

// runRealfs crashes real engines on real files. See package realfs.
func runRealfs(args []string) int {
	f, err := parseRealfs(args)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "narad-sim realfs:", err)
		}
		return 2
	}
	switch {
	case f.image != "":
		return f.again()
	case f.mutant != "":
		return f.plant(args)
	}
	return f.run()
}

// again judges an image that was kept.
func (f realfsFlags) again() int {
	v, err := realfs.Again(f.image)
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAILED: %v\n", err)
		return 1
	}
	fmt.Printf("nothing is wrong with it: %d messages delivered, %d offsets settled\n", v.Delivered, v.Settled)
	return 0
}

func (f realfsFlags) run() int {
	var counts realfs.Counts
	if f.config.Dir == "" {
		dir, err := os.MkdirTemp("", "narad-realfs-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "narad-sim realfs:", err)
			return 2
		}
		f.config.Dir = dir
		defer os.Remove(dir) // what failed stays in it
	}
	start, seed := time.Now(), f.config.Seed
	for i := range f.rounds {
		f.config.Seed = seed + uint64(i)
		f.config.Personality = f.disk(f.config.Seed)
		err := realfs.Round(f.config, &counts)
		if !f.json {
			fmt.Fprintf(os.Stderr, "\r%d/%d rounds, %d images, %v ", i+1, f.rounds, counts.Images, time.Since(start).Round(time.Second))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "\nround %d on an %v disk FAILED: %v\n", f.config.Seed, f.config.Personality, err)
			f.explain(err)
			f.print(counts, time.Since(start))
			return 1
		}
	}
	fmt.Fprintln(os.Stderr)
	f.print(counts, time.Since(start))
	return 0
}

func (f realfsFlags) disk(seed uint64) disk.Personality {
	if f.personality == "ordered" || f.personality == "both" && seed%2 == 0 {
		return disk.Ordered
	}
	return disk.Adversarial
}

// explain says where the image is and how it is judged again. What clients and disks did cannot be repeated, what was left can.
func (f realfsFlags) explain(err error) {
	var failure *realfs.Failure
	if errors.As(err, &failure) {
		fmt.Fprintf(os.Stderr, "kept: %s\nreproduce: go run ./cmd/narad-sim realfs -image %s\n", failure.Dir, failure.Dir)
		return
	}
	fmt.Fprintf(os.Stderr, "it showed before anything had crashed; try again: go run ./cmd/narad-sim realfs -rounds 20 -seed %d -disk %s\n", f.config.Seed, f.personality)
}

func (f realfsFlags) print(c realfs.Counts, took time.Duration) {
	if f.json {
		json.NewEncoder(os.Stdout).Encode(c)
		return
	}
	fmt.Printf(`%d rounds, %d lives, %v
  %d changes and syncs of files, %d cuts, of %d every image was looked at
  messages: %d tried, %d accepted, %d acks accepted
  images: %d (killed %d, loss of power %d, graceful stop %d)
  in them: %d messages delivered, %d offsets settled, %d acks came back
  the oldest of these: %v before a kill, %v before a loss of power
`, c.Rounds, c.Lives, took.Round(time.Millisecond), c.Changes, c.Cuts, c.Enumerated, c.Messages, c.Accepted, c.Acks,
		c.Images, c.Killed, c.Power, c.Graceful, c.Delivered, c.Settled, c.Back,
		c.OldestKilled.Round(time.Millisecond), c.OldestPower.Round(time.Millisecond))
}

// plant runs the same command in a build with a bug.
func (f realfsFlags) plant(args []string) int {
	code, err := runPlanted(f.mutant, append([]string{"realfs"}, without(args, "mutant")...))
	if err != nil {
		fmt.Fprintln(os.Stderr, "narad-sim realfs:", err)
		return 2
	}
	if code == 1 {
		fmt.Printf("caught: %s; judge its image with -mutant %s too, for the bug may be in what opens it\n", f.mutant, f.mutant)
	}
	return code
}

// runPlanted builds this program with a mutant and runs it.
func runPlanted(name string, args []string) (code int, err error) {
	dir, err := os.MkdirTemp("", "narad-mutant-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "narad-sim")
	if err := build(name, "./cmd/narad-sim", binary, dir); err != nil {
		return 0, err
	}
	run := exec.Command(binary, args...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := run.Run(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return run.ProcessState.ExitCode(), nil
}

// without returns the arguments without a flag and its value.
func without(args []string, name string) (rest []string) {
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-" + name, "--" + name:
			i++
		case "-" + name + "=" + flagValue(args[i]), "--" + name + "=" + flagValue(args[i]):
		default:
			rest = append(rest, args[i])
		}
	}
	return rest
}

func flagValue(arg string) string {
	for i := range arg {
		if arg[i] == '=' {
			return arg[i+1:]
		}
	}
	return ""
}
